"""The graph as rows for a terminal; a long run of ordinary nodes is one row.

Rows are indented one level at each branching, and not at each node, so that the width depends on the number of
branchings and not of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from treering.format.record import Skeleton
from treering.transcript.graph import Graph
from treering.transcript.heads import Heads

_TURNING_POINTS = frozenset({"compaction", "branch_summary"})


class OutlineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row: one marked node, or a run of consecutive nodes."""

    level: int
    """The number of branchings above; several roots count as one."""
    first: str
    last: str
    """The same as `first` unless the row is a run."""
    count: int
    """Nodes in the run, 1 or more."""
    kinds: dict[str, int]
    """How many nodes of each kind the run has; messages count by their role."""
    branches: int = 0
    """Children of `last` if it has several, else 0."""
    label: str | None = None
    heads: tuple[str, ...] = ()
    checkpoints: int = 0
    """Checkpoints made at the nodes of the row."""
    links: dict[str, str] = {}
    retracted: bool = False
    amended: bool = False
    problem: str | None = None
    """The kind of a problem with the node, see `treering.transcript.graph.Problem`."""


def outline(
    graph: Graph, *, heads: Heads | None = None, checkpoints: Iterable[str | None] = ()
) -> Iterator[OutlineRow]:
    """Yield the rows of the whole graph: parents before children, branches in the order of positions.

    Args:
        graph: What happened.
        heads: Marked at the nodes that they point to.
        checkpoints: The node of every checkpoint, once for each checkpoint.
    """
    marks = _Marks(graph, heads or Heads(), checkpoints)
    waiting = [(root, 0) for root in reversed(graph.roots)]
    while waiting:
        first, level = waiting.pop()
        run, children = _run(graph, marks, first)
        yield _row(marks, run, level=level, branches=len(children))
        below = level + 1 if len(children) > 1 else level
        waiting += [(child, below) for child in reversed(children)]


class _Marks:
    """The marks of an outline, by node."""

    def __init__(self, graph: Graph, heads: Heads, checkpoints: Iterable[str | None]) -> None:
        self.annotations = graph.annotations
        self.checkpoints = Counter(checkpoints)
        self.problems = {problem.node: problem.kind for problem in graph.problems()}
        self.heads: dict[str, list[str]] = {}
        for name, node in heads.heads.items():
            if node is not None:
                self.heads.setdefault(node, []).append(name)

    def stands_alone(self, node: Skeleton) -> bool:
        """Tell whether `node` has a mark that a run could not show."""
        return (
            node.kind in _TURNING_POINTS
            or bool(node.links)
            or node.id in self.heads
            or node.id in self.problems
            or node.id in self.annotations.labels
            or node.id in self.annotations.retracted
            or node.id in self.annotations.amended
        )


def _run(graph: Graph, marks: _Marks, first: str) -> tuple[list[Skeleton], list[str]]:
    """Return the longest run that begins with `first`, and the children of its last node."""
    run = [graph.node(first)]
    children = graph.children(first)
    if marks.stands_alone(run[0]):
        return run, children
    while len(children) == 1 and not marks.stands_alone(child := graph.node(children[0])):
        run.append(child)
        children = graph.children(child.id)
    return run, children


def _row(marks: _Marks, run: Sequence[Skeleton], *, level: int, branches: int) -> OutlineRow:
    first, last = run[0], run[-1]
    return OutlineRow(
        level=level,
        first=first.id,
        last=last.id,
        count=len(run),
        kinds=dict(Counter(node.role if node.kind == "message" and node.role else node.kind for node in run)),
        branches=branches if branches > 1 else 0,
        label=marks.annotations.labels.get(first.id),
        heads=tuple(marks.heads.get(first.id, ())),
        checkpoints=sum(marks.checkpoints[node.id] for node in run),
        links=dict(first.links or {}),
        retracted=first.id in marks.annotations.retracted,
        amended=first.id in marks.annotations.amended,
        problem=marks.problems.get(first.id),
    )
