"""Add records at the end of the journal: one request, durable when it is answered.

Rule 1: an append swaps the tail it saw. Whoever wrote in between makes it fail; nothing is overwritten.
Rule 2: it drops from the tail what lies in segments, in the same request, and nothing else. What `latest` merely covers
stays: closing covers without sealing. Nobody else drops anything, so a base that rose tells that somebody appended.
Rule 3: a refusal proves nothing, since clients re-send after a lost reply and our own success comes back as a conflict.
Look at the position the records were meant for, in the tail or in the segment that covers it. The working context
proves nothing either; it is bounded.
Rule 4: only somebody else's record at that position is a conflict. One of our own from an earlier append that had no
answer is progress: look again and go on behind it.
Rule 5: an append that had no answer may land later. Before its records are sent again, or given up, the tail has to
change: then it cannot. If nobody else changed it, we write it anew as it is.
Rule 6: a tail is written in place of a tombstone or of another tail, never where nothing is.
Rule 7: after a failed sync nothing in a log counts, not even what can be read back. The whole unsealed tail is written
elsewhere before anything is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treering.errors import ConflictError, NotFoundError, PoisonedError, TreeringError, UnavailableError, UsageError
from treering.format.frames import compress
from treering.format.paths import SessionKeys
from treering.format.record import Record, decode_record, encode_checked
from treering.format.register import Tail, TailHeader, encode_tail, room
from treering.journal.limits import APPEND_BYTES_MAX, TAIL_BYTES_MAX
from treering.journal.lines import joined, size_of
from treering.journal.read import record_at
from treering.journal.resume import LOOKS_MAX, resume
from treering.journal.view import View
from treering.storage.requests import ABSENT, Append, Put, Steps, Written
from treering.storage.run import checked


class Appended(msgspec.Struct, frozen=True):
    """The records are durable."""

    view: View
    """What stands in the store now; others may have appended behind us already."""
    first: int
    """Position of the first of our records."""
    sent_bytes: int
    """How much this append had to upload."""
    records: tuple[Record, ...] = ()
    """As they stand in the journal; empty if that was found out by looking."""
    lines: tuple[bytes, ...] = ()
    """Those of `records`."""


class Overtaken(msgspec.Struct, frozen=True):
    """Nothing was written: the journal does not end where we thought."""

    view: View
    """What stands there now."""
    by: str
    """Who wrote the record at our position, as in `Record.by`; empty if it is still free."""


def append(view: View, records: Sequence[Record], *, by: str, nonce: str) -> Steps[Appended | Overtaken]:
    """Add `records` behind `view.end`, all or none.

    Args:
        view: What the journal is thought to be.
        records: At least one; `at`, `by` and `more` are filled in here. Bodies and briefs are JSON on one line.
        by: `<writer nonce>.<append number>.<view.end>`, never used for another append.
        nonce: Names the tail if it is written anew.

    Raises:
        UsageError: The records alone would burst the register; nothing was written.
        SessionDeletedError: The session was deleted meanwhile.
        UnavailableError: The store did not answer; the records may be in the journal now, later, or never.
        CorruptError: The session is damaged.
    """
    if view.tail_version == ABSENT:
        yield from put_stone(view.keys, nonce)
        return (yield from _settle(view, by, 0, nonce, rewrite=False))
    first = view.end
    stamped = stamp(records, at=first, by=by)
    lines = tuple(map(encode_checked, stamped))
    request, tail = _request(view, lines, nonce, in_place=view.in_place)
    (answer,) = yield (request,)
    poisoned = isinstance(answer, PoisonedError)
    if poisoned:
        request, tail = _request(view, lines, nonce, in_place=False)
        (answer,) = yield (request,)
    if isinstance(answer, Written):
        return Appended(view.with_tail(tail, answer.version), first, len(request.data), stamped, lines)
    if not isinstance(answer, (ConflictError, NotFoundError)):
        raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")
    return (yield from _settle(view, by, len(request.data), nonce, rewrite=poisoned))


def stamp(records: Sequence[Record], *, at: int, by: str) -> tuple[Record, ...]:
    """Give records the positions from `at` on, as one atomic group."""
    if not records:
        raise UsageError("an append needs at least one record")
    last = at + len(records) - 1
    stamped = []
    for place, record in enumerate(records, at):
        stamped.append(msgspec.structs.replace(record, at=place, by=by, more=place < last))
    return tuple(stamped)


def settle(view: View, *, by: str, nonce: str) -> Steps[Appended | Overtaken]:
    """Find out what became of an append that had no answer, for good.

    Args:
        view: What that append was given.
        by: Its `by`.
        nonce: As for `append`.

    Returns:
        `Appended` if it landed. `Overtaken` if it has not, and never will.

    Raises:
        SessionDeletedError: The session was deleted meanwhile.
        UnavailableError: The store did not answer; call again.
    """
    return (yield from _settle(view, by, 0, nonce, rewrite=view.keys.appends, fence=True))


def _settle(
    view: View, by: str, sent_bytes: int, nonce: str, *, rewrite: bool, fence: bool = False
) -> Steps[Appended | Overtaken]:
    """Look who wrote at our position.

    Args:
        view: What the append was given.
        by: Its `by`.
        sent_bytes: What it uploaded.
        nonce: Names the tail if it is written anew.
        rewrite: What is read may not be durable.
        fence: The append may still be under way; if nobody wrote since, we do.
    """
    for _ in range(LOOKS_MAX):
        now = yield from resume(view.keys)
        now.require_same_life(view.life)
        there = yield from record_at(now, view.end)
        found = "" if there is None else decode_record(there, key=view.keys.tail).by
        landed = found == by
        if (rewrite and now.unsealed_lines) if landed else (fence and now.tail_version == view.tail_version):
            rewritten = yield from rewrite_tail(now, nonce)
            if rewritten is None:
                continue
            now = rewritten
        return Appended(now, view.end, sent_bytes) if landed else Overtaken(now, found)
    raise UnavailableError("others write faster than we can look", kind="busy", key=view.keys.tail)


def rewrite_tail(view: View, nonce: str) -> Steps[View | None]:
    """Write the tail anew as it is, under another version; None if somebody else wrote first.

    What was read there is durable then, and a write that expects the old version comes too late.
    """
    if view.tail_version == ABSENT:
        yield from put_stone(view.keys, nonce)
        return None
    tail = Tail(header=msgspec.structs.replace(view.tail.header, nonce=nonce), lines=view.tail.lines)
    (answer,) = yield (Put(view.keys.tail, encode_tail(tail, compressed=not view.keys.appends), view.tail_version),)
    if isinstance(answer, Written):
        return view.with_tail(tail, answer.version)
    if isinstance(answer, (ConflictError, NotFoundError)):
        return None
    raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")


def put_stone(keys: SessionKeys, nonce: str) -> Steps[None]:
    """Put the tombstone of a life that never was where no tail is.

    What replaces it is refused once it is gone, while a write that expects nothing may come at any time: after the
    session was deleted and purged.
    """
    header = TailHeader(session=keys.session, life="", base=0, dead=True, nonce=nonce)
    data = encode_tail(Tail(header=header, lines=()), compressed=not keys.appends)
    (answer,) = yield (Put(keys.tail, data, expect=ABSENT),)
    if not isinstance(answer, (ConflictError, NotFoundError)):
        checked(answer, Written)


def _request(view: View, lines: tuple[bytes, ...], nonce: str, *, in_place: bool) -> tuple[Append | Put, Tail]:
    """The one request of an append, and the tail as it will stand."""
    kept = view.unsealed_lines
    if size_of(kept) + size_of(lines) > room():
        raise _too_large(view.keys, kept, lines)
    if in_place and kept is view.tail.lines:
        tail = Tail(header=view.tail.header, lines=joined(kept, lines))
        return Append(view.keys.tail, b"".join(lines), expect=view.tail_version), tail
    header = msgspec.structs.replace(view.tail.header, base=view.end - len(kept), nonce=nonce)
    tail = Tail(header=header, lines=joined(kept, lines))
    data = encode_tail(tail, compressed=not view.keys.appends)
    bytes_max = TAIL_BYTES_MAX if kept else APPEND_BYTES_MAX
    if len(data) > bytes_max and not view.keys.appends:
        raise _too_large(view.keys, kept, lines)
    return Put(view.keys.tail, data, expect=view.tail_version), tail


def require_one_append(keys: SessionKeys, lines: Sequence[bytes]) -> None:
    """Refuse what no tail has room for, before anything is written for it.

    Raises:
        UsageError: These lines are too much for one append.
    """
    size = size_of(lines)
    sent = len(compress(b"".join(lines))) if APPEND_BYTES_MAX < size <= room() and not keys.appends else 0
    if size > room() or sent > APPEND_BYTES_MAX:
        raise _too_large(keys, (), lines)


def _too_large(keys: SessionKeys, kept: Sequence[bytes], lines: Sequence[bytes]) -> UsageError:
    """The error for records that there is no room for: none in this tail, or in no tail at all."""
    if kept:
        return UsageError("the tail is full", kind="tail_full", key=keys.tail, remedy="seal first")
    return UsageError(
        f"too much for one append. records={len(lines)}, bytes={size_of(lines)}, max={room()}, "
        f"max_compressed={APPEND_BYTES_MAX}",
        kind="append_too_large",
        key=keys.tail,
        remedy="append some of the messages, or set some of the state, in a call before this one; "
        "if it is the context, make it smaller: compact it, or commit another one",
    )
