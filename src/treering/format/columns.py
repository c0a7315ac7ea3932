"""Skeletons stored by column: the values of one field of many records, which compress far better than rows do.

An integer column is one byte, the width of its items (1, 2, 4 or 8), then the items as signed little-endian integers,
byte plane by byte plane: first the lowest byte of every item, then the next one. Texts are UTF-8 in which lone
surrogates are encoded like other characters. Sparse columns name their rows as differences from the row before.

Our ids are 16 bytes: the time goes into an integer column of differences, the ten bytes behind it stay together. A
reference (parent, target) to a record among the same rows is the number of rows back to it. It stands for that row's
id and not for the row, so it does no harm that several rows may have the same id in imported sessions.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeVar

import msgspec

from treering.format.record import EMPTY, Skeleton
from treering.ids import time_of

_WIDTHS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}
_TIME_BYTES: Final = 6
_REST_BYTES: Final = 10
_NOWHERE: Final = 0
_EMPTY: Final = bytes(EMPTY)

T = TypeVar("T")


class Ids(msgspec.Struct, frozen=True):
    """A column of ids."""

    times: bytes
    """Milliseconds of our ids: integers, differences."""
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


def unpack_integers(column: bytes) -> list[int]:
    """Return the items of an integer column.

    Raises:
        ValueError: The bytes are no integer column.
    """
    width = column[0] if column else 0
    count, rest = divmod(len(column) - 1, width) if width in _WIDTHS else (0, 1)
    if rest:
        raise ValueError("integer column is malformed")
    data = bytearray(width * count)
    for plane in range(width):
        data[plane::width] = column[1 + plane * count : 1 + (plane + 1) * count]
    items = array(_WIDTHS[width], bytes(data))
    if sys.byteorder == "big":
        items.byteswap()
    return items.tolist()


def _pack_differences(values: Sequence[int]) -> bytes:
    return pack_integers([after - before for before, after in pairwise((0, *values))])


def _unpack_differences(column: bytes) -> list[int]:
    return list(accumulate(unpack_integers(column)))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _pack_ids(ids: Sequence[str]) -> Ids:
    times = [time_of(identifier) for identifier in ids]
    ours = [identifier for identifier, time in zip(ids, times, strict=True) if time is not None]
    foreign = [row for row, time in enumerate(times) if time is None]
    return Ids(
        times=_pack_differences([time for time in times if time is not None]),
        rests=bytes.fromhex("".join(identifier[2 * _TIME_BYTES :] for identifier in ours)),
        foreign_rows=_pack_differences(foreign),
        foreign=[_encode(ids[row]) for row in foreign],
    )


def _unpack_ids(column: Ids) -> tuple[list[str], list[int]]:
    """Return the ids, and the time in each of them, 0 for foreign ones."""
    times = _unpack_differences(column.times)
    digits = column.rests.hex()
    step = 2 * _REST_BYTES
    rests = (digits[place : place + step] for place in range(0, len(digits), step))
    ids = [f"{time:012x}{rest}" for time, rest in zip(times, rests, strict=True)]
    foreign = dict(zip(_unpack_differences(column.foreign_rows), map(_decode, column.foreign), strict=True))
    if not foreign:
        return ids, times
    ours = zip(ids, times, strict=True)
    pairs = [(foreign[row], 0) if row in foreign else next(ours) for row in range(len(ids) + len(foreign))]
    return [identifier for identifier, _ in pairs], [time for _, time in pairs]


def _place(items: list[T], rows: Sequence[int], values: Sequence[T]) -> list[T]:
    """Put each value into its row of `items`, which is changed and returned."""
    for row, value in zip(rows, values, strict=True):
        if row < 0:
            raise ValueError("column names a row that is not there")
        items[row] = value
    return items


def _pack_references(references: Sequence[str | None], rows: dict[str, int]) -> References:
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
    return References(distances=pack_integers(distances), outside=_pack_ids(outside))


def _unpack_references(column: References, ids: Sequence[str]) -> list[str | None]:
    outside = iter(_unpack_ids(column.outside)[0])
    count = len(ids)
    distances = unpack_integers(column.distances)
    if distances.count(_NOWHERE) == len(distances):  # as those of notes among nodes, and the other way round
        return [None] * len(distances)
    references: list[str | None] = []
    for row, distance in enumerate(distances):
        if distance == _NOWHERE:
            references.append(None)
        elif distance == count:
            references.append(next(outside))
        elif 0 <= row - distance < count:
            references.append(ids[row - distance])
        else:
            raise ValueError("reference to a row that is not there")
    return references


def pack(skeletons: Sequence[Skeleton]) -> Columns:
    """Return the columns of skeletons at consecutive positions."""
    ids = [skeleton.id for skeleton in skeletons]
    rows = {identifier: row for row, identifier in enumerate(ids)}
    names: dict[tuple[str, str, str, str, bool], int] = {}
    codes = [names.setdefault(_name(skeleton), len(names)) for skeleton in skeletons]
    timed = [row for row, skeleton in enumerate(skeletons) if skeleton.time != (time_of(skeleton.id) or 0)]
    briefed = [row for row, skeleton in enumerate(skeletons) if skeleton.brief != _EMPTY]
    linked = [(row, links) for row, skeleton in enumerate(skeletons) if (links := skeleton.links) is not None]
    return Columns(
        lengths=pack_integers([skeleton.length for skeleton in skeletons]),
        codes=pack_integers(codes),
        names=[
            (_encode(type_), _encode(kind), _encode(role), _encode(head), critical)
            for type_, kind, role, head, critical in names
        ],
        ids=_pack_ids(ids),
        parents=_pack_references([skeleton.parent for skeleton in skeletons], rows),
        targets=_pack_references([skeleton.target for skeleton in skeletons], rows),
        time_rows=_pack_differences(timed),
        times=_pack_differences([skeletons[row].time for row in timed]),
        brief_rows=_pack_differences(briefed),
        brief_lengths=pack_integers([len(skeletons[row].brief) for row in briefed]),
        briefs=b"".join(skeletons[row].brief for row in briefed),
        link_rows=_pack_differences([row for row, _ in linked]),
        links=[[(_encode(name), _encode(value)) for name, value in links.items()] for _, links in linked],
    )


def _name(skeleton: Skeleton) -> tuple[str, str, str, str, bool]:
    return skeleton.type, skeleton.kind, skeleton.role, skeleton.head, skeleton.critical


def unpack(columns: Columns, first: int) -> list[Skeleton]:
    """Return the skeletons; the first one is at position `first`.

    Raises:
        ValueError, LookupError: The columns do not fit together.
    """
    lengths = unpack_integers(columns.lengths)
    count = len(lengths)
    names = [
        (_decode(type_), _decode(kind), _decode(role), _decode(head), critical)
        for type_, kind, role, head, critical in columns.names
    ]
    ids, times = _unpack_ids(columns.ids)
    links: list[dict[str, str] | None] = [None] * count
    rows = zip(
        range(first, first + count),
        [names[code] for code in unpack_integers(columns.codes)],
        ids,
        _unpack_references(columns.parents, ids),
        _unpack_references(columns.targets, ids),
        _place(times, _unpack_differences(columns.time_rows), _unpack_differences(columns.times)),
        _place(links, _unpack_differences(columns.link_rows), _unpack_links(columns.links)),
        _place([_EMPTY] * count, _unpack_differences(columns.brief_rows), _unpack_briefs(columns)),
        lengths,
        strict=True,
    )
    return [
        Skeleton(
            at, kind[0], kind[1], identifier, parent, kind[3], kind[2], target, time, links, brief, length, kind[4]
        )
        for at, kind, identifier, parent, target, time, links, brief, length in rows
    ]


def _unpack_briefs(columns: Columns) -> list[bytes]:
    ends = _unpack_differences(columns.brief_lengths)
    return [columns.briefs[start:end] for start, end in pairwise((0, *ends))]


def _unpack_links(links: Iterable[Iterable[tuple[bytes, bytes]]]) -> list[dict[str, str] | None]:
    return [{_decode(name): _decode(value) for name, value in pairs} for pairs in links]
