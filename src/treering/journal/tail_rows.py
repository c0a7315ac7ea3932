"""The rows of a tail, in memory."""

from __future__ import annotations

from typing import NamedTuple

from treering.format.copies import may_hold_messages
from treering.format.record import Skeleton, skeleton_of
from treering.format.references import HAS_INLINE, code_of, mask_of, reference_of
from treering.journal.view import View


class Referrer(NamedTuple):
    """A record that refers to another one."""

    at: int
    """Its position."""
    code: int
    """How, see `treering.format.references`."""


class TailRows:
    """The rows of a tail, by id and by what they refer to."""

    def __init__(self, view: View) -> None:
        self.rows: list[Skeleton] = []
        self.places: dict[str, list[int]] = {}
        self.referrers: dict[str, list[Referrer]] = {}
        self.mask = 0
        self.odd = False
        """An id occurs twice, or a node was recorded before its parent."""
        self.extend(view)

    def extend(self, view: View) -> None:
        """Add the rows that `view` has behind those known; it has the same base and epoch."""
        for line in view.tail.lines[len(self.rows) :]:
            row = skeleton_of(line)
            self.rows.append(row)
            self.mask |= mask_of([row]) | (may_hold_messages(row.type, line) and HAS_INLINE)
            self.odd = self.odd or row.id in self.places or (row.type == "node" and self._is_odd(row))
            self.places.setdefault(row.id, []).append(row.at)
            if (target := reference_of(row)) is not None and (code := code_of(row.type, row.kind)) is not None:
                self.referrers.setdefault(target, []).append(Referrer(row.at, code))

    def _is_odd(self, node: Skeleton) -> bool:
        above = [self.rows[at - self.rows[0].at] for at in self.places.get(node.parent or "", ())]
        return node.id == node.parent or node.id in self.referrers or any(row.type != "node" for row in above)
