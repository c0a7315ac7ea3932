"""Vacuum a session: remove folders of lives that ended or were never created, and tombstones.

Rule 1: folders are listed first, then `latest` is read. A load reads `latest` before it writes anything, and creates
its session only in place of the tombstone that it saw. So if `latest` is alive or absent, no listed folder can become
the folder of a life any more. If `latest` is a tombstone, it is replaced by another tombstone first, so that the load
is refused.
Rule 2: tombstones are deleted by version, only together, and only if both existed at one moment. Otherwise the tail's
tombstone may end a life that began after `latest` was read, and whose card still says that it is alive.
Rule 3: a purge first checks that the store honours conditions on deletions.

If a stalled process writes an object into an old folder later, the next listing finds it.
"""

from __future__ import annotations

import msgspec

from treering.errors import NotFoundError, UsageError
from treering.format.paths import SessionKeys
from treering.journal import marker
from treering.journal.register import Attempts, LatestRegister, Swapped, TailRegister
from treering.journal.resume import Registers, look
from treering.kinds import Kind
from treering.storage.proof import prove_deletions
from treering.storage.requests import ABSENT, Steps
from treering.storage.run import delete_all, list_all


def sweep_folders(keys: SessionKeys, *, nonce: str) -> Steps[int]:
    """Delete the objects in folders of lives that ended or were never created; return how many.

    If the session does not exist, a concurrent load is refused.

    Raises:
        UnavailableError: The store did not answer; call again.
    """
    deleted, _ = yield from _sweep(keys, nonce)
    return deleted


def refuse_loads(keys: SessionKeys, *, nonce: str) -> Steps[bool]:
    """Refuse concurrent loads, and delete the objects that they wrote; false if a session of that name exists.

    Raises:
        UnavailableError: The store did not answer; call again.
    """
    _, seen = yield from _sweep(keys, nonce, refuse=True)
    return seen.absent or seen.dead


def _sweep(keys: SessionKeys, nonce: str, *, refuse: bool = False) -> Steps[tuple[int, Registers]]:
    attempts = Attempts(keys.latest)
    while attempts.another():
        listed = yield from _list_folders(keys)  # rule: purge-lists-first
        seen = yield from look(keys)  # rule: purge-lists-first before this
        kept = {life for life in (_life_of_card(seen), _life_of_tail(seen)) if life}
        if not kept and (listed or refuse) and not (yield from _refuse_loads(seen, nonce)):  # rule: purge-refuses-loads
            continue
        folders = tuple(keys.folder(life) for life in kept)
        gone = [key for key in listed if not key.startswith(folders)]  # rule: spare-the-living
        yield from delete_all(gone)
        return len(gone), seen


def _life_of_card(seen: Registers) -> str:
    return "" if seen.card is None or seen.card.dead else seen.card.life


def _life_of_tail(seen: Registers) -> str:
    return "" if seen.tail is None or seen.tail.header.dead else seen.tail.header.life


def _refuse_loads(seen: Registers, nonce: str) -> Steps[bool]:
    """Replace the tombstone that loads may have seen; false if another process replaced it."""
    if seen.latest_version == ABSENT:
        return True
    keys, life, name = seen.keys, "", ""
    if (card := seen.card) is not None:  # it tells the session's name even if the keys do not
        keys, life, name = msgspec.structs.replace(keys, session=card.session), card.life, card.marker
    register = LatestRegister(keys)
    outcome = yield from register.swap(register.tombstone(life, nonce, marker=name), expect=seen.latest_version)
    return isinstance(outcome, Swapped)


def _list_folders(keys: SessionKeys) -> Steps[list[str]]:
    """All keys in folders of lives; the registers are beside these folders."""
    entries = yield from list_all(keys.home)
    return [entry.key for entry in entries if "/" in entry.key.removeprefix(keys.home)]


def purge(keys: SessionKeys, *, nonce: str) -> Steps[bool]:
    """Remove the tombstones of a deleted session, and all its leftovers.

    Returns:
        Whether the tombstones are gone; false if another process creates the session again at this moment.

    Raises:
        NotFoundError: The store has no object of that session.
        UsageError: The session was not deleted.
        UnsafeStoreError: The store ignores conditions on deletions.
        UnavailableError: The store did not answer; call again.
    """
    seen = yield from look(keys)
    if _life_of_card(seen) or _life_of_tail(seen):
        raise UsageError(f"session {keys.session!r} was not deleted", kind=Kind.ALIVE, remedy="delete it first")
    if seen.absent and not (yield from _list_folders(keys)):
        raise NotFoundError(f"there is nothing of session {keys.session!r}", kind=Kind.SESSION, key=keys.latest)
    yield from prove_deletions(f"{keys.home}proof-{nonce.lower()}")
    yield from _sweep(keys, nonce)
    stones = yield from _tombstones(keys)
    if stones is None:
        return False
    yield from marker.drop_buried(keys, stones.card)
    gone = yield from TailRegister(keys).remove(expect=stones.tail_version)
    return (yield from LatestRegister(keys).remove(expect=stones.latest_version)) and gone


def _tombstones(keys: SessionKeys) -> Steps[Registers | None]:
    """Read both tombstones until they are known to have existed at one moment; None if the session exists."""
    attempts = Attempts(keys.latest)
    while attempts.another():
        seen = yield from look(keys)
        if _life_of_card(seen) or _life_of_tail(seen):
            return None
        if attempts.in_a_row(seen.versions) == seen.proven_by:  # rule: purge-at-rest
            return seen
