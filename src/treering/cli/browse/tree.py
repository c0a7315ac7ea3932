"""The tree of a session with a cursor, and the message under it."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from treering.api.store import Store
from treering.api.view import View
from treering.cli.browse.blocks import begun, detail_block, line_of
from treering.cli.browse.layout import MODES, Layout, nearest
from treering.cli.browse.pages import Pages
from treering.cli.browse.rows import Rows
from treering.cli.browse.screen import StoreScreen
from treering.cli.browse.threads import Newest
from treering.cli.conversation import role_style
from treering.cli.message import headline, role_of
from treering.cli.output import Span
from treering.cli.text import counted, short_id
from treering.transcript.node import Node

HEADLINES_MAX = 5_000
"""Most first lines of messages that are kept in memory: enough for many screens."""


def _filter_keys() -> Iterator[BindingType]:
    keys = {"default": "d", "no-tools": "t", "user-only": "u", "labeled-only": "l", "all": "a"}
    for mode, key in keys.items():
        yield Binding(f"ctrl+{key},alt+{key}", f"filter('{mode}')", f"Show {mode}", show=False)


class TreeScreen(StoreScreen):
    """The tree, as of its last read, with filters and folds.

    Args:
        store: The part of the store that the session is in.
        session: Its name.
        node: The initial node of the cursor; by default the session's current node.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+shift+o", "cycle(-1)", "Filter, backwards", show=False),
        *_filter_keys(),
        Binding("ctrl+left,alt+left", "fold", "Fold the branch, or go to the one before", show=False),
        Binding("ctrl+right,alt+right", "unfold", "Unfold the branch, or go to the next one", show=False),
        Binding("alt+up", "turn(-1)", "Message before of user or model", show=False),
        Binding("alt+down", "turn(1)", "Next message of user or model", show=False),
        Binding("left", "page(-1)", "Page up", show=False),
        Binding("right", "page(1)", "Page down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("j", "move(1)", "Down", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]

    def __init__(self, store: Store, session: str, *, node: str | None = None) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._first = node
        self._view: View | None = None
        self._layout: Layout | None = None
        self._mode = "default"
        self._folded: set[int] = set()
        self._shown = array("i")
        self._mark: str | None = None
        self._headlines: OrderedDict[str, str] = OrderedDict()
        self._texts = Newest[None](self.begin, self._read_texts)
        self._detail = Newest[str](self.begin, self._read_detail)

    def body(self) -> Iterator[Widget]:
        """Yield the tree, and the message under the cursor."""
        with Container(id="panes"):
            yield Rows(self._draw)
            yield Pages()

    def on_mount(self) -> None:
        """Read the session."""
        self.query_one(Pages).can_focus = False
        self.entitle((self._session, "bold"))
        self.action_read_again()

    def action_read_again(self) -> None:
        """Read the current state of the session."""
        self.begin(self._look(self._at() or self._first))

    async def _look(self, node: str | None) -> None:
        def look() -> tuple[View, Layout]:
            view = self._view
            if view is None:
                view = self._store.view(self._session)
            else:
                view.refresh()
            return view, Layout(view)

        found = await self.read(look, doing="reading the session")
        if found is None:
            return
        self._view, self._layout = found
        self._folded.clear()
        self._headlines.clear()
        self._arrange(node)
        self._entitle()
        if node is not None and node not in self._layout:
            self.say(f"node {short_id(node)} is not in this session any more; the cursor is where it stands", "yellow")

    def _entitle(self) -> None:
        if (layout := self._layout) is None:
            return
        info = layout.info
        marked = [(f"  mark {short_id(self._mark)}", "yellow")] if self._mark else []
        self.entitle(
            (info.title or info.first_prompt or info.id, "bold"),
            (f"  on {layout.head}", "bold green"),
            (f"  {self._mode}", "cyan"),
            *marked,
            (f"  {counted(len(layout), 'node')}, {info.id}", "dim"),
        )

    def _arrange(self, node: str | None) -> None:
        """Show the lines left by filter and folds, with the cursor on a node or on the shown line before it."""
        if (layout := self._layout) is None:
            return
        if node is None or node not in layout:
            node = layout.tip if layout.tip in layout else None
        self._shown = layout.shown(self._mode, self._folded)
        place = layout.place(node) if node is not None else 0
        self.query_one(Rows).show(len(self._shown), nearest(self._shown, place))

    def _at(self) -> str | None:
        """The node under the cursor."""
        if self._layout is None or not self._shown:
            return None
        return self._layout.id(self._shown[self.query_one(Rows).cursor])

    def _draw(self, number: int) -> Text:
        layout = self._layout
        if layout is None:
            return line_of()
        place = self._shown[number]
        node = layout.node(place)
        role = role_of(node)
        text = self._headlines.get(node.id)
        if text is None:
            self._texts.want(None)
        return line_of(
            (layout.guide(place), "dim"),
            *([(">", "bold yellow")] if node.id == self._mark else []),
            *self._marks(layout, node, place),
            (f"{role}: ", role_style(role)),
            (headline(node) if node.brief and not text else text or "", ""),
        )

    def _marks(self, layout: Layout, node: Node, place: int) -> Iterator[Span]:
        for head in layout.heads.get(node.id, ()):
            yield f"({head}) ", "bold green" if head == layout.head else "green"
        if label := layout.labels.get(node.id):
            yield f"[{label}] ", "yellow"
        for word in ("retracted", "amended", "erased"):
            if getattr(node, word):
                yield f"{word} ", "red"
        if problem := layout.problems.get(node.id):
            yield f"{problem} ", "bold red"
        if place in self._folded:
            yield f"+{layout.end(place) - place - 1} ", "bold cyan"

    async def _read_texts(self, _: None) -> None:
        """Read the first lines of the messages on the screen that are not known yet."""
        view, layout = self._view, self._layout
        if view is None or layout is None:
            return
        names = [layout.id(self._shown[number]) for number in self.query_one(Rows).on_screen]
        wanted = [name for name in names if name not in self._headlines]
        if not wanted:
            return

        def texts() -> list[tuple[str, str]]:
            return [(node.id, headline(begun(node))) for node in view.each_node(wanted, blobs=False)]

        found = await self.read(texts)
        if layout is self._layout:
            self._headlines |= found if found is not None else [(name, "") for name in wanted]
            while len(self._headlines) > HEADLINES_MAX:
                self._headlines.popitem(last=False)
            self.query_one(Rows).refresh()

    async def _read_detail(self, name: str) -> None:
        view = self._view
        if view is None:
            return
        node = await self.read(lambda: view.get(name, blobs=False))
        if not self._detail.outdated:
            self.query_one(Pages).show([detail_block(node)] if node is not None else [])

    def on_rows_moved(self) -> None:
        """Show the message under the cursor."""
        if (node := self._at()) is not None:
            self._detail.want(node)
        else:
            self.query_one(Pages).show([])

    def action_mark(self) -> None:
        """Mark the node, or remove its mark."""
        node = self._at()
        self._mark = None if node == self._mark else node
        self._entitle()
        self.query_one(Rows).refresh()

    def action_filter(self, mode: str) -> None:
        """Apply a filter; applying the same one again removes it."""
        node = self._at()
        self._mode = "default" if mode == self._mode else mode
        self._arrange(node)
        self._entitle()

    def action_cycle(self, by: int) -> None:
        """Apply the next filter."""
        modes = list(MODES)
        self.action_filter(modes[(modes.index(self._mode) + by) % len(modes)])

    def action_fold(self) -> None:
        """Fold the branch, or go to the beginning of the previous one."""
        layout, rows = self._layout, self.query_one(Rows)
        if layout is None or not self._shown:
            return
        place = self._shown[rows.cursor]
        start = layout.start(place)
        if start in self._folded or layout.end(start) == start + 1:
            start = layout.start(start - 1) if start else 0
        else:
            self._folded.add(start)
        self._arrange(layout.id(start))

    def action_unfold(self) -> None:
        """Unfold the branch, or go to the beginning of the next one."""
        layout, rows = self._layout, self.query_one(Rows)
        if layout is None or not self._shown:
            return
        place = self._shown[rows.cursor]
        if place in self._folded:
            self._folded.remove(place)
            self._arrange(layout.id(place))
        elif (after := layout.starts_after(place)) is not None:
            self._arrange(layout.id(after))

    def action_turn(self, by: int) -> None:
        """Go to the next message of the user or the model, up or down."""
        layout, rows = self._layout, self.query_one(Rows)
        if layout is None:
            return
        number = rows.cursor + by
        while 0 <= number < len(self._shown) and layout.node(self._shown[number]).role not in ("user", "assistant"):
            number += by
        if 0 <= number < len(self._shown):
            rows.cursor = number

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.query_one(Rows).action_move(by)

    def action_page(self, by: int) -> None:
        """Move the cursor by a screen."""
        self.query_one(Rows).action_page(by)
