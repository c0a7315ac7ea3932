"""List sessions from their cards: one LIST, and one ranged GET per row shown. Bodies are never read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from treering.errors import NotFoundError, TreeringError
from treering.format.paths import LATEST, decode_id, session_of_latest
from treering.format.register import CARD_BYTES_MAX, Card, decode_card
from treering.session.info import SessionInfo, info_of
from treering.storage.requests import Answer, Entry, Found, Get, Steps
from treering.storage.run import list_all

CARDS_AT_ONCE_MAX = 64  # ranged GETs of one batch; S3 clients keep about as many connections


class Sessions(NamedTuple):
    """One page of a list of sessions, the most recently written first."""

    rows: tuple[SessionInfo, ...]
    after: str | None
    """Give this for the next page; None: there is none."""


def list_sessions(
    prefix: str, *, limit: int, after: str | None, wanted: Callable[[SessionInfo], bool] | None
) -> Steps[Sessions]:
    """Read the cards of one page.

    Args:
        prefix: The namespace, empty or ending in `/`.
        limit: Most rows.
        after: Where the page before ended.
        wanted: Rows to take; the cards of others are read all the same. None takes all.
    """
    entries = yield from card_entries(prefix)
    start = next((place + 1 for place, entry in enumerate(entries) if entry.key == after), 0)
    rows: list[SessionInfo] = []
    place = start
    while place < len(entries) and len(rows) < limit:
        part = entries[place : place + min(CARDS_AT_ONCE_MAX, max(1, limit - len(rows)))]
        for row in (yield from _rows(prefix, part)):
            place += 1
            if row is not None and (row.warning or wanted is None or wanted(row)):
                rows.append(row)
            if len(rows) == limit:
                break
    more = place < len(entries)
    return Sessions(tuple(rows), entries[place - 1].key if more and place else None)


def newest(prefix: str, wanted: Callable[[SessionInfo], bool] | None) -> Steps[SessionInfo | None]:
    """The session last active; one damaged card does not hide it.

    A card is written at the time of the last activity or later: much later if the session was imported. So cards are
    read, the last written first, until none that is left can tell of anything newer.
    """
    found: SessionInfo | None = None
    entries = yield from card_entries(prefix)
    start, count = 0, 1
    while start < len(entries) and (found is None or entries[start].modified_ms > found.updated_ms):
        rows = yield from read_cards(prefix, entries[start : start + count])
        usable = [row for row in rows if not row.warning and (wanted is None or wanted(row))]
        found = max([*usable, *([found] if found else [])], key=lambda row: row.updated_ms, default=None)
        start, count = start + count, min(2 * count, CARDS_AT_ONCE_MAX)
    return found


def read_cards(prefix: str, entries: Sequence[Entry]) -> Steps[list[SessionInfo]]:
    """The rows of some cards, read in parallel; deleted sessions have none."""
    rows = yield from _rows(prefix, entries)
    return [row for row in rows if row is not None]


def _rows(prefix: str, entries: Sequence[Entry]) -> Steps[list[SessionInfo | None]]:
    answers = yield tuple(Get(entry.key, start=0, end=CARD_BYTES_MAX, register=True) for entry in entries)
    return [_row(entry, answer, prefix) for entry, answer in zip(entries, answers, strict=True)]


def card_entries(prefix: str) -> Steps[list[Entry]]:
    """List all cards, tombstones included, the most recently written first; the store's clock decides."""
    entries = yield from list_all(f"{prefix}{LATEST}")
    found = [entry for entry in entries if session_of_latest(entry.key, prefix)]
    return sorted(found, key=lambda entry: (-entry.modified_ms, entry.key))


def cards_by_name(prefix: str) -> Steps[dict[str, Entry]]:
    """List them by the encoded names of their sessions, in the same order."""
    entries = yield from card_entries(prefix)
    return {session_of_latest(entry.key, prefix) or "": entry for entry in entries}


def _row(entry: Entry, answer: Answer, prefix: str) -> SessionInfo | None:
    """The row of one card; None for a deleted session. A bad card is a row with a warning, never an error."""
    if isinstance(answer, NotFoundError):
        return None
    try:
        card = _card(entry, answer)
    except TreeringError as error:
        name = session_of_latest(entry.key, prefix) or entry.key
        return SessionInfo(id=decode_id(name) or name, updated_ms=entry.modified_ms, warning=str(error))
    return None if card.dead else info_of(card)


def _card(entry: Entry, answer: Answer) -> Card:
    if isinstance(answer, Found):
        return decode_card(answer.data, key=entry.key)
    raise answer if isinstance(answer, TreeringError) else TypeError(f"unexpected answer {answer!r}")
