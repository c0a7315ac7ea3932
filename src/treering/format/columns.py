"""Skeletons stored by column: the values of one field of many records, which compress far better than rows do.

An integer column is one byte, the width of its items (1, 2, 4 or 8), then the items as signed little-endian integers,
byte plane by byte plane: first the lowest byte of every item, then the next one. Texts are UTF-8 in which lone
surrogates are encoded like other characters. Sparse columns name their rows as differences from the row before.

Our ids are 16 bytes: the time goes into an integer column of differences, the ten bytes behind it stay together. A
reference (parent, target) to a record among the same rows is the number of rows back to it. It stands for that row's
id and not for the row, so it does no harm that several rows may have the same id in imported sessions.

`Rows` decodes the integers that every question needs at once, those of other columns when they are first asked for, and
texts only of the rows that are asked for: a page of 50 rows costs a fraction of the skeletons of all.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise, repeat
from operator import lt
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from treering.format.record import EMPTY, Skeleton
from treering.ids import time_of

_WIDTHS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_TIME_BYTES: Final = 6
_REST_BYTES: Final = 10
_NOWHERE: Final = 0
_EMPTY: Final = bytes(EMPTY)

T = TypeVar("T")

Name: TypeAlias = tuple[str, str, str, str, bool]
"""What many records have in common: type, kind, role, head, critical."""


class Ids(msgspec.Struct, frozen=True):
    """A column of ids."""

    times: bytes
    """Millistamps of our ids: integers, differences."""
    rests: bytes
    """The last ten bytes of each of our ids."""
    foreign_rows: bytes
    foreign: list[bytes]
    """All other fields, as texts."""


class References(msgspec.Struct, frozen=True):
    """A column of ids of other records, or None."""

    distances: bytes
    """Rows back to one with the id meant; 0 for None; the number of rows if no other row has it."""
    outside: Ids


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The skeletons of consecutive records."""

    lengths: bytes
    codes: bytes
    """By row: its index in `names`."""
    names: list[tuple[bytes, bytes, bytes, bytes, bool]]
    """The different (type, kind, role, head, critical)."""
    ids: Ids
    parents: References
    targets: References
    time_rows: bytes
    """Rows whose time differs from the time in their id (0 for a foreign id)."""
    times: bytes
    """Their times, as differences."""
    brief_rows: bytes
    """Rows whose brief is not `{}`."""
    brief_lengths: bytes
    briefs: bytes
    """Their briefs, joined."""
    link_rows: bytes
    links: list[list[tuple[bytes, bytes]]]
    """Their links, as texts."""


def pack_integers(values: Sequence[int]) -> bytes:
    """Return an integer column. Values must fit into 64 bits."""
    width, items = _narrowest(values)
    if sys.byteorder == "big":
        items.byteswap()
    data = items.tobytes()
    return bytes([width]) + b"".join(data[plane::width] for plane in range(width))


def _narrowest(values: Sequence[int]) -> tuple[int, array[int]]:
    ends = min(values, default=0), max(values, default=0)
    bits = 1 + max((end if end >= 0 else ~end).bit_length() for end in ends)
    width = next(width for width in _WIDTHS if bits <= 8 * width)
    return width, array(_WIDTHS[width], values)


def count_of(column: bytes) -> int:
    """Return how many items an integer column has.

    Raises:
        ValueError: The bytes are no integer column.
    """
    width = column[0] if column else 0
    count, rest = divmod(len(column) - 1, width) if width in _WIDTHS else (0, 1)
    if rest:
        raise ValueError("integer column is malformed")
    return count


def unpack_integers(column: bytes, count: int | None = None) -> list[int]:
    """Return the items of an integer column; arguments and errors are those of `unpack_array`."""
    return unpack_array(column, count).tolist()


