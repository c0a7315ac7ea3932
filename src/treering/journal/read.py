"""Read all records of a session: the tail first, then the segments, which hold the earlier records.

Rule 1: the tail is read before the segments are listed, so a record that had already left the tail is in a segment that
the list shows.
Rule 2: a LIST is not a snapshot, and a lost segment looks the same as one that the list missed. The names must reach
the tail's base without a gap; if they do not, list again. The same gap three times with the same tail is damage.
Rule 3: a segment that vanished between LIST and GET was merged: list again.
Rule 4: a repeated read must be of the same life. If a name was deleted and created again, it names another session.
Rule 5: records that the tail lists as erased are shown as erased, whatever a segment holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from treering.errors import CorruptError, NotFoundError
from treering.format.erasure import Burials
from treering.format.index import FrameSpan, SegmentIndex
from treering.format.line_search import lines_at
from treering.format.parts import read_chunk
from treering.format.paths import SegmentName, SessionKeys, decode_id, parse_segment
from treering.format.record import skeleton_of
from treering.format.register import Tail
from treering.format.segment import (
    FOOTER_GUESS_BYTES,
    ROW_GUESS_BYTES,
    frame_content,
    frame_lines,
    read_footer,
    read_frame,
    read_segment,
)
from treering.format.skeletons import Skeletons
from treering.journal.register import Attempts, TailRegister
from treering.journal.resume import resume, resume_life
from treering.journal.view import deleted
from treering.kinds import Kind
from treering.storage.requests import Entry, Found, Get, Steps, Version
from treering.storage.run import ask, checked, list_all

# A merge may hide a segment from one list, and a deletion may come between reading a tail and the list after it. A
# third look shows that the tail still existed when the second list was made.
GAPS_PROVE = 3
WHOLE_BYTES_MAX = 2 * 1024 * 1024
"""Scans read a segment part by part if it has more stored bytes than this."""
PART_CONTENT_BYTES = 8 * 1024 * 1024
"""About the uncompressed size of such a part."""
PARALLEL_GETS_MAX = 32  # bounds memory: this many segment footers or frames at a time


class Segment(msgspec.Struct, frozen=True):
    """One segment, as described by its name."""

    key: str
    size: int
    """Bytes as stored; 0 if that is not known."""
    name: SegmentName


class Footer(msgspec.Struct, frozen=True):
    """The end of a segment: its index, and the bytes that were read with it."""

    index: SegmentIndex
    suffix: bytes
    """The last bytes of the segment. Chunks may be among them, as their columns lie before the index."""
    size: int
    """Bytes of the whole segment."""

    def held(self, start: int, end: int) -> bytes | None:
        """The bytes from `start` to `end`, if they were read with the index; an empty range always counts as read."""
        first = self.size - len(self.suffix)
        if start == end:
            return b""
        if (start, end) == (first, self.size):
            return self.suffix
        return self.suffix[start - first : end - first] if start >= first else None

    def content_of(self, span: FrameSpan) -> bytes | None:
        """The content of a frame, if that was read with the index."""
        data = self.held(span.start, span.end)
        return None if data is None else frame_content(data, span, key=self.index.key)


class Survey(msgspec.Struct, frozen=True):
    """The place of every record: the tail, and segments that hold all positions below its base."""

    keys: SessionKeys
    tail: Tail
    segments: tuple[Segment, ...]
    """In order, each beginning at or below the end of the one before."""
    waste: tuple[Segment, ...]
    """Segments whose records other segments hold as well."""
    reading: SegmentIndex | None = None
    """The index of a large segment that is being read part by part."""

    @property
    def life(self) -> str:
        return self.tail.header.life

    @property
    def end(self) -> int:
        return self.tail.end

    @property
    def burials(self) -> Burials:
        """Which records were erased."""
        return self.tail.header.burials

    def holding(self, at: int) -> Segment:
        """The segment that holds position `at`, which lies below the tail's base."""
        return next(segment for segment in self.segments if segment.name.first <= at < segment.name.end)


