"""List sessions from their cards: one LIST, and one ranged GET per row shown. Bodies are never read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from treering.errors import AccessError, NotFoundError, TreeringError, UnavailableError
from treering.format.paths import (
    LATEST,
    SESSIONS,
    beginnings,
    decode_id,
    namespaces_in,
    session_of_latest,
    session_of_tail,
)
from treering.format.register import CARD_BYTES_MAX, decode_card
from treering.storage.requests import Answer, Entry, Found, Get, List, Listed, Steps
from treering.storage.run import checked, list_all, list_beginning
from treering.store.info import SessionInfo, info_of
from treering.store.inventory import prefixes

CARDS_AT_ONCE_MAX = 64  # ranged GETs of one batch; S3 clients keep about as many connections
_BEFORE_TAIL = "tai"  # a LIST after this key begins with the tail
_HEADER_BYTES_MAX = 4096  # of the first line of a log; it is longer only if much was erased: then there are records


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list of sessions, the most recently active first."""

    rows: tuple[SessionInfo, ...]
    after: str | None
    """The cursor of the next page; None: this is the last."""


class Listing(NamedTuple):
    """A card in the list of its folder."""

    card: Entry
    prefix: str
    """The prefix of its namespace."""
    tail_ms: int = 0
    """When the session's log was last written after the card, by the store's clock; else 0."""
    unread: Entry | None = None
    """The log, if `tail_ms` is its time, and it is so short that it may hold no record; see `with_heads`."""
    warning: str = ""
    """Why the log could not be looked for: the folder of the session is not for this user."""

    @property
    def active_ms(self) -> int:
        """When the card or the log was last written, whichever is later."""
        return max(self.card.modified_ms, self.tail_ms)

    @property
    def order(self) -> tuple[int, str]:
        """A key that sorts listings, those of the most recently active sessions first."""
        return -self.active_ms, self.card.key


def cursor_of(minus_ms: int, key: str) -> str:
    """The text of a place in a list of sessions, which stands when the session there is deleted or used again."""
    return f"{-minus_ms}-{key}"


def list_sessions(
    prefix: str,
    *,
    appends: bool,
    limit: int,
    after: tuple[int, str] | None,
    wanted: Callable[[SessionInfo], bool] | None,
    below: bool = False,
) -> Steps[Sessions]:
    """Read the cards of one page.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
        limit: The maximum number of rows.
        after: The end of the page before: the `order` of its last session.
        wanted: Selects rows; every card is read. None selects all.
        below: Include the namespaces below.
    """
    listings = yield from list_cards(prefix, appends=appends, below=below)
    start = bisect_right(listings, after, key=lambda listing: listing.order) if after is not None else 0
    rows: list[SessionInfo] = []
    place = start
    while place < len(listings) and len(rows) < limit:
        part = listings[place : place + min(CARDS_AT_ONCE_MAX, max(1, limit - len(rows)))]
        for read in (yield from read_listed(part)):
            place += 1
            if read is not None and (read.info.warning or wanted is None or wanted(read.info)):
                rows.append(read.info)
            if len(rows) == limit:
                break
    more = place < len(listings)
    return Sessions(rows=tuple(rows), after=cursor_of(*listings[place - 1].order) if more and place else None)


def newest(
    prefix: str, *, appends: bool, wanted: Callable[[SessionInfo], bool] | None, below: bool = False
) -> Steps[SessionInfo | None]:
    """The session that was active last; a damaged card does not hide it.

    A card is written at the time of the last activity or later: much later if the session was imported. So cards are
    read, the last written first, until no remaining card can belong to a more recent session.
    """
    found: SessionInfo | None = None
    listings = yield from list_cards(prefix, appends=appends, below=below)
    start, count = 0, 1
    while start < len(listings) and (found is None or listings[start].active_ms > found.updated_ms):
        rows = yield from read_cards(listings[start : start + count])
        usable = [row for row in rows if not row.warning and (wanted is None or wanted(row))]
        found = max([*usable, *([found] if found else [])], key=lambda row: row.updated_ms, default=None)
        start, count = start + count, min(2 * count, CARDS_AT_ONCE_MAX)
    return found


def read_cards(listings: Sequence[Listing]) -> Steps[list[SessionInfo]]:
    """The rows of cards, read in parallel; deleted sessions have none."""
    rows = yield from read_listed(listings)
    return [row.info for row in rows if row is not None]


class Read(NamedTuple):
    """The contents of a card."""

    info: SessionInfo
    marker: str = ""
    """The marker that the card names; empty if an older version wrote the card, or if it cannot be read."""


def read_listed(listings: Sequence[Listing]) -> Steps[list[Read | None]]:
    """Read cards in parallel; None for deleted sessions."""
    if not listings:
        return []
    answers = yield tuple(Get(listing.card.key, start=0, end=CARD_BYTES_MAX, register=True) for listing in listings)
    return [_read(listing, answer) for listing, answer in zip(listings, answers, strict=True)]


