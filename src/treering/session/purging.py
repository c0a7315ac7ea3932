"""Remove what is left of deleted sessions: their tombstones, and what killed or stalled processes left behind."""

from __future__ import annotations

from treering.errors import NotFoundError, UsageError
from treering.format.paths import LATEST, SESSIONS, SessionKeys, decode_id, session_of_latest
from treering.format.register import CARD_BYTES_MAX, decode_card
from treering.ids import new_nonce
from treering.journal.purge import purge
from treering.storage.requests import Found, Get, List, Listed, Steps
from treering.storage.run import ask

_BEHIND = "0"  # the character behind the slash: after `x0` comes what is behind the folder `x/`


def purge_one(keys: SessionKeys) -> Steps[tuple[str, ...]]:
    """Purge one session; see `treering.journal.purge.purge`."""
    gone = yield from purge(keys, nonce=new_nonce())
    return (keys.session,) if gone else ()


def purge_all(prefix: str, *, appends: bool, before_ms: int | None = None) -> Steps[tuple[str, ...]]:
    """Purge all deleted sessions of a namespace; return their names.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
        before_ms: Only those deleted before that time by the store's clock, in milliseconds since 1970. What has no
            tombstone, leftovers of a session that was purged before, is always removed.
    """
    tombs = yield from _tombs(prefix)
    names = {encoded for encoded, at in tombs.items() if before_ms is None or at <= before_ms}
    names |= (yield from _folders(prefix)) - tombs.keys()
    done: list[str] = []
    for encoded in sorted(names):
        session = yield from _name_of(encoded, prefix)
        if session is None:
            continue
        try:
            done += yield from purge_one(SessionKeys(prefix, session, appends))
        except (NotFoundError, UsageError):
            continue  # created again meanwhile, or nothing is left
    return tuple(done)


def _tombs(prefix: str) -> Steps[dict[str, int]]:
    """When each register `latest` was written, by encoded name."""
    found: dict[str, int] = {}
    after, more = "", True
    while more:
        listed = yield from ask(List(f"{prefix}{LATEST}", after=after), Listed)
        names = ((session_of_latest(entry.key, prefix), entry.modified_ms) for entry in listed.entries)
        found |= {name: modified for name, modified in names if name}
        more, after = listed.more, listed.entries[-1].key if listed.entries else after
    return found


def _folders(prefix: str) -> Steps[set[str]]:
    """Encoded names of sessions of which anything is stored: a LIST for each, which skips all but its first object."""
    found = set[str]()
    start = f"{prefix}{SESSIONS}"
    after = ""
    while True:
        listed = yield from ask(List(start, after=after, limit=1), Listed)
        if not listed.entries:
            return found
        name = listed.entries[0].key.removeprefix(start).partition("/")[0]
        found.add(name)
        after = f"{start}{name}{_BEHIND}"


def _name_of(encoded: str, prefix: str) -> Steps[str | None]:
    """The session's name; None if only a card could tell it, and there is none."""
    if (name := decode_id(encoded)) is not None:
        return name
    key = f"{prefix}{LATEST}{encoded}.jsonl.zst"
    (answer,) = yield (Get(key, start=0, end=CARD_BYTES_MAX, register=True),)
    return decode_card(answer.data, key=key).session if isinstance(answer, Found) else None
