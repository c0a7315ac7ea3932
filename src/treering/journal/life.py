"""Create and delete sessions. A name may be used again; each creation is a new life with a folder of its own.

Rule 1: creation writes `latest` before the tail, so a session killed at once is still listed.
Rule 2: whoever finds `latest` of a new life without its tail may go on with it; the creator may have been killed.
Rule 3: deletion puts its tombstone in the tail first, since appends swap the tail, then in `latest`, then deletes the
folder of that life.
Rule 4: a life begins in place of tombstones in both registers, of the life before or of one that never was. What
replaces a tombstone is refused for ever once that is gone; what is written where nothing is could come at any time.
Rule 5: a life is never used twice, and neither is its folder.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError
from treering.format.paths import SessionKeys
from treering.format.register import Card, Latest, Tail, TailHeader, encode_latest, encode_tail
from treering.journal.merge import DELETES_MAX
from treering.journal.resume import LOOKS_MAX, Registers, look, resume
from treering.journal.view import View, empty_tail
from treering.storage.requests import ABSENT, Answer, Delete, Deleted, Found, List, Listed, Put, Steps, Written
from treering.storage.run import ask, checked


def create(  # by keyword, but for what is created
    keys: SessionKeys,
    card: Card,
    lines: tuple[bytes, ...],
    *,
    life: str,
    nonce: str,
    born: int = 0,
    seen: Registers | None = None,
) -> Steps[View]:
    """Begin a session under a name that is free: never used, or deleted.

    Args:
        keys: The session.
        card: Its card; `life` and `write` are filled in here.
        lines: Body of the first `latest`.
        born: How many records the session begins with. Their segments, in the folder of `life`, are durable already.
        life: Names this creation; never used again.
        nonce: Names this write.
        seen: What `free_name` returned before the first segment of `life` was written; by default it is asked now.

    Returns:
        A view with an empty tail; the first append writes the tail.

    Raises:
        ConflictError: The session exists, or somebody else created it at this moment.
        UnavailableError: The store did not answer; the card may or may not be written.
    """
    seen = seen or (yield from free_name(keys, nonce=nonce))
    card = msgspec.structs.replace(
        card,
        session=keys.session,
        life=life,
        write=nonce,
        born=born,
        covers=born,
        sealed=born,
        epoch=0,
        erased=(),
        erasures=(),
        dead=False,
        lines=len(lines),
    )
    latest = Latest(card=card, lines=lines)
    (answer,) = yield (Put(keys.latest, encode_latest(card, lines), expect=seen.latest_version),)
    if isinstance(answer, Written):
        tail = empty_tail(card, keys.session, nonce)
        return View(keys, latest, answer.version, tail, seen.tail_version, in_place=False, durable=True)
    if not isinstance(answer, (ConflictError, NotFoundError)):
        raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")
    view = yield from _resume_created(keys)
    if view.life != life:
        raise _exists(keys)
    return view


def free_name(keys: SessionKeys, *, nonce: str) -> Steps[Registers]:
    """Make sure that a name is free: that tombstones stand in both registers. Creation replaces the one in `latest`.

    Where nothing ever was, or was purged, tombstones of a life that never was are put first.

    Raises:
        ConflictError: The session exists.
        UnavailableError: The store did not answer, or others create and delete faster than we can look.
    """
    for _ in range(LOOKS_MAX):
        seen = yield from look(keys)
        if seen.dead:
            finished = seen.card is not None and not seen.card.dead and seen.life
            seen = yield from _bury(seen, seen.life)
            if finished:
                yield from _empty_folder(keys.folder(finished))  # the deletion that was cut short did not come to it
        if not (seen.absent or seen.dead):
            raise _exists(keys)
        if ABSENT not in seen.versions:
            return seen
        stones = yield from _put_stones(seen, nonce)
        if stones is not None:
            return stones
    raise UnavailableError("others create and delete faster than we can look", kind="busy", key=keys.latest)


def _put_stones(seen: Registers, nonce: str) -> Steps[Registers | None]:
    """Put what is missing; return both if both were, so that nobody needs to look."""
    keys = seen.keys
    header = TailHeader(session=keys.session, life="", base=0, dead=True, nonce=nonce)
    card = Card(session=keys.session, life="", write=nonce, dead=True)
    stones = (
        (seen.latest_version, Put(keys.latest, encode_latest(card, ()), expect=ABSENT)),
        (
            seen.tail_version,
            Put(keys.tail, encode_tail(Tail(header=header), compressed=not keys.appends), expect=ABSENT),
        ),
    )
    puts = tuple(put for version, put in stones if version == ABSENT)
    found: list[Answer] = []
    for put, answer in zip(puts, (yield puts), strict=True):
        if not isinstance(answer, (ConflictError, NotFoundError)):
            found.append(Found(put.data, checked(answer, Written).version, len(put.data)))
    return Registers(keys, *found) if len(found) == len(stones) else None


def require_free(keys: SessionKeys) -> Steps[None]:
    """Look whether a name is free, before work is done for a session of that name.

    Raises:
        ConflictError: There is a session.
    """
    seen = yield from look(keys)
    if not (seen.absent or seen.dead):
        raise _exists(keys)


def _resume_created(keys: SessionKeys) -> Steps[View]:
    try:
        return (yield from resume(keys))
    except NotFoundError:  # created by somebody else and deleted again since
        raise _exists(keys) from None


def _exists(keys: SessionKeys) -> ConflictError:
    return ConflictError(
        f"session {keys.session!r} exists, or was created by somebody else at this moment",
        kind="exists",
        key=keys.latest,
        remedy="open it, or choose another name",
    )


def delete(keys: SessionKeys, *, nonce: str, agreed: Callable[[Registers], bool] | None = None) -> Steps[bool]:
    """Delete a session: fence appends, mark the card, remove its folder. Finishes a deletion that was cut short.

    Args:
        keys: The session.
        nonce: Names this write.
        agreed: Asked about every look at a session that lives, before the tombstone takes the place of exactly the
            tail that it was shown. By default any is deleted.

    Returns:
        Whether it is deleted; false if that was not agreed to.

    Raises:
        NotFoundError: There never was such a session.
        UnavailableError: The store did not answer; call again to finish.
    """
    life, before, looks = "", None, 0
    for _ in range(LOOKS_MAX):
        seen = yield from look(keys)
        if seen.absent or (seen.dead and not seen.life):
            raise NotFoundError(f"there is no session {keys.session!r}", kind="session", key=keys.latest)
        before, looks = seen.versions, looks + 1 if seen.versions == before else 1
        if seen.torn and looks < seen.proven_by:
            continue
        life = life or seen.life
        if agreed is not None and not seen.dead and not agreed(seen):
            return False
        if life == seen.life and not seen.dead and not (yield from _fence(seen, life, nonce)):
            continue
        yield from _bury((yield from look(keys)), life)
        yield from _empty_folder(keys.folder(life))
        return True
    raise UnavailableError("the session changes faster than it can be deleted", kind="busy", key=keys.tail)


def discard(keys: SessionKeys, life: str) -> Steps[None]:
    """Remove the folder of a life that never came to be, because somebody else's creation won."""
    yield from _empty_folder(keys.folder(life))


