"""Remove payloads from every object that holds them: the tail, `latest`, segments and blobs.

Rule 1: the tail is swapped first. From then on it lists the erased positions, under a new epoch, and every append, seal
or close that began before is refused. It lists no position behind the end: the record that is appended there later is a
different one.
Rule 2: `latest` follows, with the tail's list and epoch. Any process that has to write `latest` for another reason does
this first.
Rule 3: a segment that covers an erased position, and whose name has an older epoch, is rewritten, then deleted. It is
never deleted without that, since a merge may have made it the only copy of its neighbours.
Rule 4: the erasure is done when a listing shows no such segment. A segment that a stalled process writes later is
rewritten by the next process that lists.
Rule 5: a blob of an erased record is on a list in the tail, and no new record refers to it. So if no remaining record
refers to it after that, any process can delete it at any time, any number of times.

Theory of operation
-------------------
Bytes of a payload move from the tail into `latest` and into segments, from segments into larger ones, and nowhere else.
A process that moves bytes read them before the tail was swapped, or read them without the payload. In the first case
its write is refused (the tail and `latest` are swapped by version) or recognised (a segment carries the epoch of the
tail that its lines were read with, a merged one the oldest). The process may be killed after any step: the tail still
lists the remaining work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from treering.errors import NotFoundError, UsageError
from treering.format import register
from treering.format.blobs import blob_refs_in
from treering.format.erasure import Burials, Erasure, burials
from treering.format.index import SegmentIndex
from treering.format.paths import Marks, SegmentName, SessionKeys, file_name
from treering.format.record import mark_behind
from treering.format.register import Latest, Tail, header_bytes
from treering.format.segment import build_segment, read_footer, replace_lines
from treering.journal import marker
from treering.journal.limits import ERASED_MAX
from treering.journal.merge import delete_segments
from treering.journal.read import Segment, Survey, content_of, read_lines, require_positions, survey
from treering.journal.register import Attempts, LatestRegister, Swapped, TailRegister
from treering.journal.resume import resume_life
from treering.journal.view import View
from treering.kinds import Kind
from treering.storage.requests import ABSENT, Delete, Deleted, Found, Get, Put, Steps, Written
from treering.storage.run import ask, list_all

Bury = Callable[[Latest, Burials], Latest]
"""Removes erased payloads from the body and the card of `latest`; idempotent."""


def fence(view: View, erasure: Erasure, *, nonce: str) -> Steps[View | None]:
    """Swap the tail for one without the payloads.

    Args:
        view: The registers as last read; the caller searched it for every copy of the payloads.
        erasure: The records to erase; its epoch is filled in here.
        nonce: Names the tail.

    Returns:
        The new registers; None if another process wrote since, or a record is gone; then search for copies again.

    Raises:
        UsageError: The list of erased records would be too large for the tail; nothing was written.
        UnavailableError: The store did not answer; the payloads may be fenced now, later, or never.
    """
    register = TailRegister(view.keys)
    if view.tail_version == ABSENT:
        yield from register.put_tombstone(nonce)
        return None
    if any(at >= view.end for at, _ in erasure.records):  # rule: fence-what-is-there
        return None
    tail = _fenced(view, erasure, nonce)  # rule: erase-tail-first
    outcome = yield from register.swap(tail, expect=view.tail_version)
    return view.with_tail(tail, outcome.version) if isinstance(outcome, Swapped) else None


def _fenced(view: View, erasure: Erasure, nonce: str) -> Tail:
    header, lines = view.tail.header, view.tail.lines
    act = msgspec.structs.replace(erasure, epoch=header.epoch + 1)
    erased = (*header.erased, *((at, act.epoch) for at in sorted({at for at, _ in act.records})))
    erasures = (*header.burials.erasures, act)
    listed = msgspec.structs.replace(header, epoch=act.epoch, erased=erased, erasures=erasures, nonce=nonce)
    if len(erased) > ERASED_MAX or header_bytes(listed) > register.RESERVE_BYTES // 2:
        raise UsageError(
            f"more than {ERASED_MAX} payloads would be erased from one session, or too long a list of them",
            kind=Kind.TOO_MANY_ERASED,
            key=view.keys.tail,
            remedy="copy the session under another name, which leaves the list of them behind, and delete this one",
        )
    return Tail(header=listed, lines=tuple(burials(erased, erasures).bury_all(lines, header.base)))


def heal(keys: SessionKeys, life: str, bury: Bury, *, unique: Callable[[], str]) -> Steps[View]:
    """Remove from `latest` the payloads that the tail lists as erased.

    Args:
        keys: The session.
        life: The life (generation) of the session.
        bury: Knows the structure of the body of `latest`.
        unique: Makes names for writes.

    Returns:
        The new registers.
    """
    attempts = Attempts(keys.latest)
    while attempts.another():
        view = yield from resume_life(keys, life)
        if not view.torn:
            return view
        buried = bury(view.latest, view.burials)  # rule: heal-whole
        card = msgspec.structs.replace(
            marker.moved(buried.card, view.latest.card, unique=(nonce := unique())),
            epoch=view.epoch,
            erased=view.tail.header.erased,
            erasures=view.burials.erasures,
            write=nonce,
            lines=len(buried.lines),
        )
        latest = Latest(card=card, lines=buried.lines)
        yield from marker.put(keys, card, view.latest.card)
        outcome = yield from LatestRegister(keys).swap(latest, expect=view.latest_version)
        if isinstance(outcome, Swapped):
            yield from marker.drop(keys, view.latest.card, card)
            return view.with_latest(latest, outcome.version)


def sweep(keys: SessionKeys, life: str, *, unique: Callable[[], str]) -> Steps[int]:
    """Rewrite segments that may hold erased payloads until a listing shows none; return how many were rewritten."""
    rewritten = 0
    attempts = Attempts(keys.tail)
    while attempts.another():
        where = yield from survey(keys, life)
        # rule: sweep-all
        dirty = [each for each in (*where.segments, *where.waste) if where.burials.is_dirty(each.name)]
        if not dirty:
            return rewritten
        for segment in dirty:
            try:
                yield from _rewrite(where, segment, unique())
            except NotFoundError:
                continue  # another process rewrote or merged it
            rewritten += 1


def _rewrite(where: Survey, segment: Segment, unique: str) -> Steps[None]:
    name, header = segment.name, where.tail.header
    data = (yield from ask(Get(segment.key), Found)).data
    marks = Marks(name.marks.first, name.marks.end or _end_mark(segment, data), header.erased_mark(header.epoch))
    clean = SegmentName.marked(name.first, name.end, header.epoch, unique, marks)
    key = where.keys.segment(where.life, clean)
    yield from ask(Put(key, rewritten(segment, data, where.burials, key=key)), Written)  # rule: rewrite-first
    yield from delete_segments([segment])


def _end_mark(segment: Segment, data: bytes) -> str:
    return mark_behind(content_of(segment, data).lines[-1])


def rewritten(segment: Segment, data: bytes, burials: Burials, *, key: str) -> bytes:
    """Return a segment without the erased payloads, for another key; decodes only frames that are affected.

    Of a segment with an index of version 1 it decodes all frames.

    Args:
        segment: The segment.
        data: Its bytes.
        burials: Which records were erased.
        key: The key of the new segment, which may be in another session.

    Raises:
        CorruptError: It is damaged, or a frame that is not decoded does not have the checksum that the index lists.
        FormatVersionError: Written by a newer version.
    """
    index = read_footer(data, len(data), key=segment.key)
    if isinstance(index, SegmentIndex) and index.version > 1:
        require_positions(segment, index.first, index.rows)
        places = burials.places(index.first, index.end)
        return replace_lines(data, index, {at: partial(burials.bury, at=at) for at in places}, key=key)
    content = content_of(segment, data)
    lines = burials.bury_all(content.lines, segment.name.first)
    return build_segment(lines, key=key, doubtful=content.is_doubtful(segment.name.first))


class SweptBlobs(msgspec.Struct, frozen=True):
    """The outcome for the blobs that erased records referred to."""

    deleted: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Blobs that other records refer to as well."""


def sweep_blobs(keys: SessionKeys, life: str) -> Steps[SweptBlobs]:
    """Delete the blobs that only erased records referred to.

    Lists all blobs if any were ever erased, and reads the whole session if some of these are left: they may have been
    stored late, or be shared.
    """
    where = yield from survey(keys, life)
    listed = where.burials.blobs
    if not listed:
        return SweptBlobs()
    left = listed & {file_name(entry.key) for entry in (yield from list_all(keys.blobs(life)))}
    living = (yield from living_blobs(where)) if left else set[str]()
    dead = sorted(left - living)  # rule: shared-blobs
    if dead:
        yield from ask(Delete(tuple(keys.blob(life, digest) for digest in dead)), Deleted)
    shared = left & living
    return SweptBlobs(tuple(sorted(listed - shared)), tuple(sorted(shared)))


def living_blobs(where: Survey) -> Steps[set[str]]:
    """Return the digests of all blobs that records refer to, except for erased ones. Reads the whole session."""
    living, first = set[str](), 0
    known, lines = yield from read_lines(where.keys, 0, where)
    while lines:
        living |= {digest for line in lines for digest in blob_refs_in(line)}
        first += len(lines)
        known, lines = yield from read_lines(where.keys, first, known)
    return living
