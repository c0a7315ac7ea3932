"""Search the texts of all sessions, or of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from treering.api.store import Store
from treering.cli import exits
from treering.cli.browse.blocks import Block, line_of
from treering.cli.browse.pages import Pages
from treering.cli.browse.query import Query
from treering.cli.browse.rows import Rows
from treering.cli.browse.screen import StoreScreen
from treering.cli.browse.threads import Newest
from treering.cli.conversation import role_style
from treering.cli.names import namespace_cell, namespace_of, parts_of
from treering.cli.output import Span
from treering.cli.searching import Row, snippet_spans, together
from treering.cli.text import ago, local_time, one_line, short_id
from treering.errors import TreeringError
from treering.search import Hit, Index, open_index

HITS_MAX = 200

Indexes = list[tuple[tuple[str, ...], Index]]
"""Indexes, each with the namespaces of its part of the store."""
Problems = list[tuple[str, TreeringError]]
"""Sessions that could not be read, and why."""


class SearchScreen(StoreScreen):
    """The query line, and the hits.

    Args:
        within: Search only this session, given with its part of the store.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open in its tree"),
        Binding("tab", "kinds", "Prompts and texts/everything", priority=True),
        Binding("f1", "help", "Keys"),
    ]

    def __init__(self, within: tuple[Store, str] | None) -> None:
        super().__init__()
        self._within = within
        self._indexes: Indexes | None = None
        self._hits: list[Row] = []
        self._everything = False
        self._queries = Newest[str](self.begin, self._find)

    def body(self) -> Iterator[Widget]:
        """Yield the query line, the hits, and the hit under the cursor."""
        yield Query("search", 'words; "a phrase"; begin*')
        with Container(id="panes"):
            yield Rows(self._draw)
            yield Pages()

    def on_mount(self) -> None:
        """Bring the index up to date, and show the newest texts."""
        self.query_one(Pages).can_focus = False
        self._want()

    def on_unmount(self) -> None:
        """Close the index."""
        for _, index in self._indexes or ():
            index.close()

    def _want(self) -> None:
        where = f"search in {self._within[1]}" if self._within else "search in all sessions"
        self.entitle((where, "bold"), ("  everything" if self._everything else "  prompts and texts", "cyan"))
        self._queries.want(self.query_one(Query).text)

    async def _find(self, words: str) -> None:
        if self._indexes is None and not await self._update():
            return
        indexes = self._indexes or []
        kinds = ("prompt", "text", "thinking", "call", "result") if self._everything else None
        session = self._within[1] if self._within else None

        def find() -> list[Row]:
            found: list[tuple[tuple[str, ...], list[Hit]]] = [
                (namespace, index.search(words, limit=HITS_MAX, kinds=kinds, session=session))
                for namespace, index in indexes
            ]
            return together(found, HITS_MAX, newest=not words.strip())

        hits = await self.read(find)
        if hits is not None and not self._queries.outdated:
            self._hits = hits
            self.query_one(Rows).show(len(hits), 0)
            if not hits:
                self.say(f"nothing found for {words!r}" if words else "nothing was said yet", "yellow")

    async def _update(self) -> bool:
        """Bring the index up to date; false if that failed."""
        within, store = self._within, self.browser.store

        def update() -> tuple[Indexes, Problems]:
            opened: Indexes = []
            problems: Problems = []
            for part in parts_of(store) if within is None else [within[0]]:
                index = open_index(part)
                opened.append((namespace_of(part), index))
                problems += index.update().problems
            return opened, problems

        found = await self.read(update, doing="bringing the index up to date")
        if found is None:
            return False
        self._indexes, problems = found
        if problems:
            session, error = problems[0]
            more = f"; {len(problems) - 1} more" if len(problems) > 1 else ""
            self.say(f"not searched: {one_line(session, 40)}: {exits.line_of(error)}{more}", "yellow")
        return True

    def _draw(self, number: int) -> Text:
        _, hit = self._hits[number]
        return line_of(
            (f"{ago(hit.time_ms)[:16]:<17}", "dim"), (f"{hit.role} ", role_style(hit.role)), *snippet_spans(hit)
        )

    def _at_cursor(self) -> Row | None:
        return self._hits[self.query_one(Rows).cursor] if self._hits else None

    def on_rows_moved(self) -> None:
        """Show the place of the hit."""
        at = self._at_cursor()
        if at is None:
            self.query_one(Pages).show([])
            return
        namespace, hit = at
        same = f"  and {hit.folded} more of the same" if hit.folded else ""
        heading: tuple[Span, ...] = (
            (f"{hit.title}  " if hit.title else "", "bold"),
            (hit.kind, "cyan"),
            (f"  {local_time(hit.time_ms)}", "dim"),
            (same, "yellow"),
        )
        where = (
            (" ".join(filter(None, (hit.session, short_id(hit.node), hit.cwd, namespace_cell(namespace).full))), "dim"),
        )
        self.query_one(Pages).show([Block((heading, where, tuple(snippet_spans(hit))))])

    def on_rows_chosen(self) -> None:
        """Open the hit."""
        self.action_open()

    def action_open(self) -> None:
        """Show the session, with the cursor on the message."""
        if (at := self._at_cursor()) is not None:
            namespace, hit = at
            self.browser.open(namespace, hit.session, hit.node)

    def action_search(self) -> None:
        """Do nothing: this is the search."""

    def action_kinds(self) -> None:
        """Turn the search of thinking, calls and results on or off."""
        self._everything = not self._everything
        self._want()

    def on_query_changed(self) -> None:
        """Search for the typed words."""
        self._want()

    def on_key(self, event: events.Key) -> None:
        """Type."""
        if self.query_one(Query).type(event):
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """Search for the pasted words."""
        query = self.query_one(Query)
        query.put(query.text + one_line(event.text))
