"""The graph of all nodes, built from skeletons: payloads are neither needed nor kept.

Rule 1: inside, the graph is a forest. A parent that does not exist (yet) makes a root; an edge that would close a cycle
is left out. So every walk ends without a visited set, and none of them recurses.
Rule 2: nothing is refused. Imported sessions contain orphans, cycles, nodes that are their own parents, and duplicate
ids; these are shown as far as possible, and listed by `problems`.
Rule 3: records come in the order of their positions. That order decides among children, labels, titles and edits;
writers' clocks never do.

Memory: per node three machine integers and one dictionary entry besides the skeleton itself. Rows (indices in order of
position) stand for nodes; children form a linked list, so that a row needs no list of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator

import msgspec

from treering.errors import NotFoundError, UsageError
from treering.format.record import Skeleton
from treering.kinds import Kind
from treering.transcript.annotations import Annotations
from treering.transcript.node import Node, node_of

_NONE = -1


class GraphProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with a node: a warning, never an error."""

    kind: Kind
    """`orphan`: the parent does not exist. `cycle`: the parent is the node itself or descends from it. `duplicate`: a
    record with the id of an earlier node, which is left out."""
    node: str
    at: int
    """Position of the odd record."""


class PageRow(msgspec.Struct, frozen=True):
    """A node of a page and its place among its siblings."""

    node: Skeleton
    index: int
    """From 0, among those that are not hidden."""
    count: int


class Page(msgspec.Struct, frozen=True):
    """A part of a path, newest first."""

    rows: tuple[PageRow, ...]
    before: str | None
    """Pass this to `Graph.page` for the next page, towards the root; None: the root was reached."""