def survey(keys: SessionKeys, life: str = "") -> Steps[Survey]:
    """Find every record: one GET, then one LIST per 1,000 segments.

    Args:
        keys: The session.
        life: The life (generation) to read; empty for the current one.

    Raises:
        NotFoundError: There is no such session.
        SessionDeletedError: It was deleted.
        CorruptError: A segment is missing; the message names the positions.
    """
    attempts = Attempts(keys.tail)
    while attempts.another():
        tail, version = yield from _tail(keys, life)
        if life and tail.header.life != life:  # rule: look-at-same-life
            raise deleted(keys)
        listed = yield from list_segments(keys, tail.header.life)
        chosen, waste, reach = choose(listed)
        if reach >= tail.header.base:  # rule: reach-base
            return Survey(keys, tail, chosen, waste)
        seen = (version, [segment.key for segment in listed])
        if attempts.in_a_row(seen) == GAPS_PROVE:  # rule: gap-proven, gap-thrice
            raise CorruptError(
                f"no segment holds the positions from {reach} on, and the tail begins at {tail.header.base}",
                kind=Kind.MISSING_SEGMENT,
                key=keys.segments(tail.header.life),
                remedy="run `treering verify`; nothing was changed",
            )


def _tail(keys: SessionKeys, life: str) -> Steps[tuple[Tail, Version]]:
    seen = yield from TailRegister(keys).read()
    if seen.value is not None and not seen.value.header.dead:
        return seen.value, seen.version
    # deleted, never created, or a life without an append so far
    view = yield from (resume_life(keys, life) if life else resume(keys))
    return view.tail, view.tail_version


def list_segments(keys: SessionKeys, life: str) -> Steps[tuple[Segment, ...]]:
    """All segments of one life, by position; unknown files are skipped."""
    entries = yield from list_all(keys.segments(life))
    found = [segment for entry in entries if (segment := _segment(entry))]
    return tuple(sorted(found, key=lambda segment: (segment.name.first, -segment.name.end, segment.key)))


def newest_life(keys: SessionKeys) -> Steps[str]:
    """The life whose segments were written last, for a session whose registers cannot tell it; empty if it has none."""
    newest: tuple[int, str] = (-1, "")
    for entry in (yield from list_all(keys.home)):
        name, _, rest = entry.key.removeprefix(keys.home).partition("/")
        if rest.startswith("segments/") and (life := decode_id(name)):
            newest = max(newest, (entry.modified_ms, life))
    return newest[1]


def segments_named(keys: SessionKeys, life: str, names: Iterable[str]) -> list[Segment]:
    """Segments of one life by their file names; unknown ones are skipped."""
    found = [(f"{keys.segments(life)}{name}", parse_segment(f"{keys.segments(life)}{name}")) for name in names]
    return [Segment(key, 0, name) for key, name in found if name is not None]


def _segment(entry: Entry) -> Segment | None:
    name = parse_segment(entry.key)
    return Segment(entry.key, entry.size, name) if name else None


def choose(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], tuple[Segment, ...], int]:
    """Choose few segments that hold all positions from 0 on; return these, the other ones, and how far they reach."""
    chosen: list[Segment] = []
    reach, place = 0, 0
    ordered = sorted(segments, key=lambda segment: segment.name.first)
    while True:
        best: Segment | None = None
        while place < len(ordered) and ordered[place].name.first <= reach:  # rule: no-gap
            if best is None or ordered[place].name.end > best.name.end:
                best = ordered[place]
            place += 1
        if best is None or best.name.end <= reach:
            break
        chosen.append(best)
        reach = best.name.end
    keys = {segment.key for segment in chosen}
    return tuple(chosen), tuple(segment for segment in ordered if segment.key not in keys), reach


def read_lines(
    keys: SessionKeys, first: int, known: Survey | None = None, *, life: str = ""
) -> Steps[tuple[Survey, list[bytes]]]:
    """Read the lines from position `first` on, for scans.

    Args:
        keys: The session.
        first: The position to continue from.
        known: The survey that the previous call returned; saves a LIST.
        life: The life to read; by default that of `known`, else the current one.

    Returns:
        The survey used, and the lines of one segment, of a part of a large one, or of the tail; none if the journal
        ends at `first`.
    """
    life = known.life if known else life
    attempts = Attempts(keys.tail)
    while attempts.another():
        found = known or (yield from survey(keys, life))
        known = None
        if first >= found.tail.header.base:
            return found, list(found.tail.lines[first - found.tail.header.base :])
        segment = found.holding(first)
        try:
            reading, start, lines = yield from _lines_from(segment, first, found.reading)
        except NotFoundError:
            continue  # rule: look-again-walk
        # A segment that ends behind the tail is left over from an interrupted backup, or the store was restored over a
        # newer one.
        here = lines[first - start : found.end - start]
        return msgspec.structs.replace(found, reading=reading), found.burials.bury_all(here, first)


