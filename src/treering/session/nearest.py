"""Which checkpoint holds the state at a node, decided walking up from that node.

Rule 1: if the head points to the node, or has passed it since it was placed, it is the newest checkpoint made on this
head at the deepest node above that has one: heads that meet on one node differ in state. If there is none, checkpoints
of other heads count that were made before this head was placed.
Rule 2: else it is the newest one at the deepest node that has one; of several there, one of this head takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterable

from treering.checkpoint.checkpoint import CheckpointInfo
from treering.format.record import Skeleton
from treering.transcript.heads import Heads, Placed


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
        self._head, self._placed = head, placed
        self._end = before
        self._passed = placed is not None and _has_passed(placed, head, heads.heads[head or ""], node)
        self.found: CheckpointInfo | None = None
        """The checkpoint, as far as it is decided."""

    def see(self, made: Iterable[CheckpointInfo]) -> bool:
        """Take in the checkpoints made at the next node above, pruned ones left out; true if that decides it."""
        kept = [entry for entry in made if self._end is None or entry.at < self._end]
        if self._passed and self._placed is not None:
            if own := [entry for entry in kept if self._is_own(entry)]:
                self.found = own[-1]
                return True
            kept = [entry for entry in kept if entry.at < self._placed.at]
        if kept and self.found is None:
            self.found = max(kept, key=lambda entry: (self._is_own(entry), entry.at))
        return self.found is not None and not self._passed

    def _is_own(self, entry: CheckpointInfo) -> bool:
        """Whether a checkpoint was made on the head, and not on an earlier head of the same name."""
        return self._placed is not None and entry.head == self._head and entry.at >= self._placed.made


def _has_passed(placed: Placed, head: str | None, tip: str | None, node: Skeleton | None) -> bool:
    """Whether a head points to `node`, or has passed it since it was placed.

    From where it was placed a head only goes on from node to node that it records.
    """
    name = node.id if node is not None else None
    if name in (tip, placed.node):
        return True
    return node is not None and node.head == head and node.at >= placed.at
