"""The picture of `treering browse` shows what it shows."""

from __future__ import annotations

import re
from html import unescape

from tests.docs.pages import ROOT, links
from tests.docs.screen import BYTES_MAX, SCREEN, drawn


def letters(text: str) -> str:
    """A text without its spaces, by which pieces of a line are moved apart."""
    return re.sub(r"\s", "", text)


async def test_the_picture_shows_the_tree_that_is_drawn_now() -> None:
    """Each row is in it, in order; `python -m tests.docs.screen` makes it anew."""
    lines, _ = await drawn()
    rows = [letters(line) for line in lines[1:10]]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", SCREEN.read_text())
    shown = letters(unescape("".join(texts)))
    assert [row for row in rows if row not in shown] == []
    assert len(rows[0]) > 20


def test_the_picture_is_small_and_needs_nothing() -> None:
    """It has no script, and nothing of another server; the page shows it."""
    text = SCREEN.read_text()
    assert len(text.encode()) <= BYTES_MAX
    assert not re.search(r"<script|https?://(?!www\.w3\.org/)|@import|url\((?!#)", text)
    assert "browse.svg" in links(ROOT / "docs/how-to/browse.md")
