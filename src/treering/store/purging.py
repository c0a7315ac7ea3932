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


def purge_one(keys: SessionKeys) -> Steps[tuple[str, ...]]:
    """Purge one session; see `treering.journal.purge.purge`."""
    gone = yield from purge(keys, nonce=new_nonce())
    return (keys.session,) if gone else ()


def purge_all(prefix: str, *, appends: bool, before_ms: int | None = None) -> Steps[tuple[str, ...]]:
    """Purge all deleted sessions of a namespace; return their names.

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
    done: list[str] = []
    for encoded in sorted(names):
        session = yield from _name_of(encoded, cards.get(encoded))
        if session is None:
            continue
        try:
            done += yield from purge_one(SessionKeys(prefix, session, appends))
        except (NotFoundError, UsageError):
            continue  # the session was created again, or nothing is left of it
    return tuple(done)


def _name_of(encoded: str, card: Entry | None) -> Steps[str | None]:
    """The session's name; None if only its card has it, and the card is gone."""
    if (name := decode_id(encoded)) is not None or card is None:
        return name
    (answer,) = yield (Get(card.key, start=0, end=CARD_BYTES_MAX, register=True),)
    return decode_card(answer.data, key=card.key).session if isinstance(answer, Found) else None
