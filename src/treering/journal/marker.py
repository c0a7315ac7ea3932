"""Keep a marker of each session: an empty object whose key contains the time at which the session was active.

Lists read the first keys, which are the newest, where they would otherwise read every card.

Rule 1: a marker is durable before the `latest` that names it. So each session that is not deleted has a marker,
whichever process was killed.
Rule 2: a marker is deleted only after `latest` was replaced by one that names another marker, or by a tombstone.
Rule 3: names are never used twice. So a delayed deletion never hits a marker that `latest` names.
Rule 4: a marker that `latest` does not name is waste. Lists ignore it, and readers do not delete it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from treering.format.paths import Marker, SessionKeys
from treering.format.register import Card, Latest
from treering.journal.register import Attempts, LatestRegister, Swapped
from treering.storage.requests import Delete, Put, Steps, Written
from treering.storage.run import ask

MARKED_MS_MAX = 600_000
"""A session that was active this long after its marker gets a newer one, so that lists are in order."""
_AHEAD_MS_MAX = 60_000
"""A marker may be this long ahead of the session: clocks differ, and a session is marked after its first record."""


def first_marked(card: Card, *, ms: int, unique: str) -> Card:
    """Return a card that names a new marker.

    Args:
        card: The card.
        ms: When the session was active, in milliseconds since 1970.
        unique: Random lower-case letters and digits, never used again.
    """
    return replace(card, marker=Marker.of(ms, card.project, card.cwd, unique).text)


def marked(card: Card, old: Card, *, ms: int, unique: str) -> Card:
    """Return a card that names the marker of the card that it replaces or, if that is due, another one.

    Another marker is due if the session was active `MARKED_MS_MAX` after it, or before it, since a clock was set back
    or an import tells an earlier time; and when the project or folder changes.

    Args:
        card: The card.
        old: The card that it replaces.
        ms: When the session was active, in milliseconds since 1970.
        unique: Random lower-case letters and digits, never used again.
    """
    fresh, there = Marker.of(ms, card.project, card.cwd, unique), Marker.parse(old.marker)
    same_place = there is not None and (there.project, there.folder) == (fresh.project, fresh.folder)
    if there is not None and same_place and -_AHEAD_MS_MAX <= fresh.ms - there.ms < MARKED_MS_MAX:
        return replace(card, marker=old.marker)
    return replace(card, marker=fresh.text)


def moved(card: Card, old: Card, *, unique: str) -> Card:
    """Return a card that names the marker of `old`, or a new one of that time if its project or folder changed."""
    return marked(card, old, ms=marked_ms(old), unique=unique) if old.marker else card


def active_ms(card: Card, now_ms: int) -> int:
    """When the session of a card was active, in milliseconds since 1970; not in the future.

    Upkeep is no activity: a session that is merged, pruned or closed later stays where it is in lists.
    """
    return min(card.updated or now_ms, now_ms)  # rule: mark-activity


def marked_ms(card: Card) -> int:
    """When the session of a card was active, as its marker says, in milliseconds since 1970; else as the card says."""
    marker = Marker.parse(card.marker)
    return marker.ms if marker is not None and marker.timed else card.updated


def renew(keys: SessionKeys, *, ms: int, unique: Callable[[], str]) -> Steps[bool]:
    """Write `latest` again with a new marker.

    A write of `latest` that was prepared before is refused from then on. So no other marker that exists now will be
    named.

    Args:
        keys: The session.
        ms: When it was active, in milliseconds since 1970.
        unique: Makes names for writes.

    Returns:
        False if there is no such session.

    Raises:
        CorruptError: `latest` is damaged.
        UnavailableError: The store did not answer; call again.
    """
    register, attempts = LatestRegister(keys), Attempts(keys.latest)
    while attempts.another():
        there = yield from register.read()
        if there.value is None or there.value.card.dead:
            return False
        old, nonce = there.value.card, unique()
        card = replace(first_marked(old, ms=ms, unique=nonce), write=nonce)
        yield from put(keys, card, old)
        outcome = yield from register.replace(Latest(card=card, lines=there.value.lines), expect=there.version)
        if isinstance(outcome, Swapped):
            yield from drop(keys, old, card)
            return True
        yield from drop(keys, card, outcome.value.card if outcome.value is not None else None)


def put_of(keys: SessionKeys, card: Card) -> Put:
    """Return the request that writes the marker of a card."""
    return Put(keys.marker(card.marker), b"")


def put(keys: SessionKeys, card: Card, old: Card) -> Steps[None]:
    """Write the marker of a card that is about to replace `old`, unless both name the same one.

    Raises:
        UnavailableError: The store did not answer; `latest` must not be replaced.
    """
    if card.marker != old.marker:
        yield from ask(put_of(keys, card), Written)


def drop(keys: SessionKeys, gone: Card, there: Card | None) -> Steps[None]:
    """Delete the marker of a card that was replaced, or that never will be stored.

    If that fails, the marker is waste.

    Args:
        keys: The session.
        gone: The card.
        there: The card that is stored; it may name the same marker.
    """
    if gone.marker and (there is None or there.marker != gone.marker):  # rule: drop-unnamed
        yield (Delete((keys.marker(gone.marker),)),)


def drop_buried(keys: SessionKeys, tombstone: Card | None) -> Steps[None]:
    """Delete the marker of a session that was deleted, given the card in `latest`."""
    if tombstone is not None and tombstone.dead:
        yield from drop(keys, tombstone, None)
