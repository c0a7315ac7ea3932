"""Sequences like tuples, whose items are made when they are accessed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """Compares like a tuple of its items; a slice is a tuple."""

    __slots__ = ()

    @abstractmethod
    def _make(self, index: int) -> T:
        """Return the item at an index, which is not negative."""

    def _make_all(self, indices: Iterable[int]) -> Iterator[T]:
        """Yield the items at some indices."""
        return map(self._make, indices)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        chosen = range(len(self))[index]
        return self._make(chosen) if isinstance(chosen, int) else tuple(self._make_all(chosen))

    def __iter__(self) -> Iterator[T]:
        return self._make_all(range(len(self)))

    def __reversed__(self) -> Iterator[T]:
        return self._make_all(range(len(self))[::-1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | LazySequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # as a tuple of items that hold dictionaries

    def __repr__(self) -> str:
        return f"<{len(self)} items, made when they are looked at>"
