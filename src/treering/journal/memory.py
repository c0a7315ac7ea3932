"""What was read before, kept within bounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final

from treering.journal.watch import Watches

MEMORY_BYTES: Final = 16 * 1024 * 1024
"""About the memory that all remembered parts of segments take together."""
FRAMES_BYTES: Final = 8 * 1024 * 1024
"""About the memory that the frames take which were read last: what is shown next often lies in the same ones."""
TAILS_BYTES: Final = 4 * 1024 * 1024
"""About the memory that the rows of tails take."""


class Cache:
    """What was read before, by key; what was not used for longest is forgotten. For several threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """Return what was put under this key, or None."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[0]

    def put(self, key: Hashable, value: object, size: int) -> None:
        """Remember `value`, which takes about `size` bytes."""
        with self._lock:
            self._bytes += size - self._held.pop(key, (None, 0))[1]
            self._held[key] = value, size
            while self._bytes > self._limit and len(self._held) > 1:
                _, (_, freed) = self._held.popitem(last=False)
                self._bytes -= freed

    def forget(self, matches: Callable[[Any], bool]) -> None:
        """Forget what is under keys that match."""
        with self._lock:
            for key in [key for key in self._held if matches(key)]:
                self._bytes -= self._held.pop(key)[1]


class Memory(Cache):
    """What the handles of a store remember together: the parts of segments that were read, by key and place."""

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        super().__init__(limit)
        self.frames = Cache(FRAMES_BYTES)
        """The contents of frames, by segment and place: none that may hold what was erased."""
        self.tails = Cache(TAILS_BYTES)
        """The rows of each session's tail, by its key."""
        self.watches = Watches()
        """What those who follow one session share."""
