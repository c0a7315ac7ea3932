"""Follow a journal: all followers of one session through one store share their looks.

A look is one conditional GET of the tail, which has no body while nothing changed. When a look is due, one of the
waiting followers makes it and wakes the others if it finds something new. Its result stays in memory, so followers that
are woken need no request; a follower that is further behind reads segments.

Rule 1: a place is a life, a position and an epoch. A place is followed by the records from its position on, in their
order, and by the acts of erasing after its epoch. Both only grow, so a place stays valid for ever.
Rule 2: an act is returned after all records that the same look showed. So a follower that applies records and acts in
their order has a record before it gets the act that erases its payload.
Rule 3: from the look on that showed an act, its records are shown as erased, including those kept from earlier looks.
Rule 4: a life that ended stays ended, and followers get nothing of another life of that name.
Rule 5: a look that was given up counts for nothing: the next follower that is woken looks again. Followers do not wait
for a look that takes very long.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from treering.errors import CorruptError, NotFoundError, SessionDeletedError, UsageError
from treering.format.erasure import Burials, Erasure
from treering.format.paths import SessionKeys
from treering.format.register import Tail, TailHeader
from treering.journal.read import Survey, read_lines
from treering.journal.register import TailRegister
from treering.journal.resume import resume
from treering.journal.view import View
from treering.kinds import Kind
from treering.storage.effects import Pause, Signal
from treering.storage.requests import Answer, Batch, Get, Steps, Unchanged, Version

KEPT_BYTES_MAX = 1024 * 1024
"""Limit of the lines before the tail that are kept for followers that wake up late."""
MISSED_MAX = 2000
"""Up to this many records that left the tail between two looks are read once for all followers."""
LOOK_SECONDS_MAX = 10.0
"""How long other followers wait for a look that is under way."""

Waiting: TypeAlias = Generator[Batch | Pause, Any, "Told"]


class Place(msgspec.Struct, frozen=True):
    """A point in the sequence of a journal's records and acts of erasing, from which a follower continues."""

    life: str
    at: int
    """Position of the next record."""
    epoch: int
    """Epoch of the last act of erasing before the place."""

    @property
    def text(self) -> str:
        """The place as a cursor; `of` reads it."""
        return f"{self.at}-{self.epoch}-{self.life}"

    @classmethod
    def of(cls, text: str) -> Place:
        """Read a cursor.

        Raises:
            UsageError: The text is not a cursor.
        """
        at, _, rest = text.partition("-")
        epoch, _, life = rest.partition("-")
        if not (at.isdecimal() and epoch.isdecimal() and life and text.isascii()):
            raise UsageError(f"this is no place in a session. after={text!r}", kind=Kind.OPTION)
        return cls(life, int(at), int(epoch))

    @classmethod
    def end_of(cls, view: View) -> Place:
        """The place behind all records and acts that a view shows."""
        return cls(view.life, view.end, view.epoch)


class Told(NamedTuple):
    """The records and acts that follow a place, in their order."""

    lines: Sequence[bytes]
    """Record lines."""
    acts: tuple[Erasure, ...] = ()
    """Acts of erasing; they follow after `lines`."""
    ended: bool = False
    """The session was deleted, and nothing follows."""


class _Recent(msgspec.Struct, frozen=True):
    """The end of a journal, as a look showed it."""

    first: int
    """Position of the first line: the tail's base, or before it."""
    lines: Sequence[bytes]
    header: TailHeader
    version: Version
    look: int
    """The number of the look."""

    @property
    def end(self) -> int:
        return self.first + len(self.lines)


