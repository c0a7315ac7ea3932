"""Times in the format of JavaScript: ISO 8601 in UTC, with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from treering.format.record import TIME_MS_MAX

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MINUTE_MS: Final = 60 * 1000


def read_time(value: object) -> int | None:
    """Return an ISO 8601 text, or a number of milliseconds, as milliseconds since 1970; None for any other value."""
    if isinstance(value, int | float):
        return int(value) if abs(value) <= TIME_MS_MAX else None
    try:
        time = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // _MILLISECOND


@lru_cache(maxsize=16)  # each is needed when an entry is read, and when it is written for the comparison
def write_time(ms: int | None) -> str | None:
    """Return a time in the format of JavaScript."""
    if ms is None:
        return None
    try:
        minute = _write_minute(ms // _MINUTE_MS)
    except OverflowError:
        return None
    seconds, rest = divmod(ms % _MINUTE_MS, 1000)
    return f"{minute}:{seconds:02}.{rest:03}Z"


@lru_cache(maxsize=16)  # several entries share a minute, and formatting the date is the slowest part
def _write_minute(minutes: int) -> str:
    return (_EPOCH + timedelta(minutes=minutes)).isoformat(timespec="minutes").removesuffix("+00:00")
