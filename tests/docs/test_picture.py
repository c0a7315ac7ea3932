"""The picture in the README shows what a real session does."""

from __future__ import annotations

import re

import pytest
from tests.docs import picture
from tests.docs.pages import ROOT, links


def test_the_picture_is_up_to_date() -> None:
    """A session recorded, killed and resumed now is drawn the same; `python -m tests.docs.picture` draws it anew."""
    assert picture.PICTURE.read_text() == picture.picture()


def test_the_picture_is_small_and_needs_nothing() -> None:
    """It loads no font, style or script, adapts to dark pages, and the README shows it."""
    text = picture.PICTURE.read_text()
    assert len(text.encode()) <= picture.BYTES_MAX
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"<script|href|@import|url\(", text)
    assert picture.PICTURE.relative_to(ROOT).as_posix() in links(ROOT / "README.md")


@pytest.mark.parametrize("limit", [5, picture.LETTERS_MAX])
def test_long_text_is_cut(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """No line runs into what stands beside it."""
    monkeypatch.setattr(picture, "LETTERS_MAX", limit)
    assert len(picture._cut("x" * 100)) == limit
