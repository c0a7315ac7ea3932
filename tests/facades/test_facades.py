"""The modules that are written by `python -m tests.facades`."""

from __future__ import annotations

from tests.facades.pages import every_page


def test_what_is_written_is_up_to_date() -> None:
    """Each of them is what its bodies say today; if not, run `python -m tests.facades`."""
    assert [page.path.stem for page in every_page() if page.written != page.text] == []
