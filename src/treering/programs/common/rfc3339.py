"""Times in the format of Go: RFC 3339 with up to nine digits after the second and any offset.

A datetime of Python has six digits. So the text is kept if milliseconds are not exact, and compared as nanoseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from treering.format.record import TIME_MS_MAX

_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def nanoseconds(value: object) -> int | None:
    """Return a text as nanoseconds since 1970; None if it is no such time."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        time = datetime.fromisoformat(f"{match[1]}T{match[2]}+00:00")
    except ValueError:
        return None
    offset = timedelta(hours=int(match[6] or 0), minutes=int(match[7] or 0)) * (-1 if match[5] == "-" else 1)
    return ((time - _EPOCH) - offset) // timedelta(seconds=1) * 10**9 + int((match[3] or "").ljust(9, "0"))


def read_time(value: object) -> int | None:
    """Return a text as milliseconds since 1970, truncated; None if it is no such time."""
    exact = nanoseconds(value)
    return None if exact is None or abs(exact // 10**6) > TIME_MS_MAX else exact // 10**6


def write_time(ms: int | None) -> str | None:
    """Return a time in Go's format (`time.Time.MarshalJSON`), in UTC and without trailing zeros."""
    if ms is None:
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return canonical(time.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


def canonical(value: object) -> str | None:
    """Return a time as Go would write it after reading it: without trailing zeros; None if it is no such time."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    digits = (match[3] or "").rstrip("0")
    zone = "Z" if match[4] or (match[6], match[7]) == ("00", "00") else f"{match[5]}{match[6]}:{match[7]}"
    return f"{match[1]}T{match[2]}{'.' if digits else ''}{digits}{zone}"
