"""Questions about single nodes and checkpoints: pages, branches, the state at an old turn.

There are two ways to answer them, with the same results. `RowLookup` reads the rows that a question is about, however
long the session. `IndexLookup` asks the whole index; it is used where that is in memory anyway, and where the records
are not those of an ordinary session: ids that occur twice, children recorded before their parents.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from treering.checkpoint.checkpoint import CheckpointInfo, chain_of, entry_of
from treering.errors import NotFoundError, UsageError
from treering.format.record import Skeleton, read_brief
from treering.format.references import (
    AMEND,
    CHECKPOINT,
    CHILD,
    HAS_CHECKPOINT,
    HAS_COMPACTION,
    HAS_EDIT,
    HAS_LABEL,
    HAS_NOTE,
    HAS_PRUNE,
    LABEL,
    PRUNE,
    RETRACT,
)
from treering.journal.rows import OddError, Referrer, Rows
from treering.kinds import Kind
from treering.session.index import Index
from treering.session.nearest import Nearest
from treering.storage.requests import Steps
from treering.transcript.annotations import Annotations, text_of
from treering.transcript.graph import Page, PageRow
from treering.transcript.heads import Heads

CLIMB_FIRST = 16
CLIMB_MAX = 1024
"""How many nodes to look at together, at first and at most, where it is not known how far up something is."""


class Shown(msgspec.Struct, frozen=True):
    """What notes and edits say of a node or a checkpoint."""

    label: str | None = None
    retracted: bool = False
    amended: int | None = None
    """Position of the edit that holds its new payload."""


class Lookup(Protocol):
    """The questions. Nodes and checkpoints are named by their ids; all raise `NotFoundError` for an unknown one."""

    ordinary: bool
    """Whether it is known, with the answers, that each id occurs once and each node is recorded behind its parent."""

    def node(self, node: str) -> Steps[Skeleton]:
        """A node."""
        ...

    def nodes(self, nodes: Iterable[str]) -> Steps[dict[str, Skeleton]]:
        """Nodes by id; those that do not exist are left out."""
        ...

    def all_nodes(self, nodes: Sequence[str]) -> Steps[list[Skeleton]]:
        """Nodes in the order asked for."""
        ...

    def path(self, node: str | None, *, limit: int | None = None) -> Steps[list[Skeleton]]:
        """The last `limit` nodes of the path from a root down to `node`, or all of them.

        Raises:
            UsageError: `limit` is less than 1.
        """
        ...

    def places(self, node: str | None) -> Steps[array[int]]:
        """The positions of the nodes on the path to a node, in their order; none for None."""
        ...

    def belonging(self, places: Sequence[int]) -> Steps[list[int]]:
        """The positions of notes and edits about the nodes at `places`, which are in order, and about the session.

        Without links and usage.
        """
        ...

    def children(self, node: str | None) -> Steps[list[str]]:
        """The children of a node, oldest first; those of None are the roots."""
        ...

    def siblings(self, node: str) -> Steps[tuple[list[str], int]]:
        """The children of the parent of a node, itself among them, and its index there."""
        ...

    def newest_leaf(self, node: str) -> Steps[str]:
        """The leaf that the newest children lead to, from a node downward; see `Graph.newest_leaf`."""
        ...

    def page(
        self, node: str | None, *, before: str | None, limit: int, retracted: bool
    ) -> Steps[tuple[Page, list[Shown]]]:
        """A page, see `Graph.page`, and what notes and edits say of its nodes."""
        ...

    def shown(self, rows: Sequence[Skeleton], *, before: int | None = None) -> Steps[list[Shown]]:
        """What notes and edits say of each row; those that retract at position `before` or later do not count."""
        ...

    def edits(self, nodes: Sequence[str], *, before: int | None = None) -> Steps[dict[str, Shown]]:
        """What edits say of nodes, by node; those that nothing was edited about may be left out."""
        ...

    def last_compaction(self, node: str | None) -> Steps[str | None]:
        """The newest compaction on the path of a node."""
        ...

    def checkpoint(self, checkpoint: str) -> Steps[CheckpointInfo]:
        """A checkpoint that was not pruned."""
        ...

    def all_checkpoints(self, checkpoints: Iterable[str]) -> Steps[list[CheckpointInfo]]:
        """Checkpoints in the order asked for, also pruned ones: kept ones may be deltas over them."""
        ...

    def chain(self, checkpoint: str) -> Steps[list[CheckpointInfo]]:
        """The records that a checkpoint that was not pruned is resolved from; see `chain_of`."""
        ...

    def labelled(self, checkpoint: str) -> Steps[CheckpointInfo]:
        """A checkpoint that was not pruned, with the label that it was given last."""
        ...

    def is_checkpoint(self, checkpoint: str) -> Steps[bool]:
        """Whether there is such a checkpoint, pruned or not."""
        ...

    def is_pruned(self, checkpoint: str) -> Steps[bool]:
        """Whether a checkpoint was pruned; false if it does not exist."""
        ...

    def checkpoints(self, *, before: str | None = None, limit: int | None = None) -> Steps[list[CheckpointInfo]]:
        """Checkpoints that were not pruned, with their last labels, oldest first: the newest `limit`, or all.

        Args:
            before: Only those made before this checkpoint.
            limit: How many at most.
        """
        ...

    def labels(self) -> Steps[dict[str, str]]:
        """Label by node or checkpoint, in the order in which they were given."""
        ...

    def notes(self, kind: str | None) -> Steps[list[Skeleton]]:
        """Notes of one kind, or of all, oldest first."""
        ...

    def nearest_checkpoint(
        self, node: str | None, *, head: str | None = None, before: int | None = None
    ) -> Steps[tuple[CheckpointInfo | None, list[Skeleton]]]:
        """The checkpoint that holds the state at a node, and the nodes of the path below its node.

        See `treering.session.nearest`. Without a checkpoint it is the whole path.
        """
        ...

    def since_checkpoint(self, checkpoint: str | None, node: str | None) -> Steps[list[Skeleton]]:
        """The nodes of the path below the node that a checkpoint was made at; None: the whole path.

        Raises:
            NotFoundError: There is no such checkpoint, it was pruned, or it was made elsewhere.
        """
        ...


class IndexLookup:
    """Answers from the index of the whole session."""

    ordinary = False

    def __init__(self, index: Index) -> None:
        self._index = index
        self._graph = index.graph

    def node(self, node: str) -> Steps[Skeleton]:
        yield from ()
        return self._graph.node(node)

    def nodes(self, nodes: Iterable[str]) -> Steps[dict[str, Skeleton]]:
        yield from ()
        return {node: self._graph.node(node) for node in nodes if node in self._graph}

    def all_nodes(self, nodes: Sequence[str]) -> Steps[list[Skeleton]]:
        yield from ()
        return [self._graph.node(node) for node in nodes]

    def path(self, node: str | None, *, limit: int | None = None) -> Steps[list[Skeleton]]:
        yield from ()
        wanted = _require_limit(limit, self._index.end)
        return self._graph.skeletons.take(self._graph.path_rows(node)[-wanted:])

    def places(self, node: str | None) -> Steps[array[int]]:
        yield from ()
        return array("q", self._graph.skeletons.places(sorted(self._graph.path_rows(node))))

    def belonging(self, places: Sequence[int]) -> Steps[list[int]]:
        yield from ()
        graph = self._graph
        known = zip(graph.ids, graph.skeletons.places(graph.rows), strict=True)
        there = {name for name, at in known if holds(places, at)}
        rows = [*filter(_belongs, graph.annotations.notes()), *self._index.edits]
        return sorted(row.at for row in rows if row.target is None or row.target in there)

    def children(self, node: str | None) -> Steps[list[str]]:
        yield from ()
        return self._graph.children(node)

    def siblings(self, node: str) -> Steps[tuple[list[str], int]]:
        yield from ()
        return self._graph.siblings(node)

    def newest_leaf(self, node: str) -> Steps[str]:
        yield from ()
        return self._graph.newest_leaf(node)

    def page(
        self, node: str | None, *, before: str | None, limit: int, retracted: bool
    ) -> Steps[tuple[Page, list[Shown]]]:
        page = self._graph.page(node, before=before, limit=limit, retracted=retracted)
        return page, (yield from self.shown([row.node for row in page.rows]))

    def shown(self, rows: Sequence[Skeleton], *, before: int | None = None) -> Steps[list[Shown]]:
        yield from ()
        marks = self._graph.marks
        hidden = marks.retracted if before is None else self._index.retracted_before(before)
        return [Shown(marks.labels.get(row.id), row.id in hidden, marks.amended.get(row.id)) for row in rows]

    def edits(self, nodes: Sequence[str], *, before: int | None = None) -> Steps[dict[str, Shown]]:
        rows = [self._graph.node(node) for node in nodes if node in self._graph]
        return {row.id: mark for row, mark in zip(rows, (yield from self.shown(rows, before=before)), strict=True)}

    def last_compaction(self, node: str | None) -> Steps[str | None]:
        yield from ()
        return self._graph.last_on_path(node, lambda name: name[1] == "compaction")

    def checkpoint(self, checkpoint: str) -> Steps[CheckpointInfo]:
        yield from ()
        return self._index.checkpoint(checkpoint)

    def all_checkpoints(self, checkpoints: Iterable[str]) -> Steps[list[CheckpointInfo]]:
        yield from ()
        return [self._index.any_checkpoint(name) for name in checkpoints]

    def chain(self, checkpoint: str) -> Steps[list[CheckpointInfo]]:
        self._index.checkpoint(checkpoint)
        names = chain_of(checkpoint, self._index.all_checkpoints)
        return (yield from self.all_checkpoints(names))

    def labelled(self, checkpoint: str) -> Steps[CheckpointInfo]:
        yield from ()
        label = self._graph.marks.labels.get(checkpoint)
        return _with_label(self._index.checkpoint(checkpoint), label)

    def is_checkpoint(self, checkpoint: str) -> Steps[bool]:
        yield from ()
        return checkpoint in self._index.all_checkpoints

    def is_pruned(self, checkpoint: str) -> Steps[bool]:
        yield from ()
        return checkpoint in self._index.pruned

    def checkpoints(self, *, before: str | None = None, limit: int | None = None) -> Steps[list[CheckpointInfo]]:
        yield from ()
        end = self._index.end if before is None else self._index.any_checkpoint(before).at
        found = [entry for entry in self._index.checkpoints.values() if entry.at < end]
        labels = self._graph.marks.labels
        return [
            _with_label(entry, labels.get(entry.id))
            for entry in found[len(found) - _require_limit(limit, len(found)) :]
        ]

    def labels(self) -> Steps[dict[str, str]]:
        yield from ()
        return dict(self._graph.marks.labels)

    def notes(self, kind: str | None) -> Steps[list[Skeleton]]:
        yield from ()
        return self._graph.annotations.notes(kind)

    def nearest_checkpoint(
        self, node: str | None, *, head: str | None = None, before: int | None = None
    ) -> Steps[tuple[CheckpointInfo | None, list[Skeleton]]]:
        yield from ()
        path = self._graph.path(node)
        found, depth = self._index.nearest_checkpoint(path, head=head, before=before)
        return None if found is None else self._index.checkpoint(found), path[depth:]

    def since_checkpoint(self, checkpoint: str | None, node: str | None) -> Steps[list[Skeleton]]:
        yield from ()
        path = self._graph.path(node)
        return path[self._index.depth_of(checkpoint, path) :]


class RowLookup:
    """Answers from the rows that a question is about.

    Every method raises `OddError` where only the whole index gives the right answer.
    """

    ordinary = True

    def __init__(self, rows: Rows, heads: Heads) -> None:
        self._rows = rows
        self._heads = heads

    # nodes

    def node(self, node: str) -> Steps[Skeleton]:
        [found] = yield from self.all_nodes([node])
        return found

    def nodes(self, nodes: Iterable[str]) -> Steps[dict[str, Skeleton]]:
        return (yield from self._named(nodes, "node"))

    def all_nodes(self, nodes: Sequence[str]) -> Steps[list[Skeleton]]:
        found = yield from self.nodes(nodes)
        if missing := [node for node in nodes if node not in found]:
            raise _no_node(missing[0])
        return [found[node] for node in nodes]

    def _named(self, names: Iterable[str | None], of_type: str) -> Steps[dict[str, Skeleton]]:
        """The first record of one type with each of these ids; those that do not exist are left out."""
        # A caller may pass on that a session stands before its first node; nothing has that for its id.
        places = yield from self._rows.find([name for name in names if name is not None])
        rows = yield from self._rows.rows_at(at for each in places.values() for at in each)
        found: dict[str, Skeleton] = {}
        for name, each in places.items():
            if (row := next((rows[at] for at in each if rows[at].type == of_type), None)) is not None:
                found[name] = row
        return found

    def path(self, node: str | None, *, limit: int | None = None) -> Steps[list[Skeleton]]:
        wanted = _require_limit(limit, self._rows.view.end)
        if node is None:
            return []
        row = yield from self.node(node)
        found = yield from self._rows.climb(row.at, wanted)
        return found[::-1]

    def places(self, node: str | None) -> Steps[array[int]]:
        found = array("q")
        if node is None:
            return found
        at: int | None = (yield from self.node(node)).at
        while at is not None:
            rows = yield from self._rows.climb(at, CLIMB_MAX)
            found.extend(row.at for row in rows[bool(found) :])  # the first one was the last before
            at = rows[-1].at if len(rows) == CLIMB_MAX else None
        found.reverse()
        return found

    def belonging(self, places: Sequence[int]) -> Steps[list[int]]:
        rows = yield from self._rows.matching(HAS_LABEL | HAS_NOTE | HAS_EDIT, _belongs)
        there = yield from self._rows.find({row.target for row in rows if row.target is not None})
        return [
            row.at for row in rows if row.target is None or any(holds(places, at) for at in there.get(row.target, ()))
        ]

    # branches

    def children(self, node: str | None) -> Steps[list[str]]:
        if node is None:
            return [row.id for row in (yield from self._rows.roots())]
        [found] = yield from self._referring([(yield from self.node(node))], CHILD)
        return [row.id for row in found]

    def _referring(self, rows: Sequence[Skeleton], code: int) -> Steps[list[list[Skeleton]]]:
        """For each row, the records that refer to it in one way."""
        referrers = yield from self._rows.referrers(rows)
        places = [[each.at for each in found if each.code == code] for found in referrers]
        there = yield from self._rows.rows_at(at for found in places for at in found)
        return [[there[at] for at in found] for found in places]

    def siblings(self, node: str) -> Steps[tuple[list[str], int]]:
        row = yield from self.node(node)
        above = yield from self._rows.climb(row.at, 2)
        children = yield from self.children(above[1].id if len(above) > 1 else None)
        return children, children.index(node)

    def newest_leaf(self, node: str) -> Steps[str]:
        row = yield from self.node(node)
        while True:
            end = yield from self._rows.descend(row.at)
            last = (yield from self._rows.rows_at([end]))[end]
            below = yield from self._newest_child(last)
            if below is None:
                return last.id
            row = below

    def _newest_child(self, row: Skeleton) -> Steps[Skeleton | None]:
        [referrers] = yield from self._rows.referrers([row])
        places = [each.at for each in referrers if each.code == CHILD]
        for at in reversed(places):
            child = (yield from self._rows.rows_at([at]))[at]
            if len(places) == 1 or not (yield from self.shown([child]))[0].retracted:
                return child
        return (yield from self._rows.rows_at(places[-1:]))[places[-1]] if places else None

    # pages

    def page(
        self, node: str | None, *, before: str | None, limit: int, retracted: bool
    ) -> Steps[tuple[Page, list[Shown]]]:
        _require_limit(limit, limit)
        place = yield from self._first_of_page(node, before)
        chosen: list[tuple[Skeleton, Skeleton | None, Shown]] = []
        """Rows that are shown, each with its parent."""
        while place is not None and len(chosen) <= limit:
            rows = yield from self._rows.climb(place, limit + 2)
            parents: list[Skeleton | None] = [*rows[1:]]
            place = rows[-1].at if len(rows) == limit + 2 else None
            if place is None:
                parents.append(None)  # the last one is a root; else it is only the parent of the one before
            shown = yield from self.shown(rows)
            chosen += [
                (row, parent, mark)
                for row, parent, mark in zip(rows, parents, shown, strict=False)
                if retracted or not mark.retracted
            ]
        pairs = [(row, parent) for row, parent, _ in chosen[:limit]]
        on_page = yield from self._page_rows(pairs, retracted=retracted)
        page = Page(tuple(on_page), on_page[-1].node.id if len(chosen) > limit else None)
        return page, [mark for *_, mark in chosen[:limit]]

    def _first_of_page(self, node: str | None, before: str | None) -> Steps[int | None]:
        start = None if node is None else (yield from self.node(node)).at
        if before is not None:
            above = yield from self._rows.climb((yield from self.node(before)).at, 2)
            start = above[1].at if len(above) > 1 else None
        return start

    def _page_rows(self, pairs: Sequence[tuple[Skeleton, Skeleton | None]], *, retracted: bool) -> Steps[list[PageRow]]:
        """Rows and their places among their siblings; retracted siblings do not count, unless they are shown."""
        parents = [parent for _, parent in pairs if parent is not None]
        referrers = yield from self._rows.referrers(parents)
        children: dict[str | None, list[int]] = {
            parent.id: [each.at for each in found if each.code == CHILD]
            for parent, found in zip(parents, referrers, strict=True)
        }
        if len(parents) < len(pairs):
            children[None] = [row.at for row in (yield from self._rows.roots())]
        beside = yield from self._rows.rows_at(at for found in children.values() if len(found) > 1 for at in found)
        names = {at: row.id for at, row in beside.items()} | {row.at: row.id for row, _ in pairs}
        if not retracted:
            shown = yield from self.shown(list(beside.values()))
            for at, mark in zip(beside, shown, strict=True):
                if mark.retracted:
                    del names[at]
        rows: list[PageRow] = []
        for row, parent in pairs:
            there = children[parent.id if parent is not None else None]
            siblings = tuple([names[at] for at in there if at in names])
            rows.append(PageRow(row, siblings, siblings.index(row.id)))
        return rows

    def shown(self, rows: Sequence[Skeleton], *, before: int | None = None) -> Steps[list[Shown]]:
        if not (yield from self._rows.occurs(HAS_LABEL | HAS_EDIT)):
            return [_PLAIN] * len(rows)
        referrers = yield from self._rows.referrers(rows)
        told = yield from self._rows.rows_at(each.at for found in referrers for each in found if each.code in _TELLING)
        return [_shown([each for each in found if each.code in _TELLING], told, before) for found in referrers]

    def edits(self, nodes: Sequence[str], *, before: int | None = None) -> Steps[dict[str, Shown]]:
        if not (yield from self._rows.occurs(HAS_EDIT)):
            return {}
        rows = list((yield from self.nodes(nodes)).values())
        return {row.id: mark for row, mark in zip(rows, (yield from self.shown(rows, before=before)), strict=True)}

    def last_compaction(self, node: str | None) -> Steps[str | None]:
        if node is None or not (yield from self._rows.occurs(HAS_COMPACTION)):
            return None
        place: int | None = (yield from self.node(node)).at
        limit = CLIMB_FIRST
        while place is not None:
            rows = yield from self._rows.climb(place, limit)
            if (found := next((row.id for row in rows if row.kind == "compaction"), None)) is not None:
                return found
            place, limit = rows[-1].at if len(rows) == limit else None, min(4 * limit, CLIMB_MAX)
        return None

    # checkpoints

    def checkpoint(self, checkpoint: str) -> Steps[CheckpointInfo]:
        return entry_of((yield from self._kept(checkpoint)))

    def labelled(self, checkpoint: str) -> Steps[CheckpointInfo]:
        row = yield from self._kept(checkpoint)
        [mark] = yield from self.shown([row])
        return _with_label(entry_of(row), mark.label)

    def _kept(self, checkpoint: str) -> Steps[Skeleton]:
        """The record of a checkpoint that was not pruned."""
        found = (yield from self._named([checkpoint], "checkpoint")).get(checkpoint)
        if found is None or (yield from self._pruned([found])):
            raise _no_checkpoint(checkpoint, "does not exist" if found is None else "was pruned")
        return found

    def all_checkpoints(self, checkpoints: Iterable[str]) -> Steps[list[CheckpointInfo]]:
        names = list(checkpoints)
        found = yield from self._named(names, "checkpoint")
        if missing := [name for name in names if name not in found]:
            raise _no_checkpoint(missing[0], "does not exist")
        return [entry_of(found[name]) for name in names]

    def chain(self, checkpoint: str) -> Steps[list[CheckpointInfo]]:
        entries = {checkpoint: (yield from self.checkpoint(checkpoint))}
        last = entries[checkpoint]
        while not last.full and last.parent is not None and last.parent not in entries:
            [last] = yield from self.all_checkpoints([last.parent])
            entries[last.id] = last
        return [entries[name] for name in chain_of(checkpoint, entries)]

    def is_checkpoint(self, checkpoint: str) -> Steps[bool]:
        return bool((yield from self._named([checkpoint], "checkpoint")))

    def is_pruned(self, checkpoint: str) -> Steps[bool]:
        found = yield from self._named([checkpoint], "checkpoint")
        return bool((yield from self._pruned(list(found.values()))))

    def checkpoints(self, *, before: str | None = None, limit: int | None = None) -> Steps[list[CheckpointInfo]]:
        below = None if before is None else (yield from self.all_checkpoints([before]))[0].at
        wanted = _require_limit(limit, self._rows.view.end)
        kept: list[Skeleton] = []
        while len(kept) < wanted:
            rows = yield from self._rows.matching(HAS_CHECKPOINT, _is_checkpoint, below=below, limit=wanted - len(kept))
            if not rows:
                break
            pruned = yield from self._pruned(rows)
            kept = [*(row for row in rows if row.id not in pruned), *kept]
            below = rows[0].at
        shown = yield from self.shown(kept)
        return [_with_label(entry_of(row), mark.label) for row, mark in zip(kept, shown, strict=True)]

    def labels(self) -> Steps[dict[str, str]]:
        notes = Annotations()
        for row in (yield from self.notes("label")):
            notes.add(row)
        return notes.labels

    def notes(self, kind: str | None) -> Steps[list[Skeleton]]:
        mask = HAS_LABEL if kind == "label" else HAS_NOTE if kind is not None else HAS_LABEL | HAS_NOTE
        return (yield from self._rows.matching(mask, lambda row: row.type == "note" and kind in (None, row.kind)))

    def _pruned(self, rows: Sequence[Skeleton]) -> Steps[dict[str, int]]:
        """Which of these checkpoints were pruned, and where."""
        if not rows or not (yield from self._rows.occurs(HAS_PRUNE)):
            return {}
        referrers = yield from self._rows.referrers(rows)
        marks = [
            (row.id, [each.at for each in found if each.code == PRUNE])
            for row, found in zip(rows, referrers, strict=True)
        ]
        return {name: min(places) for name, places in marks if places}

    def nearest_checkpoint(
        self, node: str | None, *, head: str | None = None, before: int | None = None
    ) -> Steps[tuple[CheckpointInfo | None, list[Skeleton]]]:
        if self._heads.placed is None:
            raise OddError
        row = None if node is None else (yield from self.node(node))
        nearest = Nearest(self._heads, head, row, before)
        path: list[Skeleton] = []
        limit, decided = CLIMB_FIRST, False
        place = None if row is None else row.at
        while place is not None and not decided:
            rows = yield from self._rows.climb(place, limit + 1)
            place = rows[limit].at if len(rows) > limit else None
            made = yield from self._referring(rows[:limit], CHECKPOINT)
            pruned = yield from self._pruned([each for there in made for each in there])
            decided = any(nearest.see(map(entry_of, there), pruned) for there in made)
            path += rows[:limit]
            limit = min(4 * limit, CLIMB_MAX)
        if not decided:
            first = yield from self._rows.first_checkpoints()
            nearest.see(map(entry_of, first), (yield from self._pruned(first)))
        found = nearest.found
        return (None, path[::-1]) if found is None else (found.entry, path[: found.below][::-1])

    def since_checkpoint(self, checkpoint: str | None, node: str | None) -> Steps[list[Skeleton]]:
        entry = None if checkpoint is None else (yield from self.checkpoint(checkpoint))
        if entry is None or entry.node is None:
            return (yield from self.path(node))
        below: list[Skeleton] = []
        place: int | None = None if node is None else (yield from self.node(node)).at
        limit = CLIMB_FIRST
        while place is not None:
            rows = yield from self._rows.climb(place, limit + 1)
            place = rows[limit].at if len(rows) > limit else None
            for row in rows[:limit]:
                if row.id == entry.node:
                    return below[::-1]
                below.append(row)
            limit = min(4 * limit, CLIMB_MAX)
        raise NotFoundError(f"checkpoint was made on another branch. checkpoint={checkpoint!r}", kind=Kind.BRANCH)


def _is_checkpoint(row: Skeleton) -> bool:
    return row.type == "checkpoint"


def _require_limit(limit: int | None, most: int) -> int:
    if limit is not None and limit < 1:
        raise UsageError(f"a page needs a limit of at least 1. limit={limit}")
    return most if limit is None else min(limit, most)


def _with_label(entry: CheckpointInfo, label: str | None) -> CheckpointInfo:
    return entry if label is None else msgspec.structs.replace(entry, label=label)


def _no_node(node: str) -> NotFoundError:
    return NotFoundError(f"no such node. node={node!r}", kind=Kind.NODE)


def _no_checkpoint(checkpoint: str, what: str) -> NotFoundError:
    return NotFoundError(f"checkpoint {what}. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)


def _belongs(row: Skeleton) -> bool:
    """Whether a record tells something of the node it is about, or of the session, that a copy of these has, too."""
    return row.type == "edit" or (row.type == "note" and row.kind not in ("link", "usage"))


def holds(places: Sequence[int], at: int) -> bool:
    """Whether a position is among sorted ones."""
    found = bisect_left(places, at)
    return found < len(places) and places[found] == at


_PLAIN = Shown()
_TELLING = frozenset({LABEL, AMEND, RETRACT})


def _shown(told: Iterable[Referrer], rows: Mapping[int, Skeleton], before: int | None) -> Shown:
    """Fold what tells of a node, in order; see `treering.transcript.annotations`."""
    label, retracted, amended = None, False, None
    for at, code in told:
        brief = read_brief(rows[at])
        if code == LABEL:
            label = text_of(brief, "label")
        elif code == RETRACT:
            if before is None or at < before:
                retracted = brief.get("undo") is not True
        else:
            amended = at if brief.get("undo") is not True and brief.get("erased") is not True else None
    return Shown(label, retracted, amended)
