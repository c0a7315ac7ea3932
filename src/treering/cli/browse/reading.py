"""Text on a whole screen: the conversation, what the model sees, a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from treering.cli.browse.blocks import Block
from treering.cli.browse.pages import Pages
from treering.cli.browse.screen import StoreScreen


class ReadingScreen(StoreScreen):
    """Shows blocks of text, page by page from the last one upward.

    Args:
        title: What it is.
        pages: Reads the pages, the last one first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "whole", "Whole tools"),
        Binding("ctrl+t", "thinking", "Thinking"),
        Binding("q", "app.quit", "Quit", show=False),
        Binding("question_mark,f1", "help", "Keys"),
    ]

    def __init__(self, title: str, pages: Iterator[list[Block]]) -> None:
        super().__init__()
        self._called = title
        self._pages = pages
        self._reading = False
        self._ended = False

    def body(self) -> Iterator[Widget]:
        """Yield the pane."""
        yield Pages()

    def on_mount(self) -> None:
        """Read the last page."""
        self._entitle()
        self.on_pages_top()

    def _entitle(self) -> None:
        above = "" if self._ended else ", more above"
        self.entitle((self._called, "bold"), (f"  {self.query_one(Pages).count} shown{above}", "dim"))

    def on_pages_top(self) -> None:
        """Read the page above."""
        if not self._reading and not self._ended:
            self._reading = True
            self.begin(self._read_page())

    async def _read_page(self) -> None:
        page = await self.read(lambda: next(self._pages, []), doing="reading")
        pane = self.query_one(Pages)
        if page:
            pane.put_above(page)
        self._ended = not page
        self._reading = False
        self._entitle()
        if page and pane.max_scroll_y == 0:
            self.on_pages_top()

    def action_whole(self) -> None:
        """Show calls and results to their ends, or folded."""
        pane = self.query_one(Pages)
        pane.fold(pane.shown._replace(whole=not pane.shown.whole))

    def action_thinking(self) -> None:
        """Show what the model thought, or not."""
        pane = self.query_one(Pages)
        pane.fold(pane.shown._replace(thinking=not pane.shown.thinking))
