"""The list of sessions: typing filters, Tab changes between this folder and all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from treering.cli.browse import writing
from treering.cli.browse.asking import Ask
from treering.cli.browse.blocks import line_of, session_block
from treering.cli.browse.pages import Pages
from treering.cli.browse.query import Query
from treering.cli.browse.rows import Rows
from treering.cli.browse.screen import StoreScreen
from treering.cli.browse.threads import Newest
from treering.cli.listing import short_folder
from treering.cli.names import part_of
from treering.cli.text import ago, counted, one_line
from treering.store.catalogue import Sessions
from treering.store.info import SessionInfo

PAGE_SESSIONS = 100
"""Sessions that are read together. Each is a small read, and a client reads as many at once as it has connections."""
AHEAD = 20
"""Rows below the cursor that are read in advance."""
FOLDER_COLUMNS_MIN = 70
"""A narrower list does not show folders; the card beside it does."""


class SessionsScreen(StoreScreen):
    """The list.

    Args:
        cwd: The folder whose sessions are shown first; None for all sessions.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("tab", "scope", "This folder/all", priority=True),
        Binding("ctrl+f", "search", "Search", priority=True),
        Binding("ctrl+n", "named", "Named only", priority=True),
        Binding("ctrl+r", "title", "Rename", show=False, priority=True),
        Binding("ctrl+y", "copy", "Copy", priority=True),
        Binding("f1", "help", "Keys"),
    ]

    def __init__(self, cwd: str | None) -> None:
        super().__init__()
        self._cwd = cwd
        self._scope: str | None = cwd
        self._known: list[SessionInfo] = []
        self._after: str | None = None
        self._more = True
        self._named = False
        self._shown: list[SessionInfo] = []
        self._pages = Newest[None](self.begin, self._read_page)

    def body(self) -> Iterator[Widget]:
        """Yield the query line, the list, and the card of a session."""
        yield Query("filter", "type to filter, q to leave, F1 for all keys")
        with Container(id="panes"):
            yield Rows(self._draw)
            yield Pages()

    def on_mount(self) -> None:
        """Read the first page."""
        self.query_one(Pages).can_focus = False
        self.action_read_again()

    def action_read_again(self) -> None:
        """Read the list from its beginning."""
        self._known, self._after, self._more = [], None, True
        self._filter()

    @property
    def _wanting(self) -> bool:
        """Whether to read more sessions: the cursor is near the end of the known ones."""
        rows = self.query_one(Rows)
        return self._more and rows.cursor + rows.size.height + AHEAD > len(self._shown)

    async def _read_page(self, _: None) -> None:
        scope, after, store = self._scope, self._after, self.browser.store
        if not self._wanting:
            return

        def page() -> Sessions:
            return store.sessions(cwd=scope, limit=PAGE_SESSIONS, after=after, below=True)

        found = await self.read(page, doing="reading sessions")
        if (scope, after) != (self._scope, self._after):
            return
        if found is None:
            self._more = False  # until it is read again
            return
        self._known += found.rows
        self._after, self._more = found.after, found.after is not None
        if not self._known and scope is not None:
            self._scope, self._more = None, True
            self.say(f"no session about {short_folder(scope)}, so here are those of all folders")
        self._filter(self._at_cursor())

    def _filter(self, at: SessionInfo | None = None) -> None:
        words = self.query_one(Query).text.casefold().split()
        self._shown = [
            info
            for info in self._known
            if (info.title or not self._named) and all(word in _haystack(info) for word in words)
        ]
        self.query_one(Rows).show(len(self._shown), self._shown.index(at) if at in self._shown else 0)
        count = counted(len(self._shown), "session") + (" and more" if self._more else "")
        where = "all folders" if self._scope is None else short_folder(self._scope)
        named = ", named only" if self._named else ""
        self.entitle(
            ("treering", "bold"), (f"  {where}{named}", "bold green"), (f"  {count} in {self.browser.place}", "dim")
        )

    def _draw(self, number: int) -> Text:
        info = self._shown[number]
        title = f"warning: {info.warning}" if info.warning else info.title or info.task or info.first_prompt or info.id
        wide = self.query_one(Rows).width
        where = short_folder(info.cwd) if self._scope is None and wide >= FOLDER_COLUMNS_MIN else ""
        room = max(10, wide - 25 - (len(where) + 2 if where else 0))
        told = line_of((one_line(title, room), "red" if info.warning else "" if info.title else "italic"))
        told.truncate(room, overflow="ellipsis")
        text = line_of((f"{ago(info.updated_ms)[:16]:<17}", "dim"), (f"{info.messages:>6}  ", "")).append_text(told)
        if where:
            text.pad_right(max(2, wide - text.cell_len - len(where)))
            text.append(where, "dim")
        return text

    def _at_cursor(self) -> SessionInfo | None:
        return self._shown[self.query_one(Rows).cursor] if self._shown else None

    def on_rows_moved(self) -> None:
        """Show the card of the session under the cursor, and read more rows in time."""
        at = self._at_cursor()
        self.query_one(Pages).show([session_block(at)] if at is not None else [])
        if self._wanting:
            self._pages.want(None)

    def on_rows_chosen(self) -> None:
        """Open a session."""
        self.action_open()

    def on_query_changed(self) -> None:
        """Filter by the typed words."""
        self._filter(self._at_cursor())

    def on_key(self, event: events.Key) -> None:
        """Filter, or leave."""
        query = self.query_one(Query)
        if event.key == "q" and not query.begun:
            event.stop()
            self.browser.leave()
        elif event.key == "question_mark" and not query.begun:
            event.stop()
            self.action_help()
        elif query.type(event):
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """Filter by the pasted words."""
        query = self.query_one(Query)
        query.put(query.text + one_line(event.text))

    def action_back(self) -> None:
        """Remove the filter, or leave."""
        query = self.query_one(Query)
        if query.begun:
            query.put("", begun=False)
        else:
            self.browser.leave()

    def action_open(self) -> None:
        """Show the tree of the session."""
        if (at := self._at_cursor()) is not None:
            self.browser.open(at.namespace, at.id)

    def action_scope(self) -> None:
        """Change between the sessions about this folder and all."""
        if self._cwd is None:
            self.say("all folders are shown; without --all this one is")
            return
        self._scope = None if self._scope is not None else self._cwd
        self.action_read_again()

    def action_named(self) -> None:
        """Show only sessions with a title, or all."""
        self._named = not self._named
        self._filter(self._at_cursor())

    def action_title(self) -> None:
        """Give the session a title."""
        if (at := self._at_cursor()) is not None:
            self.app.push_screen(Ask("title; empty removes it", at.title), lambda title: self._title(at, title))

    def _title(self, at: SessionInfo, title: str | None) -> None:
        async def work() -> None:
            store = part_of(self.browser.store, at.namespace)
            done = await self.write(lambda: writing.retitle(store, at.id, title or ""), doing="writing")
            if done is not None:
                self.action_read_again()
                self.say(done, "green")

        if title is not None:
            self.begin(work())

    def action_copy(self) -> None:
        """Copy the name, or a command that continues the session."""
        if (at := self._at_cursor()) is not None:
            self.browser.copy(self.browser.ways(at.namespace, at.id))


@lru_cache(maxsize=10_000)
def _joined(*fields: str) -> str:
    return "\n".join(fields).casefold()


def _haystack(info: SessionInfo) -> str:
    """The text in which words are searched."""
    return _joined(info.id, info.title, info.first_prompt, info.task, info.project, info.cwd, *info.namespace)
