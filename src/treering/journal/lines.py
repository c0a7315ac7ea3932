"""A sequence of record lines whose extension costs only as much as is added, however long it is.

Every append extends a tail on disk until it is sealed. A tuple would be copied each time: some thousand references,
each to an object that is no longer in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload


class Lines(Sequence[bytes]):
    """Immutable lines. A longer sequence shares their list; each sequence sees only its part of it.

    Not for several threads at once.
    """

    __slots__ = ("_count", "_shared", "size")

    def __init__(self, shared: list[bytes], size: int) -> None:
        self._shared = shared
        self._count = len(shared)
        self.size = size
        """Total bytes."""

    def plus(self, more: Sequence[bytes]) -> Lines:
        """Return these lines and then `more`. They are copied if another sequence has extended the list already."""
        shared = self._shared if len(self._shared) == self._count else self._shared[: self._count]
        shared += more
        return Lines(shared, self.size + sum(map(len, more)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return islice(self._shared, self._count)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, int):
            return self._shared[range(self._count)[index]]
        if index.indices(self._count) == (0, self._count, 1):
            return self
        return tuple(self._shared[: self._count][index])


def joined(lines: Sequence[bytes], more: Sequence[bytes]) -> Lines:
    """Return `lines` and then `more`."""
    return (lines if isinstance(lines, Lines) else Lines(list(lines), size_of(lines))).plus(more)


def size_of(lines: Sequence[bytes]) -> int:
    """The total bytes of lines."""
    return lines.size if isinstance(lines, Lines) else sum(map(len, lines))
