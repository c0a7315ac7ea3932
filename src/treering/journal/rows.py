"""Read single rows of a session's index: by position, by id, or by parent; and the records that refer to a row.

The cost of a read depends on the question, not on the length of the session; see `treering.journal.sealed`.

Rows below the base of the tail come from segments, all others from the tail. Rows that a segment holds behind that base
are ignored: the tail may have been replaced by an earlier one when a store was restored. Rows that the tail lists as
erased are shown as erased.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from treering.errors import NotFoundError
from treering.format.chunk import Chunk
from treering.format.index import OutsideSpan, hash_of
from treering.format.parts import read_chunk, read_foreign, read_outside
from treering.format.paths import parse_segment
from treering.format.record import Skeleton
from treering.format.references import CHILD, HAS_ROOT
from treering.ids import time_of
from treering.journal.memory import FRAMES_BYTES, Memory
from treering.journal.read import PARALLEL_GETS_MAX, Footer, Frame, read_frames
from treering.journal.referrers import sealed_referrers
from treering.journal.sealed import MergedError, Part, SealedParts, holder_of
from treering.journal.tail_rows import Referrer, tail_rows
from treering.journal.view import View
from treering.storage.requests import Steps


class OddError(Exception):
    """The rows are not in the order of an ordinary session; only the whole index gives the right answer."""


class Descent(NamedTuple):
    """The result of following a run of nodes that each have one child."""

    end: int
    """Position of the last node."""
    goes_on: bool
    """The run continues behind the chunks that were read."""


class Rows:
    """The rows of a session as one view shows it; `look` moves it to a newer one.

    Every method that is a protocol raises `CorruptError` if a segment is missing or damaged, and `SessionDeletedError`
    if the session was deleted.
    """

    def __init__(self, view: View, memory: Memory) -> None:
        self.view = view
        self._sealed = SealedParts(view, memory)
        self._memory = memory
        self._frames = memory.frames
        self._tail = tail_rows(view, memory)
        self._forget_erased()

    def look(self, view: View) -> None:
        """Answer from `view` from now on; it has to be of the same life."""
        before, self.view, self._sealed.view = self.view, view, view
        if before.epoch != view.epoch:
            self._forget_erased()
            self._sealed.forget_content()
        if (before.epoch, before.tail.header.base) != (view.epoch, self.base) or before.end > view.end:
            self._tail = tail_rows(view, self._memory)
        else:
            self._tail.extend(view)

    def _forget_erased(self) -> None:
        """Forget frames that may hold erased payloads, whichever handle read them."""
        if self.view.burials:
            segments = self.view.keys.segments(self.view.life)
            self._frames.forget(lambda name: name[0].startswith(segments) and self._is_dirty(name[0]))

    def _is_dirty(self, segment: str) -> bool:
        name = parse_segment(segment)
        return name is not None and self.view.burials.is_dirty(name)

    @property
    def base(self) -> int:
        """The first position in the tail."""
        return self.view.tail.header.base

    # rows by position

    def rows_at(self, positions: Iterable[int]) -> Steps[dict[int, Skeleton]]:
        """The rows at some positions, by position."""
        wanted = sorted(set(positions))
        place = bisect_left(wanted, self.base)
        found = {at: self._tail.rows[at - self.base] for at in wanted[place:]}
        if place:
            found |= yield from self._sealed.ask(partial(self._sealed_rows, wanted[:place]), wanted[:place])
        return found

    def _sealed_rows(self, positions: Sequence[int], parts: Sequence[Part]) -> Steps[dict[int, Skeleton]]:
        holders = [holder_of(parts, at) for at in positions]
        spans = [part.index.chunk_of(at) for part, at in zip(holders, positions, strict=True)]
        chunks = yield from self._sealed.load(zip(holders, spans, strict=True), read_chunk)
        return {at: self._row(part, chunk, at) for at, part, chunk in zip(positions, holders, chunks, strict=True)}

    def _row(self, part: Part, chunk: Chunk, at: int) -> Skeleton:
        return self.view.burials.bury_row(chunk.skeleton(at - part.index.first))

    def lines_at(self, positions: Iterable[int]) -> Steps[dict[int, bytes]]:
        """The record lines at some positions: from the tail, or from frames. One GET for each frame not in memory."""
        wanted = sorted(set(positions))
        place = bisect_left(wanted, self.base)
        found = {at: self.view.tail.lines[at - self.base] for at in wanted[place:]}
        if place:
            found |= yield from self._sealed.ask(partial(self._sealed_lines, wanted[:place]), wanted[:place])
        return found

    def _sealed_lines(self, positions: Sequence[int], parts: Sequence[Part]) -> Steps[dict[int, bytes]]:
        jobs: list[Frame] = []
        held: list[bytes | None] = []
        missing: list[Frame] = []
        end = 0
        for at in positions:
            if at >= end:  # they are in order, and so are frames
                part = holder_of(parts, at)
                span = part.index.frame_of(at)
                first = part.index.first + span.first_row
                end = min(first + span.rows, part.index.end)
                job = Frame(part.segment.key, first, span, [])
                jobs.append(job)
                held.append(self._frames.get((job.key, span)) or self._came(job, part.footer))
                if held[-1] is None:
                    missing.append(job)
            jobs[-1].positions.append(at)
        try:
            found = yield from read_frames(missing, self.view.burials, self._keep)
        except NotFoundError:
            raise MergedError from None
        for job, content in zip(jobs, held, strict=True):
            found |= job.wanted(content, self.view.burials) if content is not None else {}
        return found

    def _came(self, frame: Frame, footer: Footer | None) -> bytes | None:
        """The content of a frame, if it was read with the index of its segment."""
        content = footer.content_of(frame.span) if footer is not None else None
        if content is not None:
            self._keep(frame, content)
        return content

    def _keep(self, frame: Frame, content: bytes) -> None:
        if len(content) <= FRAMES_BYTES and not (self.view.burials and self._is_dirty(frame.key)):
            self._frames.put((frame.key, frame.span), content, len(content))

    # rows upward

    def climb(self, at: int, limit: int) -> Steps[list[Skeleton]]:
        """The node at a position and its ancestors, parent by parent: `limit` rows, or fewer up to a root.

        Raises:
            OddError: A parent was recorded behind its child.
        """
        rows: list[Skeleton] = []
        place: int | None = at
        while place is not None and len(rows) < limit:
            if place >= self.base:
                new, place = self._climb_tail(place, limit - len(rows))
            else:
                new, place = yield from self._sealed.ask(partial(self._climb_sealed, place, limit - len(rows)), [place])
            rows += new
            if place is None and rows[-1].parent is not None and len(rows) < limit:
                place = yield from self.node(rows[-1].parent)
            if place is not None and place >= rows[-1].at:
                raise OddError
        return rows

    def _climb_tail(self, at: int, limit: int) -> tuple[list[Skeleton], int | None]:
        """Rows of the tail from `at` upward, and the position of the next parent; None if the tail does not hold it."""
        rows: list[Skeleton] = []
        place: int | None = at
        while place is not None and len(rows) < limit:
            rows.append(self._tail.rows[place - self.base])
            places = self._tail.places.get(rows[-1].parent or "", ())
            place = next((each for each in places if self._tail.rows[each - self.base].type == "node"), None)
            if place is not None and place >= rows[-1].at:
                raise OddError
        return rows, place

    def _climb_sealed(self, at: int, limit: int, parts: Sequence[Part]) -> Steps[tuple[list[Skeleton], int | None]]:
        """Rows of one chunk from `at` upward, and the position of the next parent; None if the chunk lacks it."""
        part = holder_of(parts, at)
        [chunk] = yield from self._sealed.load([(part, part.index.chunk_of(at))], read_chunk)
        rows, above = chunk.climb(at - part.index.first, limit)
        burials = self.view.burials
        if burials:
            rows = [burials.bury_row(row) for row in rows]
        if above is None:
            return rows, None
        if (above := part.index.first + above) >= rows[-1].at:
            raise OddError
        return rows, above

    # rows downward

    def descend(self, at: int, ahead: int = 1) -> Steps[Descent]:
        """Follow a run of nodes that each have one child, from a node down, inside the tail or a few chunks.

        `referrers` returns the children of its last node.

        Args:
            at: Position of the node.
            ahead: How many chunks to read at once: the node's chunk, and the next ones in the same segment.
        """
        behind = False
        if at >= self.base:
            run = self._run_in_tail(at)
        else:
            run, behind = yield from self._sealed.ask(partial(self._sealed_run, at, ahead), [at])
        end = max(run)
        if len(run) > 1:
            forked = {name for name in run.values() if at < self.base and name in self._tail.referrers}
            if self.base:
                forked |= yield from self._sealed.ask(partial(self._forked, run))
            end = next((place for place, name in run.items() if name in forked), end)
        return Descent(end, goes_on=behind and end == max(run))

    def _run_in_tail(self, at: int) -> dict[int, str]:
        """A run of nodes that each have one child, as far as the tail shows: ids by position."""
        run: dict[int, str] = {}
        place: int | None = at
        while place is not None:
            run[place] = self._tail.rows[place - self.base].id
            place = _only_child(place, self._tail.referrers.get(run[place], ()))
        return run

    def _sealed_run(self, at: int, ahead: int, parts: Sequence[Part]) -> Steps[tuple[dict[int, str], bool]]:
        """A run of nodes with one child as far as some chunks show, ids by position; and whether it goes on."""
        part = holder_of(parts, at)
        spans = part.index.chunks_from(at)[:ahead]
        chunks = yield from self._sealed.load([(part, span) for span in spans], read_chunk)
        run: dict[int, str] = {}
        row: int | None = at - part.index.first
        for chunk in chunks:
            while row is not None and row in chunk.rows and part.index.first + row < self.base:
                run[part.index.first + row] = chunk.id(row)
                row = _only_child(row, chunk.referrers(row))
        return run, row is not None and row >= chunks[-1].rows.stop

    def _forked(self, run: dict[int, str], parts: Sequence[Part]) -> Steps[set[str]]:
        """The ids of the nodes of a run that may have children in other segments; the set may have other ids, too."""
        holder = holder_of(parts, min(run)) if min(run) < self.base else None
        found: set[str] = set()
        blocks: dict[tuple[str, OutsideSpan], Part] = {}
        for part in parts:
            for at, name in run.items() if part is not holder else ():
                if part.index.first <= at < min(part.index.end, self.base):
                    found.add(name)
                else:
                    blocks |= {(part.segment.key, span): part for span in part.index.outside_with(name)}
        read = yield from self._sealed.load([(part, span) for (_, span), part in blocks.items()], read_outside)
        return found | {entry.id for block in read for entry in block if entry.code == CHILD}

    # rows by id

    def node(self, name: str) -> Steps[int | None]:
        """The position of the node with this id, or None."""
        return (yield from self.nodes([name])).get(name)

    def nodes(self, names: Iterable[str]) -> Steps[dict[str, int]]:
        """The positions of the nodes with these ids; those that do not exist are left out."""
        found = yield from self.find(names)
        rows = yield from self.rows_at(at for places in found.values() for at in places)
        return {
            name: nodes[0]
            for name, places in found.items()
            if (nodes := [at for at in places if rows[at].type == "node"])
        }

    def find(self, names: Iterable[str]) -> Steps[dict[str, list[int]]]:
        """The positions of all records with these ids, in order; none for an id that no record has."""
        found = {name: set(self._tail.places.get(name, ())) for name in names}
        # Treering never makes an id twice.
        wanted = [name for name, places in found.items() if not places or time_of(name) is None]
        if wanted and self.base:
            for name, places in (yield from self._sealed.ask(partial(self._sealed_places, wanted))).items():
                found[name] |= places
        return {name: sorted(places) for name, places in found.items()}

    def _sealed_places(self, names: Sequence[str], parts: Sequence[Part]) -> Steps[dict[str, set[int]]]:
        hashed = [(name, part, span) for name in names for part in parts for span in part.index.foreign_with(name)]
        blocks = yield from self._sealed.load([(part, span) for _, part, span in hashed], read_foreign)
        wanted = [
            (name, part, part.index.chunk_of(part.index.first + row))
            for (name, part, _), block in zip(hashed, blocks, strict=True)
            for number, row in _entries(block, hash_of(name))
        ]
        wanted += [(name, part, span) for name in names for part in parts for span in part.index.chunks_with(name)]
        chunks = yield from self._sealed.load([(part, span) for _, part, span in wanted], read_chunk)
        found: dict[str, set[int]] = {name: set() for name in names}
        for (name, part, _), chunk in zip(wanted, chunks, strict=True):
            if (row := chunk.find(name)) is not None and part.index.first + row < self.base:
                found[name].add(part.index.first + row)
        return found

    # what refers to rows

    def referrers(self, rows: Sequence[Skeleton]) -> Steps[list[list[Referrer]]]:
        """For each of these rows, the records that refer to it, by position.

        Raises:
            OddError: A referrer was recorded before its row.
        """
        known = self._tail.referrers
        found = [[*known.get(row.id, ())] for row in rows]
        if self.base:
            sealed = yield from self._sealed.ask(partial(sealed_referrers, self._sealed, self.base, rows))
            found = [each if not told else [*told, *each] for told, each in zip(found, sealed, strict=True)]
        for place, row in enumerate(rows):
            if found[place]:
                found[place] = sorted({*found[place]})
                if found[place][0].at <= row.at:
                    raise OddError
        return found

    # rows by what they are

    def odd(self, *, whole: bool = False) -> Steps[bool]:
        """Whether an id occurs or may occur twice, or a node was recorded before its parent.

        Args:
            whole: Questions about all rows follow, see `SealedParts.ask`.
        """
        if self._tail.odd or not self.base:
            return self._tail.odd
        return (yield from self._sealed.ask(_odd, whole=whole))

    def occurs(self, mask: int) -> Steps[bool]:
        """Whether the session has any record for which one of these bits of `treering.format.references` stands."""
        if self._tail.mask & mask or not self.base:
            return bool(self._tail.mask & mask)
        return (yield from self._sealed.ask(partial(_occurs, mask)))

    def matching(
        self, mask: int, matches: Callable[[Skeleton], bool], *, below: int | None = None, limit: int | None = None
    ) -> Steps[list[Skeleton]]:
        """The rows that match, by position: the newest `limit` of them, or all.

        Args:
            mask: Bits of `treering.format.references`: chunks that have none of these bits are not read.
            matches: Chooses rows.
            below: Only rows below this position.
            limit: How many at most.
        """
        end = self.view.end if below is None else min(below, self.view.end)
        rows = self._tail.rows[: max(0, end - self.base)]
        found = [row for row in rows if matches(row)] if self._tail.mask & mask else []
        wanted = self.view.end if limit is None else limit - len(found)
        if wanted > 0 and self.base:
            found = [*(yield from self._sealed.ask(partial(self._sealed_matching, mask, matches, end, wanted))), *found]
        return found if limit is None else found[-limit:]

    def _sealed_matching(
        self, mask: int, matches: Callable[[Skeleton], bool], end: int, wanted: int, parts: Sequence[Part]
    ) -> Steps[list[Skeleton]]:
        spans = [
            (part, span)
            for part in parts
            for span in part.index.chunks
            if span.mask & mask and part.index.first + span.first_row < min(end, self.base)
        ]
        found: list[list[Skeleton]] = []
        count, batch = 0, 1 if wanted < end else len(spans)
        while spans and count < wanted:
            spans, last = spans[:-batch], spans[-batch:]
            for (part, _), chunk in reversed(
                list(zip(last, (yield from self._sealed.load(last, read_chunk)), strict=True))
            ):
                cut = range(part.first, min(end, self.base))
                new = [self.view.burials.bury_row(row) for row in chunk.skeletons() if matches(row) and row.at in cut]
                found.append(new)
                count += len(new)
            batch = min(2 * batch, PARALLEL_GETS_MAX)
        return [row for rows in reversed(found) for row in rows]

    def roots(self) -> Steps[list[Skeleton]]:
        """The nodes without a parent, and those whose parent does not exist, by position.

        Raises:
            OddError: A parent was recorded behind its child. It may also be a descendant of the child, which then is a
                root.
        """
        found = yield from self.matching(HAS_ROOT, lambda row: row.type == "node" and row.parent is None)
        waiting = (yield from self._sealed.ask(self._sealed_orphans)) if self.base else {}
        for row in self._tail.rows:
            if row.type == "node" and row.parent is not None and row.parent not in self._tail.places:
                waiting.setdefault(row.parent, []).append(row.at)
        there = yield from self.nodes(waiting)
        if any(there[name] >= at for name, places in waiting.items() if name in there for at in places):
            raise OddError
        orphans = yield from self.rows_at(at for name, places in waiting.items() if name not in there for at in places)
        return sorted([*found, *orphans.values()], key=lambda row: row.at)

    def _sealed_orphans(self, parts: Sequence[Part]) -> Steps[dict[str, list[int]]]:
        """Positions of nodes by the id of their parent, for parents that are not in the node's segment."""
        blocks = [(part, span) for part in parts for span in part.index.outside]
        waiting: dict[str, list[int]] = {}
        for (part, _), block in zip(blocks, (yield from self._sealed.load(blocks, read_outside)), strict=True):
            for entry in block:
                at = part.index.first + entry.row
                if entry.code == CHILD and part.first <= at < self.base:
                    waiting.setdefault(entry.id, []).append(at)
        return waiting

    def first_checkpoints(self) -> Steps[list[Skeleton]]:
        """The checkpoints made before the first node, by position."""
        return (yield from self.matching(HAS_ROOT, lambda row: row.type == "checkpoint" and row.target is None))


