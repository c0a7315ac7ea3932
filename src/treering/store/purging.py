"""Remove the remains of deleted sessions: tombstones, and objects left by killed or stalled processes."""

from __future__ import annotations

from treering.errors import NotFoundError, UsageError
from treering.format.paths import SESSIONS, SessionKeys, decode_id
from treering.format.register import CARD_BYTES_MAX, decode_card
from treering.ids import new_nonce
from treering.journal.purge import purge
from treering.storage.requests import Entry, Found, Get, Steps
from treering.storage.run import list_folders
from treering.store.catalogue import cards_by_name


def purge_one(keys: SessionKeys) -> Steps[tuple[SessionKeys, ...]]:
    """Purge one session, and return its keys if it is gone; see `treering.journal.purge.purge`."""
    gone = yield from purge(keys, nonce=new_nonce())
    return (keys,) if gone else ()


def purge_all(prefix: str, *, appends: bool, before_ms: int | None = None) -> Steps[tuple[SessionKeys, ...]]:
    """Purge all deleted sessions of a namespace; return their keys.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
        before_ms: Only sessions deleted before that time by the store's clock, in milliseconds since 1970. Objects
            without a tombstone, left by a session purged before, are always removed.
    """
    cards = yield from cards_by_name(prefix)
    names = {encoded for encoded, card in cards.items() if before_ms is None or card.modified_ms <= before_ms}
    (folders,) = yield from list_folders([f"{prefix}{SESSIONS}"], on_disk=appends)
    names |= set(folders) - cards.keys()
    done: list[SessionKeys] = []
    for encoded in sorted(names):
        keys = yield from _keys_of(prefix, encoded, cards.get(encoded), appends=appends)
        if keys is None:
            continue
        try:
            done += yield from purge_one(keys)
        except (NotFoundError, UsageError):
            continue  # the session was created again, or nothing is left of it
    return tuple(done)


def _keys_of(prefix: str, encoded: str, card: Entry | None, *, appends: bool) -> Steps[SessionKeys | None]:
    """The keys of the session with this encoded name; of a hashed one, its card tells the name. None: it is foreign."""
    if card is not None and decode_id(encoded) is None:
        (answer,) = yield (Get(card.key, start=0, end=CARD_BYTES_MAX, register=True),)
        if isinstance(answer, Found):
            return SessionKeys(prefix, decode_card(answer.data, key=card.key).session, appends)
    return SessionKeys.named(prefix, encoded, appends)
