"""The base of all screens: a title line, a status line, keys, and reads that do not block."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from treering.cli import exits
from treering.cli.browse.blocks import line_of
from treering.cli.browse.keys import KeysScreen
from treering.cli.browse.threads import in_thread
from treering.cli.output import Span
from treering.errors import TreeringError

if TYPE_CHECKING:
    from treering.cli.browse.app import Browser

T = TypeVar("T")

OURS = __name__.rpartition(".")[0]
WIDE_COLUMNS_MIN = 110  # on fewer columns the pane of details is below the list, not beside it


class StoreScreen(Screen[None]):
    """A screen that shows data of the store."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
        Binding("ctrl+f", "search", "Search", show=False, priority=True),
        Binding("f5", "read_again", "Read again", show=False),
    ]
    AUTO_FOCUS = "Rows, Pages"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012  # Textual uses it as a class variable, contrary to its annotation
        (0, "-narrow"),
        (WIDE_COLUMNS_MIN, "-wide"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._said: Span = ("", "")

    @property
    def browser(self) -> Browser:
        """The program."""
        return cast("Browser", self.app)

    def compose(self) -> ComposeResult:
        """Put the parts of the screen together."""
        yield Static(id="title", markup=False)
        yield from self.body()
        yield Static(id="status", markup=False)
        yield Footer(show_command_palette=False)

    def body(self) -> Iterator[Widget]:
        """Yield the widgets between the title and the status line."""
        yield from ()

    def entitle(self, *spans: Span) -> None:
        """Show the title."""
        self.query_one("#title", Static).update(line_of(*spans))

    def say(self, text: str, style: str = "") -> None:
        """Show a status text until the next key; an empty text clears it."""
        self._said = (text, style)
        self._show_status(self._said)

    def _show_status(self, span: Span) -> None:
        shown = line_of(span)
        shown.no_wrap = False
        self.query_one("#status", Static).update(shown)

    def on_key(self, event: events.Key) -> None:
        """Clear the status line; screens that handle keys themselves do that, too."""
        del event
        if self._said[0]:
            self.say("")

    def fail(self, error: Exception) -> None:
        """Show an error, its place, and its remedy."""
        self.say(exits.line_of(error), "bold red")

    async def read(self, work: Callable[[], T], *, doing: str = "") -> T | None:
        """Read from the store without blocking the keys.

        Returns:
            The result; None if the read failed and the error was shown.
        """
        return await self._told(in_thread(work), doing)

    async def write(self, work: Callable[[], T], *, doing: str = "") -> T | None:
        """Like `read`, for writes; leaving the program waits for them."""
        return await self._told(asyncio.to_thread(work), doing)

    async def _told(self, work: Awaitable[T], doing: str) -> T | None:
        if doing:
            self._show_status((f"{doing} ...", "dim"))
        try:
            found = await work
        except (TreeringError, OSError) as error:
            self.fail(error)
            return None
        if doing:
            self._show_status(self._said)
        return found

    def begin(self, work: Awaitable[None]) -> None:
        """Run work without blocking the keys; it is cancelled with the screen."""
        self.run_worker(work)

    def action_back(self) -> None:
        """Leave the screen."""
        self.app.pop_screen()

    def action_search(self) -> None:
        """Search the texts of sessions."""
        self.browser.search()

    def action_read_again(self) -> None:
        """Read from the store again."""

    def action_help(self) -> None:
        """List the keys."""
        focused = [type(self.focused)] if self.focused is not None else []
        owners = [each for each in (*type(self).__mro__, *focused, type(self.app)) if each.__module__.startswith(OURS)]
        said: dict[str, list[str]] = {}
        for owner in owners:
            for binding in Binding.make_bindings(vars(owner).get("BINDINGS", ())):
                keys = said.setdefault(binding.description, [])
                keys += {self.app.get_key_display(binding)} - {*keys}
        self.app.push_screen(KeysScreen(said))
