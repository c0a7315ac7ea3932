"""The modules that are written by `python -m tests.facades`."""

from __future__ import annotations

import pytest

from tests.facades.page import Page
from tests.facades.pages import every_page


@pytest.mark.parametrize("page", every_page(), ids=lambda page: page.path.stem)
def test_what_is_written_is_up_to_date(page: Page) -> None:
    """Each of them is what its bodies say today; if not, run `python -m tests.facades`."""
    assert page.written == page.text