class Graph:
    """Nodes, and the notes and edits about them, in memory."""

    def __init__(self, skeletons: Iterable[Skeleton] = ()) -> None:
        self.annotations = Annotations()
        """Notes and edits, with the labels, title, usage, retracted and amended nodes that follow from them."""
        self._nodes: list[Skeleton] = []
        self._rows: dict[str, int] = {}
        self._parent = array("i")
        self._first = array("i")
        self._last = array("i")
        self._next = array("i")
        self._top = array("i")  # union-find: some ancestor, on the way to the root; shortened by every search
        self._roots: dict[int, None] = {}  # an ordered set
        self._awaited: dict[str, list[int]] = {}  # orphans by the parent they miss
        self._oddities: list[GraphProblem] = []  # cycles and duplicates
        self._at = -1
        for skeleton in skeletons:
            self.add(skeleton)

    def add(self, skeleton: Skeleton) -> None:
        """Add the next record. Heads, checkpoints and unknown types are no part of the graph and are ignored.

        Raises:
            UsageError: The record's position is not above the one before.
        """
        if skeleton.at <= self._at:
            raise UsageError(f"records must come in order. at={skeleton.at}, before={self._at}")
        self._at = skeleton.at
        if skeleton.type == "node":
            self._add_node(skeleton)
        else:
            self.annotations.add(skeleton)

    def _add_node(self, skeleton: Skeleton) -> None:
        if skeleton.id in self._rows:
            self._oddities.append(GraphProblem(kind=Kind.DUPLICATE, node=skeleton.id, at=skeleton.at))
            return
        row = len(self._nodes)
        self._nodes.append(skeleton)
        self._rows[skeleton.id] = row
        self._parent.append(_NONE)
        self._first.append(_NONE)
        self._last.append(_NONE)
        self._next.append(_NONE)
        self._top.append(row)
        # First its own parent, then its children: so a cycle is cut above its earliest node.
        parent = _NONE if skeleton.parent is None else self._rows.get(skeleton.parent, _NONE)
        if parent not in (_NONE, row):  # nothing is below it yet, so this closes no cycle
            self._hang(row, parent)
        else:
            self._roots[row] = None
            if parent == row:
                self._oddities.append(GraphProblem(kind=Kind.CYCLE, node=skeleton.id, at=skeleton.at))
            elif skeleton.parent is not None:
                self._awaited.setdefault(skeleton.parent, []).append(row)
        if self._awaited:
            for child in self._awaited.pop(skeleton.id, ()):
                self._link(child, row)

    def _link(self, child: int, parent: int) -> None:
        """Make the root `child` a child of `parent`, unless `parent` descends from it."""
        if self._find_root(parent) == child:
            self._oddities.append(GraphProblem(kind=Kind.CYCLE, node=self._nodes[child].id, at=self._nodes[child].at))
            return
        del self._roots[child]
        self._hang(child, parent)

    def _hang(self, child: int, parent: int) -> None:
        self._parent[child] = self._top[child] = parent
        if self._first[parent] == _NONE:
            self._first[parent] = child
        else:
            self._next[self._last[parent]] = child
        self._last[parent] = child

    def _find_root(self, row: int) -> int:
        # Path halving (Tarjan and van Leeuwen 1984): nearly constant, where walking up would make a long session
        # quadratic in its length.
        top = self._top
        while top[row] != row:
            top[row] = row = top[top[row]]
        return row

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Skeleton]:
        """Yield all nodes in the order of their positions."""
        return iter(self._nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._rows

    def node(self, node: str) -> Skeleton:
        """Return the skeleton of `node`.

        Raises:
            NotFoundError: There is no such node. All methods that take a node raise this.
        """
        return self._nodes[self._row(node)]

    def _row(self, node: str) -> int:
        row = self._rows.get(node)
        if row is None:
            raise NotFoundError(f"no such node. node={node!r}", kind=Kind.NODE)
        return row

    def view(self, node: str, payload: object | None = None) -> Node:
        """Return `node` as callers see it, with its label and edits; `payload` is used unchanged."""
        notes = self.annotations
        return node_of(
            self.node(node),
            payload,
            label=notes.labels.get(node),
            retracted=node in notes.retracted,
            amended=node in notes.amended,
        )

    def path(self, node: str | None) -> list[Skeleton]:
        """Return the nodes from a root down to `node`, retracted ones too; None is the place before the first node."""
        walked = [] if node is None else list(self._walk_up(self._row(node)))
        return [self._nodes[row] for row in reversed(walked)]

    def between(self, first: str, last: str) -> list[Skeleton]:
        """Return the nodes recorded from `first` up to `last`, of all branches, `last` not among them.

        None if either is missing.
        """
        end = self._rows.get(last, 0)
        return self._nodes[self._rows.get(first, end) : end]

    def since(self, first: str) -> list[Skeleton]:
        """Return the nodes recorded from `first` on, of all branches; none if it is missing."""
        return self._nodes[self._rows.get(first, len(self._nodes)) :]

    def _walk_up(self, row: int) -> Iterator[int]:
        while row != _NONE:
            yield row
            row = self._parent[row]

    def depth(self, node: str) -> int:
        """Return how many nodes lie above `node`."""
        return sum(1 for _ in self._walk_up(self._row(node))) - 1

    def children(self, node: str | None) -> list[str]:
        """Return the children of `node` in the order of their positions; those of None are the roots."""
        return [self._nodes[row].id for row in self._child_rows(_NONE if node is None else self._row(node))]

    def _child_rows(self, row: int) -> Iterator[int]:
        if row == _NONE:
            yield from self._roots
            return
        child = self._first[row]
        while child != _NONE:
            yield child
            child = self._next[child]

    @property
    def roots(self) -> list[str]:
        """Nodes without a parent, and those whose parent does not exist or would close a cycle."""
        return self.children(None)

    def leaves(self) -> list[str]:
        """Return the nodes without children, in the order of their positions."""
        return [node.id for row, node in enumerate(self._nodes) if self._first[row] == _NONE]

    def siblings(self, node: str) -> tuple[list[str], int]:
        """Return the children of the parent of `node`, itself among them, and its index there (from 0)."""
        ids = [self._nodes[row].id for row in self._child_rows(self._parent[self._row(node)])]
        return ids, ids.index(node)

    def page(self, node: str | None, *, before: str | None = None, limit: int = 50, retracted: bool = False) -> Page:
        """Return up to `limit` nodes from `node` upward, newest first.

        Args:
            node: Where to begin, usually a head's node; None gives an empty page.
            before: The cursor of the previous page; `node` is then ignored.
            limit: Greatest number of rows, at least 1.
            retracted: Show retracted nodes too; else they are left out, also when siblings are counted.

        Raises:
            UsageError: `limit` is less than 1.
        """
        if limit < 1:
            raise UsageError(f"a page needs a limit of at least 1. limit={limit}")
        start = _NONE if node is None else self._row(node)
        if before is not None:
            start = self._parent[self._row(before)]
        hidden = frozenset() if retracted else self.annotations.retracted
        rows: list[PageRow] = []
        for row in self._walk_up(start):
            if self._nodes[row].id in hidden:
                continue
            if len(rows) == limit:
                return Page(tuple(rows), rows[-1].node.id)
            rows.append(self._page_row(row, hidden))
        return Page(tuple(rows), None)

    def _page_row(self, row: int, hidden: Collection[str]) -> PageRow:
        index = count = 0
        for sibling in self._child_rows(self._parent[row]):
            count += self._nodes[sibling].id not in hidden
            if sibling == row:
                index = count - 1
        return PageRow(self._nodes[row], index, count)

    def problems(self) -> list[GraphProblem]:
        """Return all problems, in the order of positions."""
        orphans = [self._nodes[row] for rows in self._awaited.values() for row in rows]
        found = [GraphProblem(kind=Kind.ORPHAN, node=node.id, at=node.at) for node in orphans]
        return sorted([*self._oddities, *found], key=lambda problem: problem.at)
