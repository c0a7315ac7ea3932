"""Join runs of small segments into larger ones, so that reads of the whole journal stay few.

Rule 1: the output is durable before an input is deleted.
Rule 2: only contiguous runs are merged, so that no position is ever without a segment.
Rule 3: the output carries the oldest epoch of its inputs, since it may hold payloads that a later erasure has to
remove; or the epoch of the tail if that is later, since the merge removes all payloads that the tail lists as erased.
Rule 4: a segment is deleted only if a larger one holds its records, or by the process that replaced it after reading
it. If two segments hold the same positions, neither is waste: one process could delete the first as a copy of the
second while another process replaces the second. And the larger segment is read first, since its name does not prove
that it is undamaged.

Two processes may merge the same run; the names of their outputs differ, so neither deletes the other's, and both
outputs hold the same records. By rule 4 the newest of the largest segments that hold a position is never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from treering.errors import NotFoundError
from treering.format.frames import LEVEL_MERGED
from treering.format.paths import Marks, SegmentName, SessionKeys
from treering.format.record import mark_behind
from treering.format.segment import build_segment
from treering.journal.limits import MERGE_GROWTH_MIN, MERGE_RUN_MIN, MERGED_BYTES_MAX, MERGED_TEXT_BYTES_MAX
from treering.journal.read import Segment, Survey, segment_content, segment_lines, survey
from treering.storage.requests import Put, Steps, Written
from treering.storage.run import ask, delete_all


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """Which segments were merged, and into which."""

    inputs: int
    outputs: int
    bytes_before: int
    bytes_after: int


Rewrite = Callable[[bytes], bytes]
"""Maps a record line to the line that takes its place at the same position."""


def plan(segments: Sequence[Segment], *, run_min: int = MERGE_RUN_MIN) -> list[tuple[Segment, ...]]:
    """Choose contiguous runs worth merging.

    For each size class (powers of `MERGE_RUN_MIN`), smallest first: neighbours of that class or below, so that a class
    bound does not separate them. The output must be several times as large as any input, so the number of times that a
    byte is rewritten is logarithmic in the output's size. This is the size-tiered compaction of log-structured stores.
    """
    runs: list[tuple[Segment, ...]] = []
    taken: set[str] = set()
    for level in sorted({_size_class(segment.size) for segment in segments}):
        for fits, group in groupby(segments, lambda segment: _fits(segment, level, taken)):  # noqa: B023  # used at once
            new = [run for piece in _pieces(group) for run in _growing(piece, max(2, run_min))] if fits else []
            runs += new
            taken |= {segment.key for run in new for segment in run}
    return runs


def _fits(segment: Segment, level: int, taken: set[str]) -> bool:
    return segment.key not in taken and _size_class(segment.size) <= level


def _growing(run: tuple[Segment, ...], run_min: int) -> Iterator[tuple[Segment, ...]]:
    """Yield `run`, or the runs on both sides of its largest segment if a merge would hardly enlarge that segment."""
    if len(run) < run_min:
        return
    sizes = [segment.size for segment in run]
    if sum(sizes) >= MERGE_GROWTH_MIN * max(sizes):
        yield run
        return
    largest = sizes.index(max(sizes))
    yield from _growing(run[:largest], run_min)
    yield from _growing(run[largest + 1 :], run_min)


def plan_all(segments: Sequence[Segment]) -> list[tuple[Segment, ...]]:
    """Choose runs as large as a merge allows, whatever the sizes of the segments."""
    return [run for run in _pieces(segments) if len(run) > 1]


def _pieces(segments: Iterable[Segment]) -> list[tuple[Segment, ...]]:
    """Cut neighbours into runs as large as a merge allows."""
    runs: list[list[Segment]] = []
    for segment in segments:
        if runs and sum(part.size for part in runs[-1]) + segment.size <= MERGED_BYTES_MAX:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return [tuple(run) for run in runs]


def _size_class(size: int) -> int:
    level, bound = 0, 16 * 1024
    while size > bound:
        level, bound = level + 1, bound * MERGE_RUN_MIN
    return level


def merge(where: Survey, run: Sequence[Segment], *, unique: str, rewrite: Rewrite | None = None) -> Steps[Merged]:
    """Join a contiguous run of segments into one, or as many of the first ones as fit.

    Args:
        where: The survey of the session.
        run: Neighbours among `where.segments`. They are deleted, and so is waste whose records the output holds.
        unique: Names the output; never used again.
        rewrite: Replaces lines on the way, for example by shorter ones of pruned checkpoints.

    Raises:
        NotFoundError: Another merge removed an input; nothing was changed.
        CorruptError: An input is damaged; nothing was changed.
    """
    lines: list[bytes] = []
    first, size, doubtful = run[0].name.first, 0, False
    for number, segment in enumerate(run):
        content = yield from segment_content(segment)
        new = content.lines[first + len(lines) - segment.name.first :]  # rule: merge-once
        size += sum(map(len, new))
        if number and size > MERGED_TEXT_BYTES_MAX:
            run = run[:number]  # the caller continues with the rest
            break
        lines += new
        doubtful = doubtful or content.is_doubtful(first)
    if len(run) == 1 and rewrite is None:
        return Merged(inputs=0, outputs=0, bytes_before=0, bytes_after=0)
    if rewrite is not None:
        lines = [rewrite(line) for line in lines]
    lines = where.burials.bury_all(lines, first)
    epoch = max(where.tail.header.epoch, min(segment.name.epoch for segment in run))  # rule: oldest-epoch
    header = where.tail.header
    erased = header.erased_mark(epoch) if epoch == header.epoch else ""  # else the tail was read before that erasure
    marks = Marks(run[0].name.marks.first, mark_behind(lines[-1]), erased)
    name = SegmentName.marked(first, first + len(lines), epoch, unique, marks)
    key = where.keys.segment(where.tail.header.life, name)
    data = build_segment(lines, key=key, doubtful=doubtful, level=LEVEL_MERGED)
    yield from ask(Put(key, data), Written)  # rule: output-first
    waste = [segment for segment in where.waste if _holds(name, segment.name)]
    yield from delete_segments([*run, *waste])  # rule: output-first before this
    return Merged(inputs=len(run), outputs=1, bytes_before=sum(segment.size for segment in run), bytes_after=len(data))


def delete_segments(segments: Sequence[Segment]) -> Steps[None]:
    """Delete segments whose records other segments hold."""
    yield from delete_all([segment.key for segment in segments])


def optimize(
    keys: SessionKeys,
    unique: Callable[[], str],
    *,
    everything: bool = False,
    rewrite: Rewrite | None = None,
    where: Survey | None = None,
) -> Steps[Merged]:
    """Do one round of maintenance: delete waste, and merge the runs that are worth it.

    Args:
        keys: The session.
        unique: Makes names for the outputs.
        everything: Merge all runs that can be merged, also short ones.
        rewrite: As for `merge`; if given, every segment is rewritten.
        where: A survey, if one was made just now.
    """
    where = where or (yield from survey(keys))
    yield from _delete_waste(where)
    runs = plan_all(where.segments) if everything else plan(where.segments)  # rule: merge-neighbours
    if rewrite is not None:
        alone = {segment.key for run in runs for segment in run}
        runs += [(segment,) for segment in where.segments if segment.key not in alone]
    done: list[Merged] = []
    for run in runs:
        try:
            merged = yield from merge(where, run, unique=unique(), rewrite=rewrite)
        except NotFoundError:
            continue  # another process merged it
        done.append(merged)
        rest = run[max(1, merged.inputs) :]
        if len(rest) > 1 or (rest and rewrite is not None):
            runs.append(rest)
    return Merged(
        inputs=sum(part.inputs for part in done),
        outputs=sum(part.outputs for part in done),
        bytes_before=sum(part.bytes_before for part in done),
        bytes_after=sum(part.bytes_after for part in done),
    )


def _delete_waste(where: Survey) -> Steps[None]:
    """Delete segments wholly inside a larger chosen one, after a read has shown that the larger one is sound and ours.

    Raises:
        CorruptError: The larger segment is damaged, or belongs to another session; the segments inside it were kept.
    """
    for kept in where.segments:
        # rule: waste-within, spare-twins
        waste = [each for each in where.waste if _holds(kept.name, each.name) and not _holds(each.name, kept.name)]
        if not waste:
            continue
        try:
            yield from segment_lines(kept)  # rule: read-holder
        except NotFoundError:
            continue  # another process merged it
        yield from delete_segments(waste)


def _holds(outer: SegmentName, inner: SegmentName) -> bool:
    return outer.first <= inner.first and inner.end <= outer.end
