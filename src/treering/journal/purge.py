"""Remove what no life of a session needs: folders of lives that are over or never came to be, and tombstones.

Rule 1: folders are listed first, then `latest` is looked at. A load looks at `latest` before it writes anything, and
comes to be only in place of the tombstone that it saw. So beside a living `latest`, or none, no life whose folder was
listed can come to be any more; beside a tombstone, that is replaced by another one first.
Rule 2: tombstones are deleted by version, and only both.
Rule 3: a purge begins by making sure that the store keeps conditions on deletions.

What a stalled process writes into a folder of an old life after all that is found by the next who lists.
"""

from __future__ import annotations

from treering.errors import ConflictError, NotFoundError, TreeringError, UnavailableError, UnsafeStoreError, UsageError
from treering.format.paths import SessionKeys
from treering.format.register import Card, encode_latest
from treering.journal.merge import DELETES_MAX
from treering.journal.resume import LOOKS_MAX, Registers, look
from treering.storage.requests import ABSENT, Delete, Deleted, Put, Steps, Version, Written
from treering.storage.run import ask, checked, list_all

# Looks like an entity tag, so that a server compares it and does not refuse it as malformed.
_NOBODYS_VERSION = Version(f'"{"0" * 32}"')


def sweep_folders(keys: SessionKeys, *, nonce: str) -> Steps[int]:
    """Delete what lies in folders of lives that are over, or never came to be; return how many objects.

    A load under way is refused, if the session does not live.

    Raises:
        UnavailableError: The store did not answer; call again.
    """
    deleted, _ = yield from _sweep(keys, nonce)
    return deleted


def refuse_loads(keys: SessionKeys, *, nonce: str) -> Steps[bool]:
    """Make sure that no load under way comes to be, and delete what it wrote; false if a session of that name lives.

    Raises:
        UnavailableError: The store did not answer; call again.
    """
    _, seen = yield from _sweep(keys, nonce, refuse=True)
    return seen.absent or seen.dead


def _sweep(keys: SessionKeys, nonce: str, *, refuse: bool = False) -> Steps[tuple[int, Registers]]:
    for _ in range(LOOKS_MAX):
        listed = yield from _list_folders(keys)
        seen = yield from look(keys)
        kept = {life for life in (_life_of_card(seen), _life_of_tail(seen)) if life}
        if not kept and (listed or refuse) and not (yield from _refuse_loads(seen, nonce)):
            continue
        folders = tuple(keys.folder(life) for life in kept)
        gone = [key for key in listed if not key.startswith(folders)]
        for start in range(0, len(gone), DELETES_MAX):
            yield from ask(Delete(tuple(gone[start : start + DELETES_MAX])), Deleted)
        return len(gone), seen
    raise UnavailableError("others create and delete faster than we can look", kind="busy", key=keys.latest)


def _life_of_card(seen: Registers) -> str:
    return "" if seen.card is None or seen.card.dead else seen.card.life


def _life_of_tail(seen: Registers) -> str:
    return "" if seen.tail is None or seen.tail.header.dead else seen.tail.header.life


def _refuse_loads(seen: Registers, nonce: str) -> Steps[bool]:
    """Replace the tombstone that loads may have seen; false if somebody else replaced it."""
    if seen.latest_version == ABSENT:
        return True
    life = seen.card.life if seen.card is not None else ""
    stone = Card(session=seen.keys.session, life=life, write=nonce, dead=True)
    (answer,) = yield (Put(seen.keys.latest, encode_latest(stone, ()), expect=seen.latest_version),)
    if isinstance(answer, (ConflictError, NotFoundError)):
        return False
    checked(answer, Written)
    return True


def _list_folders(keys: SessionKeys) -> Steps[list[str]]:
    """All keys in folders of lives; the registers lie beside them."""
    entries = yield from list_all(keys.home)
    return [entry.key for entry in entries if "/" in entry.key.removeprefix(keys.home)]


def purge(keys: SessionKeys, *, nonce: str) -> Steps[bool]:
    """Remove the tombstones of a deleted session, and whatever else is left of it.

    Returns:
        Whether they are gone; false if somebody creates the session again at this moment.

    Raises:
        NotFoundError: There is nothing of that name.
        UsageError: The session was not deleted.
        UnsafeStoreError: The store ignores conditions on deletions.
        UnavailableError: The store did not answer; call again.
    """
    seen = yield from look(keys)
    if _life_of_card(seen) or _life_of_tail(seen):
        raise UsageError(f"session {keys.session!r} was not deleted", kind="alive", remedy="delete it first")
    if seen.absent and not (yield from _list_folders(keys)):
        raise NotFoundError(f"there is nothing of session {keys.session!r}", kind="session", key=keys.latest)
    yield from _prove(keys, nonce)
    yield from _sweep(keys, nonce)
    seen = yield from look(keys)
    if _life_of_card(seen) or _life_of_tail(seen):
        return False
    gone = yield from _delete(keys.tail, seen.tail_version)
    return (yield from _delete(keys.latest, seen.latest_version)) and gone


def _delete(key: str, version: Version) -> Steps[bool]:
    if version == ABSENT:
        return True
    (answer,) = yield (Delete((key,), expect=version),)
    if isinstance(answer, ConflictError):
        return False
    if isinstance(answer, NotFoundError):
        return True
    checked(answer, Deleted)
    return True


def _prove(keys: SessionKeys, nonce: str) -> Steps[None]:
    """Delete an object by a version that nothing has: that must be refused."""
    probe = f"{keys.home}proof-{nonce.lower()}"
    (put,) = yield (Put(probe, b"{}\n", expect=ABSENT),)  # a register, as they are
    if not isinstance(put, ConflictError):  # our own, sent again
        checked(put, Written)
    (answer,) = yield (Delete((probe,), expect=_NOBODYS_VERSION),)
    yield from ask(Delete((probe,)), Deleted)
    if isinstance(answer, ConflictError):
        return
    if isinstance(answer, TreeringError) and not isinstance(answer, NotFoundError):
        raise answer
    raise UnsafeStoreError(
        "the store ignores conditions on deletions",
        kind="conditions",
        key=probe,
        remedy="tombstones stay; they are about a hundred bytes",
    )
