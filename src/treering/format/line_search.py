"""Find single record lines in the content of a frame, without splitting all of it.

Each record line begins with its position, and the lines of a frame are in order. So a line among some thousands is
found by looking at a dozen of them, and the lines behind it follow. A found line contains its own position; the caller
that decodes it checks its checksum.
"""

from collections.abc import Sequence
from typing import Final

STEPS_MAX: Final = 16
"""If the next wanted line is fewer lines away than this, the lines are passed one by one."""
_AT: Final = b'{"at":'


def lines_at(content: bytes, positions: Sequence[int]) -> dict[int, bytes] | None:
    """Return the lines of records by position, line breaks included.

    Args:
        content: Whole lines.
        positions: In order.

    Returns:
        None if a line is not found: another program wrote spaces into it, or the content is not a frame of these
        records.
    """
    found: dict[int, bytes] = {}
    place, there = 0, -STEPS_MAX
    for at in positions:
        if at - there < STEPS_MAX:
            for _ in range(at - there):
                place = content.find(b"\n", place) + 1
        else:
            place = _place_of(content, at, place)
        if not content.startswith(b'{"at":%d,' % at, place):
            return None
        start, place = place, content.find(b"\n", place) + 1
        found[at], there = content[start:place], at + 1
    return found


def _place_of(content: bytes, at: int, low: int) -> int:
    """Return the offset at which the line of a record begins, from `low` on; any offset if there is no such line."""
    high = len(content)
    while low < high:
        middle = (low + high) // 2
        place = max(low, content.rfind(b"\n", low, middle) + 1)
        digits = content[place + len(_AT) : content.find(b",", place, high)]
        if not digits.isdigit():
            break
        if (there := int(digits)) == at:
            return place
        if there < at:
            low = content.find(b"\n", middle) + 1 or high
        else:
            high = place
    return low
