"""Add records at the end of the journal: one request, durable when it is answered.

Rule 1: an append swaps the tail it saw. A write in between makes it fail; nothing is overwritten.
Rule 2: in the same request it drops sealed records from the tail, those in segments, and nothing else. Records that
`latest` merely covers stay: closing covers without sealing. If no append follows a seal, `drop_sealed` does the same.
The mark of the new base identifies the append in front of it, so a writer that did not see the dropped records knows
whether they were its own.
Rule 3: a refusal proves nothing, since clients re-send after a lost reply, and then our own success comes back as a
conflict. Read the position the records were meant for, in the tail or in the segment that holds it. That `latest` lacks
them proves nothing either, since it holds only a part of the records.
Rule 4: only a record of another writer at that position is a conflict. A record of our own, from an earlier append with
an unknown outcome, is progress: read again and append after it.
Rule 5: an append with an unknown outcome may still take effect. Before its records are sent again, or given up, the
tail has to change: then that append can no longer succeed. If no other writer changed the tail, we rewrite it with the
same content.
Rule 6: a tail replaces a tombstone or another tail; it is never created under a key without an object.
Rule 7: after a failed sync nothing in a log counts, not even bytes that can be read back. The whole unsealed tail is
written to a new file before anything is acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from treering import journal
from treering.errors import AccessError, FormatVersionError, PoisonedError, TreeringError, UnavailableError, UsageError
from treering.format import register as registers
from treering.format.frames import compress
from treering.format.paths import SessionKeys
from treering.format.record import Record, decode_record, encode_checked
from treering.format.register import Tail, TailHeader
from treering.journal.limits import APPEND_BYTES_MAX, TAIL_BYTES_MAX
from treering.journal.register import Attempts, Lost, Swapped, TailRegister, extend, swap_all
from treering.journal.resume import resume_life
from treering.journal.view import Lines, View
from treering.kinds import Kind
from treering.storage.requests import ABSENT, Steps


class Landed(msgspec.Struct, frozen=True):
    """The records are durable."""

    view: View
    """The registers now; other writers may have appended after us already."""
    first: int
    """Position of the first of our records."""
    sent_bytes: int
    """Bytes that this append uploaded."""
    records: tuple[Record, ...] = ()
    """Our records as they are in the journal; empty if the outcome was found by reading."""
    lines: tuple[bytes, ...] = ()
    """The lines of `records`."""


class Overtaken(msgspec.Struct, frozen=True):
    """Nothing was written: the journal does not end where the view says."""

    view: View
    """The registers now."""
    by: str
    """The writer of the record at our position, as in `Record.by`; empty if the position is still free."""


def append(view: View, records: Sequence[Record], *, by: str, nonce: str, lease: int = 0) -> Steps[Landed | Overtaken]:
    """Add `records` behind `view.end`, all or none.

    Args:
        view: The registers as last read.
        records: At least one; `at`, `by` and `more` are filled in here. Bodies and briefs are JSON on one line.
        by: `<writer nonce>.<append number>.<view.end>`, never used for another append.
        nonce: Names the tail if it is rewritten.
        lease: The number of the lease that this writer took; 0 if it has none.

    Raises:
        UsageError: The records alone would burst the register; nothing was written.
        SessionHeldError: Another worker has the lease; nothing was written.
        LeaseLostError: Another worker has, or had, the lease that this one took; nothing was written.
        SessionDeletedError: The session was deleted since it was read.
        UnavailableError: The store did not answer, or its answer does not show the outcome; the records may be in the
            journal now, later, or never.
        CorruptError: The session is damaged.
    """
    if view.tail_version == ABSENT:
        yield from TailRegister(view.keys).put_tombstone(nonce)
        return (yield from _settle(view, by, 0, nonce))
    if lease or view.tail.header.lease:
        journal.lease.require(view, lease, by=by.partition(".")[0])  # rule: holder-only
    first = view.end
    stamped = stamp(records, at=first, by=by)
    lines = tuple(map(encode_checked, stamped))
    try:
        outcome, tail = yield from _write(view, lines, nonce, in_place=view.in_place)
    except PoisonedError:
        outcome, tail = yield from _write(view, lines, nonce, in_place=False)  # rule: poison-rewrite
    if isinstance(outcome, Swapped):
        return Landed(view.with_tail(tail, outcome.version), first, outcome.sent_bytes, stamped, lines)
    try:
        return (yield from _settle(view, by, outcome.sent_bytes, nonce))
    except (AccessError, FormatVersionError) as error:
        raise _unknown(view.keys, error) from error  # rule: doubt-is-told


def stamp(records: Sequence[Record], *, at: int, by: str) -> tuple[Record, ...]:
    """Give records the positions from `at` on, as one atomic group."""
    if not records:
        raise UsageError("an append needs at least one record")
    last = at + len(records) - 1
    stamped = []
    for place, record in enumerate(records, at):
        stamped.append(msgspec.structs.replace(record, at=place, by=by, more=place < last))  # rule: whole-append
    return tuple(stamped)


def settle(view: View, *, by: str, nonce: str) -> Steps[Landed | Overtaken]:
    """Find out the final outcome of an append whose outcome is unknown.

    Args:
        view: The view that the append was given.
        by: Its `by`.
        nonce: As for `append`.

    Returns:
        `Landed` if it took effect. `Overtaken` if it did not, and never will.

    Raises:
        SessionDeletedError: The session was deleted since it was read.
        UnavailableError: The store did not answer; call again.
    """
    return (yield from _settle(view, by, 0, nonce, fence=True))  # rule: fence-doubt


def _settle(view: View, by: str, sent_bytes: int, nonce: str, *, fence: bool = False) -> Steps[Landed | Overtaken]:
    """Read which writer's record is at our position.

    Args:
        view: The view that the append was given.
        by: Its `by`.
        sent_bytes: Bytes that it uploaded.
        nonce: Names the tail if it is rewritten.
        fence: The append may still take effect; if the tail has not changed since, rewrite it.
    """
    attempts = Attempts(view.keys.tail)
    while attempts.another():
        now = yield from resume_life(view.keys, view.life)
        there = yield from journal.rows.record_at(now, view.end)  # rule: read-back-by-position
        found = "" if there is None else decode_record(there, key=view.keys.tail).by
        if found == by:  # rule: read-back
            return Landed(now, view.end, sent_bytes)
        if not (fence and now.tail_version == view.tail_version):
            return Overtaken(now, found)
        if (rewritten := (yield from rewrite_tail(now, nonce))) is not None:
            return Overtaken(rewritten, found)


def _unknown(keys: SessionKeys, error: TreeringError) -> UnavailableError:
    """The error for an append that was sent and refused, and could not be read back (rule 3)."""
    return UnavailableError(
        f"the outcome of an append is unknown: the write was refused, and reading back failed: {error}",
        kind=error.kind,
        key=keys.tail,
        remedy="mend that first; the next call that writes finds out whether it is recorded",
    )


def rewrite_tail(view: View, nonce: str) -> Steps[View | None]:
    """Rewrite the tail with the same content, under another version; None if another writer changed it first.

    A write that expects the old version is refused from then on.
    """
    register = TailRegister(view.keys)
    if view.tail_version == ABSENT:
        yield from register.put_tombstone(nonce)
        return None
    tail = Tail(header=msgspec.structs.replace(view.tail.header, nonce=nonce), lines=view.tail.lines)
    outcome = yield from register.swap(tail, expect=view.tail_version, keeps_time=True)
    return view.with_tail(tail, outcome.version) if isinstance(outcome, Swapped) else None


def drop_sealed(view: View, nonce: str) -> Steps[View | None]:
    """Rewrite the tail without the records that are in segments; None if another writer changed it first.

    Args:
        view: The registers as last read.
        nonce: Names the tail.

    Raises:
        UnavailableError: The store did not answer; the tail may be rewritten now, later, or never. Nothing is lost.
    """
    outcome, tail = yield from _write(view, (), nonce, in_place=False)
    return view.with_tail(tail, outcome.version) if isinstance(outcome, Swapped) else None


def _write(view: View, lines: tuple[bytes, ...], nonce: str, *, in_place: bool) -> Steps[tuple[Swapped | Lost, Tail]]:
    """Send the one request of an append; return its outcome, and the tail that it makes."""
    kept = view.unsealed_lines  # rule: drop-sealed-only, keep-unsealed
    joined = Lines(kept, lines)
    if joined.size > registers.ROOM_BYTES:  # rule: seal-when-full
        raise _too_large(view.keys, kept, lines)
    if in_place and kept is view.tail.lines:
        tail = Tail(header=view.tail.header, lines=joined)
        return (yield from extend(view.keys.tail, b"".join(lines), expect=view.tail_version)), tail
    tail = Tail(header=next_header(view, nonce), lines=joined)
    keeps_time = not lines
    request = TailRegister(view.keys).prepare(tail, expect=view.tail_version, keeps_time=keeps_time)  # rule: swap-tail
    bytes_max = TAIL_BYTES_MAX if kept else APPEND_BYTES_MAX
    if len(request.data) > bytes_max and not view.keys.appends:
        raise _too_large(view.keys, kept, lines)
    (outcome,) = yield from swap_all(request)
    return outcome, tail


def next_header(view: View, nonce: str) -> TailHeader:
    """Return the header of a tail without the records that are in segments; all other fields are kept."""
    base = view.end - len(view.unsealed_lines)
    mark = view.mark_at(base)
    # rule: keep-lease
    return msgspec.structs.replace(view.tail.header, base=base, before=(base, mark) if mark else UNSET, nonce=nonce)


def require_one_append(keys: SessionKeys, lines: Sequence[bytes]) -> None:
    """Refuse records that are too large for any tail, before anything is written for them.

    Raises:
        UsageError: These lines are too much for one append.
    """
    size = sum(map(len, lines))
    sent = len(compress(b"".join(lines))) if APPEND_BYTES_MAX < size <= registers.ROOM_BYTES and not keys.appends else 0
    if size > registers.ROOM_BYTES or sent > APPEND_BYTES_MAX:
        raise _too_large(keys, (), lines)


def _too_large(keys: SessionKeys, kept: Sequence[bytes], lines: Sequence[bytes]) -> UsageError:
    """The error for records that do not fit: not in this tail, or not in any tail."""
    if kept:
        return UsageError("the tail is full", kind=Kind.TAIL_FULL, key=keys.tail, remedy="seal first")
    return UsageError(
        f"too much for one append. records={len(lines)}, bytes={sum(map(len, lines))}, max={registers.ROOM_BYTES}, "
        f"max_compressed={APPEND_BYTES_MAX}",
        kind=Kind.APPEND_TOO_LARGE,
        key=keys.tail,
        remedy="append some of the messages, or set some of the state, in a call before this one; "
        "if it is the context, make it smaller: compact it, or commit another one",
    )
