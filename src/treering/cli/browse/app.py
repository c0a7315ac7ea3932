"""The full-screen program: its screens, and the ways between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from treering.api.store import Store
from treering.cli.browse.asking import Choose
from treering.cli.browse.searching import SearchScreen
from treering.cli.browse.session import SessionScreen
from treering.cli.browse.sessions import SessionsScreen
from treering.cli.names import part_of


class Browser(App[str]):
    """Shows sessions of a store. Its result is the text that was copied last, for the command to print.

    Args:
        store: The store, or a part of it.
        place: The name of the store to show.
        ways: Returns the names of a session, and the commands and code that continue it, each with a label.
        cwd: The folder whose sessions are shown first; None for all folders.
        session: Show this session instead of the list, with the store it is in.
    """

    TITLE = "treering"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
    ]
    CSS = """
    #title { height: 1; padding: 0 1; background: $panel; text-overflow: ellipsis; }
    #status { height: auto; max-height: 50%; padding: 0 1; }
    Query { height: 1; padding: 0 1; }
    Rows, Pages { padding: 0 1; }
    #panes { layout: vertical; height: 1fr; }
    #panes > Rows { height: 3fr; }
    #panes > Pages { height: 2fr; border-top: solid $panel; }
    .-wide #panes { layout: horizontal; }
    .-wide #panes > Rows { width: 1fr; height: 1fr; }
    .-wide #panes > Pages { width: 1fr; height: 1fr; border-top: none; border-left: solid $panel; }
    ModalScreen { align: center middle; }
    ModalScreen > * { width: 76; max-width: 95%; height: auto; max-height: 90%; padding: 1 2; background: $panel; }
    OptionList, OptionList:focus { height: auto; max-height: 12; border: none; }
    """

    def __init__(
        self,
        store: Store,
        *,
        place: str,
        ways: Callable[[Sequence[str], str], Sequence[tuple[str, str]]],
        cwd: str | None = None,
        session: tuple[Store, str] | None = None,
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self.store = store
        self.place = place
        self.ways = ways
        self._cwd = cwd
        self._session = session
        self._copied: str | None = None

    def get_default_screen(self) -> Screen[None]:
        """The list, or the requested session."""
        if self._session is not None:
            return SessionScreen(*self._session)
        return SessionsScreen(self._cwd)

    def open(self, namespace: Sequence[str], session: str, node: str | None = None) -> None:
        """Show a session, with the cursor on a node."""
        self.push_screen(SessionScreen(part_of(self.store, namespace), session, node=node))

    def search(self, within: tuple[Store, str] | None = None) -> None:
        """Show the search, in all sessions or within one."""
        self.push_screen(SearchScreen(within))

    def copy(self, texts: Sequence[tuple[str, str]]) -> None:
        """Let the user choose one of some texts, and copy it."""

        def take(text: str | None) -> None:
            if text is None:
                return
            self._copied = text
            self.copy_to_clipboard(text)
            if isinstance(self.screen, SessionScreen | SessionsScreen):
                self.screen.say(f"copied, and printed again at the end: {text}", "green")

        self.push_screen(Choose("copy", texts), take)

    async def action_quit(self) -> None:
        """Leave."""
        self.leave()

    def leave(self) -> None:
        """Leave, and return the copied text to the command."""
        self.exit(self._copied)