def _lines_from(
    segment: Segment, first: int, reading: SegmentIndex | None
) -> Steps[tuple[SegmentIndex | None, int, list[bytes]]]:
    """The index of a large segment or None, the position of the first line, and all lines or a part with `first`."""
    if segment.size <= WHOLE_BYTES_MAX:
        return None, segment.name.first, (yield from segment_lines(segment))
    if reading is None or reading.key != segment.key:
        (footer,) = yield from footers([segment])
        reading = footer.index
    place = reading.frames.index(reading.frame_of(first))
    sizes = accumulate(span.content_size for span in reading.frames[place:])
    count = max(1, sum(size <= PART_CONTENT_BYTES for size in sizes))
    spans = reading.frames[place : place + count]
    start = spans[0].start
    data = (yield from ask(Get(segment.key, start=start, end=spans[-1].end), Found)).data
    parts = [read_frame(data[span.start - start : span.end - start], span, key=segment.key) for span in spans]
    return reading, reading.first + spans[0].first_row, [line for lines in parts for line in lines]


def segment_lines(segment: Segment) -> Steps[list[bytes]]:
    """Read one whole segment and check it against its name.

    Raises:
        NotFoundError: It was merged since it was listed.
        CorruptError: It is damaged.
    """
    return (yield from segment_content(segment)).lines


class Content(NamedTuple):
    """One whole segment."""

    data: bytes
    lines: list[bytes]
    odd: bool
    """As the index says; for version 1, whether any id was not made by Treering."""

    def is_doubtful(self, first: int) -> bool:
        """Whether an id of this segment may also occur before a new segment made of it, which begins at `first`.

        Nothing comes before a segment that begins the journal. An id that occurs again later makes the later segment
        odd.
        """
        return self.odd and first > 0


def segment_content(segment: Segment) -> Steps[Content]:
    """Read one whole segment: its bytes, and the lines in them, checked as in `segment_lines`."""
    return content_of(segment, (yield from ask(Get(segment.key), Found)).data)


def content_of(segment: Segment, data: bytes) -> Content:
    """Decode and check the bytes of a segment, as in `segment_lines`."""
    lines = read_segment(data, key=segment.key)
    require_positions(segment, skeleton_of(lines[0]).at if lines else -1, len(lines))
    index = read_footer(data, len(data), key=segment.key)
    return Content(data, lines, not isinstance(index, SegmentIndex) or index.odd)


def skeletons(keys: SessionKeys, life: str = "", *, end: int | None = None) -> Steps[tuple[Survey, Skeletons]]:
    """The skeleton of every record, in order of position. Reads only the ends of segments, no payload.

    Args:
        keys: The session.
        life: The life (generation) to read; empty for the current one.
        end: Return only skeletons of records below this position.
    """
    attempts = Attempts(keys.tail)
    while attempts.another():  # rule: reads-end
        found = yield from survey(keys, life)
        base = found.tail.header.base
        sealed = Skeletons(burials=found.burials)
        try:
            yield from _add_sealed(sealed, found.segments, base if end is None else min(base, end))
        except NotFoundError:
            continue  # rule: look-again-graph
        sealed.extend(skeleton_of(line) for line in found.tail.lines[: None if end is None else max(0, end - base)])
        return found, sealed


def _add_sealed(sealed: Skeletons, segments: Sequence[Segment], end: int) -> Steps[None]:
    for start in range(0, len(segments), PARALLEL_GETS_MAX):
        batch = segments[start : start + PARALLEL_GETS_MAX]
        for footer in (yield from _with_chunks((yield from footers(batch)))):
            for span in footer.index.chunks:
                chunk = read_chunk(footer.held(span.start, span.end) or b"", span, footer.index)
                sealed.add_chunk(chunk, end)


def _with_chunks(found: Sequence[Footer]) -> Steps[list[Footer]]:
    """Read the bytes of chunks that were not read with the footers, in parallel: at most one GET per segment."""
    spans = [(footer.index.chunks[0].start, footer.index.chunks[-1].end) for footer in found]
    wanted = [number for number, span in enumerate(spans) if found[number].held(*span) is None]
    gets = tuple(
        Get(found[number].index.key, start=spans[number][0], end=found[number].size - len(found[number].suffix))
        for number in wanted
    )
    answers = (yield gets) if gets else ()
    whole = list(found)
    for number, answer in zip(wanted, answers, strict=True):
        footer = found[number]
        whole[number] = Footer(footer.index, checked(answer, Found).data + footer.suffix, footer.size)
    return whole


