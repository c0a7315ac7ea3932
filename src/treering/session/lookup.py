"""Questions about single nodes and checkpoints: pages, branches, the state at an old turn.

There are two ways to answer them, with the same results. `row_lookup` reads only the rows that a question is about,
however long the session is. `index_lookup` uses the index of the whole session. It answers if the index is in memory
anyway, and if the session is not ordinary: ids that occur twice, children recorded before their parents.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import msgspec

from treering.checkpoint.checkpoint import CheckpointInfo
from treering.errors import UsageError
from treering.format.record import Skeleton
from treering.storage.requests import Steps
from treering.transcript.graph import Page


class Shown(msgspec.Struct, frozen=True):
    """The label and the edits of a node or a checkpoint."""

    label: str | None = None
    retracted: bool = False
    amended: int | None = None
    """Position of the edit that holds its new payload."""


class Lookup(Protocol):
    """The questions. Nodes and checkpoints are named by their ids; all raise `NotFoundError` for an unknown id."""

    ordinary: bool
    """Whether answers also prove that each id occurs once and that each node is recorded after its parent."""

    def node(self, node: str) -> Steps[Skeleton]:
        """A node."""
        ...

    def nodes(self, nodes: Iterable[str]) -> Steps[dict[str, Skeleton]]:
        """Nodes by id; unknown ids are left out."""
        ...

    def all_nodes(self, nodes: Sequence[str]) -> Steps[list[Skeleton]]:
        """Nodes in the order asked for."""
        ...

    def records(self, names: Collection[str]) -> Steps[dict[str, Skeleton]]:
        """The nodes, notes and edits with these ids; of records that share an id, a node takes precedence."""
        ...

    def context_edits(self) -> Steps[list[Skeleton]]:
        """The nodes of the kind `context_edit`, oldest first."""
        ...

    def holders(self, names: Collection[str], *, state: bool) -> Steps[list[int]]:
        """The positions of all records that may hold the payloads of these nodes and notes, or values of the state.

        These are the nodes and notes, the edits about them, and checkpoints that may hold messages; with `state` all
        checkpoints.
        """
        ...

    def path(self, node: str | None, *, limit: int | None = None) -> Steps[list[Skeleton]]:
        """The last `limit` nodes of the path from a root down to `node`, or all of them.

        Raises:
            UsageError: `limit` is less than 1.
        """
        ...

    def places(self, node: str | None) -> Steps[array[int]]:
        """The positions of the nodes on the path to a node, in their order; empty for None."""
        ...

    def belonging(self, places: Sequence[int]) -> Steps[list[int]]:
        """The positions of notes and edits about the nodes at `places`, which are sorted, and about the session.

        Notes of the kinds in `NOT_FORKED` are left out.
        """
        ...

    def children(self, node: str | None) -> Steps[list[str]]:
        """The children of a node, oldest first; those of None are the roots."""
        ...

    def siblings(self, node: str) -> Steps[tuple[list[str], int]]:
        """The children of the parent of a node, including itself, and its index among them."""
        ...

    def newest_leaf(self, node: str) -> Steps[str]:
        """The leaf reached from a node through the newest children; see `Graph.newest_leaf`."""
        ...

    def page(
        self, node: str | None, *, before: str | None, limit: int, retracted: bool
    ) -> Steps[tuple[Page, list[Shown]]]:
        """A page, see `Graph.page`, with the labels and edits of its nodes."""
        ...

    def shown(self, rows: Sequence[Skeleton], *, before: int | None = None) -> Steps[list[Shown]]:
        """The label and the edits of each row; retractions at position `before` or later do not count."""
        ...

    def edits(self, nodes: Sequence[str], *, before: int | None = None) -> Steps[dict[str, Shown]]:
        """The edits of nodes, by node; nodes without edits may be left out."""
        ...

    def last_compaction(self, node: str | None) -> Steps[str | None]:
        """The newest compaction on the path of a node."""
        ...

    def checkpoint(self, checkpoint: str) -> Steps[CheckpointInfo]:
        """A checkpoint that was not pruned."""
        ...

    def all_checkpoints(self, checkpoints: Iterable[str]) -> Steps[list[CheckpointInfo]]:
        """Checkpoints in the order asked for, also pruned ones: kept ones may be deltas of them."""
        ...

    def chains(self, checkpoints: Sequence[str]) -> Steps[list[list[CheckpointInfo]]]:
        """For each checkpoint, none of them pruned, the records that it is resolved from; see `chain_of`."""
        ...

    def labelled(self, checkpoints: Sequence[str]) -> Steps[list[CheckpointInfo]]:
        """Checkpoints that were not pruned, in the order asked for, with their last labels."""
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
            before: Only checkpoints made before this one.
            limit: The maximum number.
        """
        ...

    def labels(self) -> Steps[dict[str, str]]:
        """Labels by node or checkpoint, in the order in which they were given."""
        ...

    def notes(self, kind: str | None) -> Steps[list[Skeleton]]:
        """Notes of one kind, or of all kinds, oldest first."""
        ...

    def nearest_checkpoint(
        self, node: str | None, *, head: str | None = None, before: int | None = None
    ) -> Steps[tuple[CheckpointInfo | None, list[Skeleton]]]:
        """The checkpoint that holds the state at a node, and the nodes of the path below its node.

        See `treering.session.nearest`. Without a checkpoint, the nodes of the whole path.
        """
        ...

    def since_checkpoint(self, checkpoint: str | None, node: str | None) -> Steps[list[Skeleton]]:
        """The nodes of the path below the node that a checkpoint was made at; None: the whole path.

        Raises:
            NotFoundError: There is no such checkpoint, it was pruned, or it was made on another branch.
        """
        ...


def require_limit(limit: int | None, most: int) -> int:
    """How many of `most` rows a limit allows; None allows all.

    Raises:
        UsageError: The limit is less than 1.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"a page needs a limit of at least 1. limit={limit}")
    return most if limit is None else min(limit, most)


def with_label(entry: CheckpointInfo, label: str | None) -> CheckpointInfo:
    """A checkpoint with its last label, if it was given one."""
    return entry if label is None else msgspec.structs.replace(entry, label=label)


NOT_FORKED = frozenset({"link", "usage", "status"})
"""Kinds of notes that no fork copies: what other sessions are called, what the parent cost, and that it is done."""


def belongs(row: Skeleton) -> bool:
    """Whether a fork copies a record about a copied node or the session."""
    return row.type == "edit" or (row.type == "note" and row.kind not in NOT_FORKED)


def holds(places: Sequence[int], at: int) -> bool:
    """Whether a position is among sorted positions."""
    found = bisect_left(places, at)
    return found < len(places) and places[found] == at
