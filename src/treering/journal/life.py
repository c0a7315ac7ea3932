"""Create and delete sessions. A name may be reused; each creation is a new life (generation) with its own folder.

Rule 1: creation writes `latest` before the tail, so a session whose creator is killed at once is still listed.
Rule 2: any process that finds `latest` of a new life without its tail may continue that life; its creator may be dead.
Rule 3: deletion puts its tombstone in the tail first, since appends swap the tail, then in `latest`, then deletes the
folder of that life.
Rule 4: a life begins in place of tombstones in both registers. They are those of the previous life, or of a life that
never existed. Once a tombstone is gone, a write that expects it is refused for ever, while a delayed write that expects
no object could still succeed.
Rule 5: the name of a life is never used twice, and neither is its folder.
Rule 6: the marker for lists is written before `latest`, and deleted after its tombstone; see `treering.journal.marker`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treering.errors import ConflictError, NotFoundError
from treering.format.paths import SessionKeys
from treering.format.register import Card, Latest
from treering.journal import marker
from treering.journal.register import Attempts, LatestRegister, Swapped, TailRegister, swap_all
from treering.journal.resume import Registers, look, resume, unused
from treering.journal.view import View, empty_tail
from treering.kinds import Kind
from treering.storage.requests import ABSENT, DELETE_KEYS_MAX, Found, List, Listed, Steps, Written
from treering.storage.run import ask, delete_all


class Birth(msgspec.Struct, frozen=True):
    """The records that a loaded session begins with."""

    records: int
    """How many there are. Their segments, in the folder of the life, are durable."""
    mark: str
    """The mark of the position behind them."""
    seen: Registers | None
    """What `free_name` returned before the first of these segments was written."""


_UNBORN = Birth(0, "", None)


def create(
    keys: SessionKeys,
    card: Card,
    lines: tuple[bytes, ...],
    *,
    life: str,
    nonce: str,
    now_ms: int,
    born: Birth = _UNBORN,
    absent: bool = False,
) -> Steps[View]:
    """Create a session under a free name: never used, or deleted.

    Args:
        keys: The session.
        card: Its card; `life`, `write` and `marker` are filled in here.
        lines: Body of the first `latest`.
        life: Names this creation; never used again.
        nonce: Names this write, and the marker; never used again.
        now_ms: The time for the marker, in milliseconds since 1970.
        born: Which records the session begins with; none by default.
        absent: There was no object of that name when the caller looked, so it need not be looked for again.

    Returns:
        A view with an empty tail; the first append writes the tail.

    Raises:
        ConflictError: The session exists, or another process created it at this moment.
        UnavailableError: The store did not answer; the card may or may not be written.
    """
    card = marker.first_marked(card, ms=now_ms, unique=nonce)
    if born.seen is not None:
        seen = born.seen
        yield from ask(marker.put_of(keys, card), Written)  # rule: mark-load
    else:
        seen = yield from free_name(keys, nonce=nonce, absent=absent)  # rule: mark-behind-look
        yield from ask(marker.put_of(keys, card), Written)  # rule: mark-creation, mark-behind-look before this
    card = msgspec.structs.replace(
        card,
        session=keys.session,
        life=life,
        write=nonce,
        born=born.records,
        covers=born.records,
        sealed=born.records,
        mark=born.mark,
        epoch=0,
        erased=(),
        erasures=(),
        dead=False,
        lines=len(lines),
    )
    latest = Latest(card=card, lines=lines)
    # rule: create-latest-first, create-swaps
    outcome = yield from LatestRegister(keys).swap(latest, expect=seen.latest_version)
    if isinstance(outcome, Swapped):
        tail = empty_tail(card, keys.session, nonce)
        return View(keys, latest, outcome.version, tail, seen.tail_version, in_place=False)
    view = yield from _resume_created(keys)
    if view is None:
        raise taken(keys)
    if view.life != life:
        yield from marker.drop(keys, card, view.latest.card)
        raise taken(keys)
    return view


def free_name(keys: SessionKeys, *, nonce: str, absent: bool = False) -> Steps[Registers]:
    """Make sure that a name is free: both registers hold tombstones. Creation replaces the one in `latest`.

    If the name was never used, or was purged, tombstones of a life that never was are written first.

    Args:
        keys: The session.
        nonce: Names the tombstones.
        absent: There was no object of that name when the caller looked. The tombstones are written only where there
            still is no object, so an outdated look does no harm.

    Raises:
        ConflictError: The session exists.
        UnavailableError: The store did not answer, or other processes create and delete faster than this one reads.
    """
    if absent and (tombstones := (yield from _put_tombstones(unused(keys), nonce))) is not None:
        return tombstones
    attempts = Attempts(keys.latest)
    while attempts.another():
        seen = yield from look(keys)
        if seen.dead:
            finished = seen.card is not None and not seen.card.dead and seen.life
            seen = yield from _bury(seen, seen.life, nonce)
            if finished:  # an interrupted deletion left this undone
                yield from _empty_folder(keys.folder(finished))
                yield from marker.drop_buried(keys, seen.card)
        if not (seen.absent or seen.dead):  # rule: create-if-free
            raise taken(keys)
        if ABSENT not in seen.versions:  # rule: stones-first
            return seen
        tombstones = yield from _put_tombstones(seen, nonce)
        if tombstones is not None:
            return tombstones


def _put_tombstones(seen: Registers, nonce: str) -> Steps[Registers | None]:
    """Write missing tombstones; return both if both were missing, which saves reading them."""
    latest, tail = LatestRegister(seen.keys), TailRegister(seen.keys)
    requests = (
        latest.prepare(latest.tombstone("", nonce), expect=ABSENT),
        tail.prepare(tail.tombstone("", nonce), expect=ABSENT),
    )
    missing = [request for request, version in zip(requests, seen.versions, strict=True) if version == ABSENT]
    outcomes = yield from swap_all(*missing)
    found = [
        Found(request.data, outcome.version, outcome.sent_bytes)
        for request, outcome in zip(missing, outcomes, strict=False)
        if isinstance(outcome, Swapped)
    ]
    return Registers(seen.keys, *found) if len(found) == len(requests) else None


def require_free(keys: SessionKeys) -> Steps[None]:
    """Check that a name is free, before work is done for a session of that name.

    Raises:
        ConflictError: The session exists.
    """
    seen = yield from look(keys)
    if not (seen.absent or seen.dead):
        raise taken(keys)


def _resume_created(keys: SessionKeys) -> Steps[View | None]:
    try:
        return (yield from resume(keys))
    except NotFoundError:
        return None  # created by another process and deleted again since


def taken(keys: SessionKeys) -> ConflictError:
    """The error for a name that is not free."""
    return ConflictError(
        f"session {keys.session!r} exists, or was created by another process at this moment",
        kind=Kind.EXISTS,
        key=keys.latest,
        remedy="open it, or choose another name",
    )


def delete(keys: SessionKeys, *, nonce: str, agreed: Callable[[Registers], bool] | None = None) -> Steps[bool]:
    """Delete a session: fence appends, mark the card, remove its folder. Finishes an interrupted deletion.

    Args:
        keys: The session.
        nonce: Names this write.
        agreed: Called with the registers of a living session, before the tombstone replaces exactly that tail. By
            default every session is deleted.

    Returns:
        Whether it is deleted; false if `agreed` returned false.

    Raises:
        NotFoundError: There never was such a session.
        UnavailableError: The store did not answer; call again to finish.
    """
    life = ""
    attempts = Attempts(keys.tail)
    while attempts.another():
        seen = yield from look(keys)
        if seen.absent or (seen.dead and not seen.life):
            raise NotFoundError(f"there is no session {keys.session!r}", kind=Kind.SESSION, key=keys.latest)
        looks = attempts.in_a_row(seen.versions)
        if seen.torn and looks < seen.proven_by:
            continue
        life = life or seen.life  # rule: finish-deletion
        if agreed is not None and not seen.dead and not agreed(seen):
            return False
        # rule: fence-without-tail, tombstone-in-tail-first, delete-one-life
        if life == seen.life and not seen.dead and not (yield from _fence(seen, life, nonce)):
            continue
        seen = yield from _bury((yield from look(keys)), life, nonce)
        yield from _empty_folder(keys.folder(life))
        yield from marker.drop_buried(keys, seen.card)
        return True


def discard(keys: SessionKeys, life: str) -> Steps[None]:
    """Remove the folder of a life that was not created, because another process created the session first."""
    yield from _empty_folder(keys.folder(life))


def _fence(seen: Registers, life: str, nonce: str) -> Steps[bool]:
    """Replace the tail by the tombstone, which fences appends; false if a writer appended first."""
    register = TailRegister(seen.keys)
    outcome = yield from register.swap(register.tombstone(life, nonce), expect=seen.tail_version)
    return isinstance(outcome, Swapped)


def _bury(seen: Registers, life: str, nonce: str) -> Steps[Registers]:
    """Mark the card of a fenced life as deleted, so that lists skip it and the name can be reused."""
    register, attempts = LatestRegister(seen.keys), Attempts(seen.keys.latest)
    while attempts.another():
        card = seen.card
        if card is None or card.dead or card.life != life:  # rule: bury-own
            return seen
        # rule: stone-has-own-id
        tombstone = register.tombstone(life, nonce, updated=card.updated, marker=card.marker)
        yield from register.swap(tombstone, expect=seen.latest_version)
        seen = yield from look(seen.keys)


def _empty_folder(prefix: str) -> Steps[None]:
    while True:
        listed = yield from ask(List(prefix, limit=DELETE_KEYS_MAX), Listed)
        yield from delete_all([entry.key for entry in listed.entries])
        if not listed.more:
            return
