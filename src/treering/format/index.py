"""The index of a segment: the offsets of its frames and of the parts of its columns, and a summary of each.

A row is the place of a record in its segment, from 0. This module counts rows from the beginning of the segment, also
inside a chunk.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate
from typing import Final

import msgspec

from treering.errors import UsageError
from treering.format.columns import Columns
from treering.format.id_column import encode_text
from treering.ids import time_of

TIME_MAX: Final = (1 << 48) - 1
"""Greatest time in one of our ids."""
HASH_MAX: Final = (1 << 32) - 1
FENCE_CHARACTERS: Final = 64
"""The index distinguishes blocks of references by the beginnings of ids, so that long ids do not make it large."""


class FrameSpan(msgspec.Struct, frozen=True):
    """One frame of a segment, and the records in it."""

    start: int
    """Offset of its first byte in the segment."""
    end: int
    """Offset one past its last byte."""
    first_row: int
    """How many records of the segment come before it."""
    rows: int
    content_size: int
    crc: int
    """CRC-32 of its bytes."""


class ChunkSpan(msgspec.Struct, frozen=True):
    """One chunk of the columns, and the rows in it."""

    start: int
    """Offset of its first byte in the segment."""
    end: int
    """Offset one past its last byte; equal to `start` if the index contains the chunk (version 1)."""
    first_row: int
    rows: int
    least: int
    """Least time in an id of ours; -1 if there is none."""
    greatest: int
    """Greatest time in an id of ours; -1 if there is none."""
    mask: int
    """What occurs, see `treering.format.references`."""
    crc: int
    """CRC-32 of its bytes."""


class OutsideSpan(msgspec.Struct, frozen=True):
    """One block of references to ids that no record of the segment has."""

    start: int
    end: int
    """Equal to `start` if the block is computed from a chunk (version 1)."""
    entries: int
    first: str
    """The first `FENCE_CHARACTERS` of the first id that is referred to."""
    crc: int


class ForeignSpan(msgspec.Struct, frozen=True):
    """One block of the rows whose ids are not ours."""

    start: int
    end: int
    """Equal to `start` if the block is computed from a chunk (version 1)."""
    entries: int
    first: int
    """The first hash."""
    crc: int


class SegmentIndex(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The end of a segment, decoded; readers keep it in memory."""

    key: str
    """For messages."""
    version: int
    first: int
    """Position of the first record."""
    frames: tuple[FrameSpan, ...]
    chunks: tuple[ChunkSpan, ...]
    outside: tuple[OutsideSpan, ...]
    foreign: tuple[ForeignSpan, ...]
    odd: bool
    """A walk along parents could go wrong here: an id occurs or may occur twice, or a parent is not a node before its
    child.

    Version 1 does not store it; then it is whether any id is foreign.
    """
    columns: Columns | None = None
    """The columns of the only chunk in version 1."""

    @property
    def rows(self) -> int:
        """Number of records."""
        return self.frames[-1].first_row + self.frames[-1].rows

    @property
    def end(self) -> int:
        """One past the position of the last record."""
        return self.first + self.rows

    def frame_of(self, at: int) -> FrameSpan:
        """Return the frame that holds the record at position `at`.

        Raises:
            UsageError: The segment does not hold it.
        """
        self._require(at)
        return self.frames[bisect_right(self.frames, at - self.first, key=lambda frame: frame.first_row) - 1]

    def chunk_of(self, at: int) -> ChunkSpan:
        """Return the chunk that holds the record at position `at`.

        Raises:
            UsageError: The segment does not hold it.
        """
        return self.chunks[self._chunk_number(at)]

    def chunks_from(self, at: int) -> tuple[ChunkSpan, ...]:
        """Return the chunk that holds the record at position `at`, and all chunks behind it.

        Raises:
            UsageError: The segment does not hold it.
        """
        return self.chunks[self._chunk_number(at) :]

    def _chunk_number(self, at: int) -> int:
        self._require(at)
        return bisect_right(self.chunks, at - self.first, key=lambda chunk: chunk.first_row) - 1

    def _require(self, at: int) -> None:
        if not self.first <= at < self.end:
            raise UsageError(f"position is not in this segment. at={at}, first={self.first}, end={self.end}")

    def chunks_with(self, identifier: str) -> tuple[ChunkSpan, ...]:
        """Return the chunks that may hold a record with this id if it is ours; none for a foreign id."""
        time = time_of(identifier)
        if time is None:
            return ()
        greatest, least = self._times
        few = self.chunks[bisect_left(greatest, time) : bisect_right(least, time)]
        return tuple([span for span in few if span.least <= time <= span.greatest])

    @cached_property
    def _times(self) -> tuple[list[int], list[int]]:
        """By chunk: the greatest time in it and all chunks before it; and the least in it and all chunks behind it."""
        least = [span.least if span.least >= 0 else TIME_MAX + 1 for span in reversed(self.chunks)]
        return list(accumulate((span.greatest for span in self.chunks), max)), list(accumulate(least, min))[::-1]

    @cached_property
    def mask(self) -> int:
        """Bits of what occurs in any chunk; see `treering.format.references`."""
        mask = 0
        for span in self.chunks:
            mask |= span.mask
        return mask

    def outside_with(self, identifier: str) -> tuple[OutsideSpan, ...]:
        """Return the blocks that may hold references from this segment to this id."""
        return self.outside_between(identifier, identifier)

    def outside_between(self, least: str, greatest: str) -> tuple[OutsideSpan, ...]:
        """Return the blocks that may hold references from this segment to ids from `least` to `greatest`."""
        first = bisect_left(self.outside, least[:FENCE_CHARACTERS], key=lambda span: span.first)
        return self.outside[max(0, first - 1) : bisect_right(self.outside, greatest, key=lambda span: span.first)]

    def foreign_with(self, identifier: str) -> tuple[ForeignSpan, ...]:
        """Return the blocks that may hold a record with this foreign id; none for an id of ours."""
        if time_of(identifier) is not None:
            return ()
        wanted = hash_of(identifier)
        first = bisect_left(self.foreign, wanted, key=lambda span: span.first)
        return self.foreign[max(0, first - 1) : bisect_right(self.foreign, wanted, key=lambda span: span.first)]


def hash_of(identifier: str) -> int:
    """Return the hash by which a foreign id is found: CRC-32 of its text. Several ids may have the same hash."""
    return zlib.crc32(encode_text(identifier))
