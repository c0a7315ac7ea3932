"""The lists of an index's parts: the length and checksum of each, and values that show whether to read it.

The stored form is entries. A reader works with spans, which also have the offsets of each part.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from treering.format.id_column import decode_text, encode_text
from treering.format.index import HASH_MAX, TIME_MAX, ChunkSpan, ForeignSpan, OutsideSpan, SegmentIndex

_Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**32)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**32)]
_Crc = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_Time = Annotated[int, msgspec.Meta(ge=-1, le=TIME_MAX)]
Span: TypeAlias = ChunkSpan | OutsideSpan | ForeignSpan


class ChunkEntry(NamedTuple):
    """A chunk as the index lists it."""

    size: _Bytes
    crc: _Crc
    rows: _Count
    least: _Time
    greatest: _Time
    mask: Annotated[int, msgspec.Meta(ge=0)]


class OutsideEntry(NamedTuple):
    """A block of references outside as the index lists it."""

    size: _Bytes
    crc: _Crc
    entries: _Count
    first: bytes


class ForeignEntry(NamedTuple):
    """A block of foreign ids as the index lists it."""

    size: _Bytes
    crc: _Crc
    entries: _Count
    first: Annotated[int, msgspec.Meta(ge=0, le=HASH_MAX)]


class Lists(NamedTuple):
    """The entries of all parts in the index."""

    chunks: list[ChunkEntry]
    outside: list[OutsideEntry]
    foreign: list[ForeignEntry]


class Spans(NamedTuple):
    """The spans of all parts."""

    chunks: tuple[ChunkSpan, ...]
    outside: tuple[OutsideSpan, ...]
    foreign: tuple[ForeignSpan, ...]


def spans_of(lists: Lists, start: int) -> Spans:
    """Return the spans of the parts, the first of which begins at the offset `start`.

    Raises:
        ValueError: The entries are impossible.
    """
    listed: list[ChunkEntry | OutsideEntry | ForeignEntry] = [*lists.chunks, *lists.outside, *lists.foreign]
    ends = accumulate((entry.size for entry in listed), initial=start)
    places = iter(pairwise(ends))
    rows = [0, *accumulate(entry.rows for entry in lists.chunks)]
    chunks = tuple(
        [
            ChunkSpan(*next(places), row, entry.rows, entry.least, entry.greatest, entry.mask, entry.crc)
            for entry, row in zip(lists.chunks, rows, strict=False)
        ]
    )
    outside = tuple(
        [OutsideSpan(*next(places), entry.entries, decode_text(entry.first), entry.crc) for entry in lists.outside]
    )
    foreign = tuple([ForeignSpan(*next(places), entry.entries, entry.first, entry.crc) for entry in lists.foreign])
    if any((span.least < 0) != (span.greatest < 0) or span.least > span.greatest for span in chunks):
        raise ValueError("times of a chunk are impossible")
    fences = [span.first for span in outside], [span.first for span in foreign]
    if any(each != sorted(each) for each in fences):
        raise ValueError("blocks are out of order")
    return Spans(chunks, outside, foreign)


def lists_of(index: SegmentIndex) -> Lists:
    """Return the entries of the parts of an index of version 2."""
    return Lists(
        [ChunkEntry(_size(s), s.crc, s.rows, s.least, s.greatest, s.mask) for s in index.chunks],
        [OutsideEntry(_size(s), s.crc, s.entries, encode_text(s.first)) for s in index.outside],
        [ForeignEntry(_size(s), s.crc, s.entries, s.first) for s in index.foreign],
    )


def _size(span: Span) -> int:
    return span.end - span.start