def _occurs(mask: int, parts: Sequence[Part]) -> Steps[bool]:
    yield from ()
    return any(part.index.mask & mask for part in parts)


def _odd(parts: Sequence[Part]) -> Steps[bool]:
    yield from ()
    return any(part.index.odd for part in parts)


def _only_child(at: int, referrers: Iterable[tuple[int, int]]) -> int | None:
    """The position of a node's only child; None if it has none or several, or the child is not behind it."""
    children = [place for place, code in referrers if code == CHILD]
    return children[0] if len(children) == 1 and children[0] > at else None


def _entries(block: Sequence[tuple[int, int]], wanted: int) -> Sequence[tuple[int, int]]:
    """The entries of a sorted block that begin with `wanted`."""
    return block[bisect_left(block, (wanted,)) : bisect_right(block, wanted, key=lambda entry: entry[0])]


def records_at(view: View, positions: Sequence[int]) -> Steps[dict[int, bytes]]:
    """Read the lines at some positions: from the tail in memory, else one ranged GET per frame that holds one."""
    return Rows(view, Memory()).lines_at(positions)


def record_at(view: View, at: int) -> Steps[bytes | None]:
    """The line at one position, or None if the journal ends before it."""
    if at >= view.end:
        return None
    return (yield from records_at(view, [at]))[at]
