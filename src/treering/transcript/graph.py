"""The graph of all nodes, built from skeletons: payloads are neither needed nor kept.

Rule 1: internally, the graph is a forest. A node whose parent does not exist (yet) is a root; an edge that would close
a cycle is left out. So every walk ends without a visited set, and none of them recurses.
Rule 2: nothing is refused. Imported sessions contain orphans, cycles, nodes that are their own parents, and duplicate
ids. They are shown as far as possible, and listed by `problems`.
Rule 3: records come in the order of their positions. That order decides among children, labels, titles and edits;
writers' clocks never do.

Everything is held by column: a skeleton is made when it is accessed. Rows (indices in order of position) stand for
nodes. New records are added all together when the graph is next read. The usual case, a parent before its child, takes
no step of Python for each record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import compress, islice
from operator import lt

import msgspec

from treering.errors import NotFoundError, UsageError
from treering.format.columns import Name
from treering.format.record import Skeleton
from treering.format.skeletons import Skeletons
from treering.kinds import Kind
from treering.transcript.annotations import Annotations, Marks, is_mark
from treering.transcript.branches import NO_ROW, Branches
from treering.transcript.node import Node, node_of


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
    siblings: tuple[str, ...]
    """The ids of the siblings that are not hidden, in order, including the node itself."""
    index: int
    """The index of the node in `siblings`."""


class Page(msgspec.Struct, frozen=True):
    """A part of a path, newest first."""

    rows: tuple[PageRow, ...]
    before: str | None
    """Pass this to `Graph.page` for the next page, towards the root; None: the root was reached."""


class Graph:
    """Nodes, and the notes and edits about them, in memory."""

    def __init__(self, skeletons: Iterable[Skeleton] = ()) -> None:
        self.skeletons = skeletons if isinstance(skeletons, Skeletons) else Skeletons(skeletons)
        """All records, in order. New records are added to this object."""
        self._parent = array("i")
        """By row, the row of the parent; a root has its own row. Meaningless for rows that are not nodes."""
        self._is_node = bytearray()
        """By row, 1 or 0; 0 also for a node with the id of an earlier one."""
        self._nodes = RowsById()
        self._looked_for = 0
        """The number of entries of `skeletons.outside` that were processed."""
        self._awaited: dict[str, list[int]] = {}
        """Orphans by the id of the missing parent."""
        self._oddities: list[GraphProblem] = []
        """Cycles and duplicates."""
        self._top = array("i")
        """Union-find: some ancestor of each row; every search shortens the way to the root. Filled only when needed."""
        self._branches = Branches()
        self._marks, self._annotations = Marks(), Annotations()
        self._marked = self._annotated = 0

    def add(self, skeleton: Skeleton) -> None:
        """Add the next record. Heads, checkpoints and unknown types are no part of the graph and are ignored.

        Raises:
            UsageError: The record's position is not above the one before.
        """
        self.skeletons.append(skeleton)

    # adding new records

    def _take_in(self) -> None:
        first, end = len(self._parent), len(self.skeletons)
        if first == end:
            return
        self._parent.extend(self.skeletons.parents[first:])
        nodes = self._add_nodes(first)
        wanted = self.skeletons.outside[self._looked_for :]
        self._looked_for += len(wanted)
        if not self._are_usual(first):
            wanted = sorted([*wanted, *self._odd_parents(nodes)])
        later = self._adopted(nodes)
        for row, name in wanted:
            if self._is_node[row]:
                self._look_for(row, name, later)
        # First a node's own parent, then its children: so a cycle is cut above its earliest node.
        for parent, child in sorted(later):
            self._link(child, parent)

    def _add_nodes(self, first: int) -> list[int]:
        """Register the ids of the nodes from `first` on; return their rows, without rows whose ids are taken."""
        skeletons = self.skeletons
        chosen = skeletons.chosen(_is_node, first)
        self._is_node += chosen or bytes(len(skeletons) - first)
        nodes = list(compress(range(first, len(skeletons)), chosen))
        doubles = self._nodes.extend(list(compress(islice(skeletons.ids, first, None), chosen)), nodes)
        for row in doubles:
            self._is_node[row] = 0
            problem = GraphProblem(kind=Kind.DUPLICATE, node=skeletons.ids[row], at=skeletons.at(row))
            self._oddities.append(problem)
        return [row for row in nodes if self._is_node[row]] if doubles else nodes

    def _are_usual(self, first: int) -> bool:
        """Whether all parents of new nodes that are given by row are nodes recorded before their children."""
        parents = compress(self._parent[first:], self._is_node[first:])
        return not self.skeletons.ahead and all(map(self._is_node.__getitem__, parents))

    def _odd_parents(self, nodes: Iterable[int]) -> Iterator[tuple[int, str]]:
        """Yield the rows whose parents have to be looked up by id, with these ids; until then the rows are roots."""
        for row in nodes:
            parent = self._parent[row]
            if parent > row or not self._is_node[parent]:
                self._parent[row] = row
                yield row, self.skeletons.ids[parent]

    def _look_for(self, row: int, parent: str, later: list[tuple[int, int]]) -> None:
        """Set the parent of a node that is a root so far; if the parent was recorded later, add both to `later`."""
        above = self._nodes.get(parent)
        if above is None:
            self._awaited.setdefault(parent, []).append(row)
        elif above > row:
            later.append((above, row))
        elif above < row:  # all nodes below `row` were recorded after it, so this closes no cycle
            self._parent[row] = above
        else:
            self._add_cycle(row)

    def _adopted(self, nodes: Sequence[int]) -> list[tuple[int, int]]:
        """Return the rows of new nodes that orphans awaited as parents, each with the row of an orphan."""
        awaited, ids = self._awaited, self.skeletons.ids
        names = [ids[row] for row in nodes] if len(nodes) < len(awaited) else list(awaited)
        found = [(row, name) for name in names if name in awaited and (row := self._nodes.get(name)) is not None]
        return [(row, child) for row, name in found for child in awaited.pop(name)]

    def _link(self, child: int, parent: int) -> None:
        """Make the root `child` a child of `parent`, unless `parent` descends from it."""
        self._top.extend(self._parent[len(self._top) :])
        if self._find_root(parent) == child:
            self._add_cycle(child)
            return
        self._parent[child] = self._top[child] = parent
        self._branches = Branches()

    def _add_cycle(self, row: int) -> None:
        problem = GraphProblem(kind=Kind.CYCLE, node=self.skeletons.ids[row], at=self.skeletons.at(row))
        self._oddities.append(problem)

    def _find_root(self, row: int) -> int:
        # Path halving (Tarjan and van Leeuwen 1984): nearly constant, where walking up would make a long session
        # quadratic in its length.
        top = self._top
        while top[row] != row:
            top[row] = row = top[top[row]]
        return row

    @property
    def marks(self) -> Marks:
        """The labels, title, retracted and amended nodes that follow from notes and edits."""
        new = [self.skeletons[row] for row in self.skeletons.rows(is_mark, self._marked)]
        self._marked = len(self.skeletons)
        for skeleton in new:
            self._marks.add(skeleton)
        return self._marks

    @property
    def annotations(self) -> Annotations:
        """All notes, and the marks that follow from notes and edits."""
        new = [self.skeletons[row] for row in self.skeletons.rows(_is_told, self._annotated)]
        self._annotated = len(self.skeletons)
        for skeleton in new:
            self._annotations.add(skeleton)
        return self._annotations

    # queries

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Skeleton]:
        """Yield all nodes in the order of their positions."""
        return iter(self.skeletons.take(self.rows))

    def __contains__(self, node: object) -> bool:
        self._take_in()
        return self._nodes.get(node) is not None

    @property
    def rows(self) -> Sequence[int]:
        """The rows of all nodes, in order."""
        self._take_in()
        return self._nodes.rows

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all nodes, in order."""
        self._take_in()
        return self._nodes.ids

    @property
    def chosen(self) -> bytes:
        """For each row of `skeletons`, whether it is in `rows`: 1 or 0."""
        self._take_in()
        return bytes(self._is_node)

    def node(self, node: str) -> Skeleton:
        """Return the skeleton of `node`.

        Raises:
            NotFoundError: There is no such node. All methods that take a node raise this.
        """
        return self.skeletons[self.row(node)]

    def row(self, node: str) -> int:
        """Return the row of `node`."""
        self._take_in()
        row = self._nodes.get(node)
        if row is None:
            raise NotFoundError(f"no such node. node={node!r}", kind=Kind.NODE)
        return row

    def view(self, node: str, payload: object | None = None) -> Node:
        """Return `node` as callers see it, with its label and edits; `payload` is used unchanged."""
        marks = self.marks
        return node_of(
            self.node(node),
            payload,
            label=marks.labels.get(node),
            retracted=node in marks.retracted,
            amended=node in marks.amended,
        )

    def path(self, node: str | None) -> list[Skeleton]:
        """Return the nodes from a root down to `node`, retracted ones too; None is the place before the first node."""
        return self.skeletons.take(self.path_rows(node))

    def path_rows(self, node: str | None) -> list[int]:
        """Return the rows of `path`."""
        rows: list[int] = []
        if node is not None:
            parents, row, below = self._parent, self.row(node), NO_ROW
            while row != below:  # as `walk_up`, in half the time
                rows.append(row)
                row, below = parents[row], row
        rows.reverse()
        return rows

    def between(self, first: str, last: str) -> list[Skeleton]:
        """Return the nodes recorded from `first` up to `last`, of all branches, without `last`.

        Empty if either is missing.
        """
        self._take_in()
        end = self._nodes.get(last)
        return self._between(first, end or 0)

    def since(self, first: str) -> list[Skeleton]:
        """Return the nodes recorded from `first` on, of all branches; empty if it is missing."""
        self._take_in()
        return self._between(first, len(self.skeletons))

    def _between(self, first: str, end: int) -> list[Skeleton]:
        start, rows = self._nodes.get(first), self._nodes.rows
        if start is None:
            return []
        return self.skeletons.take(rows[bisect_left(rows, start) : bisect_left(rows, end)])

    def parent_rows(self, rows: Iterable[int]) -> list[int]:
        """Return the row of the parent of each of some nodes; for a root, its own row."""
        self._take_in()
        return [*map(self._parent.__getitem__, rows)]

    def walk_up(self, row: int) -> Iterator[int]:
        """Yield the row of a node, and the rows of its ancestors up to a root."""
        parents = self._parent
        yield row
        while (above := parents[row]) != row:
            row = above
            yield row

    def last_on_path(self, node: str | None, matches: Callable[[Name], bool]) -> str | None:
        """Return the deepest node on the path of `node` whose type, kind, role, head and criticality match, or None."""
        if node is None:
            return None
        wanted, codes = [matches(name) for name in self.skeletons.names], self.skeletons.codes
        found = next((row for row in self.walk_up(self.row(node)) if wanted[codes[row]]), None)
        return None if found is None else self.skeletons.ids[found]

    def depth(self, node: str) -> int:
        """Return the number of ancestors of `node`."""
        return sum(1 for _ in self.walk_up(self.row(node))) - 1

    @property
    def branches(self) -> Branches:
        """The children of each node."""
        rows = self.rows
        self._branches.extend(rows, self._parent)
        return self._branches

    def children(self, node: str | None) -> list[str]:
        """Return the children of `node` in the order of their positions; those of None are the roots."""
        return [self.skeletons.ids[row] for row in self._child_rows(NO_ROW if node is None else self.row(node))]

    def rows_below(self, node: str) -> list[int]:
        """Return the rows of a node and of all its descendants, in order.

        Raises:
            NotFoundError: There is no such node.
        """
        found = [self.row(node)]
        for row in found:  # the list grows in the loop
            found += self._child_rows(row)
        return sorted(found)

    def _child_rows(self, row: int) -> Sequence[int]:
        return self.branches.roots if row == NO_ROW else self.branches.children(row)

    @property
    def roots(self) -> list[str]:
        """Nodes without a parent, and nodes whose parent does not exist or would close a cycle."""
        return self.children(None)

    def leaves(self) -> list[str]:
        """Return the nodes without children, in the order of their positions."""
        first, ids = self.branches.first, self.skeletons.ids
        return [ids[row] for row in self.rows if first[row] == NO_ROW]

    def siblings(self, node: str) -> tuple[list[str], int]:
        """Return the children of the parent of `node`, including itself, and its index among them (from 0)."""
        row = self.row(node)
        rows = self._sibling_rows(row)
        return [self.skeletons.ids[each] for each in rows], rows.index(row)

    def newest_leaf(self, node: str) -> str:
        """Return the leaf below `node` that is reached through the child recorded last at each step.

        A retracted child is skipped if it has siblings that are not retracted. A node without children is its own leaf.
        """
        row = self.row(node)
        while children := self._child_rows(row):
            row = children[-1] if len(children) == 1 else self._newest_shown(children)
        return self.skeletons.ids[row]

    def _newest_shown(self, rows: Sequence[int]) -> int:
        hidden = self.marks.retracted
        return next((row for row in reversed(rows) if self.skeletons.ids[row] not in hidden), rows[-1])

    def _sibling_rows(self, row: int) -> Sequence[int]:
        parent = self._parent[row]
        return self._child_rows(NO_ROW if parent == row else parent)

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
        start = None if node is None else self.row(node)
        if before is not None:
            last = self.row(before)
            start = self._parent[last] if self._parent[last] != last else None
        hidden = frozenset() if retracted else self.marks.retracted
        rows: list[PageRow] = []
        for row in () if start is None else self.walk_up(start):
            if self.skeletons.ids[row] in hidden:
                continue
            if len(rows) == limit:
                return Page(tuple(rows), rows[-1].node.id)
            rows.append(self._page_row(row, hidden))
        return Page(tuple(rows), None)

    def _page_row(self, row: int, hidden: Collection[str]) -> PageRow:
        ids = self.skeletons.ids
        siblings = tuple([ids[each] for each in self._sibling_rows(row) if ids[each] not in hidden])
        return PageRow(self.skeletons[row], siblings, siblings.index(ids[row]))

    def problems(self) -> list[GraphProblem]:
        """Return all problems, in the order of positions."""
        self._take_in()
        found = [
            GraphProblem(kind=Kind.ORPHAN, node=self.skeletons.ids[row], at=self.skeletons.at(row))
            for rows in self._awaited.values()
            for row in rows
        ]
        return sorted([*self._oddities, *found], key=lambda problem: problem.at)


