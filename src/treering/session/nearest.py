"""Which checkpoint holds the state at a node, decided walking up from that node.

Rule 1: if the head points to the node, or has passed it since it was placed, it is the newest checkpoint made on this
head at the deepest node above that has one: heads that meet on one node differ in state. If there is none, checkpoints
of other heads count that were made before this head was placed.
Rule 2: else it is the newest one at the deepest node that has one; of several there, one of this head takes precedence.
Rule 3: pruned checkpoints count by the first rule, and not by the second. If the first one finds a pruned one, the
second one decides, among those made before it was pruned: older checkpoints of this head, further up, may tell of a
branch that it left when it was placed, and later ones of other heads change nothing here.
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
    """How many nodes of the path are below the one that it was made at."""


class Nearest:
    """Decides step by step: `see` takes the checkpoints made at one node after the other, from the deepest up.

    Args:
        heads: The heads of the session; it is known where each was placed.
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
        """The checkpoint of the first rule, as far as it is decided."""
        self._gone: int | None = None
        """The position where that one was pruned."""
        self._kept: list[Found] = []
        """The kept checkpoints seen, the deepest first, and of those at one node the one to be preferred."""
        self._seen = 0

    @property
    def found(self) -> Found | None:
        """The checkpoint, after `see` returned true or took in all there are."""
        if self._passed is not None and self._gone is None:
            return self._told
        return next((each for each in self._kept if self._gone is None or each.entry.at < self._gone), None)

    def see(self, made: Iterable[CheckpointInfo], pruned: Mapping[str, int]) -> bool:
        """Take in the checkpoints made at the next node above; true if that decides it.

        Args:
            made: In the order they were made.
            pruned: Where those of them were pruned that were; others may be among them.
        """
        there = [entry for entry in made if self._end is None or entry.at < self._end]
        kept = [entry for entry in there if entry.id not in pruned]
        kept.sort(key=lambda entry: (self._is_own(entry), entry.at), reverse=True)
        self._kept += [Found(entry, self._seen) for entry in kept]
        told = self._passed is None or self._see_told(self._passed, there, pruned)
        self._seen += 1
        return told and self.found is not None

    def _see_told(self, placed: Placed, there: Sequence[CheckpointInfo], pruned: Mapping[str, int]) -> bool:
        """Apply the first rule; true if that decided it, here or further down."""
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

    From where it was placed a head only goes on from node to node that it records.
    """
    name = node.id if node is not None else None
    if name in (tip, placed.node):
        return True
    return node is not None and node.head == head and node.at >= placed.at
