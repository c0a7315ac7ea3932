"""The graph as rows for a terminal; a long run of ordinary nodes is one row.

The path to the current head stays at the left, however many branchings it has. The other branches of a branching are
shown one level further in, before the path continues. In such a branch the child that was recorded last continues it at
the same level.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat

import msgspec

from treering.transcript.graph import Graph
from treering.transcript.heads import Heads
from treering.transcript.lazy import LazySequence

_TURNING_POINTS = frozenset({"compaction", "branch_summary"})


class OutlineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a tree: one marked node, or a run of consecutive nodes."""

    level: int
    """The number of side branches on the path from a root to the row; 0 for the path to the current head, and for
    roots."""
    first: str
    last: str
    """The same as `first` unless the row is a run."""
    count: int
    """The number of nodes in the run, 1 or more."""
    kinds: dict[str, int]
    """The number of nodes of each kind in the run; messages count by their role."""
    branches: int = 0
    """The number of children of `last` if it has several, else 0."""
    aside: bool = False
    """Whether the row begins a side branch: it is one level further in than its parent."""
    leaf: bool = False
    """Whether `last` has no child."""
    label: str | None = None
    heads: tuple[str, ...] = ()
    checkpoints: int = 0
    """The number of checkpoints made at the nodes of the row."""
    links: dict[str, str] = {}
    retracted: bool = False
    amended: bool = False
    problem: str | None = None
    """The kind of a problem with the node, see `treering.transcript.graph.GraphProblem`."""


class Outline(LazySequence[OutlineRow]):
    """The rows of the whole graph as it is now: parents before children, side branches before the main line.

    Args:
        graph: The graph.
        heads: Marked at the nodes that they point to; the path to the current one stays at level 0.
        checkpoints: The node of every checkpoint, once for each checkpoint.
    """

    def __init__(self, graph: Graph, *, heads: Heads | None = None, checkpoints: Iterable[str | None] = ()) -> None:
        self._skeletons = graph.skeletons
        self._labels = dict(graph.marks.labels)
        self._retracted = frozenset(graph.marks.retracted)
        self._amended = frozenset(graph.marks.amended)
        self._problems = {problem.node: problem.kind for problem in graph.problems()}
        self._heads: dict[str, list[str]] = {}
        for name, node in (heads or Heads()).heads.items():
            if node is not None:
                self._heads.setdefault(node, []).append(name)
        self._checkpoints: dict[str | None, int] = Counter(checkpoints)
        self._shown_as = [role if kind == "message" and role else kind for _, kind, role, *_ in self._skeletons.names]
        self._nodes = array("i")
        """The graph's rows of all nodes, in the order in which they are shown."""
        self._starts = [0]
        """By row: the index of its first node in `_nodes`; at the end the number of nodes."""
        self._levels: list[int] = []
        self._aside = bytearray()
        self._branches: list[int] = []
        """By row: the number of children of its last node."""
        current = heads.tip if heads is not None else None
        self._walk(graph, graph.path_rows(current) if current in graph else [])

    def _walk(self, graph: Graph, straight: Sequence[int]) -> None:
        alone, branches, nodes = self._alone(graph), graph.branches, list[int]()
        first_child = branches.first
        begins = alone | {first_child[row] for row in (*alone, *branches.more)}
        """The graph's rows of nodes that continue no run."""
        on_line = bytearray(len(first_child))
        for row in straight:
            on_line[row] = 1
        waiting = [(root, 0, False) for root in reversed(branches.roots)]
        while waiting:
            row, level, aside = waiting.pop()
            nodes.append(row)
            while (child := first_child[row]) not in begins and child >= 0:
                row = child
                nodes.append(row)
            children = branches.children(row)
            self._starts.append(len(nodes))
            self._levels.append(level)
            self._aside.append(aside)
            self._branches.append(len(children))
            if children:
                on = next((child for child in children if on_line[child]), children[-1])
                waiting.append((on, level, False))
                waiting += [(child, level + 1, True) for child in reversed(children) if child != on]
        self._nodes.fromlist(nodes)

    def _alone(self, graph: Graph) -> set[int]:
        """The graph's rows of the nodes with a mark that a run could not show."""
        marked = {*self._heads, *self._problems, *self._labels, *self._retracted, *self._amended}
        turns = self._skeletons.rows(lambda name: name[1] in _TURNING_POINTS)
        return {graph.row(name) for name in marked if name in graph} | {*turns, *self._skeletons.linked()}

    def __len__(self) -> int:
        return len(self._levels)

    def row_of(self, node: str) -> int | None:
        """Return the index of the row that shows a node; None if no row does."""
        ids = self._skeletons.ids
        place = next((place for place, row in enumerate(self._nodes) if ids[row] == node), None)
        return None if place is None else bisect_right(self._starts, place) - 1

    def _make(self, index: int) -> OutlineRow:
        run = self._nodes[self._starts[index] : self._starts[index + 1]]
        ids, codes, branches = self._skeletons.ids, self._skeletons.codes, self._branches[index]
        first, shown_as = ids[run[0]], self._shown_as
        checkpoints = map(self._checkpoints.get, map(ids.__getitem__, run), repeat(0))
        return OutlineRow(
            level=self._levels[index],
            first=first,
            last=ids[run[-1]],
            count=len(run),
            kinds=dict(Counter(map(shown_as.__getitem__, map(codes.__getitem__, run)))),
            branches=branches if branches > 1 else 0,
            aside=bool(self._aside[index]),
            leaf=not branches,
            label=self._labels.get(first),
            heads=tuple(self._heads.get(first, ())),
            checkpoints=sum(checkpoints) if self._checkpoints else 0,
            links=dict(self._skeletons[run[0]].links or {}),
            retracted=first in self._retracted,
            amended=first in self._amended,
            problem=self._problems.get(first),
        )
