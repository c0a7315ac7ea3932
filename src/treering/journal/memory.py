"""Caches of what was read before, bounded by size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Final

from treering.journal.watch import Watches

MEMORY_BYTES: Final = 16 * 1024 * 1024
"""About the memory that all remembered parts of segments take together."""
FRAMES_BYTES: Final = 8 * 1024 * 1024
"""About the memory for the frames that were read last: the next records to be shown often lie in the same frames."""
TAILS_BYTES: Final = 4 * 1024 * 1024
"""About the memory that the rows of tails take."""


class Cache:
    """Values that were read before, by key; evicts the least recently used ones. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """Return the value of this key, or None."""
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
        """Forget the values of keys that match."""
        with self._lock:
            for key in [key for key in self._held if matches(key)]:
                self._bytes -= self._held.pop(key)[1]


class Memory(Cache):
    """The cache that all handles of a store share: the parts of segments that were read, by key and place."""

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        super().__init__(limit)
        self.frames = Cache(FRAMES_BYTES)
        """The contents of frames, by segment and place; frames that may hold erased payloads are not kept."""
        self.tails = Cache(TAILS_BYTES)
        """The rows of each session's tail, by its key."""
        self.watches = Watches()
        """The watches that the followers of a session share."""
