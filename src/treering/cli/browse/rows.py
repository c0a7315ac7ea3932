"""A list of any number of rows with a cursor; only the rows on the screen are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip


def strip_of(text: Text, width: int, style: Style, console: Console) -> Strip:
    """Return a line of a screen: text in its style, cut or filled to a width."""
    text.truncate(width, overflow="ellipsis")
    return Strip(list(text.render(console))).apply_style(style).adjust_cell_length(width, style)


class Rows(ScrollView, can_focus=True):
    """A list of rows.

    Args:
        draw: Returns a row by its number, as one line.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Last", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor"}
    DEFAULT_CSS = """
    Rows { height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    Rows > .rows--cursor { background: $surface-lighten-2; }
    Rows:focus > .rows--cursor { background: $primary-darken-3; text-style: bold; }
    """

    cursor: reactive[int] = reactive(0)
    """The number of the row under the cursor; 0 also if there are no rows."""

    class Moved(Message):
        """Another row is under the cursor, or the rows have changed."""

    class Chosen(Message):
        """The row under the cursor was clicked."""

    def __init__(self, draw: Callable[[int], Text]) -> None:
        super().__init__()
        self._draw = draw
        self.count = 0
        """How many rows there are."""

    def show(self, count: int, cursor: int) -> None:
        """Show other rows, and put the cursor on one."""
        self.count = count
        self.virtual_size = Size(self.width, count)
        self.set_reactive(Rows.cursor, max(0, min(cursor, count - 1)))
        self._follow()
        self.refresh()
        self.post_message(self.Moved())

    def draw_again(self) -> None:
        """Draw the rows again, after more data about them was read."""
        self.refresh()

    @property
    def width(self) -> int:
        """How many columns a row has."""
        return self.scrollable_content_region.width

    @property
    def on_screen(self) -> range:
        """The numbers of the rows that are on the screen."""
        top = round(self.scroll_y)
        return range(top, min(self.count, top + self.size.height))

    def validate_cursor(self, cursor: int) -> int:
        """Limit the cursor to existing rows."""
        return max(0, min(cursor, self.count - 1))

    def watch_cursor(self, before: int, after: int) -> None:
        """Bring the row onto the screen."""
        if before != after:
            self._follow()
            self.refresh()
            self.post_message(self.Moved())

    def _follow(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True)

    def on_resize(self) -> None:
        """Keep the cursor on the screen."""
        self.virtual_size = Size(self.width, self.count)
        self._follow()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a row; choose the row if the cursor was on it."""
        number = round(self.scroll_y) + event.y
        if number >= self.count:
            return
        if number == self.cursor:
            self.post_message(self.Chosen())
        self.cursor = number

    def action_move(self, by: int) -> None:
        """Move the cursor by some rows."""
        self.cursor += by

    def action_page(self, by: int) -> None:
        """Move the cursor by a screen of rows."""
        self.cursor += by * max(1, self.size.height - 1)

    def action_first(self) -> None:
        """Move the cursor to the first row."""
        self.cursor = 0

    def action_last(self) -> None:
        """Move the cursor to the last row."""
        self.cursor = self.count - 1

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        number, width = round(self.scroll_y) + y, self.width
        style = self.rich_style
        if number >= self.count:
            return Strip.blank(width, style)
        if number == self.cursor:
            style = self.get_component_rich_style("rows--cursor")
        return strip_of(self._draw(number), width, style, self.app.console)
