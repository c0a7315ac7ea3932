"""Read from the indexes of sealed segments only the parts that a question needs.

These are the names of the segments, the small footer of each, and the needed parts of their indexes. A segment never
changes under its name, so all of this is cached, by one handle or by all handles of a store.

Rule 1: a list of segments that was made after the tail was read, or that reaches the tail's base, holds every row below
that base.
Rule 2: a segment that is gone was merged: list again. An erasure rewrites the segments that hold erased records, under
new names.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from treering.errors import NotFoundError
from treering.format.frames import frame_at
from treering.format.index import ChunkSpan, ForeignSpan, OutsideSpan, SegmentIndex
from treering.journal.memory import Cache, Memory
from treering.journal.read import (
    PARALLEL_GETS_MAX,
    Footer,
    Segment,
    choose,
    footers,
    list_segments,
    segments_named,
    survey,
)
from treering.journal.register import Attempts
from treering.journal.view import View
from treering.storage.requests import Found, Get, Steps
from treering.storage.run import checked

SPAN_BYTES: Final = 200
"""About the memory that the place of a part takes."""
COLUMN_BYTES: Final = 50
"""About the memory that a row takes in the columns of version 1."""
ROW_BYTES: Final = 80
"""About the memory that a row or entry of a decoded part takes beyond its content: integers and string objects."""

ENDS_BYTES: Final = 1024 * 1024
"""Limit for the bytes kept that were read with indexes: the last rows of each segment, and whole small segments."""

T = TypeVar("T")
B = TypeVar("B")
S = TypeVar("S", ChunkSpan, OutsideSpan, ForeignSpan)
Span: TypeAlias = ChunkSpan | OutsideSpan | ForeignSpan


class MergedError(Exception):
    """A segment is gone, and others hold its records."""


class Part(msgspec.Struct, frozen=True):
    """One of the segments that together hold all rows below the tail's base."""

    segment: Segment
    index: SegmentIndex
    first: int
    """The first position to be taken from it; the previous segment holds the positions below."""
    footer: Footer | None
    """The bytes that were read with the index."""


