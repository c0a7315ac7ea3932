"""The rows of a tail, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from treering.format.copies import may_hold_messages
from treering.format.record import Skeleton, skeleton_of
from treering.format.references import HAS_INLINE, code_of, mask_of, reference_of
from treering.journal.view import View

if TYPE_CHECKING:
    from treering.journal.memory import Memory

ROW_BYTES: Final = 600
"""About the memory that a row takes here: its skeleton, its place, and its reference."""


class Referrer(NamedTuple):
    """A record that refers to another record."""

    at: int
    """Its position."""
    code: int
    """The kind of reference; see `treering.format.references`."""


class TailRows:
    """The rows of a tail, by id and by what they refer to."""

    def __init__(self, view: View) -> None:
        self.nonce = view.tail.header.nonce
        self.last = b""
        """The line of the last row."""
        self.rows: list[Skeleton] = []
        self.places: dict[str, list[int]] = {}
        self.referrers: dict[str, list[Referrer]] = {}
        self.mask = 0
        self.odd = False
        """An id occurs twice, or a node was recorded before its parent."""
        self.extend(view)

    def extend(self, view: View) -> None:
        """Add the rows that `view` has behind the known rows; it has the same base and epoch."""
        for line in view.tail.lines[len(self.rows) :]:
            self.last = line
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

    def begin(self, view: View) -> bool:
        """Whether these are the first rows of the view's tail, which no writer has replaced since."""
        lines, count = view.tail.lines, len(self.rows)
        return self.nonce == view.tail.header.nonce and 0 < count <= len(lines) and lines[count - 1] == self.last

    def copy(self) -> TailRows:
        """The same rows, to be extended."""
        made = TailRows.__new__(TailRows)
        made.nonce, made.last, made.mask, made.odd = self.nonce, self.last, self.mask, self.odd
        made.rows = [*self.rows]
        made.places = {name: [*places] for name, places in self.places.items()}
        made.referrers = {name: [*found] for name, found in self.referrers.items()}
        return made


def tail_rows(view: View, memory: Memory) -> TailRows:
    """The rows of a tail; rows that another handle of the store decoded are not decoded again."""
    held: TailRows | None = memory.tails.get(view.keys.tail)
    if held is not None and held.begin(view):
        rows = held.copy()
        rows.extend(view)
    else:
        rows = TailRows(view)
    if rows.rows and (held is None or held.nonce != rows.nonce or len(held.rows) < len(rows.rows)):
        memory.tails.put(view.keys.tail, rows.copy(), ROW_BYTES * len(rows.rows))
    return rows
