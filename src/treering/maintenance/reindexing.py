"""Give each session a marker for lists, and remove markers that no session names; see `treering.journal.marker`.

A marker of an early version, whose key has no time, is replaced by one that has it.

Rule 1: markers are listed before cards are read. So a session that gets another marker in between has two for a moment.
Rule 2: a marker is removed only after `latest` was replaced since it was listed. So a writer that wrote the marker
before and has not named it yet is refused.
Rule 3: markers are declared complete only at the end, after each session was checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from treering.errors import ConflictError, CorruptError, FormatVersionError, NotFoundError, UnsafeStoreError, UsageError
from treering.format.paths import (
    Marker,
    SessionKeys,
    decode_id,
    marker_key,
    parse_marker,
    recent_folder,
    session_of_latest,
)
from treering.ids import new_nonce
from treering.journal.life import free_name
from treering.journal.marker import renew
from treering.journal.purge import purge, refuse_loads
from treering.storage.requests import Put, Steps, Written
from treering.storage.run import checked, delete_all, list_all
from treering.store.catalogue import CARDS_AT_ONCE_MAX, Listing, Read, card_entries, read_listed
from treering.store.inventory import prefixes
from treering.store.recent import put_complete


class Reindexed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `Store.reindex`."""

    sessions: int = 0
    """How many sessions there are."""
    marked: int = 0
    """How many of them had no marker."""
    removed: int = 0
    """How many markers were removed because no session names them."""

    def __add__(self, other: Reindexed) -> Reindexed:
        return Reindexed(
            sessions=self.sessions + other.sessions,
            marked=self.marked + other.marked,
            removed=self.removed + other.removed,
        )


def reindex(prefix: str, *, appends: bool) -> Steps[Reindexed]:
    """Reindex a namespace and those below it.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
    """
    done = Reindexed()
    for part in (yield from prefixes(prefix, appends=appends)):
        done += yield from _Part(part, appends=appends).reindex()
    yield from put_complete(prefix)
    return done


def list_markers(prefix: str) -> Steps[dict[str, list[str]]]:
    """The texts of the markers of a namespace (see `Marker.text`), by the encoded names of their sessions."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for entry in (yield from list_all(recent_folder(prefix))):
        if (parsed := parse_marker(entry.key, prefix)) is not None:
            found[parsed[0]].append(parsed[1].text)
    return found


class _Card(NamedTuple):
    """A card that was listed, and its content."""

    name: str
    """The encoded name of the session."""
    listing: Listing
    read: Read | None
    """The content; None if the session was deleted."""


class _Part:
    """One namespace."""

    def __init__(self, prefix: str, *, appends: bool) -> None:
        self._prefix = prefix
        self._appends = appends

    def reindex(self) -> Steps[Reindexed]:
        """Reindex this namespace."""
        markers = yield from list_markers(self._prefix)
        entries = yield from card_entries(self._prefix)
        listings = [Listing(entry, self._prefix) for entry in entries]
        done = Reindexed()
        for start in range(0, len(listings), CARDS_AT_ONCE_MAX):
            part = listings[start : start + CARDS_AT_ONCE_MAX]
            cards = [
                _Card(session_of_latest(listing.card.key, self._prefix) or "", listing, read)
                for listing, read in zip(part, (yield from read_listed(part)), strict=True)
            ]
            marked = yield from self._mark(cards, markers)
            removed = 0
            for card in cards:
                removed += yield from self._tidy(card, markers.get(card.name, []))
            living = sum(card.read is not None for card in cards)
            done += Reindexed(sessions=living, marked=marked, removed=removed)
        for name in markers.keys() - {session_of_latest(entry.key, self._prefix) for entry in entries}:
            done += Reindexed(removed=(yield from self._tidy_absent(name, markers[name])))
        return done

    def _mark(self, cards: Sequence[_Card], markers: dict[str, list[str]]) -> Steps[int]:
        """Write the markers that are missing; return how many."""
        missing = [
            Put(marker_key(self._prefix, card.name, _marker_of(card.listing, card.read)), b"")
            for card in cards
            if card.read is not None and not _is_marked(card.read, markers.get(card.name, []))
        ]
        if missing:
            for answer in (yield tuple(missing)):
                checked(answer, Written)
        return len(missing)

    def _tidy(self, card: _Card, listed: Sequence[str]) -> Steps[int]:
        """Remove the markers that a session does not name, and one without a time; return how many of the former."""
        strays = [text for text in listed if card.read is None or card.read.marker not in ("", text)]
        session = card.read.info.id if card.read is not None else decode_id(card.name)
        named = Marker.parse(card.read.marker) if card.read is not None else None
        if session is None or not (strays or (named is not None and not named.timed)):
            return 0
        keys = SessionKeys(self._prefix, session, self._appends)
        try:
            if card.read is None:
                refused = yield from refuse_loads(keys, nonce=new_nonce())
            else:
                refused = yield from renew(keys, ms=_active_ms(card.listing, card.read), unique=new_nonce)
        except (CorruptError, FormatVersionError):
            return 0  # `verify` reports it
        return (yield from _delete(keys, strays)) if refused else 0  # rule: refuse-before-removal

    def _tidy_absent(self, name: str, strays: Sequence[str]) -> Steps[int]:
        """Remove the markers of a session that was purged, or that has only a marker."""
        if (session := decode_id(name)) is None:
            return 0
        keys = SessionKeys(self._prefix, session, self._appends)
        try:
            yield from free_name(keys, nonce=new_nonce())
            refused = yield from refuse_loads(keys, nonce=new_nonce())
        except (ConflictError, CorruptError, FormatVersionError):
            return 0  # it was created just now, or has a tail and no card, which `verify` reports
        if not refused:
            return 0
        removed = yield from _delete(keys, strays)
        with suppress(NotFoundError, UnsafeStoreError, UsageError):  # on these errors its tombstones stay
            yield from purge(keys, nonce=new_nonce())
        return removed


def _delete(keys: SessionKeys, markers: Sequence[str]) -> Steps[int]:
    """Delete markers of a session; return how many."""
    gone = [keys.marker(text) for text in markers]
    yield from delete_all(gone)
    return len(gone)


def _is_marked(read: Read, listed: Sequence[str]) -> bool:
    """Whether lists show a session; if its card names no marker, any of its markers counts."""
    return read.marker in listed if read.marker else bool(listed)


def _active_ms(listing: Listing, read: Read) -> int:
    """When a session was active; for an import this is long before its card was written."""
    return min(read.info.updated_ms or listing.card.modified_ms, listing.card.modified_ms)


def _marker_of(listing: Listing, read: Read) -> str:
    """The marker that a card names or, if an older version wrote it or it cannot be read, one of that time."""
    info = read.info
    return read.marker or Marker.of(_active_ms(listing, read), info.project, info.cwd, new_nonce()).text
