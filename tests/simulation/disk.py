"""A disk that several processes share, and that forgets what was not synced when the power goes.

The tail is a log: appended to in place, under a lock that an operating system takes back from the dead. Everybody sees
a write at once, half of it even, but only a sync makes it last. Names (renames and removals) last in the order in which
they were made, as journalling filesystems have it, and any sync makes all earlier ones last. The steps are those of
`treering.storage.local`.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import NamedTuple

from tests.simulation.codec import parse_latest, parse_tail
from tests.simulation.world import Effect, World
from treering.errors import ConflictError, PoisonedError, UnavailableError
from treering.format.paths import SessionKeys
from treering.storage import rules
from treering.storage.requests import Answer, Append, Delete, Deleted, Put, Request, Version, Written

SECTOR_BYTES = 8  # real ones are larger; what a disk writes as a whole
FAILED = "input/output error"


class _Name(NamedTuple):
    """A name that may not last: what it stood for before, and how much of that was synced."""

    key: str
    before: tuple[Version, bytes] | None
    synced: int


class Disk(World):
    """Objects as files, for a store that appends in place."""

    def __init__(self, rng: random.Random, keys: SessionKeys, *, faults: float) -> None:
        super().__init__(rng, keys, faults=faults, page=1000, sends_max=1)
        self._pending: list[_Name] = []
        self._synced: dict[str, int] = {}
        """How many bytes of a log would survive."""
        self._poisoned: set[str] = set()
        self._locked: set[str] = set()

    def send(self, request: Request) -> Answer | Effect:
        """Perform a request; a disk never answers late, it fails or it does not."""
        return UnavailableError(FAILED) if self.rng.random() < self.faults / 3 else self.begin(request)

    def begin(self, request: Request) -> Answer | Effect:
        return self._append(request) if isinstance(request, Append) else super().begin(request)

    def _fails(self) -> bool:
        return self.rng.random() < 2 * self.faults

    # writes

    def _put(self, request: Put) -> Effect:
        key, data = request.key, request.data
        is_log = rules.is_log(key)
        yield from self._lock(key)
        try:
            self._sync()  # of the new file; what was renamed before lasts from now on
            if refused := self._refused(request):
                return refused
            self._pending.append(_Name(key, self.objects.get(key), self._synced.get(key, 0)))
            self._synced[key] = len(data)
            written = self.place(key, data, rules.log_version(data) if is_log else self.next_version())
            yield
            if self._fails():
                if is_log:
                    self._poisoned.add(key)
                return PoisonedError("sync of the folder failed", key=key)
            self._sync()
            self._poisoned.discard(key)
            return written
        finally:
            self._locked.discard(key)

    def _append(self, request: Append) -> Effect:
        key = request.key
        yield from self._lock(key)
        try:
            if key not in self.objects:
                return rules.missing(key)
            if key in self._poisoned:
                return PoisonedError("an earlier sync failed", key=key)
            data = self.objects[key][1]
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
        if self._synced[key] < len(old):  # others wrote this and were killed; one torn append is all a reader forgives
            yield
            self._synced[key] = len(old)
            self._sync()
        self._synced[key] = len(old)
        if self.rng.random() < 0.5:
            self._show(key, old + new[: self.rng.randrange(len(new))])
            yield
        self._show(key, old + new)
        for _ in range(self.rng.choice((1, 2, 5))):  # a sync takes long; everybody sees what may never last
            yield
        if self._fails():
            self._poisoned.add(key)
            if self.rng.random() < 0.5:
                self._show(key, old)
            return PoisonedError("sync failed", key=key)
        self._synced[key] = len(old) + len(new)
        self._sync()
        return Written(self.objects[key][0])

    def _show(self, key: str, data: bytes) -> None:
        self.place(key, data, rules.log_version(data))

    def _delete_each(self, request: Delete) -> Effect:
        for key in request.keys:
            if key in self.objects:
                self._pending.append(_Name(key, self.objects[key], self._synced.get(key, 0)))
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

    # power

    def lose_power(self) -> None:
        """Forget what was not synced, or some of it. Every process has died before."""
        rng = self.rng
        self._locked.clear()
        for name in reversed(self._pending[rng.randrange(len(self._pending) + 1) :]):
            if name.before is None:
                self.objects.pop(name.key, None)
            else:
                self.objects[name.key] = name.before
            self._synced[name.key] = name.synced
        self._pending.clear()
        for key in [key for key in self.objects if rules.is_log(key)]:
            data, synced = self.objects[key][1], self._synced[key]
            lasting = data[:synced] + self._remains(data[synced:])
            self.objects[key] = (rules.log_version(lasting), lasting)
            self._synced[key] = len(lasting)
        tail, latest = self.objects.get(self.keys.tail), self.objects.get(self.keys.latest)
        self.ghost.power_lost(
            self.current_life(),
            parse_latest(latest[1], key=self.keys.latest).card.born if latest else 0,
            parse_tail(tail[1], key=self.keys.tail, appends=True) if tail else None,
        )
        self._require_held()

    def _remains(self, data: bytes) -> bytes:
        """What a power cut leaves of bytes that were not synced: nothing, a part, zeros, or a part with zeros in it."""
        rng = self.rng
        end = rng.choice((0, len(data), rng.randrange(len(data) + 1)))
        hole = rng.choice((end, end, 0, rng.randrange(end + 1)))
        # Behind a hole that hides whose append it is, whole lines would be damage and not a torn append.
        after = rng.randrange(hole, end + 1) if hole > data.find(b"\n") else end
        if after - hole < SECTOR_BYTES:
            after = end
        return data[:hole] + bytes(after - hole) + data[after:end]
