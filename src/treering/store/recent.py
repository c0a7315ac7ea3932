"""Pages of sessions by their markers: the first keys of a folder, and one ranged GET for each row shown.

The keys of markers are in the order of their times, the newest first, and these lag behind the session by `LAG_MS_MAX`
at most. On a local disk the time of the log is exact; it is read for all rows whose order it may change.

Rule 1: markers are trusted where `recent.json` says that each session has one. Else all cards are listed.
Rule 2: a marker counts if the card names it. Other markers were left by a kill, or are about to be deleted.
Rule 3: while a list is read, a session may get another marker, in a part of the list that was read before. Then the
card names a marker that was not met, and the session's old place in the list counts.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import compress, islice, takewhile
from typing import NamedTuple

from treering._late import Kind
from treering.errors import UsageError
from treering.format.paths import (
    LATEST,
    NAMESPACES,
    Marker,
    is_latest,
    latest_key,
    marker_key,
    parse_marker,
    recent_complete,
    recent_folder,
    recent_until,
)
from treering.ids import now_ms, time_text
from treering.journal.marker import MARKED_MS_MAX
from treering.session.upkeep import CARD_LAG_MS_MAX
from treering.storage.requests import LIST_KEYS_MAX, Answer, Entry, Found, Get, List, Listed, Put, Steps, Written
from treering.storage.run import ask, checked
from treering.store import catalogue
from treering.store.catalogue import CARDS_AT_ONCE_MAX, Listing, Read, Sessions, read_listed, with_heads, with_logs
from treering.store.info import SessionInfo, Wanted
from treering.store.inventory import prefixes

LAG_MS_MAX = MARKED_MS_MAX + CARD_LAG_MS_MAX
"""A marker is written with a card, and a card is written this long after a record at most."""
_DISK_KEYS = 64  # limit of the first LIST: a disk sorts a whole folder for each, and few are shown
_LISTS_AT_ONCE = 64  # S3 clients keep about as many connections
_cursor = re.compile(rf"([0-9]{{1,15}})-((?:{LATEST}|{NAMESPACES}).+)")


class Marked(NamedTuple):
    """A marker in a list, and the card to read for it."""

    marker: Marker
    session: str
    """The encoded name."""
    listing: Listing
    """Where the card is; as long as that was not read, its time is that of the marker."""

    @property
    def is_ahead(self) -> bool:
        """Whether the log is younger than the marker allows: it has no record (an import), or its writer was killed."""
        return self.listing.active_ms > self.marker.ms + LAG_MS_MAX

    @property
    def order(self) -> tuple[int, str]:
        """A key that sorts markers, those of the most recently active sessions first.

        A log that is younger than the marker allows was left by a kill. It counts as no younger: otherwise it might
        belong on a page that was shown before the time of the log was read.
        """
        return -min(self.listing.active_ms, self.marker.ms + LAG_MS_MAX), self.listing.card.key


class _Cursor(NamedTuple):
    """The place where the page before ended: the `order` of its last marker, or card."""

    minus_ms: int
    key: str

    @classmethod
    def of(cls, text: str) -> _Cursor | None:
        """Parse a cursor; None if it is none."""
        match = _cursor.fullmatch(text)
        return cls(-int(match[1]), match[2]) if match else None

    @property
    def text(self) -> str:
        return catalogue.cursor_of(*self)


def list_page(
    prefix: str, *, appends: bool, limit: int, after: str | None, wanted: Wanted, below: bool = False
) -> Steps[Sessions]:
    """Read the cards of one page.

    Args:
        prefix: The namespace, empty or ending in `/`.
        appends: As in `SessionKeys`.
        limit: The maximum number of rows.
        after: The end of the page before.
        wanted: Selects rows.
        below: Include the namespaces below.

    Raises:
        UsageError: `after` is not a cursor of a list of this namespace.
    """
    cursor = _Cursor.of(after) if after is not None else None
    if after is not None and (cursor is None or not is_latest(cursor.key, prefix)):
        raise UsageError(f"this is no place in a list of these sessions. after={after!r}", kind=Kind.OPTION)
    walk = yield from _begin(prefix, appends=appends, cursor=cursor, wanted=wanted, below=below)
    if walk is None:
        return (
            yield from catalogue.list_sessions(
                prefix, appends=appends, limit=limit, after=cursor, wanted=wanted.test, below=below
            )
        )
    rows: list[SessionInfo] = []
    end = cursor
    while len(rows) < limit and (part := (yield from walk.take(_count(wanted, limit - len(rows))))):
        found = (yield from walk.read(part))[: limit - len(rows)]
        rows += [row for _, row in found]
        end = _Cursor(*(found[-1][0] if len(rows) == limit else part[-1]).order)
    more = walk.has_more or (end is not None and end != walk.cursor)
    return Sessions(rows=tuple(rows), after=end.text if more and end is not None else None)


def _count(wanted: Wanted, left: int) -> int:
    """How many cards to read at once: many if a status is wanted, which markers do not have."""
    return CARDS_AT_ONCE_MAX if wanted.status is not None else min(CARDS_AT_ONCE_MAX, left)


def newest(prefix: str, *, appends: bool, wanted: Wanted, below: bool = False) -> Steps[SessionInfo | None]:
    """The session that was active last; see `catalogue.newest`."""
    walk = yield from _begin(prefix, appends=appends, cursor=None, wanted=wanted, below=below)
    if walk is None:
        return (yield from catalogue.newest(prefix, appends=appends, wanted=wanted.test, below=below))
    found: SessionInfo | None = None
    count = 1
    while part := (yield from walk.take(count)):
        if found is not None and LAG_MS_MAX - part[0].order[0] <= found.updated_ms:
            break  # none of these, and none behind them, was active later
        rows = [row for _, row in (yield from walk.read(part)) if not row.warning]
        found = max([*([found] if found else []), *rows], key=lambda row: row.updated_ms, default=None)
        count = min(2 * count, CARDS_AT_ONCE_MAX)
    return found


def begin_complete() -> Steps[None]:
    """Write in a new store that each of its sessions has a marker, unless it has sessions already.

    If a request fails, this is not written, and the first append continues. Lists then read all cards until `reindex`
    is called.
    """
    answers = yield (List(LATEST, limit=1), List(NAMESPACES, limit=1))
    if all(isinstance(answer, Listed) and not answer.entries for answer in answers):
        yield (_complete_put(""),)


def is_complete(prefix: str) -> Steps[bool]:
    """Whether each session of a namespace has a marker."""
    answers = yield _complete_gets(prefix)
    return _says_complete(answers)


def put_complete(prefix: str) -> Steps[None]:
    """Write that each session of a namespace, and of the namespaces below it, has a marker."""
    yield from ask(_complete_put(prefix), Written)


def _complete_put(prefix: str) -> Put:
    fact = f'{{"since":"{time_text(now_ms())}"}}\n'
    return Put(recent_complete(prefix), fact.encode())


def _begin(prefix: str, *, appends: bool, cursor: _Cursor | None, wanted: Wanted, below: bool) -> Steps[_Walk | None]:
    """Begin to list markers; None if they cannot be trusted (rule 1)."""
    parts = (yield from prefixes(prefix, appends=appends)) if below else [prefix]
    start_ms = -cursor.minus_ms if cursor is not None else None
    markers = _Markers(parts, wanted, start_ms=start_ms, on_disk=appends)
    asked = _complete_gets(prefix)
    first = markers.requests()
    answers = yield (*asked, *first)
    if not _says_complete(answers[: len(asked)]):
        return None
    markers.take(first, answers[len(asked) :])
    return _Walk(markers, wanted, cursor=cursor, on_disk=appends)


def _complete_gets(prefix: str) -> tuple[Get, ...]:
    """Requests for the `recent.json` of a namespace and of the namespaces around it."""
    names = prefix.split("/")[:-1]
    around = ["".join(f"{name}/" for name in names[:count]) for count in range(0, len(names) + 1, 2)]
    return tuple(Get(recent_complete(each)) for each in around)


def _says_complete(answers: Sequence[Answer]) -> bool:
    """Whether one of the answers says that all sessions have markers; a refusal or no answer counts as no."""
    return any(isinstance(answer, Found) for answer in answers)


class _Folder:
    """The markers of a namespace that were listed so far."""

    def __init__(self, prefix: str, start: str) -> None:
        self.prefix = prefix
        self.start = self.reached = start
        """All keys from `start` up to `reached` were listed."""
        self.ms_max: float = math.inf
        """The latest time that a marker which is not listed yet may have."""
        self.found: deque[Marked] = deque()
        """Markers that were not taken yet, in the order of their keys."""

    @property
    def more(self) -> bool:
        """Whether there may be further markers to list."""
        return self.ms_max >= 0


class _Markers:
    """Lists the markers of some namespaces, the newest first.

    Args:
        parts: The prefixes of the namespaces.
        wanted: Leaves out the markers of most other sessions.
        start_ms: The time to begin with, if not the latest.
        on_disk: List few keys at first.
    """

    def __init__(self, parts: Sequence[str], wanted: Wanted, *, start_ms: int | None, on_disk: bool) -> None:
        starts = {prefix: recent_until(prefix, start_ms) if start_ms is not None else "" for prefix in parts}
        self._folders = {recent_folder(prefix): _Folder(prefix, start) for prefix, start in starts.items()}
        self._wanted = wanted
        self._limit = _DISK_KEYS if on_disk else LIST_KEYS_MAX
        self.met: set[str] = set()
        """The keys of the markers that were listed and may be wanted."""

    @property
    def ms_max(self) -> float:
        """The latest time of the markers that were not returned yet; below 0 after the last one."""
        return max(self._found_ms, *(folder.ms_max for folder in self._folders.values()))

    @property
    def _found_ms(self) -> int:
        return max((folder.found[0].marker.ms for folder in self._folders.values() if folder.found), default=-1)

    def next(self) -> Steps[list[Marked]]:
        """The next markers, sorted by their times; empty after the last one."""
        while True:
            listed_ms = max(folder.ms_max for folder in self._folders.values())
            found = [marked for folder in self._folders.values() for marked in _newer(folder.found, listed_ms)]
            if found or not (requests := self.requests()):
                return sorted(found, key=lambda marked: marked.order)
            self.take(requests, (yield requests))

    def requests(self) -> tuple[List, ...]:
        """The LISTs that are needed to know which marker is the next one."""
        found_ms = self._found_ms
        return tuple(
            List(name, after=folder.reached, limit=self._limit, names_only=True)
            for name, folder in self._folders.items()
            if folder.more and folder.ms_max >= found_ms
        )[:_LISTS_AT_ONCE]

    def take(self, requests: Sequence[List], answers: Sequence[Answer]) -> None:
        """Take the answers to `requests`."""
        for request, answer in zip(requests, answers, strict=True):
            listed, folder = checked(answer, Listed), self._folders[request.prefix]
            for entry in listed.entries:
                folder.reached = entry.key
                if (parsed := parse_marker(entry.key, folder.prefix)) is not None:
                    session, marker = parsed
                    folder.ms_max = marker.ms
                    if self._wanted.may_fit(marker):
                        card = Entry(latest_key(folder.prefix, session), 0, marker.ms)
                        folder.found.append(Marked(marker, session, Listing(card, folder.prefix)))
                        self.met.add(entry.key)
            if not listed.more:
                folder.ms_max = -1
        self._limit = min(LIST_KEYS_MAX, 8 * self._limit)

    def has_passed(self, prefix: str, key: str) -> bool:
        """Whether a marker that was not met cannot be met any more: its key is in a part that was read already."""
        folder = self._folders[recent_folder(prefix)]
        return key > folder.start and (not folder.more or key <= folder.reached)


def _newer(found: deque[Marked], ms: float) -> Iterator[Marked]:
    """Take the first markers, those that are newer than `ms`."""
    while found and found[0].marker.ms > ms:
        yield found.popleft()


def _asked(ask_all: Callable[[list[Listing]], Steps[list[Listing]]], part: Sequence[Marked]) -> Steps[list[Marked]]:
    """Markers with the times of their logs as `ask_all` found them."""
    listings = yield from ask_all([marked.listing for marked in part])
    return [marked._replace(listing=each) for marked, each in zip(part, listings, strict=True)]


class _Walk:
    """Goes through sessions in the order of their activity."""

    def __init__(self, markers: _Markers, wanted: Wanted, *, cursor: _Cursor | None, on_disk: bool) -> None:
        self._markers = markers
        self._wanted = wanted
        self._after = cursor
        self._on_disk = on_disk
        self._waiting: list[Marked] = []
        """Markers in the order of their times; the times of logs may change it."""
        self._ready: list[Marked] = []
        """Markers in their final order."""
        self._shown: set[tuple[str, str]] = set()
        self.cursor = cursor
        """The place that the walk has reached."""

    @property
    def has_more(self) -> bool:
        """Whether there may be another session."""
        return bool(self._ready or self._waiting) or self._markers.ms_max >= 0

    def take(self, count: int) -> Steps[list[Marked]]:
        """The next markers, `count` at most; empty after the last one."""
        yield from self._make_ready(count)
        part, self._ready = self._ready[:count], self._ready[count:]
        if part:
            self.cursor = _Cursor(*part[-1].order)
        return part

    def _make_ready(self, count: int) -> Steps[None]:
        """Sort the next `count` markers. On a disk, logs are read until no other marker can come before these."""
        while True:
            if unread := [marked for marked in self._ready[:count] if marked.listing.unread]:
                rest = [marked for marked in self._ready[:count] if not marked.listing.unread]
                self._ready = rest + self._ready[count:]
                read = yield from _asked(with_heads, unread)
            elif next_ones := self._may_precede(count):
                self._waiting = self._waiting[len(next_ones) :]
                read = (yield from self._ask_logs(next_ones)) if self._on_disk else next_ones
            elif not self._waiting and self._markers.ms_max >= self._least_ms(count):
                self._waiting = yield from self._markers.next()
                continue
            else:
                return
            self._ready = sorted([*self._ready, *filter(self._is_behind, read)], key=lambda marked: marked.order)

    def _ask_logs(self, part: Sequence[Marked]) -> Steps[list[Marked]]:
        """Read the times of logs. The time of a log counts only if it holds a record.

        So a short log is read if its time is too late for its marker, or would put its session on an earlier page.
        """
        read = yield from _asked(with_logs, part)
        doubtful = [each.listing.unread is not None and (each.is_ahead or not self._is_behind(each)) for each in read]
        sure = [each for each, doubt in zip(read, doubtful, strict=True) if not doubt]
        return [*sure, *(yield from _asked(with_heads, list(compress(read, doubtful))))]

    def _may_precede(self, count: int) -> list[Marked]:
        """The waiting markers that may come before the last of the next `count`; the first ones if fewer are ready."""
        if len(self._ready) < count:
            return self._waiting[:count]
        least_ms = self._least_ms(count)
        places = takewhile(lambda marked: marked.marker.ms >= least_ms, self._waiting)
        return list(islice(places, LIST_KEYS_MAX))

    def _least_ms(self, count: int) -> int:
        """The least time of a marker that can still come before the last of the next `count`; 0 if fewer are ready."""
        if len(self._ready) < count:
            return 0
        return max(0, -self._ready[count - 1].order[0] - (LAG_MS_MAX if self._on_disk else 0))

    def _is_behind(self, marked: Marked) -> bool:
        """Whether a marker was not shown before."""
        return self._after is None or marked.order > self._after

    def read(self, part: Sequence[Marked]) -> Steps[list[tuple[Marked, SessionInfo]]]:
        """The rows of the markers that count and whose sessions are wanted."""
        rows: list[tuple[Marked, SessionInfo]] = []
        for marked, read in zip(part, (yield from read_listed([each.listing for each in part])), strict=True):
            if read is not None and self._counts(marked, read):
                self._shown.add((marked.listing.prefix, marked.session))
                if read.info.warning or self._wanted.fits(read.info):
                    rows.append((marked, read.info))
        return rows

    def _counts(self, marked: Marked, read: Read) -> bool:
        """Whether this is the place of a session in the list (rules 2 and 3)."""
        prefix = marked.listing.prefix
        if (prefix, marked.session) in self._shown:
            return False
        if not read.marker or read.marker == marked.marker.text:  # rule: count-what-is-named
            return True
        key = marker_key(prefix, marked.session, read.marker)
        return key not in self._markers.met and self._markers.has_passed(prefix, key)  # rule: count-what-moved
