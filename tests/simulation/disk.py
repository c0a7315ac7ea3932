"""A disk that several processes share, and that loses unsynced writes in a power cut.

The tail is a log. Processes append to it in place, under a lock that the operating system releases when its holder is
killed. A file shows a write at once, even a part of it, but only a sync makes the write durable, and readers are shown
durable bytes only; see `treering.storage.local_lock`. Renames and removals become durable in the order in which they
were made, as in journalling filesystems, and any sync makes all earlier ones durable. The steps are those of
`treering.storage.local`.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import NamedTuple

from tests.simulation.codec import parse_latest, parse_tail
from tests.simulation.world import Effect, World
from treering.errors import ConflictError, PoisonedError, TreeringError, UnavailableError
from treering.format.paths import SessionKeys
from treering.storage import rules
from treering.storage.requests import (
    ABSENT,
    Answer,
    Append,
    Delete,
    Deleted,
    Get,
    Put,
    Request,
    Version,
    Written,
    key_of,
)

SECTOR_BYTES = 8  # a disk writes a sector as a whole; real sectors are larger
FAILED = "input/output error"


class _Name(NamedTuple):
    """A name that is not durable yet, with the object that it referred to before."""

    key: str
    before: tuple[Version, bytes] | None
    file: bytes
    """The bytes that the file held before, if it is a log."""
    synced: int
    """How many of these bytes a power cut leaves."""


class Disk(World):
    """Objects as files, for a store that appends in place. `objects` holds the bytes that readers are shown."""

    def __init__(self, rng: random.Random, keys: SessionKeys, *, faults: float) -> None:
        super().__init__(rng, keys, faults=faults, page=1000, sends_max=1)
        self._pending: list[_Name] = []
        self._files: dict[str, bytes] = {}
        """The bytes of log files, durable or not."""
        self._synced: dict[str, int] = {}
        """How many bytes of each log file a power cut leaves."""
        self._poisoned: set[str] = set()
        self._locked: set[str] = set()

    def send(self, request: Request) -> Answer | Effect:
        """Perform a request. It fails or succeeds; on a disk, no request takes effect after its answer."""
        self.steps += 1
        return UnavailableError(FAILED) if self.rng.random() < self.faults / 3 else self.begin(request)

    def begin(self, request: Request) -> Answer | Effect:
        if isinstance(request, Append):
            return self._append(request)
        if isinstance(request, Get) and request.key in self._files:
            return self._get_log(request)
        return super().begin(request)

    def _fails(self) -> bool:
        return self.rng.random() < 2 * self.faults

    # reads

    def _get_log(self, request: Get) -> Effect:
        """Show a reader what is marked as durable; the reader syncs the rest, if no writer has the lock."""
        key = request.key
        while key in self._files and not self._is_marked(key):
            if key not in self._locked:
                self._locked.add(key)
                try:
                    yield
                    if self._fails():
                        return UnavailableError(FAILED)
                    self._settle(key)
                finally:
                    self._locked.discard(key)
            elif self._is_marked(key, partly=True):
                break
            else:
                yield
        return self._get(request)

    def _is_marked(self, key: str, *, partly: bool | None = None) -> bool:
        """Whether readers may be shown a log as it is; with `partly`, a part of it."""
        partly = key in self._poisoned if partly is None else partly
        shown = self.objects[key][0] if key in self.objects else ABSENT
        file = self._files[key]
        return shown == rules.log_version(file) or (partly and _begins(file, shown))

    def _settle(self, key: str) -> None:
        """Make durable what the file of a log holds, and show it."""
        self._synced[key] = len(self._files[key])
        self._sync()
        self._show(key)

    def _show(self, key: str) -> Written:
        return self.place(key, self._files[key], rules.log_version(self._files[key]))

    # writes

    def _put(self, request: Put) -> Effect:
        key, data = request.key, request.data
        is_log = rules.is_log(key)
        yield from self._lock(key)
        try:
            self._sync()  # the sync of the new file; it also makes earlier renames durable
            if refused := self._refused_now(request):
                return refused
            self._pending.append(_Name(key, self.objects.get(key), self._files.get(key, b""), self._synced.get(key, 0)))
            if is_log:
                self._files[key], self._synced[key] = data, len(data)
            else:
                self.place(key, data, self.next_version())
            written = Written(rules.log_version(data) if is_log else self.objects[key][0])
            yield
            if self._fails():
                if is_log:
                    self._poisoned.add(key)
                return PoisonedError("sync of the folder failed", key=key)
            self._poisoned.discard(key)
            self._sync()
            if is_log:
                self._show(key)
            return written
        finally:
            self._locked.discard(key)

    def _refused_now(self, request: Put | Delete) -> TreeringError | None:
        """Return the error if the condition of a request does not hold for the stored bytes, shown or not."""
        key = key_of(request)
        if key not in self._files or self._is_marked(key) or request.expect is None:
            return self._refused(request)
        return ConflictError("a killed process wrote here", key=key)

    def _append(self, request: Append) -> Effect:
        key = request.key
        yield from self._lock(key)
        try:
            if key not in self._files:
                return rules.missing(key)
            if key in self._poisoned:
                return PoisonedError("an earlier sync failed", key=key)
            data = self._files[key]
            expected = rules.split_version(request.expect)
            if expected is None or expected[0] != rules.first_line_digest(data) or expected[1] > len(data):
                return ConflictError("another file", key=key)
            length = expected[1]
            if rules.complete_bytes(data[length:]):
                return ConflictError("another end", key=key)
            return (yield from self._write(key, data[:length], request.data))
        finally:
            self._locked.discard(key)

    def _write(self, key: str, old: bytes, new: bytes) -> Effect:
        self._synced[key] = len(old)
        if self.rng.random() < 0.5:
            self._files[key] = old + new[: self.rng.randrange(len(new))]
            yield
        self._files[key] = old + new
        for _ in range(self.rng.choice((1, 2, 5))):  # a sync takes long
            yield
        if self._fails():
            self._poisoned.add(key)
            if self.rng.random() < 0.5:
                self._files[key] = old
            return PoisonedError("sync failed", key=key)
        self._synced[key] = len(old) + len(new)
        self._sync()
        if self.rng.random() < 0.1:
            yield  # a process that is killed here leaves synced bytes without a mark
        return self._show(key)

    def _delete(self, request: Delete) -> Effect:
        return self._delete_each(request)

    def _delete_each(self, request: Delete) -> Effect:
        for key in request.keys:
            if key in self._files:  # a log is removed under its lock, and its version compared there
                yield from self._lock(key)
                self._locked.discard(key)
            if request.expect is not None and key in self.objects and (refused := self._refused_now(request)):
                return refused
            if key in self.objects:
                self._pending.append(_Name(key, self.objects[key], self._files.get(key, b""), self._synced.get(key, 0)))
            self._files.pop(key, None)
            self._poisoned.discard(key)
            self.remove(key)
            yield
        self._sync()
        return Deleted()

    def _lock(self, key: str) -> Generator[None, None, None]:
        while key in self._locked:
            yield
        self._locked.add(key)

    def _sync(self) -> None:
        self._pending.clear()

    def lose(self, key: str) -> None:
        super().lose(key)
        self._files.pop(key, None)

    def heal(self) -> None:
        """End all faults, and sync unsynced writes, as the first reader would."""
        super().heal()
        for key in self._files:
            if not self._is_marked(key):
                self._settle(key)

    # power

    def lose_power(self) -> None:
        """Lose the unsynced writes, or some of them. All processes were killed before."""
        rng = self.rng
        self._locked.clear()
        self.leases.clear()  # the last change of a lease may be undone
        for name in reversed(self._pending[rng.randrange(len(self._pending) + 1) :]):
            if name.before is None:
                self.objects.pop(name.key, None)
            else:
                self.objects[name.key] = name.before
            if name.file:
                self._files[name.key], self._synced[name.key] = name.file, name.synced
            else:
                self._files.pop(name.key, None)
        self._pending.clear()
        for key, data in self._files.items():
            synced = self._synced[key]
            lasting = data[:synced] + self._remains(data[synced:])
            self._files[key], self._synced[key] = lasting, len(lasting)
            self._show(key)
        tail, latest = self.objects.get(self.keys.tail), self.objects.get(self.keys.latest)
        self.ghost.power_lost(
            self.current_life(),
            parse_latest(latest[1], key=self.keys.latest).card.born if latest else 0,
            parse_tail(tail[1], key=self.keys.tail, appends=True) if tail else None,
        )
        self._require_held()
        self._require_marked()

    def _remains(self, data: bytes) -> bytes:
        """Return what a power cut leaves of unsynced bytes: nothing, a part, zeros, or a part with zeros in it."""
        rng = self.rng
        end = rng.choice((0, len(data), rng.randrange(len(data) + 1)))
        hole = rng.choice((end, end, 0, rng.randrange(end + 1)))
        # If the hole covers the first line of an append, whole lines after it would be damage, not a torn append.
        after = rng.randrange(hole, end + 1) if hole > data.find(b"\n") else end
        if after - hole < SECTOR_BYTES:
            after = end
        return data[:hole] + bytes(after - hole) + data[after:end]


def _begins(file: bytes, version: Version) -> bool:
    """Whether the file of a log begins with the bytes of this version."""
    shown = rules.split_version(version)
    return shown is not None and shown[0] == rules.first_line_digest(file) and shown[1] <= len(file)
