"""List sessions from their cards: one LIST, and one ranged GET per row shown. Bodies are never read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from treering.errors import NotFoundError, TreeringError
from treering.format.paths import LATEST, SESSIONS, decode_id, session_of_latest, session_of_tail
from treering.format.register import CARD_BYTES_MAX, Card, decode_card
from treering.session.info import SessionInfo, info_of
from treering.storage.requests import Answer, Entry, Found, Get, List, Listed, Steps
from treering.storage.run import checked, list_all

CARDS_AT_ONCE_MAX = 64  # ranged GETs of one batch; S3 clients keep about as many connections
_BEFORE_TAIL = "tai"  # the key of a tail is the next one


class Sessions(NamedTuple):
    """One page of a list of sessions, the most recently active first."""

    rows: tuple[SessionInfo, ...]
    after: str | None
    """Give this for the next page; None: there is none."""


class Listing(NamedTuple):
    """A card in the list of its folder."""

    card: Entry
    tail_ms: int = 0
    """When the log of its session was last written, by the store's clock, if that was after the card; else 0."""

    @property
    def active_ms(self) -> int:
        """When either of them was last written."""
        return max(self.card.modified_ms, self.tail_ms)


def list_sessions(
    prefix: str, *, appends: bool, limit: int, after: str | None, wanted: Callable[[SessionInfo], bool] | None
) -> Steps[Sessions]:
    """Read the cards of one page.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
        limit: Most rows.
        after: Where the page before ended.
        wanted: Rows to take; the cards of others are read all the same. None takes all.
    """
    listings = yield from list_cards(prefix, appends=appends)
    start = next((place + 1 for place, listing in enumerate(listings) if listing.card.key == after), 0)
    rows: list[SessionInfo] = []
    place = start
    while place < len(listings) and len(rows) < limit:
        part = listings[place : place + min(CARDS_AT_ONCE_MAX, max(1, limit - len(rows)))]
        for row in (yield from _rows(prefix, part)):
            place += 1
            if row is not None and (row.warning or wanted is None or wanted(row)):
                rows.append(row)
            if len(rows) == limit:
                break
    more = place < len(listings)
    return Sessions(tuple(rows), listings[place - 1].card.key if more and place else None)


def newest(prefix: str, *, appends: bool, wanted: Callable[[SessionInfo], bool] | None) -> Steps[SessionInfo | None]:
    """The session last active; one damaged card does not hide it.

    A card is written at the time of the last activity or later: much later if the session was imported. So cards are
    read, the last written first, until none that is left can tell of anything newer.
    """
    found: SessionInfo | None = None
    listings = yield from list_cards(prefix, appends=appends)
    start, count = 0, 1
    while start < len(listings) and (found is None or listings[start].active_ms > found.updated_ms):
        rows = yield from read_cards(prefix, listings[start : start + count])
        usable = [row for row in rows if not row.warning and (wanted is None or wanted(row))]
        found = max([*usable, *([found] if found else [])], key=lambda row: row.updated_ms, default=None)
        start, count = start + count, min(2 * count, CARDS_AT_ONCE_MAX)
    return found


def read_cards(prefix: str, listings: Sequence[Listing]) -> Steps[list[SessionInfo]]:
    """The rows of some cards, read in parallel; deleted sessions have none."""
    rows = yield from _rows(prefix, listings)
    return [row for row in rows if row is not None]


def _rows(prefix: str, listings: Sequence[Listing]) -> Steps[list[SessionInfo | None]]:
    answers = yield tuple(Get(listing.card.key, start=0, end=CARD_BYTES_MAX, register=True) for listing in listings)
    return [_row(listing, answer, prefix) for listing, answer in zip(listings, answers, strict=True)]


def list_cards(prefix: str, *, appends: bool) -> Steps[list[Listing]]:
    """List all cards, tombstones included, the most recently active first; the store's clock decides.

    On an object store a card is written at most `treering.session.keeper.CARD_LAG_MS_MAX` after a record. On a disk
    asking for the time of a log costs next to nothing, and it is exact.
    """
    entries = yield from card_entries(prefix)
    listings = [Listing(entry) for entry in entries]
    if appends:
        logs = yield tuple(_log_of(entry, prefix) for entry in entries)
        listings = [
            Listing(entry, _written_since(entry, log, prefix)) for entry, log in zip(entries, logs, strict=True)
        ]
        listings.sort(key=lambda listing: (-listing.active_ms, listing.card.key))
    return listings


def _log_of(entry: Entry, prefix: str) -> List:
    """A request that names the log beside a card, and when it was written."""
    folder = f"{prefix}{SESSIONS}{session_of_latest(entry.key, prefix)}/"
    return List(folder, after=f"{folder}{_BEFORE_TAIL}", limit=1)


def _written_since(card: Entry, answer: Answer, prefix: str) -> int:
    """When a log was written, if that was after the card; then it has records that the card does not tell of."""
    logs = [log for log in checked(answer, Listed).entries if session_of_tail(log.key, prefix)]
    return max((log.modified_ms for log in logs if log.modified_ms > card.modified_ms), default=0)


def card_entries(prefix: str) -> Steps[list[Entry]]:
    """List all cards, tombstones included, the most recently written first; the store's clock decides."""
    entries = yield from list_all(f"{prefix}{LATEST}")
    found = [entry for entry in entries if session_of_latest(entry.key, prefix)]
    return sorted(found, key=lambda entry: (-entry.modified_ms, entry.key))


def cards_by_name(prefix: str) -> Steps[dict[str, Entry]]:
    """List them by the encoded names of their sessions, in the same order."""
    entries = yield from card_entries(prefix)
    return {session_of_latest(entry.key, prefix) or "": entry for entry in entries}


def _row(listing: Listing, answer: Answer, prefix: str) -> SessionInfo | None:
    """The row of one card; None for a deleted session. A bad card is a row with a warning, never an error."""
    if isinstance(answer, NotFoundError):
        return None
    entry = listing.card
    try:
        card = _card(entry, answer)
    except TreeringError as error:
        name = session_of_latest(entry.key, prefix) or entry.key
        return SessionInfo(id=decode_id(name) or name, updated_ms=listing.active_ms, warning=str(error))
    if card.dead:
        return None
    info = info_of(card)
    return msgspec.structs.replace(info, updated_ms=listing.tail_ms) if listing.tail_ms else info


def _card(entry: Entry, answer: Answer) -> Card:
    if isinstance(answer, Found):
        return decode_card(answer.data, key=entry.key)
    raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")
