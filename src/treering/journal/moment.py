"""Check that registers and segments belong to one history before anything is written.

A store that was restored over a newer one, or copied during a write, can have registers of one moment and segments of
another. If two diverged copies are put into one folder again, it has objects of both. Every object is undamaged, and
reading shows the records that the registers name. But a writer would reuse positions that segments hold already, drop
records from the tail that are in no segment, or merge records of the other copy among its own.

Rule 1: no segment ends behind the tail or has a later epoch than the tail: it was made of records that the tail held,
and a tail never goes back.
Rule 2: segments hold every record that the next append drops from the tail because `latest` says that it is sealed. A
record below the tail's base and in no segment is lost, and reading it raises. That does not stop writers, since they
lose nothing more.
Rule 3: all objects that hold the mark of a position hold the same mark. Registers hold some marks; the names of
segments hold the marks of both their ends.
Rule 4: a segment that ends inside another one, or whose name holds no marks while other segments hold its records, is
compared by content.
Rule 5: a contradiction must not stem from writes between two reads. It has to be seen three times in a row, like a gap
between segments, before it is reported.

Theory of operation
-------------------
The mark of a position identifies the append that wrote the record in front of it. An append goes to one copy only,
after all earlier records of that copy. So two segments that have the same mark at one position have the same records
below it, as far as both reach. And it is enough to compare each segment with one that reaches further, since that
segment is compared in the same way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from treering.errors import CorruptError, NotFoundError
from treering.format.record import mark_behind
from treering.journal.read import GAPS_PROVE, Segment, list_segments, segment_lines
from treering.journal.register import Attempts
from treering.journal.resume import APART, REMEDY, resume_life
from treering.journal.view import View
from treering.kinds import Kind
from treering.storage.requests import Steps


def require_one_moment(view: View) -> Steps[None]:
    """Raise if registers and segments are of two moments. Takes one LIST per 1,000 segments.

    It takes one more GET for each overlapping segment; completed appends, seals and merges leave none.

    Args:
        view: The registers as read before; only used to find the session.

    Raises:
        CorruptError: Registers and segments are of two moments, or of two copies.
        SessionDeletedError: The session was deleted since it was read.
        UnavailableError: The store does not answer, or the session changes faster than it can be read.
    """
    life = view.life
    attempts = Attempts(view.keys.tail)
    while attempts.another():
        listed = yield from list_segments(view.keys, life)
        wrong = yield from contradiction(view, listed)
        if not wrong:
            return
        seen = (view.latest_version, view.tail_version, [segment.key for segment in listed])
        if attempts.in_a_row(seen) == GAPS_PROVE:  # rule: accuse-late
            raise CorruptError(
                wrong, kind=Kind.MOMENT, key=view.keys.segments(life), remedy=f"reading goes on; {REMEDY}"
            )
        view = yield from resume_life(view.keys, life)


def contradiction(view: View, listed: Sequence[Segment]) -> Steps[str]:
    """Why registers and segments contradict each other, if read at one moment; empty if they do not."""
    if wrong := _two_moments(view, listed):
        return wrong
    marks = _Marks()
    marks.add(view.covers, view.mark_at(view.covers))
    marks.add(view.tail.header.base, view.mark_at(view.tail.header.base))
    for segment in listed:
        name, told = segment.name, segment.name.marks
        for position, mark in ((name.first, told.first), (name.end, told.end)):
            marks.add(position, mark)
            marks.add(position, view.mark_at(position))
    if not marks.wrong:  # rule: compare-inside
        for segment, position in _untold(view, listed):
            marks.add(position, (yield from _stored_mark(segment, position)))
    return marks.wrong


class _Marks:
    """Collects the marks of positions, and the first contradiction."""

    def __init__(self) -> None:
        self._told: dict[int, str] = {}
        self.wrong = ""

    def add(self, position: int, mark: str) -> None:
        if mark and self._told.setdefault(position, mark) != mark and not self.wrong:  # rule: marks-agree
            self.wrong = f"different records are stored in front of position {position}: {APART}"


def _two_moments(view: View, listed: Sequence[Segment]) -> str:
    """Why positions and epochs contradict each other; empty if they do not."""
    end = max((segment.name.end for segment in listed), default=0)
    if end > view.end:  # rule: tail-reaches
        return f"the tail ends at {view.end} and segments at {end}: the tail is older than they are"
    reach = _reach_of(view.tail.header.base, listed)
    if reach < view.sealed:  # rule: sealed-is-there
        return (
            f"segments hold {reach} records and {view.sealed} are said to be sealed: some of them are in the tail alone"
        )
    epoch = max((segment.name.epoch for segment in listed), default=0)
    if epoch > view.epoch:  # rule: epoch-reaches
        return f"the tail is of epoch {view.epoch} and a segment of {epoch}: the tail is older"
    for segment in listed:
        # rule: erased-alike
        if segment.name.marks.erased not in ("", view.tail.header.erased_mark(segment.name.epoch)):
            return f"something else was erased from {segment.key} than from the tail: {APART}"
    return ""


def _untold(view: View, listed: Sequence[Segment]) -> list[tuple[Segment, int]]:
    """The segments whose content has to be read for a mark that no name or register holds, each with its position."""
    ordered = sorted(listed, key=lambda segment: segment.name.first)
    firsts = [segment.name.first for segment in ordered]
    widest = list(accumulate(ordered, _wider))
    wanted: dict[tuple[str, int], tuple[Segment, int]] = {}
    for segment in ordered:
        end = segment.name.end
        # Of the segments that begin before this one ends, the one that reaches furthest.
        holder = widest[bisect_left(firsts, end) - 1]
        in_tail = bool(view.mark_at(end))
        pair = {segment, holder} if holder != segment and not in_tail else {segment} if in_tail else set()
        for each in pair:
            if each.name.end != end or not each.name.marks.end:
                wanted[each.key, end] = each, end
    return list(wanted.values())


def _wider(one: Segment, other: Segment) -> Segment:
    return other if other.name.end > one.name.end else one


def _stored_mark(segment: Segment, position: int) -> Steps[str]:
    """The mark of a position in a segment; empty if the segment is gone or damaged, which its readers report."""
    try:
        lines = yield from segment_lines(segment)
    except (NotFoundError, CorruptError):
        return ""
    return mark_behind(lines[position - 1 - segment.name.first])


def _reach_of(base: int, listed: Sequence[Segment]) -> int:
    """How far segments hold the positions from `base` on without a gap."""
    reach = base
    for segment in sorted(listed, key=lambda segment: segment.name.first):
        if segment.name.first > reach:
            break
        reach = max(reach, segment.name.end)
    return reach