class SealedParts:
    """The segments of a session that hold the rows below the base of the tail of one view."""

    def __init__(self, view: View, memory: Memory) -> None:
        self.view = view
        """The registers as last read; `Rows.look` replaces them by newer ones of the same life."""
        self._memory = memory
        self._segments: tuple[tuple[int, Segment], ...] = ()
        self._outdated: tuple[str, ...] = ()
        """The names of segments in `latest` when one of these segments was gone."""
        self._ends = Cache(ENDS_BYTES)
        self._parts: dict[str, Part] = {}
        """Segments that a question needed, by key."""

    def forget_content(self) -> None:
        """Forget the bytes that may hold payloads erased since they were read."""
        self._ends = Cache(ENDS_BYTES)
        self._parts.clear()

    def ask(
        self,
        question: Callable[[Sequence[Part]], Steps[T]],
        positions: Sequence[int] | None = None,
        *,
        whole: bool = False,
    ) -> Steps[T]:
        """Return the result of `question` on the segments; calls it again if a segment was merged during the call.

        Args:
            question: Gets the segments that hold `positions`, or all segments, with their indexes.
            positions: Below the base of the tail.
            whole: Questions about all rows follow: read all parts of the indexes at once.
        """
        attempts = Attempts(self.view.keys.tail)
        while attempts.another():
            listed = yield from self._listed()
            if positions is not None and len(listed) > 1:
                listed = [listed[place] for place in sorted({_place_of(listed, at) for at in positions})]
            try:
                return (yield from question((yield from self._opened(listed, whole=whole))))
            except MergedError:
                self._segments = ()  # rule: look-again-record
                self._outdated = self.view.latest.card.segments  # rule: name-once

    def _listed(self) -> Steps[Sequence[tuple[int, Segment]]]:
        """The segments that hold all rows below the tail's base, each with the first position to be taken from it."""
        if self._segments and self._segments[-1][1].name.end >= self.view.tail.header.base:  # rule: rows-reach-base
            return self._segments
        keys, life, named = self.view.keys, self.view.life, self.view.latest.card.segments
        segments, _, reach = choose(() if named == self._outdated else segments_named(keys, life, named))
        if reach < self.view.tail.header.base:
            segments, _, reach = choose((yield from list_segments(keys, life)))
        if reach < self.view.tail.header.base:
            # A list may miss a segment that was merged; a second look proves whether one is lost, or all were deleted.
            segments = (yield from survey(keys, life)).segments
        self._parts.clear()  # their first positions may have changed
        self._segments = tuple(zip([0, *(segment.name.end for segment in segments)], segments, strict=False))
        return self._segments

    def _opened(self, listed: Sequence[tuple[int, Segment]], *, whole: bool) -> Steps[list[Part]]:
        """Segments with their indexes: one GET each, in parallel, where these are not remembered."""
        known_parts = [self._parts[segment.key] for _, segment in listed if segment.key in self._parts]
        if len(known_parts) == len(listed):  # usually so: a page asks some ten questions about the same segments
            return known_parts
        read: dict[str, Footer] = {}
        known = {segment.key: self._memory.get((segment.key, None)) for _, segment in listed}
        held = {segment.key: self._ends.get(segment.key) for _, segment in listed}
        missing = [segment for _, segment in listed if known[segment.key] is None and held[segment.key] is None]
        for start in range(0, len(missing), PARALLEL_GETS_MAX):
            batch = missing[start : start + PARALLEL_GETS_MAX]
            try:
                found = yield from footers(batch, whole=whole)
            except NotFoundError:
                raise MergedError from None
            read |= zip([segment.key for segment in batch], found, strict=True)
        for key, footer in read.items():
            self._memory.put((key, None), footer.index, _weight(footer.index))
            self._ends.put(key, footer, len(footer.suffix))
        parts: list[Part] = []
        for first, segment in listed:
            came = read.get(segment.key) or held[segment.key]
            index = came.index if came is not None else known[segment.key]
            parts.append(Part(segment, index, first, came))
        self._parts |= {part.segment.key: part for part in parts}
        if sum(len(part.footer.suffix) for part in self._parts.values() if part.footer is not None) > ENDS_BYTES:
            self._parts.clear()
        return parts

    def load(self, wanted: Iterable[tuple[Part, S]], decode: Callable[[bytes, S, SegmentIndex], B]) -> Steps[list[B]]:
        """Decoded parts of segments' indexes, in the given order; parts that are not cached are read in parallel."""
        asked = [(part, span) for part, span in wanted]
        found: dict[tuple[str, S], B] = {}
        missing: dict[tuple[str, S], tuple[Part, S]] = {}
        for part, span in asked:
            name = (part.segment.key, span)
            held = self._memory.get(name) if name not in found else found[name]
            if held is not None:
                found[name] = held
            elif (came := _came_with(part, span)) is not None:
                found[name] = decode(came, span, part.index)
                self._memory.put(name, found[name], _part_weight(came, span, part.index))
            else:
                missing[name] = part, span
        jobs = list(missing.items())
        for start in range(0, len(jobs), PARALLEL_GETS_MAX):
            batch = jobs[start : start + PARALLEL_GETS_MAX]
            answers = yield tuple(Get(key, start=span.start, end=span.end) for (key, _), (_, span) in batch)
            for (name, (part, span)), answer in zip(batch, answers, strict=True):
                if isinstance(answer, NotFoundError):
                    raise MergedError
                data = checked(answer, Found).data
                found[name] = decode(data, span, part.index)
                self._memory.put(name, found[name], _part_weight(data, span, part.index))
        return [found[part.segment.key, span] for part, span in asked]


def holder_of(parts: Sequence[Part], at: int) -> Part:
    """Return the part that a position is taken from."""
    return parts[bisect_right(parts, at, key=lambda part: part.first) - 1]


def _came_with(part: Part, span: Span) -> bytes | None:
    """The bytes of a part of an index, if they were read with it; empty for version 1, whose index has no parts."""
    if span.start == span.end:
        return b""
    return part.footer.held(span.start, span.end) if part.footer is not None else None


def _weight(index: SegmentIndex) -> int:
    """About the bytes that an index takes in memory."""
    spans = len(index.frames) + len(index.chunks) + len(index.outside) + len(index.foreign)
    return SPAN_BYTES * spans + (COLUMN_BYTES * index.rows if index.version == 1 else 0)


def _part_weight(data: bytes, span: Span, index: SegmentIndex) -> int:
    """About the bytes that a part takes in memory once it is decoded; its stored size may be a hundredth of that."""
    if not data:  # of version 1: computed from all rows
        return _weight(index) + ROW_BYTES * index.rows
    rows = span.rows if isinstance(span, ChunkSpan) else span.entries
    content = frame_at(data, 0, key=index.key).content_size or len(data)
    return SPAN_BYTES + ROW_BYTES * rows + content


def _place_of(listed: Sequence[tuple[int, Segment]], at: int) -> int:
    return bisect_right(listed, at, key=lambda each: each[0]) - 1
