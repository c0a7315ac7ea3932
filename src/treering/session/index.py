"""The index of a session: the graph, the checkpoints, and the position of each record; no payloads."""

from __future__ import annotations

from collections.abc import Iterable

from treering.checkpoint.checkpoint import CheckpointInfo, entry_of
from treering.errors import NotFoundError
from treering.format.record import Skeleton, read_brief
from treering.kinds import Kind
from treering.session.nearest import Nearest
from treering.transcript.graph import Graph
from treering.transcript.heads import Heads


class Index:
    """Built from skeletons, extended as records are added."""

    def __init__(self, skeletons: Iterable[Skeleton] = ()) -> None:
        self.graph = Graph()
        self.heads = Heads()
        self.checkpoints: dict[str, CheckpointInfo] = {}
        """In the order they were made; pruned ones are gone."""
        self.all_checkpoints: dict[str, CheckpointInfo] = {}
        """The pruned ones too: kept checkpoints may be deltas over them."""
        self.pruned: dict[str, int] = {}
        """Where checkpoints were pruned first."""
        self.edits: list[Skeleton] = []
        self._at_node: dict[str | None, list[str]] = {}
        self.end = 0
        self.extend(skeletons)

    def extend(self, skeletons: Iterable[Skeleton]) -> None:
        """Take in the records that follow."""
        for skeleton in skeletons:
            self.end = skeleton.at + 1
            self.graph.add(skeleton)
            if skeleton.head:
                self.heads = self.heads.apply(skeleton)
            if skeleton.type == "checkpoint":
                self._add_checkpoint(skeleton)
            elif skeleton.type == "edit":
                self._add_edit(skeleton)

    def _add_edit(self, skeleton: Skeleton) -> None:
        if skeleton.kind == "prune" and skeleton.target:
            self.pruned.setdefault(skeleton.target, skeleton.at)
            self.checkpoints.pop(skeleton.target, None)
        elif skeleton.kind != "prune":
            self.edits.append(skeleton)

    def _add_checkpoint(self, skeleton: Skeleton) -> None:
        entry = entry_of(skeleton)
        self.all_checkpoints[skeleton.id] = entry
        self.checkpoints[skeleton.id] = entry
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
        nearest = Nearest(self.heads, head, path[-1] if path else None, before)
        for node in (*(row.id for row in reversed(path)), None):
            if nearest.see([self.all_checkpoints[name] for name in self._at_node.get(node, ())], self.pruned):
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