def unpack_array(column: bytes, count: int | None = None) -> array[int]:
    """Return the items of an integer column, in an array as narrow as they are stored.

    Args:
        column: As stored.
        count: How many there must be, if that is known; compared before memory is taken for them.

    Raises:
        ValueError: The bytes are no integer column, or one of another length.
    """
    found = count_of(column)
    if count is not None and found != count:
        raise ValueError("columns differ in length")
    width, count = column[0], found
    if width == 1:
        return array("b", column[1:])
    data = bytearray(width * count)
    for plane in range(width):
        data[plane::width] = column[1 + plane * count : 1 + (plane + 1) * count]
    items = array(_WIDTHS[width], bytes(data))
    if sys.byteorder == "big":
        items.byteswap()
    return items


def pack_differences(values: Sequence[int]) -> bytes:
    """Return an integer column of each value less the one before it."""
    return pack_integers([after - before for before, after in pairwise((0, *values))])


def unpack_differences(column: bytes, count: int | None = None) -> list[int]:
    """Return the values of a column of differences; arguments and errors are those of `unpack_integers`."""
    return list(accumulate(unpack_integers(column, count)))


def encode_text(text: str) -> bytes:
    """Return text as columns hold it."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Return the text of what `encode_text` returned.

    Raises:
        ValueError: It is none.
    """
    return data.decode("utf-8", "surrogatepass")


def pack_ids(ids: Sequence[str]) -> Ids:
    """Return a column of ids."""
    times = [time_of(identifier) for identifier in ids]
    ours = [identifier for identifier, time in zip(ids, times, strict=True) if time is not None]
    foreign = [row for row, time in enumerate(times) if time is None]
    return Ids(
        times=pack_differences([time for time in times if time is not None]),
        rests=bytes.fromhex("".join(identifier[2 * _TIME_BYTES :] for identifier in ours)),
        foreign_rows=pack_differences(foreign),
        foreign=[encode_text(ids[row]) for row in foreign],
    )


class IdColumn:
    """The ids of a column, each of them made when it is asked for.

    Args:
        column: As stored.
        count: How many ids it must hold; None for as many as there are.

    Raises:
        ValueError, LookupError: It is malformed.
    """

    __slots__ = ("_foreign", "_foreign_rows", "_rests", "_times", "bounds")

    def __init__(self, column: Ids, count: int | None = None) -> None:
        self._rests = column.rests
        self._foreign = column.foreign
        ours, rest = divmod(len(self._rests), _REST_BYTES)
        if rest or count not in (None, ours + len(self._foreign)):
            raise ValueError("columns of ids differ in length")
        differences = unpack_integers(column.times, ours)
        self._times = array("q", list(accumulate(differences)))
        self._foreign_rows = unpack_differences(column.foreign_rows, len(self._foreign))
        if not _are_rows(self._foreign_rows, len(self)):
            raise ValueError("column names a row that is not there")
        if ours and min(differences) >= 0:  # as usual: later records have later ids
            self.bounds = self._times[0], self._times[-1]
        else:
            self.bounds = min(self._times, default=-1), max(self._times, default=-1)
        """The least and the greatest time of our ids; -1 and -1 if there are none."""
        if ours and not 0 <= self.bounds[0] <= self.bounds[1] < 1 << 8 * _TIME_BYTES:
            raise ValueError("time of an id is out of range")

    def __len__(self) -> int:
        return len(self._times) + len(self._foreign_rows)

    def __getitem__(self, row: int) -> str:
        before = bisect_left(self._foreign_rows, row) if self._foreign_rows else 0
        if before < len(self._foreign_rows) and self._foreign_rows[before] == row:
            return decode_text(self._foreign[before])
        place = row - before
        rest = self._rests[place * _REST_BYTES : (place + 1) * _REST_BYTES]
        return f"{self._times[place]:012x}{rest.hex()}"

    def time(self, row: int) -> int:
        """The time in the id of a row; 0 if it is foreign."""
        before = bisect_left(self._foreign_rows, row) if self._foreign_rows else 0
        if before < len(self._foreign_rows) and self._foreign_rows[before] == row:
            return 0
        return self._times[row - before]

    def find(self, identifier: str) -> int | None:
        """The last row with this id, or None."""
        time = time_of(identifier)
        if time is None:
            text, row = encode_text(identifier), None
            if text in self._foreign:
                row = self._foreign_rows[len(self._foreign) - 1 - self._foreign[::-1].index(text)]
            return row
        rest, place = bytes.fromhex(identifier[2 * _TIME_BYTES :]), len(self._rests)
        while (place := self._rests.rfind(rest, 0, place)) >= 0:
            number, odd = divmod(place, _REST_BYTES)
            if not odd and self._times[number] == time:
                return self._row_of(number)
            place += (
                _REST_BYTES - 1
            )  # the next match may overlap this one, which lay across two ids or has another time
        return None

    def _row_of(self, number: int) -> int:
        """The row of one of our ids, counted among them."""
        row = number
        for foreign in self._foreign_rows:
            if foreign > row:
                break
            row += 1
        return row

    @property
    def has_foreign(self) -> bool:
        return bool(self._foreign_rows)

    def foreign(self) -> list[tuple[int, bytes]]:
        """The rows of foreign ids, and these."""
        return list(zip(self._foreign_rows, self._foreign, strict=True))

    def texts(self) -> list[str]:
        """Return all ids."""
        if not self._times:
            return list(map(decode_text, self._foreign))
        return self._merged(_our_ids(self._times, self._rests), map(decode_text, self._foreign))

    def times(self) -> list[int]:
        """Return the time in each id, 0 for foreign ones."""
        return self._merged(self._times.tolist(), repeat(0))

    def _merged(self, ours: list[T], foreign: Iterable[T]) -> list[T]:
        """Values of our ids with those of foreign ones between them."""
        if not self._foreign_rows:
            return ours
        merged: list[T] = []
        taken = 0
        for row, value in zip(self._foreign_rows, foreign, strict=False):
            start, taken = taken, taken + row - len(merged)
            merged += ours[start:taken]
            merged.append(value)
        return merged + ours[taken:]


