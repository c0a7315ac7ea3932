"""Integers stored by column: as narrow as possible, and by byte plane, which compresses better than item by item.

An integer column is one byte, the width of its items (1, 2, 4 or 8), then the items as signed little-endian integers:
first the lowest byte of every item, then the next one.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

_WIDTHS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}


def pack_integers(values: Sequence[int]) -> bytes:
    """Return an integer column. Values must fit into 64 bits."""
    width, items = _narrowest(values)
    if sys.byteorder == "big":
        items.byteswap()
    data = items.tobytes()
    return bytes([width]) + b"".join(data[plane::width] for plane in range(width))


def _narrowest(values: Sequence[int]) -> tuple[int, array[int]]:
    ends = min(values, default=0), max(values, default=0)
    bits = 1 + max((end if end >= 0 else ~end).bit_length() for end in ends)
    width = next(width for width in _WIDTHS if bits <= 8 * width)
    return width, array(_WIDTHS[width], values)


def count_of(column: bytes) -> int:
    """Return how many items an integer column has.

    Raises:
        ValueError: The bytes are no integer column.
    """
    width = column[0] if column else 0
    count, rest = divmod(len(column) - 1, width) if width in _WIDTHS else (0, 1)
    if rest:
        raise ValueError("integer column is malformed")
    return count


def unpack_integers(column: bytes, count: int | None = None) -> list[int]:
    """Return the items of an integer column; arguments and errors are those of `unpack_array`."""
    return unpack_array(column, count).tolist()


def unpack_array(column: bytes, count: int | None = None) -> array[int]:
    """Return the items of an integer column, in an array of the stored width.

    Args:
        column: As stored.
        count: How many items there must be, if that is known; checked before memory is allocated for them.

    Raises:
        ValueError: The bytes are not an integer column, or have another number of items.
    """
    found = count_of(column)
    if count is not None and found != count:
        raise ValueError("columns differ in length")
    width, count = column[0], found
    if width == 1:
        return array("b", column[1:])
    data = bytearray(width * count)
    for plane in range(width):
        data[plane::width] = column[1 + plane * count : 1 + (plane + 1) * count]
    items = array(_WIDTHS[width], bytes(data))
    if sys.byteorder == "big":
        items.byteswap()
    return items


def pack_differences(values: Sequence[int]) -> bytes:
    """Return an integer column with each value's difference from the previous one."""
    return pack_integers([after - before for before, after in pairwise((0, *values))])


def unpack_differences(column: bytes, count: int | None = None) -> list[int]:
    """Return the values of a column of differences; arguments and errors are those of `unpack_integers`."""
    return list(accumulate(unpack_integers(column, count)))
