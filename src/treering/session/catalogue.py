"""List sessions from their cards: one LIST, and one ranged GET per row shown. Bodies are never read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from treering.errors import NotFoundError, TreeringError
from treering.format.paths import LATEST, decode_id, session_of_latest
from treering.format.register import CARD_BYTES_MAX, Card, decode_card
from treering.session.info import SessionInfo, info_of
from treering.storage.requests import Answer, Entry, Found, Get, List, Listed, Steps
from treering.storage.run import ask

CARDS_AT_ONCE_MAX = 64  # ranged GETs of one batch; S3 clients keep about as many connections


class Sessions(NamedTuple):
    """One page of a list of sessions, the most recently written first."""

    rows: tuple[SessionInfo, ...]
    after: str | None
    """Give this for the next page; None: there is none."""


def list_sessions(
    prefix: str, *, limit: int, after: str | None, wanted: Callable[[SessionInfo], bool] | None, warnings: bool = True
) -> Steps[Sessions]:
    """Read the cards of one page.

    Args:
        prefix: The namespace, empty or ending in `/`.
        limit: Most rows.
        after: Where the page before ended.
        wanted: Rows to take; the cards of others are read all the same. None takes all.
        warnings: Take rows whose card could not be read.
    """
    entries = yield from card_entries(prefix)
    start = next((place + 1 for place, entry in enumerate(entries) if entry.key == after), 0)
    rows: list[SessionInfo] = []
    place = start
    while place < len(entries) and len(rows) < limit:
        part = entries[place : place + min(CARDS_AT_ONCE_MAX, max(1, limit - len(rows)))]
        answers = yield tuple(Get(entry.key, start=0, end=CARD_BYTES_MAX, register=True) for entry in part)
        for entry, answer in zip(part, answers, strict=True):
            place += 1
            row = _row(entry, answer, prefix)
            if row is not None and (warnings if row.warning else wanted is None or wanted(row)):
                rows.append(row)
            if len(rows) == limit:
                break
    more = place < len(entries)
    return Sessions(tuple(rows), entries[place - 1].key if more and place else None)


def newest(prefix: str, wanted: Callable[[SessionInfo], bool] | None) -> Steps[SessionInfo | None]:
    """The session written last; one damaged card does not hide it."""
    page = yield from list_sessions(prefix, limit=1, after=None, wanted=wanted, warnings=False)
    return page.rows[0] if page.rows else None


def card_entries(prefix: str) -> Steps[list[Entry]]:
    """List all cards, tombstones included, the most recently written first; the store's clock decides."""
    found: list[Entry] = []
    after, more = "", True
    while more:
        listed = yield from ask(List(f"{prefix}{LATEST}", after=after), Listed)
        found += [entry for entry in listed.entries if session_of_latest(entry.key, prefix)]
        more = listed.more
        after = listed.entries[-1].key if listed.entries else after
    return sorted(found, key=lambda entry: (-entry.modified_ms, entry.key))


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