def _our_ids(times: array[int], rests: bytes) -> list[str]:
    """Return ids of ours: the digits of all of them are made at once, and then cut."""
    if not times:
        return []
    stamps = array("q", times)
    if sys.byteorder == "little":
        stamps.byteswap()
    first, skipped = stamps.tobytes(), stamps.itemsize - _TIME_BYTES
    size = _TIME_BYTES + _REST_BYTES
    data = bytearray(size * len(times))
    for plane in range(_TIME_BYTES):
        data[plane::size] = first[skipped + plane :: stamps.itemsize]
    for plane in range(_REST_BYTES):
        data[_TIME_BYTES + plane :: size] = rests[plane::_REST_BYTES]
    return data.hex("\n", size).split("\n")


def _are_rows(rows: Sequence[int], count: int) -> bool:
    """Tell whether these are different rows out of `count`, in order."""
    return not rows or (rows[0] >= 0 and rows[-1] < count and all(map(lt, rows, rows[1:])))


class ReferenceColumn:
    """References of consecutive rows.

    Args:
        column: As stored.
        count: How many rows there are.

    Raises:
        ValueError, LookupError: It is malformed.
    """

    __slots__ = ("distances", "outside", "outside_rows")

    def __init__(self, column: References, count: int) -> None:
        self.distances = unpack_array(column.distances, count)
        """See `References`."""
        outside = self.distances.count(count) if count else 0
        self.outside_rows = _all_of(self.distances, count, outside)
        """The rows whose references no other row has as its id."""
        self.outside = IdColumn(column.outside, outside)
        """These references."""

    def place(self, row: int) -> int | None:
        """The row whose id the reference of a row is; None for no reference, and for one outside.

        Raises:
            ValueError: There is no such row.
        """
        distance = self.distances[row]
        if distance in (_NOWHERE, len(self.distances)):
            return None
        if not 0 <= row - distance < len(self.distances):
            raise ValueError("reference to a row that is not there")
        return row - distance

    def text(self, row: int, ids: IdColumn) -> str | None:
        """The reference of a row among rows with these ids."""
        place = self.place(row)
        if place is not None:
            return ids[place]
        return self.outside[self.place_outside(row)] if self.distances[row] else None

    def place_outside(self, row: int) -> int:
        """The place of a row among `outside_rows`, in which it must be."""
        return bisect_left(self.outside_rows, row)

    def texts(self, ids: Sequence[str]) -> list[str | None]:
        """The references of all rows, which have these ids."""
        count = len(ids)
        if self.distances.count(_NOWHERE) == count:  # as those of notes among nodes, and the other way round
            return [None] * count
        outside = iter(self.outside.texts())
        texts: list[str | None] = []
        for row, distance in enumerate(self.distances):
            if distance == _NOWHERE:
                texts.append(None)
            elif distance == count:
                texts.append(next(outside))
            elif 0 <= row - distance < count:
                texts.append(ids[row - distance])
            else:
                raise ValueError("reference to a row that is not there")
        return texts