class RowsById:
    """Rows by id; of several rows with one id the first.

    Ids that one writer makes ascend. So they are unique, and are found by bisection in their list, without a
    dictionary. The dictionary is made when an id comes that does not ascend.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        """The unique ids, in the order in which they came."""
        self.rows: list[int] = []
        """The row of each of these ids."""
        self._row_of: dict[str, int] | None = None

    def extend(self, ids: list[str], rows: list[int]) -> list[int]:
        """Add ids and their rows; return the rows whose ids were known before."""
        if self._row_of is None:
            if not ids or (self.ids[-1:] < ids[:1] and all(map(lt, ids, islice(ids, 1, None)))):
                self.ids += ids
                self.rows += rows
                return []
            self._row_of = dict(zip(self.ids, self.rows, strict=True))
        doubles: list[int] = []
        for name, row in zip(ids, rows, strict=True):
            if self._row_of.setdefault(name, row) != row:
                doubles.append(row)
            else:
                self.ids.append(name)
                self.rows.append(row)
        return doubles

    def get(self, name: object) -> int | None:
        """Return the row with an id; None if there is none, or if `name` is no text."""
        if not isinstance(name, str):
            return None
        if self._row_of is not None:
            return self._row_of.get(name)
        place = bisect_left(self.ids, name)
        return self.rows[place] if place < len(self.ids) and self.ids[place] == name else None


def _is_node(name: Name) -> bool:
    return name[0] == "node"


def _is_told(name: Name) -> bool:
    return name[0] in ("note", "edit")
