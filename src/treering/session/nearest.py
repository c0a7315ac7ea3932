"""Find the checkpoint that holds the state at a node, walking up from that node.

Rule 1: if the head points to the node, or has passed it since the head was placed, the newest checkpoint made on this
head counts, at the deepest node on the path that has one: heads that meet on one node differ in state. If this head has
none, checkpoints of other heads count if they were made before this head was placed.
Rule 2: otherwise the newest checkpoint counts at the deepest node that has one; of several there, a checkpoint of this
head takes precedence.
Rule 3: rule 1 considers pruned checkpoints, rule 2 does not. If rule 1 finds a pruned checkpoint, rule 2 decides among
the checkpoints made before the pruning: older checkpoints of this head, further up, may belong to a branch that it left
when it was placed, and later checkpoints of other heads change nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from treering.checkpoint.checkpoint import CheckpointInfo
from treering.format.record import Skeleton
from treering.transcript.heads import Heads, Placed


class Found(NamedTuple):
    """A checkpoint above a node."""

    entry: CheckpointInfo
    below: int
    """The number of nodes of the path below the checkpoint's node."""


class Nearest:
    """Decides step by step: `see` takes the checkpoints made at one node after the other, from the deepest up.

    Args:
        heads: The heads of the session, with the places where they were placed.
        head: The head that points to the first node, or will.
        node: The first node; None is the place before the first one of the session.
        before: Ignore checkpoints made at this position or later.
    """

    def __init__(self, heads: Heads, head: str | None, node: Skeleton | None, before: int | None) -> None:
        placed = (heads.placed or {}).get(head or "")
        passed = placed is not None and has_passed(placed, head, heads.heads[head or ""], node)
        self._head, self._placed = head, placed
        self._passed = placed if passed else None
        """Where the head was placed, if the first rule applies."""
        self._end = before
        self._told: Found | None = None
        """The checkpoint by rule 1, once it is found."""
        self._gone: int | None = None
        """The position where that checkpoint was pruned."""
        self._kept: list[Found] = []
        """The kept checkpoints seen, the deepest first; of those at one node the preferred one first."""
        self._seen = 0

    @property
    def found(self) -> Found | None:
        """The checkpoint, after `see` returned true or has taken all checkpoints."""
        if self._passed is not None and self._gone is None:
            return self._told
        return next((each for each in self._kept if self._gone is None or each.entry.at < self._gone), None)

    def see(self, made: Iterable[CheckpointInfo], pruned: Mapping[str, int]) -> bool:
        """Add the checkpoints made at the next node above; return whether the result is decided.

        Args:
            made: The checkpoints in the order they were made.
            pruned: Positions at which checkpoints were pruned, by id; may have further checkpoints.
        """
        there = [entry for entry in made if self._end is None or entry.at < self._end]
        kept = [entry for entry in there if entry.id not in pruned]
        kept.sort(key=lambda entry: (self._is_own(entry), entry.at), reverse=True)
        self._kept += [Found(entry, self._seen) for entry in kept]
        told = self._passed is None or self._see_told(self._passed, there, pruned)
        self._seen += 1
        return told and self.found is not None

    def _see_told(self, placed: Placed, there: Sequence[CheckpointInfo], pruned: Mapping[str, int]) -> bool:
        """Apply the first rule to the checkpoints of one node; true if it is decided, by this node or a deeper one."""
        if self._told is not None and self._is_own(self._told.entry):
            return True
        own = [entry for entry in there if self._is_own(entry)]  # rule: pruned-own-counts
        earlier = [entry for entry in there if entry.at < placed.at] if self._told is None else []
        if own or earlier:
            self._told = Found((own or earlier)[-1], self._seen)
            self._gone = pruned.get(self._told.entry.id)
        return bool(own)

    def _is_own(self, entry: CheckpointInfo) -> bool:
        """Whether a checkpoint was made on the head, and not on an earlier head of the same name."""
        return self._placed is not None and entry.head == self._head and entry.at >= self._placed.made


def has_passed(placed: Placed, head: str | None, tip: str | None, node: Skeleton | None) -> bool:
    """Whether a head points to `node`, or has passed it since it was placed.

    After it was placed, a head moves only to nodes that are recorded on it.
    """
    name = node.id if node is not None else None
    if name in (tip, placed.node):
        return True
    return node is not None and node.head == head and node.at >= placed.at
