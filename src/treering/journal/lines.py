"""A sequence of record lines that costs as much to lengthen as is added, however long it is.

A tail on a disk is lengthened by every append until it is sealed. A tuple would be copied each time: some thousand
references, each to an object that is not in the processor's cache any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload


class Lines(Sequence[bytes]):
    """Lines that never change. A longer sequence shares the list that holds them, of which each sees only its part.

    Not for several threads at once.
    """

    __slots__ = ("_count", "_shared", "size")

    def __init__(self, shared: list[bytes], size: int) -> None:
        self._shared = shared
        self._count = len(shared)
        self.size = size
        """Bytes of all of them."""

    def plus(self, more: Sequence[bytes]) -> Lines:
        """Return these lines and then `more`. They are copied if another sequence went on from here before."""
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
    """Bytes of some lines."""
    return lines.size if isinstance(lines, Lines) else sum(map(len, lines))
