"""Answers to questions about a session from the rows that they are about, see `treering.session.lookup`."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence

from treering.checkpoint.checkpoint import CheckpointInfo, chain_of, entry_of
from treering.errors import NotFoundError
from treering.format.record import Skeleton, read_brief
from treering.format.references import (
    AMEND,
    CHECKPOINT,
    CHILD,
    EDIT,
    HAS_CHECKPOINT,
    HAS_COMPACTION,
    HAS_CONTEXT_EDIT,
    HAS_EDIT,
    HAS_INLINE,
    HAS_LABEL,
    HAS_NOTE,
    HAS_PRUNE,
    LABEL,
    PRUNE,
    RETRACT,
)
from treering.journal.read import PARALLEL_GETS_MAX
from treering.journal.rows import OddError, Rows
from treering.journal.tail_rows import Referrer
from treering.kinds import Kind
from treering.session.lookup import Shown, belongs, holds, require_limit, with_label
from treering.session.nearest import Nearest
from treering.storage.requests import Steps
from treering.transcript.annotations import Annotations, text_of
from treering.transcript.graph import Page, PageRow
from treering.transcript.heads import Heads

CLIMB_FIRST = 4
CLIMB_MAX = 1024
"""How many nodes to read together, at first and at most, when it is not known how far up the search ends."""
_PLAIN = Shown()
_TELLING = frozenset({LABEL, AMEND, RETRACT})
_EDITS = frozenset({AMEND, RETRACT, PRUNE, EDIT})


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
        """The first record of one type with each of these ids; ids without such a record are left out."""
        # A caller may pass None, the place before the first node, which no record has for its id.
        wanted = [name for name in names if name is not None]
        if not wanted:
            return {}
        places = yield from self._rows.find(wanted)
        rows = yield from self._rows.rows_at(at for each in places.values() for at in each)
        found: dict[str, Skeleton] = {}
        for name, each in places.items():
            if (row := next((rows[at] for at in each if rows[at].type == of_type), None)) is not None:
                found[name] = row
        return found

    def records(self, names: Collection[str]) -> Steps[dict[str, Skeleton]]:
        found: dict[str, Skeleton] = {}
        for of_type in ("edit", "note", "node"):
            found |= yield from self._named(names, of_type)
        return {name: row for name, row in found.items() if name and (row.type, row.kind) != ("edit", "prune")}

    def context_edits(self) -> Steps[list[Skeleton]]:
        return (yield from self._rows.matching(HAS_CONTEXT_EDIT, _is_context_edit))

    def holders(self, names: Collection[str], *, state: bool) -> Steps[list[int]]:
        rows = [row for row in (yield from self.records(names)).values() if row.type != "edit"]
        found = {row.at for row in rows}
        for referrers in (yield from self._rows.referrers(rows)):
            found |= {each.at for each in referrers if each.code in _EDITS}
        if names or state:
            mask = HAS_CHECKPOINT if state else HAS_INLINE  # rule: every-copy
            found |= {row.at for row in (yield from self._rows.matching(mask, _is_checkpoint))}
        return sorted(found)

    def path(self, node: str | None, *, limit: int | None = None) -> Steps[list[Skeleton]]:
        wanted = require_limit(limit, self._rows.view.end)
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
            found.extend(row.at for row in rows[bool(found) :])  # the first row was the last one of the previous climb
            at = rows[-1].at if len(rows) == CLIMB_MAX else None
        found.reverse()
        return found

    def belonging(self, places: Sequence[int]) -> Steps[list[int]]:
        rows = yield from self._rows.matching(HAS_LABEL | HAS_NOTE | HAS_EDIT, belongs)
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
        place: int | None = (yield from self.node(node)).at
        last, ahead = node, 1
        while place is not None:
            end, goes_on = yield from self._rows.descend(place, ahead)
            ahead = min(2 * ahead, PARALLEL_GETS_MAX) if goes_on else 1
            row = (yield from self._rows.rows_at([end]))[end]
            last, place = row.id, (yield from self._newest_child(row))
        return last

    def _newest_child(self, row: Skeleton) -> Steps[int | None]:
        """The position of the child to follow."""
        [referrers] = yield from self._rows.referrers([row])
        places = [each.at for each in referrers if each.code == CHILD]
        for at in reversed(places) if len(places) > 1 else ():
            child = (yield from self._rows.rows_at([at]))[at]
            if not (yield from self.shown([child]))[0].retracted:
                return at
        return places[-1] if places else None

    # pages

    def page(
        self, node: str | None, *, before: str | None, limit: int, retracted: bool
    ) -> Steps[tuple[Page, list[Shown]]]:
        require_limit(limit, limit)
        place = yield from self._first_of_page(node, before)
        chosen: list[tuple[Skeleton, Skeleton | None, Shown]] = []
        """Rows to show, each with its parent."""
        while place is not None and len(chosen) <= limit:
            rows = yield from self._rows.climb(place, limit + 2)
            parents: list[Skeleton | None] = [*rows[1:]]
            place = rows[-1].at if len(rows) == limit + 2 else None
            if place is None:
                parents.append(None)  # the last row is a root; else it is only the parent of the row before
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
        [row] = yield from self._kept([checkpoint])
        return entry_of(row)

    def labelled(self, checkpoints: Sequence[str]) -> Steps[list[CheckpointInfo]]:
        rows = yield from self._kept(checkpoints)
        marks = yield from self.shown(rows)
        return [with_label(entry_of(row), mark.label) for row, mark in zip(rows, marks, strict=True)]

    def _kept(self, checkpoints: Sequence[str]) -> Steps[list[Skeleton]]:
        """The records of checkpoints that were not pruned."""
        found = yield from self._named(checkpoints, "checkpoint")
        pruned = yield from self._pruned(list(found.values()))
        for name in checkpoints:
            if name not in found or name in pruned:
                raise _no_checkpoint(name, "was pruned" if name in found else "does not exist")
        return [found[name] for name in checkpoints]

    def all_checkpoints(self, checkpoints: Iterable[str]) -> Steps[list[CheckpointInfo]]:
        names = list(checkpoints)
        found = yield from self._named(names, "checkpoint")
        if missing := [name for name in names if name not in found]:
            raise _no_checkpoint(missing[0], "does not exist")
        return [entry_of(found[name]) for name in names]

    def chains(self, checkpoints: Sequence[str]) -> Steps[list[list[CheckpointInfo]]]:
        new = [entry_of(row) for row in (yield from self._kept(checkpoints))]
        entries = {entry.id: entry for entry in new}
        while new:  # all of them one step up, so that chains that meet are followed once
            above = {entry.parent for entry in new if not entry.full and entry.parent is not None}
            new = yield from self.all_checkpoints(sorted(above - entries.keys()))
            entries |= {entry.id: entry for entry in new}
        return [[entries[step] for step in chain_of(name, entries)] for name in checkpoints]

    def is_checkpoint(self, checkpoint: str) -> Steps[bool]:
        return bool((yield from self._named([checkpoint], "checkpoint")))

    def is_pruned(self, checkpoint: str) -> Steps[bool]:
        found = yield from self._named([checkpoint], "checkpoint")
        return bool((yield from self._pruned(list(found.values()))))

    def checkpoints(self, *, before: str | None = None, limit: int | None = None) -> Steps[list[CheckpointInfo]]:
        below = None if before is None else (yield from self.all_checkpoints([before]))[0].at
        wanted = require_limit(limit, self._rows.view.end)
        kept: list[Skeleton] = []
        while len(kept) < wanted:
            rows = yield from self._rows.matching(HAS_CHECKPOINT, _is_checkpoint, below=below, limit=wanted - len(kept))
            if not rows:
                break
            pruned = yield from self._pruned(rows)
            kept = [*(row for row in rows if row.id not in pruned), *kept]
            below = rows[0].at
        shown = yield from self.shown(kept)
        return [with_label(entry_of(row), mark.label) for row, mark in zip(kept, shown, strict=True)]

    def labels(self) -> Steps[dict[str, str]]:
        notes = Annotations()
        for row in (yield from self.notes("label")):
            notes.add(row)
        return notes.labels

    def notes(self, kind: str | None) -> Steps[list[Skeleton]]:
        mask = HAS_LABEL if kind == "label" else HAS_NOTE if kind is not None else HAS_LABEL | HAS_NOTE
        return (yield from self._rows.matching(mask, lambda row: row.type == "note" and kind in (None, row.kind)))

    def _pruned(self, rows: Sequence[Skeleton]) -> Steps[dict[str, int]]:
        """The positions at which pruned checkpoints among these were pruned, by id."""
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


def _is_context_edit(row: Skeleton) -> bool:
    return (row.type, row.kind) == ("node", "context_edit")


def _is_checkpoint(row: Skeleton) -> bool:
    return row.type == "checkpoint"


def _no_node(node: str) -> NotFoundError:
    return NotFoundError(f"no such node. node={node!r}", kind=Kind.NODE)


def _no_checkpoint(checkpoint: str, what: str) -> NotFoundError:
    return NotFoundError(f"checkpoint {what}. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)


def _shown(told: Iterable[Referrer], rows: Mapping[int, Skeleton], before: int | None) -> Shown:
    """Fold the labels and edits of a node, in order; see `treering.transcript.annotations`."""
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
