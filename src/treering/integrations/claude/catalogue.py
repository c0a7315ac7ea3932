"""Lists of transcripts: their names, times of writing, and summaries.

A card may be older than the tail of its session. The time of a transcript is that of the newer of both, by the store's
clock. If the tail may be newer, the summary is read from both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from treering.errors import CorruptError, FormatVersionError, NotFoundError
from treering.format.paths import LATEST, SESSIONS, SessionKeys, decode_id, session_of_latest, session_of_tail
from treering.format.register import CARD_BYTES_MAX, Card, decode_card
from treering.integrations.claude.names import Address, parse_name
from treering.integrations.claude.summary import is_complete, summary_on
from treering.session.reader import Reader
from treering.storage.requests import Answer, Entry, Found, Get, Steps
from treering.storage.run import checked, list_all
from treering.store.catalogue import CARDS_AT_ONCE_MAX


class Listed(NamedTuple):
    """One transcript of a list."""

    address: Address
    card: Card
    written_ms: int
    """When it was last written, in milliseconds since 1970, by the store's clock."""
    lags: bool
    """Its tail may hold records that its card does not cover."""


def listed(prefix: str, project: str, *, below: str | None = None) -> Steps[list[Listed]]:
    """Find the conversations of a project, or the transcripts of one's subagents.

    Args:
        prefix: The namespace of the project.
        project: Its key.
        below: The conversation whose subagents are listed.
    """
    entries = yield from list_all(f"{prefix}{LATEST}")
    tails = yield from _tails(prefix)
    wanted = [entry for entry in entries if _may_be_wanted(entry, prefix, project, below)]
    found: list[Listed] = []
    for start in range(0, len(wanted), CARDS_AT_ONCE_MAX):
        part = wanted[start : start + CARDS_AT_ONCE_MAX]
        cards = yield from _cards(part)
        for entry, card in zip(part, cards, strict=True):
            if card is None or card.dead or not _is_wanted(parse_name(project, card.session), below):
                continue
            tail_ms = tails.get(session_of_latest(entry.key, prefix) or "", 0)
            written = max(entry.modified_ms, tail_ms)
            found.append(Listed(parse_name(project, card.session), card, written, tail_ms >= entry.modified_ms))
    return found


def _tails(prefix: str) -> Steps[dict[str, int]]:
    """When each tail was written, by the encoded name of its session."""
    entries = yield from list_all(f"{prefix}{SESSIONS}")
    return {name: entry.modified_ms for entry in entries if (name := session_of_tail(entry.key, prefix))}


def _may_be_wanted(entry: Entry, prefix: str, project: str, below: str | None) -> bool:
    """Whether a key may be of a wanted transcript; long names are hashed, and only the card has them."""
    encoded = session_of_latest(entry.key, prefix)
    name = decode_id(encoded) if encoded else None
    return bool(encoded) and (name is None or _is_wanted(parse_name(project, name), below))


def _is_wanted(address: Address, below: str | None) -> bool:
    return not address.subpath if below is None else bool(address.subpath) and address.session == below


def _cards(entries: Sequence[Entry]) -> Steps[list[Card | None]]:
    answers = yield tuple(Get(entry.key, start=0, end=CARD_BYTES_MAX, register=True) for entry in entries)
    return [_card(entry, answer) for entry, answer in zip(entries, answers, strict=True)]


def _card(entry: Entry, answer: Answer) -> Card | None:
    """Return a card; of one that cannot be read, only its name. None if it no longer exists."""
    if isinstance(answer, NotFoundError):
        return None
    try:
        return decode_card(checked(answer, Found).data, key=entry.key)
    except (CorruptError, FormatVersionError):  # loading the session raises the error
        name = decode_id(session_of_latest(entry.key, entry.key.rpartition(LATEST)[0]) or "")
        return Card(session=name, life="", write="") if name else None


def summaries(rows: Iterable[Listed], prefix: str, *, appends: bool) -> Steps[list[tuple[Listed, dict[str, Any]]]]:
    """Return the summaries of transcripts; none for one that is too large for a card, or was never made."""
    found = []
    for row in rows:
        card: Card | None = row.card
        if row.lags:
            card = yield from _newest_card(SessionKeys(prefix, row.card.session, appends))
        data = summary_on(card.extra) if card is not None else None
        if data is not None and is_complete(data):
            found.append((row, data))
    return found


def _newest_card(keys: SessionKeys) -> Steps[Card | None]:
    """The card that would be written now; None if the session cannot be read."""
    reader = Reader(keys)
    try:
        yield from reader.replica.load()
    except (NotFoundError, CorruptError, FormatVersionError):
        return None
    return reader.replica.state.card