def _all_of(values: array[int], wanted: int, count: int) -> list[int]:
    """The places of a value that occurs `count` times."""
    found: list[int] = []
    place = -1
    for _ in range(count):
        place = values.index(wanted, place + 1)
        found.append(place)
    return found


def _pack_references(references: Sequence[str | None], rows: dict[str, int]) -> References:
    """Of several rows with the id meant, the last one is taken; if that is the row itself, none."""
    distances, outside = [], []
    for row, reference in enumerate(references):
        target = rows.get(reference) if reference is not None else None
        if reference is None:
            distances.append(_NOWHERE)
        elif target is None or target == row:
            distances.append(len(references))
            outside.append(reference)
        else:
            distances.append(row - target)
    return References(distances=pack_integers(distances), outside=pack_ids(outside))


def pack(skeletons: Sequence[Skeleton]) -> Columns:
    """Return the columns of skeletons at consecutive positions."""
    ids = [skeleton.id for skeleton in skeletons]
    rows = {identifier: row for row, identifier in enumerate(ids)}
    names: dict[Name, int] = {}
    codes = [names.setdefault(name_of(skeleton), len(names)) for skeleton in skeletons]
    timed = [row for row, skeleton in enumerate(skeletons) if skeleton.time != (time_of(skeleton.id) or 0)]
    briefed = [row for row, skeleton in enumerate(skeletons) if skeleton.brief != _EMPTY]
    linked = [(row, links) for row, skeleton in enumerate(skeletons) if (links := skeleton.links) is not None]
    return Columns(
        lengths=pack_integers([skeleton.length for skeleton in skeletons]),
        codes=pack_integers(codes),
        names=[
            (encode_text(type_), encode_text(kind), encode_text(role), encode_text(head), critical)
            for type_, kind, role, head, critical in names
        ],
        ids=pack_ids(ids),
        parents=_pack_references([skeleton.parent for skeleton in skeletons], rows),
        targets=_pack_references([skeleton.target for skeleton in skeletons], rows),
        time_rows=pack_differences(timed),
        times=pack_differences([skeletons[row].time for row in timed]),
        brief_rows=pack_differences(briefed),
        brief_lengths=pack_integers([len(skeletons[row].brief) for row in briefed]),
        briefs=b"".join(skeletons[row].brief for row in briefed),
        link_rows=pack_differences([row for row, _ in linked]),
        links=[[(encode_text(name), encode_text(value)) for name, value in links.items()] for _, links in linked],
    )


def name_of(skeleton: Skeleton) -> Name:
    """Return what a record has in common with many others."""
    return skeleton.type, skeleton.kind, skeleton.role, skeleton.head, skeleton.critical


class _Briefs(NamedTuple):
    """Where the briefs that are not `{}` lie."""

    rows: array[int]
    ends: array[int]
    """0, and where each of them ends."""


