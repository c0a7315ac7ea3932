"""Lists of transcripts: their names, times of writing, and summaries.

Rule 1: the time of a transcript is that of its tail, by the store's clock: each append writes the tail, and closing
does not. Object stores have times with a resolution of one second. So if several transcripts were written in the newest
second, their order is read from their records.
Rule 2: names and times are read from LIST requests. An object is read only if it is as small as a tombstone.
Rule 3: a card may be older than the tail of its session; then the summary is read from both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from treering.errors import CorruptError, FormatVersionError, NotFoundError
from treering.format.paths import LATEST, SESSIONS, SessionKeys, decode_id, session_of_latest, session_of_tail
from treering.format.register import CARD_BYTES_MAX, Card, decode_card, may_be_tombstone
from treering.integrations.claude.names import Address, parse_name
from treering.integrations.claude.summary import is_complete, summary_on
from treering.journal.resume import Registers, read_registers
from treering.session.reader import Reader
from treering.storage.requests import Answer, Entry, Found, Get, Steps
from treering.storage.run import checked, list_each
from treering.store.catalogue import CARDS_AT_ONCE_MAX

SECOND_MS = 1000


class Listed(NamedTuple):
    """One transcript of a list."""

    address: Address
    card: Entry
    written_ms: int
    """When it was last written, in milliseconds since 1970, by the store's clock."""
    lags: bool
    """Whether its tail may hold records that its card does not cover."""


def listed(prefix: str, project: str, *, appends: bool, below: str | None = None) -> Steps[list[Listed]]:
    """Find the conversations of a project, or the transcripts of a conversation's subagents.

    Args:
        prefix: The namespace of the project.
        project: The project's key.
        appends: See `SessionKeys`.
        below: The conversation whose subagents are listed.
    """
    cards, files = yield from list_each([f"{prefix}{LATEST}", f"{prefix}{SESSIONS}"])
    tails = {name: entry.modified_ms for entry in files if (name := session_of_tail(entry.key, prefix))}
    found = []
    for card, name in (yield from _named(cards, prefix, lambda name: _is_wanted(parse_name(project, name), below))):
        tail_ms = tails.get(session_of_latest(card.key, prefix) or "", 0)
        row = Listed(parse_name(project, name), card, tail_ms or card.modified_ms, tail_ms >= card.modified_ms)
        found.append(row)
    return (yield from _in_order(found, prefix, appends=appends))


def _is_wanted(address: Address, below: str | None) -> bool:
    return not address.subpath if below is None else bool(address.subpath) and address.session == below


def _named(entries: Sequence[Entry], prefix: str, is_wanted: Callable[[str], bool]) -> Steps[list[tuple[Entry, str]]]:
    """Return the wanted sessions that are not deleted, with their names, which cards hold if the key has a hash."""
    encoded = [(entry, name) for entry in entries if (name := session_of_latest(entry.key, prefix))]
    named = [(entry, decode_id(name)) for entry, name in encoded]
    named = [(entry, name) for entry, name in named if name is None or is_wanted(name)]
    unsure = [entry for entry, name in named if name is None or may_be_tombstone(entry.size, name)]
    cards = yield from _cards(unsure, prefix)
    told = {entry.key: card for entry, card in zip(unsure, cards, strict=True)}
    found = []
    for entry, name in named:
        if name is None or entry.key in told:
            card = told[entry.key]
            if card is not None and not card.dead and is_wanted(card.session):
                found.append((entry, card.session))
        else:
            found.append((entry, name))
    return found


def _cards(entries: Sequence[Entry], prefix: str) -> Steps[list[Card | None]]:
    cards: list[Card | None] = []
    for start in range(0, len(entries), CARDS_AT_ONCE_MAX):
        part = entries[start : start + CARDS_AT_ONCE_MAX]
        answers = yield tuple(Get(entry.key, start=0, end=CARD_BYTES_MAX, register=True) for entry in part)
        cards += [_card(entry, answer, prefix) for entry, answer in zip(part, answers, strict=True)]
    return cards


def _card(entry: Entry, answer: Answer, prefix: str) -> Card | None:
    """Return a card; if it cannot be read, one with only the name. None if it no longer exists."""
    if isinstance(answer, NotFoundError):
        return None
    try:
        return decode_card(checked(answer, Found).data, key=entry.key)
    except (CorruptError, FormatVersionError):  # loading the session raises the error
        name = decode_id(session_of_latest(entry.key, prefix) or "")
        return Card(session=name, life="", write="") if name else None


def _in_order(rows: list[Listed], prefix: str, *, appends: bool) -> Steps[list[Listed]]:
    """Order the transcripts of the newest second: the SDK continues the last one."""
    newest = max((row.written_ms for row in rows), default=0)
    tied = [row for row in rows if row.written_ms == newest]
    if len(tied) < 2 or newest % SECOND_MS:
        return rows
    opened = yield from _opened(tied, prefix, appends=appends)
    order = sorted(range(len(tied)), key=lambda place: _recorded_ms(opened[place]))
    places = {tied[place].card.key: min(number, SECOND_MS - 1) for number, place in enumerate(order)}
    return [row._replace(written_ms=row.written_ms + places.get(row.card.key, 0)) for row in rows]


def _recorded_ms(reader: Reader | None) -> int:
    """Return the time of the last record of a session, by the clock of its writer."""
    return reader.replica.state.card.updated if reader is not None else 0


def summaries(rows: Sequence[Listed], prefix: str, *, appends: bool) -> Steps[list[tuple[Listed, dict[str, Any]]]]:
    """Return the summaries of transcripts; a summary that is too large for a card, or was never made, is left out."""
    cards: dict[str, Card | None] = {}
    closed, open_ones = [row for row in rows if not row.lags], [row for row in rows if row.lags]
    for row, card in zip(closed, (yield from _cards([row.card for row in closed], prefix)), strict=True):
        cards[row.card.key] = card
    for row, reader in zip(open_ones, (yield from _opened(open_ones, prefix, appends=appends)), strict=True):
        cards[row.card.key] = reader.replica.state.card if reader is not None else None
    found = []
    for row in rows:
        data = summary_on(card.extra) if (card := cards[row.card.key]) is not None else None
        if data is not None and is_complete(data):
            found.append((row, data))
    return found


def _opened(rows: Sequence[Listed], prefix: str, *, appends: bool) -> Steps[list[Reader | None]]:
    """Read sessions as they are now; None for a session that cannot be read."""
    opened: list[Reader | None] = []
    for start in range(0, len(rows), CARDS_AT_ONCE_MAX):
        part = rows[start : start + CARDS_AT_ONCE_MAX]
        sessions = [SessionKeys(prefix, row.address.name, appends) for row in part]
        for keys, answers in zip(sessions, (yield from read_registers(sessions)), strict=True):
            opened.append((yield from _reader(keys, answers)))
    return opened


def _reader(keys: SessionKeys, answers: tuple[Answer, Answer]) -> Steps[Reader | None]:
    reader = Reader(keys)
    try:
        if (view := Registers(keys, *answers).view()) is not None:
            reader.replica.begin(view)
        else:
            yield from reader.replica.load()  # a writer changed it between the two reads, or it is deleted or damaged
    except (NotFoundError, CorruptError, FormatVersionError):
        return None
    return reader
