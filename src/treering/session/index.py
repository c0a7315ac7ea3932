"""The index of a session: the graph, the checkpoints, and the position of each record; no payloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce

from treering.checkpoint.checkpoint import CheckpointInfo, entry_of
from treering.errors import NotFoundError
from treering.format.columns import Name
from treering.format.record import Skeleton, read_brief
from treering.format.skeletons import Skeletons
from treering.kinds import Kind
from treering.session.nearest import Nearest
from treering.transcript.graph import Graph
from treering.transcript.heads import MOVERS, Heads, heads_of


class Index:
    """Built from skeletons, extended as records are added. What is asked for is computed then, and kept up to date."""

    def __init__(self, skeletons: Skeletons | None = None) -> None:
        self._skeletons = Skeletons() if skeletons is None else skeletons
        self.graph = Graph(self._skeletons)
        self._heads = Heads()
        self._headed = 0
        self._checkpoints: dict[str, CheckpointInfo] = {}
        self._all_checkpoints: dict[str, CheckpointInfo] = {}
        self._pruned: dict[str, int] = {}
        self._at_node: dict[str | None, list[str]] = {}
        self._checked = 0
        self._edits: list[Skeleton] = []
        self._edited = 0
        self.end = self._skeletons.end
        """One past the position of the last record."""

    def extend(self, skeletons: Iterable[Skeleton]) -> None:
        """Take in the records that follow."""
        self._skeletons.extend(skeletons)
        self.end = self._skeletons.end

    @property
    def heads(self) -> Heads:
        """All heads."""
        new = [self._skeletons[row] for row in self._turns(self._headed)]
        self._heads = reduce(Heads.apply, new, self._heads) if self._headed else heads_of(new)
        self._headed = len(self._skeletons)
        return self._heads

    def _turns(self, first: int) -> Iterator[int]:
        """Yield the rows that move heads; of nodes of one head behind each other only the first and the last."""
        rows = self._skeletons.rows(_moves, first)
        names = [self._skeletons.names[self._skeletons.codes[row]] for row in rows]
        moved = [name[3] if name[0] == "node" else None for name in names]
        for row, before, here, after in zip(rows, [None, *moved], moved, [*moved[1:], None], strict=False):
            if here is None or before != here or here != after:
                yield row

    @property
    def checkpoints(self) -> dict[str, CheckpointInfo]:
        """In the order they were made; pruned ones are gone."""
        self._take_checkpoints()
        return self._checkpoints

    @property
    def all_checkpoints(self) -> dict[str, CheckpointInfo]:
        """The pruned ones too: kept checkpoints may be deltas over them."""
        self._take_checkpoints()
        return self._all_checkpoints

    @property
    def pruned(self) -> dict[str, int]:
        """Where checkpoints were pruned first."""
        self._take_checkpoints()
        return self._pruned

    @property
    def edits(self) -> list[Skeleton]:
        """All edits of nodes, in order."""
        rows = self._skeletons.rows(_is_edit, self._edited)
        self._edits += [self._skeletons[row] for row in rows]
        self._edited = len(self._skeletons)
        return self._edits

    def checkpoint_nodes(self) -> list[str | None]:
        """The nodes of all checkpoints that were not pruned, once for each; without making an entry of each."""
        names, made, prunes = self._skeletons.ids, self._skeletons.rows(_is_checkpoint), self._skeletons.rows(_is_prune)
        pruned = dict(zip(self._skeletons.targets(prunes), prunes, strict=True))
        nodes = self._skeletons.targets(made)
        if not pruned and len(set(map(names.__getitem__, made))) == len(made):
            return nodes
        kept = {names[row]: node for row, node in zip(made, nodes, strict=True) if pruned.get(names[row], -1) < row}
        return list(kept.values())

    def _take_checkpoints(self) -> None:
        new = self._skeletons.take(self._skeletons.rows(_is_about_checkpoints, self._checked))
        self._checked = len(self._skeletons)
        for skeleton in new:
            if skeleton.type == "checkpoint":
                self._add_checkpoint(skeleton)
            elif skeleton.target:
                self._pruned.setdefault(skeleton.target, skeleton.at)
                self._checkpoints.pop(skeleton.target, None)

    def _add_checkpoint(self, skeleton: Skeleton) -> None:
        entry = entry_of(skeleton)
        self._all_checkpoints[skeleton.id] = entry
        self._checkpoints[skeleton.id] = entry
        self._at_node.setdefault(entry.node, []).append(entry.id)

    def checkpoint(self, checkpoint: str) -> CheckpointInfo:
        """The record of a checkpoint that was not pruned.

        Raises:
            NotFoundError: There is none, or it was pruned.
        """
        if checkpoint not in self.checkpoints:
            what = "was pruned" if checkpoint in self.pruned else "does not exist"
            raise NotFoundError(f"checkpoint {what}. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)
        return self.checkpoints[checkpoint]

    def any_checkpoint(self, checkpoint: str) -> CheckpointInfo:
        """The record of a checkpoint, also of a pruned one: kept checkpoints may be deltas over it.

        Raises:
            NotFoundError: There is none.
        """
        if checkpoint not in self.all_checkpoints:
            raise NotFoundError(f"checkpoint does not exist. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)
        return self.all_checkpoints[checkpoint]

    def nearest_checkpoint(
        self, path: list[Skeleton], *, head: str | None = None, before: int | None = None
    ) -> tuple[str | None, int]:
        """The checkpoint that holds the state at the end of `path`, and the depth of its node in the path.

        Args:
            path: Nodes from a root down.
            head: The head that points to its end, or will; see `treering.session.nearest`.
            before: Ignore checkpoints made at this position or later.
        """
        self._take_checkpoints()
        nearest = Nearest(self.heads, head, path[-1] if path else None, before)
        for node in (*(row.id for row in reversed(path)), None):
            if nearest.see([self._all_checkpoints[name] for name in self._at_node.get(node, ())], self._pruned):
                break
        found = nearest.found
        return (found.entry.id, len(path) - found.below) if found is not None else (None, 0)

    def depth_of(self, checkpoint: str | None, path: list[Skeleton]) -> int:
        """The depth in `path` of the node that a checkpoint was made at.

        Raises:
            NotFoundError: There is no such checkpoint, it was pruned, or it was made elsewhere.
        """
        node = None if checkpoint is None else self.checkpoint(checkpoint).node
        if node is None:
            return 0
        for depth, row in enumerate(path, 1):
            if row.id == node:
                return depth
        raise NotFoundError(f"checkpoint was made on another branch. checkpoint={checkpoint!r}", kind=Kind.BRANCH)

    def retracted_at(self, node: str) -> int | None:
        """Position from which on `node` is hidden; None if it is shown."""
        hidden_at = None
        for edit in self.edits:
            if edit.kind == "retract" and edit.target == node:
                first = edit.at if hidden_at is None else hidden_at  # it may have been hidden twice
                hidden_at = None if read_brief(edit).get("undo") is True else first
        return hidden_at

    def retracted_before(self, at: int) -> set[str]:
        """Nodes that were hidden by the edits below position `at`."""
        hidden: set[str] = set()
        for edit in self.edits:
            if edit.at < at and edit.kind == "retract" and edit.target is not None:
                (hidden.discard if read_brief(edit).get("undo") is True else hidden.add)(edit.target)
        return hidden


def _is_checkpoint(name: Name) -> bool:
    return name[0] == "checkpoint"


def _moves(name: Name) -> bool:
    return name[0] in MOVERS and bool(name[3])


def _is_prune(name: Name) -> bool:
    return name[:2] == ("edit", "prune")


def _is_about_checkpoints(name: Name) -> bool:
    return _is_checkpoint(name) or _is_prune(name)


def _is_edit(name: Name) -> bool:
    return name[0] == "edit" and name[1] != "prune"
