"""Take a payload out of everything that holds it: the tail, `latest`, segments and blobs.

Rule 1: the tail is swapped first. From then on it says which positions hold something erased, under a new epoch, and no
append, seal or close that began before can end well. It says nothing of positions behind the end: a record that was
seen there before it was safe may be gone, and what comes there next is another.
Rule 2: `latest` follows, with all that the tail says and up to its epoch. Whoever needs it for something else does it.
Rule 3: a segment that covers an erased position, and whose name tells of an older epoch, is rewritten, then deleted;
never just deleted, since a merge may have made it the only copy of its neighbours.
Rule 4: it is done when a listing shows no such segment. What a stalled process writes later is rewritten by whoever
lists next.
Rule 5: a blob of an erased record is on a list in the tail, and nobody refers to it again. So if no record that is left
refers to it after that, it can be deleted at any time, by anybody, any number of times.

Theory of operation
-------------------
Bytes of a payload move from the tail into `latest` and into segments, from segments into larger ones, and nowhere else.
Whoever moves them read them before the tail was swapped, or has them without the payload. In the first case what they
write is refused (the tail and `latest` are swapped by version) or recognised (a segment carries the epoch of the tail
that its lines were read with, a merged one the oldest). Any step may be the last one ever taken: then the tail still
says what there is to do.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError, UsageError
from treering.format import register
from treering.format.blobs import blob_refs_in
from treering.format.erasure import Burials, Erasure, burials
from treering.format.paths import SegmentName, SessionKeys
from treering.format.register import Latest, Tail, encode_latest, encode_tail, header_bytes
from treering.format.segment import build_segment
from treering.journal.append import put_stone
from treering.journal.limits import ERASED_MAX
from treering.journal.merge import delete_segments
from treering.journal.read import LOOKS_MAX, Segment, Survey, read_lines, segment_lines, survey
from treering.journal.resume import resume
from treering.journal.view import View
from treering.storage.requests import ABSENT, Delete, Deleted, Put, Steps, Written
from treering.storage.run import ask

Bury = Callable[[Latest, Burials], Latest]
"""Takes what was erased out of the body and the card of `latest`; idempotent."""


def fence(view: View, erasure: Erasure, *, nonce: str) -> Steps[View | None]:
    """Swap the tail for one without the payloads.

    Args:
        view: What stands in the store; every copy of the payloads in it was looked for.
        erasure: What is to be erased; its epoch is filled in here.
        nonce: Names the tail.

    Returns:
        What stands there now; None if somebody wrote since, or a record is not there, so that copies have to be looked
        for again.

    Raises:
        UsageError: The list of what was erased would burst the tail; nothing was written.
        UnavailableError: The store did not answer; the payloads may be fenced now, later, or never.
    """
    if view.tail_version == ABSENT:
        yield from put_stone(view.keys, nonce)
        return None
    if any(at >= view.end for at, _ in erasure.records):
        return None
    tail = _fenced(view, erasure, nonce)
    (answer,) = yield (Put(view.keys.tail, encode_tail(tail, compressed=not view.keys.appends), view.tail_version),)
    if isinstance(answer, Written):
        return view.with_tail(tail, answer.version)
    if isinstance(answer, (ConflictError, NotFoundError)):
        return None
    raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")


def _fenced(view: View, erasure: Erasure, nonce: str) -> Tail:
    header, lines = view.tail.header, view.tail.lines
    act = msgspec.structs.replace(erasure, epoch=header.epoch + 1)
    erased = (*header.erased, *((at, act.epoch) for at in sorted({at for at, _ in act.records})))
    erasures = (*header.burials.erasures, act)
    listed = msgspec.structs.replace(header, epoch=act.epoch, erased=erased, erasures=erasures, nonce=nonce)
    if len(erased) > ERASED_MAX or header_bytes(listed) > register.RESERVE_BYTES // 2:
        raise UsageError(
            f"more than {ERASED_MAX} payloads would be erased from one session, or too long a list of them",
            kind="too_many_erased",
            key=view.keys.tail,
            remedy="copy the session under another name, which leaves the list of them behind, and delete this one",
        )
    return Tail(header=listed, lines=tuple(burials(erased, erasures).bury_all(lines, header.base)))


def heal(keys: SessionKeys, life: str, bury: Bury, *, unique: Callable[[], str]) -> Steps[View]:
    """Let `latest` follow the tail in what was erased.

    Args:
        keys: The session.
        life: The life that is meant.
        bury: Knows what the body of `latest` is made of.
        unique: Makes names for writes.

    Returns:
        What stands there now.
    """
    for _ in range(LOOKS_MAX):
        view = yield from resume(keys)
        view.require_same_life(life)
        if not view.torn:
            return view
        buried = bury(view.latest, view.burials)
        card = msgspec.structs.replace(
            buried.card,
            epoch=view.epoch,
            erased=view.tail.header.erased,
            erasures=view.burials.erasures,
            write=unique(),
            lines=len(buried.lines),
        )
        (answer,) = yield (Put(keys.latest, encode_latest(card, buried.lines), expect=view.latest_version),)
        if isinstance(answer, Written):
            return view.with_latest(Latest(card=card, lines=buried.lines), answer.version)
        if not isinstance(answer, (ConflictError, NotFoundError)):
            raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")
    raise _busy(keys)


def sweep(keys: SessionKeys, life: str, *, unique: Callable[[], str]) -> Steps[int]:
    """Rewrite segments that may hold something erased until a listing shows none; return how many there were."""
    rewritten = 0
    for _ in range(LOOKS_MAX):
        where = yield from survey(keys, life)
        dirty = [each for each in (*where.segments, *where.waste) if where.burials.is_dirty(each.name)]
        if not dirty:
            return rewritten
        for segment in dirty:
            try:
                yield from _rewrite(where, segment, unique())
            except NotFoundError:
                continue  # somebody else did, or merged it
            rewritten += 1
    raise _busy(keys)


def _rewrite(where: Survey, segment: Segment, unique: str) -> Steps[None]:
    name = segment.name
    lines = where.burials.bury_all((yield from segment_lines(segment)), name.first)
    clean = SegmentName(name.first, name.end, where.tail.header.epoch, unique)
    key = where.keys.segment(where.life, clean)
    yield from ask(Put(key, build_segment(lines, key=key)), Written)
    yield from delete_segments([segment])


class SweptBlobs(msgspec.Struct, frozen=True):
    """What became of the blobs that erased records referred to."""

    deleted: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Other records refer to them as well."""


def sweep_blobs(keys: SessionKeys, life: str) -> Steps[SweptBlobs]:
    """Delete the blobs that only erased records referred to. Reads the whole session, if there are any to think of."""
    known, lines = yield from read_lines(keys, 0, life=life)
    listed, living, first = known.burials.blobs, set[str](), 0
    if not listed:
        return SweptBlobs()
    while lines:
        living |= {digest for line in lines for digest in blob_refs_in(line)}
        first += len(lines)
        known, lines = yield from read_lines(keys, first, known)
    dead = sorted(listed - living)
    if dead:
        yield from ask(Delete(tuple(keys.blob(life, digest) for digest in dead)), Deleted)
    return SweptBlobs(tuple(dead), tuple(sorted(listed & living)))


def _busy(keys: SessionKeys) -> UnavailableError:
    return UnavailableError("others write faster than can be erased", kind="busy", key=keys.tail)