class Watch:
    """The end of the journal of one life, for all its followers through one store. Thread-safe.

    Args:
        keys: The session.
        life: The life.
    """

    def __init__(self, keys: SessionKeys, life: str) -> None:
        self.keys = keys
        self.life = life
        self.looks = 0
        """How many looks began."""
        self._lock = Lock()
        self._recent: _Recent | None = None
        self._ended = False
        self._looking: float | None = None
        """When the look that is under way began; None if there is none."""
        self._looked = 0.0
        """When the last look ended."""
        self._news, self._done = Signal(), Signal()

    def known(self) -> tuple[_Recent | None, bool]:
        """The result of the last look, and whether the life ended."""
        with self._lock:
            return self._recent, self._ended

    def turn(self, seen: _Recent | None, seconds: float, *, newer: bool = False, again: bool = False) -> Pause | int:
        """Return a pause to wait for, or the number of a look, which has to be passed to `look` at once.

        Args:
            seen: The result of the last look that the caller knows.
            seconds: How long to wait between two looks.
            newer: The caller needs a newer look in any case.
            again: The caller has just looked, so it waits in any case.
        """
        now = monotonic()
        with self._lock:
            if self._recent is not seen or self._ended:
                return Pause(0.0)
            if self._looking is not None and now - self._looking < LOOK_SECONDS_MAX:
                return Pause(LOOK_SECONDS_MAX - (now - self._looking), self._done)
            left = self._looked + seconds - now
            if again or (seen is not None and not newer and left > 0):
                return Pause(max(0.0, left), self._news)
            self._looking = now
            self.looks += 1
            return self.looks

    def look(self, number: int) -> Steps[None]:
        """Look once: one conditional GET, and more only if records left the tail unseen or the session was deleted.

        Raises:
            CorruptError: The session went back to an older state, or is damaged.
            UnavailableError: The store does not answer.
        """
        news = False
        try:
            news = yield from self._look(number)
            self._looked = monotonic()  # a look that failed or was given up counts for nothing
        finally:
            with self._lock:
                self._looking = None
                done, self._done = self._done, Signal()
                told, self._news = self._news, Signal() if news else self._news
            done.happen()
            if news:
                told.happen()

    def _look(self, number: int) -> Steps[bool]:
        """Look, and return whether anything is new."""
        before, _ = self.known()
        (answer,) = yield (Get(self.keys.tail, unless=before.version if before else None, register=True),)
        if isinstance(answer, Unchanged):
            self._put(before and msgspec.structs.replace(before, look=number), number)
            return False
        try:
            tail, version = yield from self._tail_in(answer)
            missed: Sequence[bytes] = ()
            if before is not None and before.end < tail.header.base:
                missed = yield from self._missed(before.end, tail.header.base)
        except NotFoundError as error:
            if not _is_end(error):
                raise
            self._ended = True
            return True
        self._put(self._joined(before, missed, tail, version, number), number)
        return True

    def _put(self, recent: _Recent | None, number: int) -> None:
        with self._lock:
            if self._recent is None or self._recent.look < number:  # else a later look ended earlier
                self._recent = recent

    def _tail_in(self, answer: Answer) -> Steps[tuple[Tail, Version]]:
        """The tail that an answer holds, and its version.

        Raises:
            SessionDeletedError: It is of another life, or deleted.
            NotFoundError: There is no session any more.
        """
        cell = TailRegister(self.keys).cell(answer)
        if cell.value is not None and not cell.value.header.dead and cell.value.header.life == self.life:
            return cell.value, cell.version
        view = yield from resume(self.keys)  # a life that was not appended to yet has no tail of its own
        view.require_same_life(self.life)  # rule: follow-same-life
        return view.tail, view.tail_version

    def _missed(self, first: int, base: int) -> Steps[Sequence[bytes]]:
        """Records that were appended, sealed and dropped between two looks; none if there are too many."""
        lines: list[bytes] = []
        known: Survey | None = None
        if base - first > MISSED_MAX:
            return ()
        while first + len(lines) < base:
            known, more = yield from read_lines(self.keys, first + len(lines), known, life=self.life)
            lines += more
            if not more or sum(map(len, lines)) > KEPT_BYTES_MAX:
                return ()
        return lines[: base - first]

    def _joined(
        self, before: _Recent | None, missed: Sequence[bytes], tail: Tail, version: Version, number: int
    ) -> _Recent:
        """The result of a look, with the newest lines that were known before in front of it."""
        base, header = tail.header.base, tail.header
        if before is None:
            return _Recent(base, tail.lines, header, version, number)
        if before.look < number and (tail.end < before.end or header.epoch < before.header.epoch):
            raise _went_back(self.keys, before.end, tail.end)
        older = [*before.lines, *missed][: max(0, base - before.first)]
        if before.first + len(older) < base:
            older = []
        kept = _newest(older, KEPT_BYTES_MAX)
        if header.epoch != before.header.epoch:
            kept = header.burials.bury_all(kept, base - len(kept))  # rule: follow-bury
        return _Recent(base - len(kept), [*kept, *tail.lines], header, version, number)