def _fence(seen: Registers, life: str, nonce: str) -> Steps[bool]:
    """Put the tombstone where appends are swapped; false if somebody appended meanwhile."""
    keys = seen.keys
    header = TailHeader(session=keys.session, life=life, base=0, dead=True, nonce=nonce)
    data = encode_tail(Tail(header=header, lines=()), compressed=not keys.appends)
    (answer,) = yield (Put(keys.tail, data, expect=seen.tail_version),)
    if isinstance(answer, Written):
        return True
    if isinstance(answer, (ConflictError, NotFoundError)):
        return False
    raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")


def _bury(seen: Registers, life: str) -> Steps[Registers]:
    """Mark the card of a fenced life as dead, so that listings pass it over and the name can be used again."""
    for _ in range(LOOKS_MAX):
        card = seen.card
        if card is None or card.dead or card.life != life:
            return seen
        stone = Card(session=seen.keys.session, life=life, dead=True, write=card.write, updated=card.updated)
        (answer,) = yield (Put(seen.keys.latest, encode_latest(stone, ()), expect=seen.latest_version),)
        if isinstance(answer, TreeringError) and not isinstance(answer, (ConflictError, NotFoundError)):
            raise answer
        seen = yield from look(seen.keys)
    raise UnavailableError("the card changes faster than it can be marked", kind="busy", key=seen.keys.latest)


def _empty_folder(prefix: str) -> Steps[None]:
    while True:
        listed = yield from ask(List(prefix, limit=DELETES_MAX), Listed)
        if listed.entries:
            yield from ask(Delete(tuple(entry.key for entry in listed.entries)), Deleted)
        if not listed.more:
            return
