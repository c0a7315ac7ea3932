"""A chunk: consecutive rows of a segment that can be read alone, with their references and the references to them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import add, lt, sub
from typing import Final, NamedTuple, TypeAlias

from treering.errors import CorruptError, UsageError
from treering.format.columns import Name, ReferenceColumn, Rows
from treering.format.integers import count_of, pack_differences, pack_integers, unpack_differences, unpack_integers
from treering.format.record import Skeleton
from treering.format.references import CHILD, CODES, code_of
from treering.kinds import Kind

CONTRADICTIONS: Final = (ValueError, LookupError, TypeError, OverflowError)
"""Errors that decoding columns raises if they do not fit together."""


class Referrer(NamedTuple):
    """A record that refers to another record of its segment."""

    row: int
    code: int
    """How, see `treering.format.references`."""


class Outside(NamedTuple):
    """A reference to an id that no record of the segment has."""

    id: str
    row: int
    """Row of the record that refers to it."""
    code: int
    """How, see `treering.format.references`."""


class Reference(NamedTuple):
    """A record that refers to another record."""

    row: int
    code: int
    """How, see `treering.format.references`."""
    target: int | None
    """The row that has the referenced id: the last such row in the chunk, else the last one in the segment. None if no
    row has the id, or if that row is the referring row itself."""


class References(NamedTuple):
    """The references of all rows of a chunk, by position in the journal."""

    places: list[int]
    """For each row the position of the record with the referenced id, if it is in the chunk; else its own position."""
    outside: dict[int, str]
    """By position: the referenced id, if no other row of the chunk has it."""
    ahead: bool
    """Some rows refer to a row behind them."""


class Back(NamedTuple):
    """For references to rows outside of the chunk: the numbers of rows back to their targets, in order.

    0 if no other row of the segment has the referenced id. Stored as integer columns.
    """

    parents: bytes
    targets: bytes


class _Pointers(NamedTuple):
    """The parents or the targets of all rows."""

    column: ReferenceColumn
    steps: Sequence[int]
    """As in `Back`."""


class Referred(NamedTuple):
    """The references to rows of a chunk from inside the segment, by column, in order of (target, source)."""

    targets: list[int]
    """Rows of the chunk, counted from its first row."""
    distances: list[int]
    """Number of rows from the target to the referring row."""
    codes: list[int]

    def pack(self) -> PackedReferred:
        """Return the stored form."""
        return pack_differences(self.targets), pack_integers(self.distances), pack_integers(self.codes)


PackedReferred: TypeAlias = tuple[bytes, bytes, bytes]
"""`Referred` as integer columns; the first one stores differences."""


class Chunk:
    """Consecutive rows of a segment; all rows are counted from the beginning of the segment.

    Args:
        rows: The columns.
        first_row: The row of the segment that is the first row of the chunk.
        first: Its position in the journal.
        back: The targets of references outside of the chunk; None if the chunk is the whole segment, so that they have
            none.
        referred: The references to these rows; None if the chunk is the whole segment, so that they are computed when
            needed.
        total: Number of rows of the segment.
        key: For messages.
        offset: For messages: the offset of the chunk.

    Raises:
        CorruptError: The arguments contradict each other. Every method may raise it, since texts are decoded on demand.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        first_row: int,
        first: int,
        back: Back | None,
        referred: PackedReferred | None,
        total: int,
        key: str,
        offset: int,
    ) -> None:
        self.first = first
        self.first_row = first_row
        self._rows = rows
        self._back = back
        self._total = total
        self._packed = referred
        self._referred: Referred | None = None
        self._key, self._offset = key, offset

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> range:
        """The rows of the segment that are in this chunk."""
        return range(self.first_row, self.first_row + len(self))

    @property
    def ids(self) -> list[str]:
        """The ids of all rows, in order."""
        try:
            return self._rows.ids.texts()
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    @property
    def names(self) -> Sequence[Name]:
        """The distinct names of rows: type, kind, role, head, and whether they are critical."""
        return self._rows.names

    @property
    def codes(self) -> array[int]:
        """By row: its index in `names`."""
        return self._rows.codes

    def times(self) -> list[int]:
        """Return the times of all rows, in order."""
        try:
            return self._rows.times()
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    def linked(self) -> list[int]:
        """Return the positions of the records with links."""
        try:
            return [self.first + place for place in self._rows.linked]
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    def parents(self) -> References:
        """Return the parents of all rows."""
        return self._references(lambda: self._rows.parents)

    def targets(self) -> References:
        """Return the targets of all rows."""
        return self._references(lambda: self._rows.targets)

    def _references(self, of_rows: Callable[[], ReferenceColumn]) -> References:
        end = self.first + len(self)
        try:
            column = of_rows()
            distances = column.distances[:]
            for place in column.outside_rows:
                distances[place] = 0
            places = list(map(sub, range(self.first, end), distances))
            ahead, farthest = min(distances, default=0) < 0, max(distances, default=0)
            if min(places[:farthest], default=self.first) < self.first or (ahead and max(places) >= end):
                raise ValueError("reference to a row that is not there")
            outside = zip(column.outside_rows, column.outside.texts(), strict=True)
            return References(places, {self.first + place: text for place, text in outside}, ahead)
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    def id(self, row: int) -> str:
        """Return the id of a row.

        Raises:
            UsageError: The row is not in this chunk; all methods that take a row raise it.
        """
        place = self._place(row)
        try:
            return self._rows.ids[place]
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    def find(self, identifier: str) -> int | None:
        """Return the row with this id, the last row if several have it, or None."""
        place = self._rows.ids.find(identifier)
        return None if place is None else self.first_row + place

    def skeleton(self, row: int) -> Skeleton:
        """Return the skeleton of a row."""
        place = self._place(row)
        try:
            return self._rows.skeleton(place, self.first + place)
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    def skeletons(self) -> list[Skeleton]:
        """Return the skeletons of all rows, in order."""
        try:
            return self._rows.skeletons(self.first)
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    def parent_row(self, row: int) -> int | None:
        """Return the row of a row's parent; None if it has no parent, or none in this segment.

        If several rows have the parent's id, it is the last such row of the chunk, else the last one of the segment;
        None if that is the row itself. The same holds for targets.
        """
        return self._row_of(self._parents, self._place(row))

    def climb(self, row: int, limit: int) -> tuple[list[Skeleton], int | None]:
        """Return the skeletons of a row and its ancestors, while each parent is in this chunk and before its child.

        Args:
            row: Where to begin.
            limit: How many at most.

        Returns:
            The skeletons; and the parent's row of the last one, as `parent_row` returns it.
        """
        place = self._place(row)
        distances = self._parents.column.distances
        found: list[Skeleton] = []
        try:
            name = self._rows.ids[place]
            while True:
                above = place - distances[place]
                if not 0 <= above < place:
                    found.append(self._rows.skeleton(place, self.first + place))
                    return found, self._row_of(self._parents, place)
                parent = self._rows.ids[above]
                found.append(self._rows.skeleton(place, self.first + place, name, parent))
                if len(found) == limit:
                    return found, self.first_row + above
                place, name = above, parent
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error

    def target_row(self, row: int) -> int | None:
        """Return the row of a row's target; None if it has no target, or none in this segment."""
        return self._row_of(self._targets, self._place(row))

    @cached_property
    def _parents(self) -> _Pointers:
        return self._pointers(lambda: self._rows.parents, None if self._back is None else self._back.parents)

    @cached_property
    def _targets(self) -> _Pointers:
        return self._pointers(lambda: self._rows.targets, None if self._back is None else self._back.targets)

    def _pointers(self, of_rows: Callable[[], ReferenceColumn], back: bytes | None) -> _Pointers:
        try:
            column = of_rows()
            rows = column.outside_rows
            steps = [0] * len(rows) if back is None else unpack_integers(back, len(rows))
            if not all(0 <= self.first_row + row - step < self._total for row, step in zip(rows, steps, strict=True)):
                raise ValueError("reference to a row that is not there")
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error
        return _Pointers(column, steps)

    def _row_of(self, pointers: _Pointers, place: int) -> int | None:
        column, back = pointers
        try:
            target = column.place(place)
        except ValueError as error:
            raise self._corrupt(error) from error
        if target is not None:
            return self.first_row + target
        distance = back[column.place_outside(place)] if column.distances[place] else 0
        return self.first_row + place - distance if distance else None

    def referrers(self, row: int) -> list[Referrer]:
        """Return the records of the segment that refer to a row, in order: nodes by parent, others by target."""
        place = self._place(row)
        targets, distances, codes = self.referred
        number, found = bisect_left(targets, place), []
        while number < len(targets) and targets[number] == place:
            found.append(Referrer(row + distances[number], codes[number]))
            number += 1
        return found

    def references(self) -> Iterator[Reference]:
        """Yield the rows that refer to another row: those in `referrers` and in blocks of references outside."""
        by_name = [code_of(name[0], name[1]) for name in self._rows.names]
        for place, name in enumerate(self._rows.codes):
            code = by_name[name]
            if code is None:
                continue
            pointers = self._parents if code == CHILD else self._targets
            if pointers.column.distances[place]:
                yield Reference(self.first_row + place, code, self._row_of(pointers, place))

    def reference(self, row: int, code: int) -> str:
        """Return the id that a row refers to, as its parent or target, according to `code`.

        Raises:
            UsageError: The row has no such reference.
        """
        place = self._place(row)
        column = (self._parents if code == CHILD else self._targets).column
        try:
            text = column.text(place, self._rows.ids)
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error
        if text is None:
            raise UsageError(f"row refers to nothing. row={row}, code={code}")
        return text

    def foreign(self) -> list[tuple[int, bytes]]:
        """Return the rows whose ids are foreign (not made by Treering), and these ids as stored in columns."""
        return [(self.first_row + place, text) for place, text in self._rows.ids.foreign()]

    @property
    def referred(self) -> Referred:
        """The references to these rows from inside the segment."""
        if self._referred is None:
            self._referred = self._compute_referred() if self._packed is None else self._unpack_referred(self._packed)
        return self._referred

    def _compute_referred(self) -> Referred:
        found = sorted((each.target, each.row, each.code) for each in self.references() if each.target is not None)
        targets = [target - self.first_row for target, _, _ in found]
        return Referred(targets, [row - target for target, row, _ in found], [code for *_, code in found])

    def _unpack_referred(self, packed: PackedReferred) -> Referred:
        try:
            count = count_of(packed[0])
            if count > self._total:  # a record refers to at most one other record
                raise ValueError("more referrers than records")
            columns = (
                unpack_differences(packed[0]),
                unpack_integers(packed[1], count),
                unpack_integers(packed[2], count),
            )
            found = Referred(*columns)
            self._check(found)
        except CONTRADICTIONS as error:
            raise self._corrupt(error) from error
        return found

    def _check(self, referred: Referred) -> None:
        targets, distances, codes = referred
        sources = list(map(add, targets, distances))  # from the first row of the chunk
        if not targets:
            return
        ordered = [target * 2 * self._total + source for target, source in zip(targets, sources, strict=True)]
        if not (
            0 <= min(targets) <= max(targets) < len(self)
            and 0 <= self.first_row + min(sources) <= self.first_row + max(sources) < self._total
            and 0 <= min(codes) <= max(codes) < len(CODES)
            and all(map(lt, ordered, ordered[1:]))
        ):
            raise ValueError("referrer that is not there, or out of order")

    def _place(self, row: int) -> int:
        place = row - self.first_row
        if not 0 <= place < len(self):
            raise UsageError(f"row is not in this chunk. row={row}, first={self.first_row}, rows={len(self)}")
        return place

    def _corrupt(self, problem: object) -> CorruptError:
        message = f"index contradicts itself: {problem}"
        return CorruptError(message, kind=Kind.INDEX, key=self._key, offset=self._offset)