class Follower:
    """A follower of a journal: gets the records and acts behind its place.

    Args:
        watch: The looks that it shares with other followers.
        place: The place.
        seconds: How long to wait between two looks.
    """

    def __init__(self, watch: Watch, place: Place, seconds: float) -> None:
        self.place = place
        self._watch = watch
        self._seconds = seconds
        self._since = watch.looks
        """A look with a greater number shows at least as much as this follower already got."""
        self._survey: Survey | None = None
        """The survey in use while it reads segments."""

    def more(self) -> Waiting:
        """Wait until something follows the place, return it, and move the place behind it.

        Raises:
            CorruptError: The session went back to an older state, or is damaged.
            UnavailableError: The store does not answer.
        """
        looked = False
        while True:
            recent, ended = self._watch.known()
            if self._survey is not None or (recent is not None and self.place.at < recent.first):
                told = yield from self._from_segments()  # rule: follow-segments
            else:
                told = self._from_recent(recent)
            if told.lines or told.acts or told.ended:
                return told
            if ended:
                return Told((), ended=True)
            if self._survey is None:
                turn = self._watch.turn(recent, self._seconds, newer=self._is_ahead(recent), again=looked)
                looked = not isinstance(turn, Pause)
                if isinstance(turn, Pause):
                    yield turn
                else:
                    yield from self._watch.look(turn)

    def _is_ahead(self, recent: _Recent | None) -> bool:
        """Whether this follower already got more than the last look showed."""
        place = self.place
        return recent is not None and (place.at > recent.end or place.epoch > recent.header.epoch)

    def _from_recent(self, recent: _Recent | None) -> Told:
        if recent is None or (self._is_ahead(recent) and recent.look <= self._since):
            return Told(())
        if self._is_ahead(recent):
            raise _went_back(self._watch.keys, self.place.at, recent.end)
        told = Told(recent.lines[self.place.at - recent.first :], self._acts(recent.header.burials))
        self._pass(recent.end, recent.header.epoch)
        return told

    def _from_segments(self) -> Steps[Told]:
        """Records of a segment or of a part of one; behind the last record, the acts of erasing."""
        keys, at = self._watch.keys, self.place.at
        self._since = self._watch.looks
        try:
            self._survey, lines = yield from read_lines(keys, at, self._survey, life=self._watch.life)
        except NotFoundError as error:
            if not _is_end(error):
                raise
            return Told((), ended=True)
        if lines:
            self._pass(at + len(lines), self.place.epoch)
            return Told(lines)
        told = Told((), self._acts(self._survey.burials))
        self._pass(at, self._survey.tail.header.epoch)
        self._survey = None
        return told

    def _acts(self, burials: Burials) -> tuple[Erasure, ...]:
        """The acts of erasing that follow the place."""
        return tuple(act for act in burials.erasures if act.epoch > self.place.epoch)  # rule: follow-acts

    def _pass(self, at: int, epoch: int) -> None:
        self.place = Place(self.place.life, at, epoch)


class Watches:
    """The watches of one store, by session and life; a watch that no follower uses is forgotten. Thread-safe."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._known: WeakValueDictionary[tuple[str, str], Watch] = WeakValueDictionary()

    def of(self, keys: SessionKeys, life: str) -> Watch:
        """The watch of a life."""
        if os.getpid() != self._process:  # a forked process has no other threads
            self._begin()
        with self._lock:
            watch = self._known.get((keys.tail, life))
            if watch is None:
                watch = self._known[keys.tail, life] = Watch(keys, life)
            return watch


def _newest(lines: list[bytes], most: int) -> list[bytes]:
    """The last lines, of at most `most` bytes together."""
    count, left = 0, most
    while count < len(lines) and (left := left - len(lines[-1 - count])) >= 0:
        count += 1
    return lines[len(lines) - count :]


def _is_end(error: NotFoundError) -> bool:
    """Whether an error means that the session does not exist any more."""
    return isinstance(error, SessionDeletedError) or error.kind == Kind.SESSION


def _went_back(keys: SessionKeys, told: int, end: int) -> CorruptError:
    return CorruptError(
        f"records that were told are gone. told={told}, end={end}",
        kind=Kind.LOST,
        key=keys.tail,
        remedy="an older copy of the session was put back; begin anew with `first=0`",
    )
