"""A pane of text that opens at its end: text above is read when the user scrolls up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from treering.cli.browse.blocks import Block, Shown, texts_of
from treering.cli.browse.rows import strip_of


class Pages(ScrollView, can_focus=True):
    """Blocks of text, wrapped at the width of the pane."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "lines(-1)", "Up", show=False),
        Binding("down,j", "lines(1)", "Down", show=False),
        Binding("pageup,left", "pages(-1)", "Page up", show=False),
        Binding("pagedown,right,space", "pages(1)", "Page down", show=False),
        Binding("home,g", "first", "Top", show=False),
        Binding("end,G", "last", "End", show=False),
    ]
    DEFAULT_CSS = "Pages { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }"

    class Top(Message):
        """The first line is on the screen, or was requested again."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[Block] = []
        self._lines: list[Text] = []
        self._width = 0
        self.shown = Shown()

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    def show(self, blocks: Sequence[Block]) -> None:
        """Show other blocks, from the beginning."""
        self._blocks = list(blocks)
        self._wrap_all()
        self._go(0)

    def put_above(self, blocks: Sequence[Block]) -> None:
        """Show older blocks above the others. The screen stays where it is; if it was empty, it shows their end."""
        below = len(self._lines) - self.scroll_y if self._lines else 0
        self._blocks = [*blocks, *self._blocks]
        self._lines = [*self._wrapped(blocks), *self._lines]
        self._resized(len(self._lines) - (below or self.size.height))

    def fold(self, shown: Shown) -> None:
        """Show more or less of messages, and keep about the same place of the text in view."""
        part = self.scroll_y / max(1, len(self._lines))
        self.shown = shown
        self._wrap_all()
        self._go(part * len(self._lines))

    def on_resize(self) -> None:
        """Wrap the text at the new width."""
        if self.scrollable_content_region.width != self._width and self._blocks:
            self.fold(self.shown)

    def action_lines(self, by: int) -> None:
        """Move by some lines."""
        self._go(self.scroll_y + by)

    def action_pages(self, by: int) -> None:
        """Move by a screen."""
        self._go(self.scroll_y + by * max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Move to the first loaded line."""
        self._go(0)

    def action_last(self) -> None:
        """Move to the end."""
        self._go(len(self._lines))

    def _go(self, line: float) -> None:
        if line <= 0:
            self.post_message(self.Top())
        self.scroll_to(y=line, animate=False, force=True, immediate=True)

    def _wrap_all(self) -> None:
        self._lines = self._wrapped(self._blocks)
        self._resized(None)

    def _wrapped(self, blocks: Sequence[Block]) -> list[Text]:
        self._width = self.scrollable_content_region.width
        width, console = max(10, self._width), self.app.console
        lines: list[Text] = []
        for block in blocks:
            for indent, text in texts_of(block, self.shown):
                wrapped = text.wrap(console, width - indent, overflow="fold", no_wrap=False) if text else [text]
                for line in wrapped:
                    line.pad_left(indent)
                    lines.append(line)
        return lines

    def _resized(self, top: float | None) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._lines))
        if top is not None:
            self._go(top)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Post `Top` when the top is reached, so that the screen reads more pages."""
        super().watch_scroll_y(old_value, new_value)
        if round(new_value) == 0:
            self.post_message(self.Top())

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        number, width = round(self.scroll_y) + y, self.scrollable_content_region.width
        if number >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        return strip_of(self._lines[number].copy(), width, self.rich_style, self.app.console)
