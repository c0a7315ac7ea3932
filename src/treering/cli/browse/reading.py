"""Text in full-screen mode: the conversation, the context, a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from treering.cli.browse.pages import Pages
from treering.cli.browse.screen import StoreScreen
from treering.cli.browse.sources import Source


class ReadingScreen(StoreScreen):
    """Shows blocks of text, page by page from the last one upward.

    Args:
        title: The title of the text.
        source: Reads the pages.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "whole", "Whole tools"),
        Binding("ctrl+t", "thinking", "Thinking"),
        Binding("q", "app.quit", "Quit", show=False),
        Binding("question_mark,f1", "help", "Keys"),
    ]

    def __init__(self, title: str, source: Source) -> None:
        super().__init__()
        self._called = title
        self._source = source
        self._reading = False

    def body(self) -> Iterator[Widget]:
        """Yield the pane."""
        yield Pages()

    def on_mount(self) -> None:
        """Read the last page."""
        self._entitle()
        self.on_pages_top()

    def _entitle(self) -> None:
        above = "" if self._source.ended else ", more above"
        self.entitle((self._called, "bold"), (f"  {self.query_one(Pages).count} shown{above}", "dim"))

    def on_pages_top(self) -> None:
        """Read the page above."""
        if not self._reading and not self._source.ended:
            self._reading = True
            self.begin(self._read_page())

    async def _read_page(self) -> None:
        page = await self.read(self._source.page, doing="reading")
        self._reading = False
        if page is None:
            return  # the error was shown; the user requests it again at the top
        pane = self.query_one(Pages)
        pane.put_above(page)
        self._entitle()
        if pane.max_scroll_y == 0:
            self.on_pages_top()

    def action_read_again(self) -> None:
        """Request the page above again, after it could not be read."""
        self.on_pages_top()

    def action_whole(self) -> None:
        """Show calls and results completely, or folded."""
        pane = self.query_one(Pages)
        pane.fold(pane.shown._replace(whole=not pane.shown.whole))

    def action_thinking(self) -> None:
        """Show or hide thinking."""
        pane = self.query_one(Pages)
        pane.fold(pane.shown._replace(thinking=not pane.shown.thinking))
