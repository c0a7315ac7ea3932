"""Skeletons stored by column: the values of one field of many records, since columns compress far better than rows.

Texts are UTF-8 in which lone surrogates are encoded like other characters. Sparse columns store their row numbers as
differences from the previous one. A reference (parent, target) to a record among the same rows is stored as the number
of rows back to it. It stands for that row's id and not for the row, so it does no harm if several rows of an imported
session have the same id.

`Rows` decodes the integers that every question needs at once, other integer columns on first use, and texts only for
the rows in question. So a page of 50 rows costs a fraction of decoding all skeletons.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, TypeAlias

import msgspec

from treering.format.id_column import IdColumn, Ids, are_rows, decode_text, encode_text, pack_ids
from treering.format.integers import (
    count_of,
    pack_differences,
    pack_integers,
    unpack_array,
    unpack_differences,
    unpack_integers,
)
from treering.format.record import EMPTY, Skeleton
from treering.ids import time_of

_NOWHERE: Final = 0
_EMPTY: Final = bytes(EMPTY)

Name: TypeAlias = tuple[str, str, str, str, bool]
"""Fields whose values many records share: type, kind, role, head, critical."""


class References(msgspec.Struct, frozen=True):
    """A column of ids of other records, or None."""

    distances: bytes
    """Number of rows back to a row with the referenced id; 0 for None; the count of rows if no other row has the id."""
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
    """Rows whose time differs from the time in their id. The time in a foreign id counts as 0."""
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
        """The rows whose references are to an id that no other row has."""
        self.outside = IdColumn(column.outside, outside)
        """These references."""

    def place(self, row: int) -> int | None:
        """The row that a row's reference points to; None if it has no reference, or one to an id outside.

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
        """The id that a row refers to, or None; `ids` are the ids of all rows."""
        place = self.place(row)
        if place is not None:
            return ids[place]
        return self.outside[self.place_outside(row)] if self.distances[row] else None

    def place_outside(self, row: int) -> int:
        """The index of a row in `outside_rows`, which must contain it."""
        return bisect_left(self.outside_rows, row)

    def texts(self, ids: Sequence[str]) -> list[str | None]:
        """The ids that all rows refer to, or None; `ids` are the ids of these rows."""
        count = len(ids)
        if self.distances.count(_NOWHERE) == count:  # for example the parents of notes, or the targets of nodes
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
    """The indexes of a value that occurs `count` times."""
    found: list[int] = []
    place = -1
    for _ in range(count):
        place = values.index(wanted, place + 1)
        found.append(place)
    return found


def _pack_references(references: Sequence[str | None], rows: dict[str, int]) -> References:
    """Pack references. Among several rows with the referenced id, the last one counts; none if it is the row itself."""
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
    """Return the fields of a record whose values many records share."""
    return skeleton.type, skeleton.kind, skeleton.role, skeleton.head, skeleton.critical


class _Briefs(NamedTuple):
    """The rows and the offsets of the briefs that are not `{}`."""

    rows: array[int]
    ends: array[int]
    """0, then the end offset of each brief."""


class Rows:
    """Consecutive records by column, decoded from `Columns`.

    Args:
        columns: As stored.
        count: How many there must be, if that is known.

    Raises:
        ValueError, LookupError, TypeError, OverflowError: The columns do not fit together. Texts are not checked here,
            so each method raises these errors, too.
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
        """The times that differ from the time in the row's id, by row."""
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

    def skeleton(self, row: int, at: int, name: str | None = None, parent: str | None = None) -> Skeleton:
        """Return the skeleton of a row, which is at position `at`; give its id and parent both, or neither."""
        if name is None:
            name, parent = self.ids[row], self.parents.text(row, self.ids)
        type_, kind, role, head, critical = self.names[self.codes[row]]
        times, links = self._times, self._links
        return Skeleton(
            at,
            type_,
            kind,
            name,
            parent,
            head,
            role,
            self.targets.text(row, self.ids) if self.targets.distances[row] else None,
            times[row] if row in times else self.ids.time(row),
            _unpack_links(links[row]) if row in links else None,
            self._brief(row) if self._briefs.rows else _EMPTY,
            self._lengths[row],
            critical,
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
    """Return the rows that a sparse column lists, out of `count`."""
    rows = unpack_differences(column) if count_of(column) <= count else [count]
    if not are_rows(rows, count):
        raise ValueError("column names a row that is not there")
    return rows


def _unpack_links(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {decode_text(name): decode_text(value) for name, value in pairs}