def footers(segments: Sequence[Segment], *, whole: bool = False) -> Steps[list[Footer]]:
    """Read the ends of some segments, in parallel: one GET each, two where the index is large.

    Args:
        segments: Each once.
        whole: Read as many bytes as all parts of the index are likely to take.
    """
    wanted = {segment.key: _end_bytes(segment, whole=whole) for segment in segments}
    done: dict[str, Footer] = {}
    while missing := [segment for segment in segments if segment.key not in done]:
        answers = yield tuple(Get(segment.key, start=-wanted[segment.key]) for segment in missing)
        for segment, answer in zip(missing, answers, strict=True):
            found = checked(answer, Found)
            index = read_footer(found.data, found.size, key=segment.key)
            if isinstance(index, SegmentIndex):
                require_positions(segment, index.first, index.rows)
                done[segment.key] = Footer(index, found.data, found.size)
            elif index <= wanted[segment.key]:
                raise CorruptError("the footer is longer than the object", kind=Kind.FOOTER, key=segment.key)
            else:
                wanted[segment.key] = index
    return [done[segment.key] for segment in segments]


def _end_bytes(segment: Segment, *, whole: bool) -> int:
    rows = segment.name.end - segment.name.first
    guess = max(FOOTER_GUESS_BYTES, rows * ROW_GUESS_BYTES if whole else 0)
    return min(guess, segment.size or guess)


def require_positions(segment: Segment, first: int, count: int) -> None:
    """Raise CorruptError unless a segment holds the positions that its name says."""
    if (first, first + count) != (segment.name.first, segment.name.end):
        raise CorruptError(
            f"the segment holds positions {first} to {first + count}, its name says otherwise",
            kind=Kind.SEGMENT_POSITIONS,
            key=segment.key,
        )


def sealed_records(where: Survey, positions: Sequence[int]) -> Steps[dict[int, bytes]]:
    """Read the lines at some positions below the tail's base: footers first, then the frames that hold these lines.

    Raises:
        NotFoundError: A segment was merged since it was listed.
        CorruptError: One is damaged.
    """
    segments = {segment.key: segment for segment in (where.holding(at) for at in positions)}
    found_footers = yield from footers(list(segments.values()))
    indexes = {key: footer.index for key, footer in zip(segments, found_footers, strict=True)}
    frames: dict[tuple[str, int], Frame] = {}
    for at in positions:
        key = where.holding(at).key
        span = indexes[key].frame_of(at)
        frame = Frame(key, indexes[key].first + span.first_row, span, [])
        frames.setdefault((key, span.start), frame).positions.append(at)
    return (yield from read_frames(list(frames.values()), where.burials))


class Frame(NamedTuple):
    """A frame of a segment that holds wanted records."""

    key: str
    """The key of the segment."""
    first: int
    """Position of its first record."""
    span: FrameSpan
    positions: list[int]
    """Positions of the wanted records."""

    def wanted(self, content: bytes, burials: Burials) -> dict[int, bytes]:
        """Return the wanted lines among the frame's content, by position; erased records without their payloads."""
        found = lines_at(content, sorted(self.positions))
        if found is None:
            lines = frame_lines(content, self.span, key=self.key)
            found = {at: lines[at - self.first] for at in self.positions}
        return {at: burials.bury(line, at) for at, line in found.items()} if burials else found  # rule: bury-on-read


def read_frames(
    frames: Sequence[Frame], burials: Burials, keep: Callable[[Frame, bytes], None] | None = None
) -> Steps[dict[int, bytes]]:
    """Read the wanted lines of some frames, by position; erased records without their payloads.

    Args:
        frames: Each once.
        burials: Which records were erased.
        keep: Called with each frame and its content, as it is stored.

    Raises:
        NotFoundError: A segment was merged since it was listed.
        CorruptError: One is damaged.
    """
    found: dict[int, bytes] = {}
    for start in range(0, len(frames), PARALLEL_GETS_MAX):
        batch = frames[start : start + PARALLEL_GETS_MAX]
        answers = yield tuple(Get(frame.key, start=frame.span.start, end=frame.span.end) for frame in batch)
        for frame, answer in zip(batch, answers, strict=True):
            content = frame_content(checked(answer, Found).data, frame.span, key=frame.key)
            found |= frame.wanted(content, burials)
            if keep is not None:
                keep(frame, content)
    return found