def list_cards(prefix: str, *, appends: bool, below: bool = False, begins: str = "") -> Steps[list[Listing]]:
    """List all cards, tombstones included, the most recently active first; the store's clock decides.

    On an object store a card is written at most `treering.session.upkeep.CARD_LAG_MS_MAX` after a record. On a local
    disk the time of the log is used, which is exact and almost free to read.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
        below: Include the namespaces below.
        begins: Only cards of sessions whose names begin with this text, and cards whose keys do not tell the name.
    """
    parts = (yield from prefixes(prefix, appends=appends)) if below else [prefix]
    asked = [(part, beginning) for part in parts for beginning in beginnings(begins)]
    found = yield from list_beginning([(f"{part}{LATEST}", beginning) for part, beginning in asked])
    listings = [
        Listing(entry, part)
        for (part, _), entries in zip(asked, found, strict=True)
        for entry in entries
        if (name := session_of_latest(entry.key, part)) and (decode_id(name) or begins).startswith(begins)
    ]
    if appends:
        listings = yield from with_heads((yield from with_logs(listings)))
    return sorted(listings, key=lambda listing: listing.order)


def with_logs(listings: Sequence[Listing]) -> Steps[list[Listing]]:
    """Add the times of logs that were written after the card, also of those that may hold no record."""
    if not listings:
        return []
    answers = yield tuple(map(_log_of, listings))
    return [_with_log(listing, answer) for listing, answer in zip(listings, answers, strict=True)]


def _with_log(listing: Listing, answer: Answer) -> Listing:
    if isinstance(answer, AccessError):  # one such session does not hide the others
        return listing._replace(warning=str(answer))
    log = _newer_log(listing, answer)
    if log is None:
        return listing
    return listing._replace(tail_ms=log.modified_ms, unread=log if log.size <= _HEADER_BYTES_MAX else None)


def with_heads(listings: Sequence[Listing]) -> Steps[list[Listing]]:
    """Read the beginnings of short logs, and remove the times of logs that hold no record."""
    unread = [listing.unread for listing in listings if listing.unread is not None]
    gets = tuple(Get(log.key, start=0, end=_HEADER_BYTES_MAX, register=True) for log in unread)
    heads = (yield gets) if gets else ()
    empty = {log.key for log, head in zip(unread, heads, strict=True) if not _holds_records(head)}
    return [
        listing._replace(
            tail_ms=0 if listing.unread is not None and listing.unread.key in empty else listing.tail_ms, unread=None
        )
        for listing in listings
    ]


def _log_of(listing: Listing) -> List:
    """A request for the log of a card's session and its time."""
    folder = f"{listing.prefix}{SESSIONS}{session_of_latest(listing.card.key, listing.prefix)}/"
    return List(folder, after=f"{folder}{_BEFORE_TAIL}", limit=1)


def _newer_log(listing: Listing, answer: Answer) -> Entry | None:
    """The log of a card's session, if it was written after the card."""
    entries = checked(answer, Listed).entries
    logs = [entry for entry in entries if session_of_tail(entry.key, listing.prefix)]
    return next((log for log in logs if log.modified_ms > listing.card.modified_ms), None)


def _holds_records(head: Answer) -> bool:
    """Whether a log has more than its first line; the log of a loaded session is written after its card."""
    return isinstance(head, Found) and head.data.find(b"\n") + 1 != head.size


def card_entries(prefix: str) -> Steps[list[Entry]]:
    """List all cards, tombstones included, the most recently written first; the store's clock decides."""
    entries = yield from list_all(f"{prefix}{LATEST}")
    found = [entry for entry in entries if session_of_latest(entry.key, prefix)]
    return sorted(found, key=lambda entry: (-entry.modified_ms, entry.key))


def cards_by_name(prefix: str) -> Steps[dict[str, Entry]]:
    """List all cards by the encoded names of their sessions, in the same order."""
    entries = yield from card_entries(prefix)
    return {session_of_latest(entry.key, prefix) or "": entry for entry in entries}


def _read(listing: Listing, answer: Answer) -> Read | None:
    """The row of one card; None for a deleted session. A damaged card, or a folder refused, is a row with a warning.

    Raises:
        UnavailableError: The store did not answer. A row without contents would look like that of another session.
    """
    if isinstance(answer, NotFoundError):
        return None
    entry = listing.card
    try:
        found = checked(answer, Found)
        card = decode_card(found.data, key=entry.key)
    except UnavailableError:
        raise
    except TreeringError as error:
        name = session_of_latest(entry.key, listing.prefix) or entry.key
        row = SessionInfo(
            id=decode_id(name) or name,
            namespace=namespaces_in(listing.prefix),
            updated_ms=listing.active_ms,
            warning=str(error),
        )
        return Read(row)
    if card.dead:  # rule: list-the-living
        return None
    info = info_of(card, listing.prefix)
    if listing.tail_ms > found.modified_ms:
        info = msgspec.structs.replace(info, updated_ms=listing.tail_ms)
    if listing.warning:
        info = msgspec.structs.replace(info, warning=listing.warning)
    return Read(info, card.marker)