class Rows:
    """Consecutive records by column, as they are decoded from `Columns`.

    Args:
        columns: As stored.
        count: How many there must be, if that is known.

    Raises:
        ValueError, LookupError, TypeError, OverflowError: The columns do not fit together. Texts are not looked at:
            each method raises these errors, too.
    """

    def __init__(self, columns: Columns, count: int | None = None) -> None:
        self._columns = columns
        self.names = [
            (decode_text(type_), decode_text(kind), decode_text(role), decode_text(head), critical)
            for type_, kind, role, head, critical in columns.names
        ]
        """The different (type, kind, role, head, critical)."""
        self.codes = unpack_array(columns.codes, count_of(columns.lengths) if count is None else count)
        """By row: its index in `names`."""
        if self.codes and not (max(self.codes) < len(self.names) and min(self.codes) >= 0):
            raise ValueError("column of codes is malformed")
        self.ids = IdColumn(columns.ids, len(self))
        self.parents = ReferenceColumn(columns.parents, len(self))

    @cached_property
    def targets(self) -> ReferenceColumn:
        """The targets of all rows."""
        return ReferenceColumn(self._columns.targets, len(self))

    @cached_property
    def _lengths(self) -> array[int]:
        return unpack_array(self._columns.lengths, len(self))

    @cached_property
    def _times(self) -> dict[int, int]:
        """The times that are not those of their ids, by row."""
        timed = _sparse_rows(self._columns.time_rows, len(self))
        return dict(zip(timed, unpack_differences(self._columns.times, len(timed)), strict=True))

    @cached_property
    def _briefs(self) -> _Briefs:
        briefed = array("i", _sparse_rows(self._columns.brief_rows, len(self)))
        sizes = unpack_integers(self._columns.brief_lengths, len(briefed))
        if min(sizes, default=0) < 0 or sum(sizes) != len(self._columns.briefs):
            raise ValueError("briefs differ in length")
        return _Briefs(briefed, array("q", [0, *accumulate(sizes)]))

    def _brief(self, row: int) -> bytes:
        rows, ends = self._briefs
        place = bisect_left(rows, row)
        if place == len(rows) or rows[place] != row:
            return _EMPTY
        return self._columns.briefs[ends[place] : ends[place + 1]]

    @cached_property
    def _links(self) -> dict[int, list[tuple[bytes, bytes]]]:
        return dict(zip(_sparse_rows(self._columns.link_rows, len(self)), self._columns.links, strict=True))

    @property
    def linked(self) -> list[int]:
        """The rows with links."""
        return [row for row, links in self._links.items() if links]

    def times(self) -> list[int]:
        """Return the times of all rows."""
        times = self.ids.times()
        for row, time in self._times.items():
            times[row] = time
        return times

    def __len__(self) -> int:
        return len(self.codes)

    def skeleton(self, row: int, at: int) -> Skeleton:
        """Return the skeleton of a row, which is at position `at`."""
        kind = self.names[self.codes[row]]
        time, links = self._times.get(row), self._links.get(row)
        return Skeleton(
            at,
            kind[0],
            kind[1],
            self.ids[row],
            self.parents.text(row, self.ids),
            kind[3],
            kind[2],
            self.targets.text(row, self.ids),
            self.ids.time(row) if time is None else time,
            None if links is None else _unpack_links(links),
            self._brief(row),
            self._lengths[row],
            kind[4],
        )

    def skeletons(self, first: int) -> list[Skeleton]:
        """Return all skeletons; the first one is at position `first`."""
        ids = self.ids.texts()
        briefs = [_EMPTY] * len(self)
        for row, (start, end) in zip(self._briefs.rows, pairwise(self._briefs.ends), strict=True):
            briefs[row] = self._columns.briefs[start:end]
        links: list[dict[str, str] | None] = [None] * len(self)
        for row, pairs in self._links.items():
            links[row] = _unpack_links(pairs)
        rows = zip(
            range(first, first + len(self)),
            [self.names[code] for code in self.codes],
            ids,
            self.parents.texts(ids),
            self.targets.texts(ids),
            self.times(),
            links,
            briefs,
            self._lengths,
            strict=True,
        )
        return [
            Skeleton(
                at, kind[0], kind[1], identifier, parent, kind[3], kind[2], target, time, links, brief, length, kind[4]
            )
            for at, kind, identifier, parent, target, time, links, brief, length in rows
        ]


def _sparse_rows(column: bytes, count: int) -> list[int]:
    """Return the rows that a sparse column names, out of `count`."""
    rows = unpack_differences(column) if count_of(column) <= count else [count]
    if not _are_rows(rows, count):
        raise ValueError("column names a row that is not there")
    return rows


def _unpack_links(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {decode_text(name): decode_text(value) for name, value in pairs}
