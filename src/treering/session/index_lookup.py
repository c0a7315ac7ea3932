"""Answers to questions about a session from its whole index, see `treering.session.lookup`."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence

from treering.checkpoint.checkpoint import CheckpointInfo, chain_of
from treering.format.record import Skeleton
from treering.session.index import Index
from treering.session.lookup import Shown, belongs, holds, require_limit, with_label
from treering.storage.requests import Steps
from treering.transcript.graph import Page
from treering.transcript.heads import Heads


class IndexLookup:
    """Answers from the index of the whole session."""

    ordinary = False

    def __init__(self, index: Index, heads: Heads) -> None:
        self._index = index
        self._heads = None if heads.placed is None else heads
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

    def records(self, names: Collection[str]) -> Steps[dict[str, Skeleton]]:
        yield from ()
        if set(names).isdisjoint(self._graph.skeletons.ids):  # the usual case of a newly chosen id
            return {}
        found = {row.id: row for row in (*self._index.edits, *self._graph.annotations.notes()) if row.id in names}
        found |= {name: self._graph.node(name) for name in names if name in self._graph}
        return {name: row for name, row in found.items() if name}

    def context_edits(self) -> Steps[list[Skeleton]]:
        yield from ()
        skeletons = self._graph.skeletons
        return skeletons.take(skeletons.rows(lambda name: name[:2] == ("node", "context_edit")))

    def holders(self, names: Collection[str], *, state: bool) -> Steps[list[int]]:
        yield from ()
        skeletons = self._graph.skeletons
        found = [row for row in skeletons.rows(lambda name: name[0] in ("node", "note")) if skeletons.ids[row] in names]
        edits = skeletons.rows(lambda name: name[0] == "edit")
        found += [row for row, target in zip(edits, skeletons.targets(edits), strict=True) if target in names]
        found += skeletons.rows(lambda name: name[0] == "checkpoint") if names or state else []
        return skeletons.places(sorted(found))

    def path(self, node: str | None, *, limit: int | None = None) -> Steps[list[Skeleton]]:
        yield from ()
        wanted = require_limit(limit, self._index.end)
        return self._graph.skeletons.take(self._graph.path_rows(node)[-wanted:])

    def places(self, node: str | None) -> Steps[array[int]]:
        yield from ()
        return array("q", self._graph.skeletons.places(sorted(self._graph.path_rows(node))))

    def belonging(self, places: Sequence[int]) -> Steps[list[int]]:
        yield from ()
        graph = self._graph
        known = zip(graph.ids, graph.skeletons.places(graph.rows), strict=True)
        there = {name for name, at in known if holds(places, at)}
        rows = [*filter(belongs, graph.annotations.notes()), *self._index.edits]
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

    def chains(self, checkpoints: Sequence[str]) -> Steps[list[list[CheckpointInfo]]]:
        yield from ()
        every = self._index.all_checkpoints
        for name in checkpoints:
            self._index.checkpoint(name)
        return [[every[step] for step in chain_of(name, every)] for name in checkpoints]

    def labelled(self, checkpoints: Sequence[str]) -> Steps[list[CheckpointInfo]]:
        yield from ()
        labels = self._graph.marks.labels
        return [with_label(self._index.checkpoint(name), labels.get(name)) for name in checkpoints]

    def is_checkpoint(self, checkpoint: str) -> Steps[bool]:
        yield from ()
        return checkpoint in self._index.all_checkpoints

    def is_pruned(self, checkpoint: str) -> Steps[bool]:
        yield from ()
        return checkpoint in self._index.pruned

    def checkpoints(self, *, before: str | None = None, limit: int | None = None) -> Steps[list[CheckpointInfo]]:
        yield from ()
        end = self._index.end if before is None else self._index.any_checkpoint(before).at
        found = self._index.checkpoints.below(end, require_limit(limit, self._index.end) or None)
        labels = self._graph.marks.labels
        return [with_label(entry, labels.get(entry.id)) for entry in found]

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
        path = self._graph.path_rows(node)
        found, depth = self._index.nearest_checkpoint(path, head=head, before=before, heads=self._heads)
        below = self._graph.skeletons.take(path[depth:])
        return None if found is None else self._index.checkpoint(found), below

    def since_checkpoint(self, checkpoint: str | None, node: str | None) -> Steps[list[Skeleton]]:
        yield from ()
        path = self._graph.path_rows(node)
        return self._graph.skeletons.take(path[self._index.depth_of(checkpoint, path) :])
