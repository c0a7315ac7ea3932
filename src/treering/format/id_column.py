"""Ids stored by column.

Our ids, those that `treering.ids` makes, are 16 bytes: the time goes into an integer column of differences, the other
ten bytes stay together. All other ids are foreign. They are texts in a sparse column, which stores their row numbers as
differences from the previous one.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from operator import lt
from typing import Final, TypeVar

import msgspec

from treering.format.integers import pack_differences, unpack_differences, unpack_integers
from treering.ids import time_of

_TIME_BYTES: Final = 6
_REST_BYTES: Final = 10

T = TypeVar("T")


class Ids(msgspec.Struct, frozen=True):
    """A column of ids."""

    times: bytes
    """Times of our ids in milliseconds: an integer column of differences."""
    rests: bytes
    """The last ten bytes of each of our ids."""
    foreign_rows: bytes
    foreign: list[bytes]
    """All other ids, as texts."""


def pack_ids(ids: Sequence[str]) -> Ids:
    """Return a column of ids."""
    times = [time_of(identifier) for identifier in ids]
    ours = [identifier for identifier, time in zip(ids, times, strict=True) if time is not None]
    foreign = [row for row, time in enumerate(times) if time is None]
    return Ids(
        times=pack_differences([time for time in times if time is not None]),
        rests=bytes.fromhex("".join(identifier[2 * _TIME_BYTES :] for identifier in ours)),
        foreign_rows=pack_differences(foreign),
        foreign=[encode_text(ids[row]) for row in foreign],
    )


class IdColumn:
    """The ids of a column; each id is decoded on demand.

    Args:
        column: As stored.
        count: How many ids it must hold; None if that is not known.

    Raises:
        ValueError, LookupError: It is malformed.
    """

    __slots__ = ("_foreign", "_foreign_rows", "_rests", "_times", "bounds")

    def __init__(self, column: Ids, count: int | None = None) -> None:
        self._rests = column.rests
        self._foreign = column.foreign
        ours, rest = divmod(len(self._rests), _REST_BYTES)
        if rest or count not in (None, ours + len(self._foreign)):
            raise ValueError("columns of ids differ in length")
        differences = unpack_integers(column.times, ours)
        self._times = array("q", list(accumulate(differences)))
        self._foreign_rows = unpack_differences(column.foreign_rows, len(self._foreign))
        if not are_rows(self._foreign_rows, len(self)):
            raise ValueError("column names a row that is not there")
        if ours and min(differences) >= 0:  # as usual: later records have later ids
            self.bounds = self._times[0], self._times[-1]
        else:
            self.bounds = min(self._times, default=-1), max(self._times, default=-1)
        """The least and the greatest time of our ids; -1 and -1 if there are none."""
        if ours and not 0 <= self.bounds[0] <= self.bounds[1] < 1 << 8 * _TIME_BYTES:
            raise ValueError("time of an id is out of range")

    def __len__(self) -> int:
        return len(self._times) + len(self._foreign_rows)

    def __getitem__(self, row: int) -> str:
        place = row
        if self._foreign_rows:
            before = bisect_left(self._foreign_rows, row)
            if before < len(self._foreign_rows) and self._foreign_rows[before] == row:
                return decode_text(self._foreign[before])
            place = row - before
        rest = self._rests[place * _REST_BYTES : (place + 1) * _REST_BYTES]
        return f"{self._times[place]:012x}{rest.hex()}"

    def time(self, row: int) -> int:
        """The time in the id of a row; 0 if it is foreign."""
        if not self._foreign_rows:
            return self._times[row]
        before = bisect_left(self._foreign_rows, row)
        if before < len(self._foreign_rows) and self._foreign_rows[before] == row:
            return 0
        return self._times[row - before]

    def find(self, identifier: str) -> int | None:
        """The last row with this id, or None."""
        time = time_of(identifier)
        if time is None:
            text, row = encode_text(identifier), None
            if text in self._foreign:
                row = self._foreign_rows[len(self._foreign) - 1 - self._foreign[::-1].index(text)]
            return row
        rest, place = bytes.fromhex(identifier[2 * _TIME_BYTES :]), len(self._rests)
        while (place := self._rests.rfind(rest, 0, place)) >= 0:
            number, odd = divmod(place, _REST_BYTES)
            if not odd and self._times[number] == time:
                return self._row_of(number)
            place += (
                _REST_BYTES - 1
            )  # the next match may overlap this one, which lay across two ids or has another time
        return None

    def _row_of(self, number: int) -> int:
        """The row of one of our ids, counted among them."""
        row = number
        for foreign in self._foreign_rows:
            if foreign > row:
                break
            row += 1
        return row

    @property
    def has_foreign(self) -> bool:
        return bool(self._foreign_rows)

    def foreign(self) -> list[tuple[int, bytes]]:
        """The rows of foreign ids, and the ids."""
        return list(zip(self._foreign_rows, self._foreign, strict=True))

    def texts(self) -> list[str]:
        """Return all ids."""
        if not self._times:
            return list(map(decode_text, self._foreign))
        return self._merged(_our_ids(self._times, self._rests), map(decode_text, self._foreign))

    def times(self) -> list[int]:
        """Return the time in each id, 0 for foreign ones."""
        return self._merged(self._times.tolist(), repeat(0))

    def _merged(self, ours: list[T], foreign: Iterable[T]) -> list[T]:
        """The values of our ids, with the values of foreign ids inserted at their rows."""
        if not self._foreign_rows:
            return ours
        merged: list[T] = []
        taken = 0
        for row, value in zip(self._foreign_rows, foreign, strict=False):
            start, taken = taken, taken + row - len(merged)
            merged += ours[start:taken]
            merged.append(value)
        return merged + ours[taken:]


def _our_ids(times: array[int], rests: bytes) -> list[str]:
    """Return our ids: the digits of all ids are made at once, and then cut."""
    if not times:
        return []
    stamps = array("q", times)
    if sys.byteorder == "little":
        stamps.byteswap()
    first, skipped = stamps.tobytes(), stamps.itemsize - _TIME_BYTES
    size = _TIME_BYTES + _REST_BYTES
    data = bytearray(size * len(times))
    for plane in range(_TIME_BYTES):
        data[plane::size] = first[skipped + plane :: stamps.itemsize]
    for plane in range(_REST_BYTES):
        data[_TIME_BYTES + plane :: size] = rests[plane::_REST_BYTES]
    return data.hex("\n", size).split("\n")


def are_rows(rows: Sequence[int], count: int) -> bool:
    """Return whether these are distinct rows out of `count`, in order."""
    return not rows or (rows[0] >= 0 and rows[-1] < count and all(map(lt, rows, rows[1:])))


def encode_text(text: str) -> bytes:
    """Return a text as columns store it."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Return the text that was given to `encode_text`.

    Raises:
        ValueError: The bytes are not such a text.
    """
    return data.decode("utf-8", "surrogatepass")
