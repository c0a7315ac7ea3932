"""The index of a session: the graph, the checkpoints, and the position of each record; no payloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain

from treering.checkpoint.checkpoint import CheckpointInfo, entry_of
from treering.errors import NotFoundError
from treering.format.columns import Name
from treering.format.record import Skeleton, read_brief
from treering.format.skeletons import Skeletons
from treering.kinds import Kind
from treering.session.nearest import Found, Nearest
from treering.transcript.graph import Graph
from treering.transcript.heads import MOVERS, Heads, heads_of


class Entries(Mapping[str, CheckpointInfo]):
    """Entries of checkpoints by id; each is made from its row when it is accessed.

    Args:
        skeletons: The skeletons of all records.
    """

    def __init__(self, skeletons: Skeletons) -> None:
        self._skeletons = skeletons
        self.rows: dict[str, int] = {}
        """The row of each checkpoint, in order."""

    def __getitem__(self, checkpoint: str) -> CheckpointInfo:
        return entry_of(self._skeletons[self.rows[checkpoint]])

    def __contains__(self, checkpoint: object) -> bool:
        return checkpoint in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def below(self, at: int, limit: int | None) -> list[CheckpointInfo]:
        """Return the entries below a position: the last `limit` of them, or all."""
        rows = [row for row in self.rows.values() if self._skeletons.at(row) < at]
        return [entry_of(each) for each in self._skeletons.take(rows if limit is None else rows[-limit:])]


class Index:
    """Built from skeletons, extended as records are added. Its parts are computed on demand, then kept up to date."""

    def __init__(self, skeletons: Skeletons | None = None) -> None:
        self._skeletons = Skeletons() if skeletons is None else skeletons
        self.graph = Graph(self._skeletons)
        self._heads = Heads()
        self._headed = 0
        self._checkpoints = Entries(self._skeletons)
        self._all_checkpoints = Entries(self._skeletons)
        self._pruned: dict[str, int] = {}
        self._first_at: dict[str | None, int] = {}
        self._others_at: dict[str | None, list[int]] = {}
        self._checked = 0
        self._edits: list[Skeleton] = []
        self._edited = 0
        self.end = self._skeletons.end
        """One past the position of the last record."""

    def extend(self, skeletons: Iterable[Skeleton]) -> None:
        """Add the records that follow."""
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
        """Yield the rows that move heads; of consecutive nodes on one head only the first and the last."""
        rows = self._skeletons.rows(_moves, first)
        names = [self._skeletons.names[self._skeletons.codes[row]] for row in rows]
        moved = [name[3] if name[0] == "node" else None for name in names]
        for row, before, here, after in zip(rows, [None, *moved], moved, [*moved[1:], None], strict=False):
            if here is None or before != here or here != after:
                yield row

    @property
    def checkpoints(self) -> Entries:
        """The checkpoints that were not pruned, in the order they were made."""
        self._take_checkpoints()
        return self._checkpoints

    @property
    def all_checkpoints(self) -> Entries:
        """All checkpoints, also pruned ones: kept checkpoints may be deltas of them."""
        self._take_checkpoints()
        return self._all_checkpoints

    @property
    def pruned(self) -> dict[str, int]:
        """The position at which each pruned checkpoint was first pruned."""
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
        """The nodes of all checkpoints that were not pruned, one for each checkpoint; makes no entries."""
        names, made, prunes = self._skeletons.ids, self._skeletons.rows(_is_checkpoint), self._skeletons.rows(_is_prune)
        pruned = dict(zip(self._skeletons.targets(prunes), prunes, strict=True))
        nodes = self._skeletons.targets(made)
        if not pruned and len(set(map(names.__getitem__, made))) == len(made):
            return nodes
        kept = {names[row]: node for row, node in zip(made, nodes, strict=True) if pruned.get(names[row], -1) < row}
        return list(kept.values())

    def _take_checkpoints(self) -> None:
        skeletons = self._skeletons
        rows = skeletons.rows(_is_about_checkpoints, self._checked)
        prunes = frozenset(skeletons.rows(_is_prune, self._checked))
        first, self._checked = not self._checked, len(skeletons)
        targets = skeletons.targets(rows)
        if first and not prunes and self._take_plain(rows, targets):
            return
        for row, target in zip(rows, targets, strict=True):
            if row not in prunes:
                name = skeletons.ids[row]
                self._all_checkpoints.rows[name] = self._checkpoints.rows[name] = row
                if self._first_at.setdefault(target, row) != row:
                    self._others_at.setdefault(target, []).append(row)
            elif target:
                self._pruned.setdefault(target, skeletons.at(row))
                self._checkpoints.rows.pop(target, None)

    def _take_plain(self, rows: Sequence[int], targets: Sequence[str | None]) -> bool:
        """Add all checkpoints at once, if no two were made at one node: the usual case when a whole session is read."""
        first_at = dict(zip(targets, rows, strict=True))
        if len(first_at) < len(rows):
            return False
        self._first_at = first_at
        self._all_checkpoints.rows = dict(zip(map(self._skeletons.ids.__getitem__, rows), rows, strict=True))
        self._checkpoints.rows = dict(self._all_checkpoints.rows)
        return True

    def _made_at(self, node: str | None) -> list[CheckpointInfo]:
        rows = [self._first_at[node], *self._others_at.get(node, ())] if node in self._first_at else []
        return [self._all_checkpoints[self._skeletons.ids[row]] for row in rows]

    def give_up(self, pruned: Mapping[str, int]) -> None:
        """Leave out the checkpoints that were pruned later, for an index that ends at an earlier position."""
        self._take_checkpoints()
        for checkpoint in pruned.keys() & self._all_checkpoints.keys():
            self._pruned.setdefault(checkpoint, pruned[checkpoint])
            self._checkpoints.rows.pop(checkpoint, None)

    def checkpoint(self, checkpoint: str) -> CheckpointInfo:
        """The entry of a checkpoint that was not pruned.

        Raises:
            NotFoundError: There is no such checkpoint, or it was pruned.
        """
        if checkpoint not in self.checkpoints:
            what = "was pruned" if checkpoint in self.pruned else "does not exist"
            raise NotFoundError(f"checkpoint {what}. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)
        return self.checkpoints[checkpoint]

    def any_checkpoint(self, checkpoint: str) -> CheckpointInfo:
        """The entry of a checkpoint, also of a pruned one: kept checkpoints may be deltas of it.

        Raises:
            NotFoundError: There is no such checkpoint.
        """
        if checkpoint not in self.all_checkpoints:
            raise NotFoundError(f"checkpoint does not exist. checkpoint={checkpoint!r}", kind=Kind.CHECKPOINT)
        return self.all_checkpoints[checkpoint]

    def nearest_checkpoint(
        self, path: Sequence[int], *, head: str | None = None, before: int | None = None, heads: Heads | None = None
    ) -> tuple[str | None, int]:
        """The checkpoint that holds the state at the end of `path`, and the depth of its node in the path.

        Args:
            path: Rows of the nodes from a root down.
            head: The head that points to its end, or will; see `treering.session.nearest`.
            before: Ignore checkpoints made at this position or later.
            heads: All heads with the places where they were placed, if the caller knows them.
        """
        found = self._nearest(reversed(path), head, before, heads)
        return (found.entry.id, len(path) - found.below) if found is not None else (None, 0)

    def checkpoint_above(self, row: int, *, head: str, heads: Heads) -> str | None:
        """The checkpoint that holds the state at a node; walks up no further than to the checkpoint's node.

        Args:
            row: The row of the node.
            head: The head that points to the node, or will; see `treering.session.nearest`.
            heads: All heads.
        """
        found = self._nearest(self.graph.walk_up(row), head, None, heads)
        return None if found is None else found.entry.id

    def _nearest(
        self, upward: Iterable[int], head: str | None, before: int | None, heads: Heads | None
    ) -> Found | None:
        """The checkpoint that holds the state at the first of some rows; each row is the parent of the one before."""
        self._take_checkpoints()
        rows = iter(upward)
        first = next(rows, None)
        last = self._skeletons[first] if first is not None else None
        nearest = Nearest(self.heads if heads is None else heads, head, last, before)
        for row in chain(() if first is None else (first,), rows, (None,)):
            if nearest.see(self._made_at(None if row is None else self._skeletons.ids[row]), self._pruned):
                break
        return nearest.found

    def depth_of(self, checkpoint: str | None, path: Sequence[int]) -> int:
        """The depth in a path, given by rows, of the node that a checkpoint was made at.

        Raises:
            NotFoundError: There is no such checkpoint, it was pruned, or it was made on another branch.
        """
        node = None if checkpoint is None else self.checkpoint(checkpoint).node
        if node is None:
            return 0
        for depth, row in enumerate(path, 1):
            if self._skeletons.ids[row] == node:
                return depth
        raise NotFoundError(f"checkpoint was made on another branch. checkpoint={checkpoint!r}", kind=Kind.BRANCH)

    def retracted_at(self, node: str) -> int | None:
        """The position of the edit that hides `node`; None if the node is shown."""
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
