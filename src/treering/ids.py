"""Types of ids and positions, a generator of ids in the order of time, and the clock.

All code gets the time from here: a clock may be set to any year, and nothing may fail because of it.
"""

from __future__ import annotations

import os
import time
from _thread import RLock  # as in `threading`, which most processes that resume do not import
from datetime import UTC, datetime, timedelta
from typing import NewType

SessionId = NewType("SessionId", str)
"""Any string, chosen by the user; unique within one store and namespace."""
NodeId = NewType("NodeId", str)
"""Unique within one session only: ids of imported nodes are kept verbatim."""
CheckpointId = NewType("CheckpointId", str)
Position = NewType("Position", int)
"""Place of a record in its journal, counted from 0."""

_SEQUENCE_BITS = 12
_NANOS_PER_MS = 1_000_000
_SEQUENCE_MASK = (1 << _SEQUENCE_BITS) - 1
_VERSION = 7 << _SEQUENCE_BITS
_VARIANT = 0b10 << 62  # in front of 62 random bits
_LAST_MS = 0xF << 44  # the year 10329; the 48 bits end 500 years later
_CLOCK_LAST_MS = 253_402_300_799_999  # the end of the year 9999: ISO 8601 has four digits for a year
_CLOCK_LAST_NS = _CLOCK_LAST_MS * _NANOS_PER_MS
_HEX_DIGITS = "0123456789abcdef"


class IdClock:
    """Makes UUIDs of version 7 (RFC 9562, method 3: a 12-bit fraction of the millisecond) that never go back.

    A value is `48-bit ms | 12-bit fraction`, incremented by one if the time did not advance, so ids of one generator
    sort in the order they were made. The order between generators is only approximate and never used for causality.
    Each open session has its own generator, which observes the session's ids: ids from a machine whose clock is far
    ahead do not affect other sessions.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # a signal handler may make an id in the middle of another one
        self._last = 0
        self._newest = ""  # the greatest id made here, which `observe` meets again with every record

    def new(self) -> str:
        """Return a new id: 32 lower-case hex digits, greater than every id returned or observed before."""
        value = (_now_ns() << _SEQUENCE_BITS) // _NANOS_PER_MS
        low = _VARIANT | int.from_bytes(os.urandom(8), "big") >> 2
        with self._lock:
            if value <= self._last:
                value = self._last + 1
            self._last = value
            high = value >> _SEQUENCE_BITS << 16 | _VERSION | value & _SEQUENCE_MASK
            self._newest = (high << 64 | low).to_bytes(16, "big").hex()  # half the work of formatting a number
            return self._newest

    def observe(self, identifier: str) -> None:
        """Make every later id greater than `identifier`, if that is a UUID of version 7; other ids are ignored.

        Ids that leave no room for greater ones are ignored, too: a damaged or hostile id does not end a session.
        """
        if identifier <= self._newest or (ms := time_of(identifier)) is None or ms >= _LAST_MS:
            return
        value = (ms << _SEQUENCE_BITS) | int(identifier[13:16], 16)
        with self._lock:
            if value > self._last:  # noqa: PLR1730  # at a call of `max`, a signal handler could make an id
                self._last = value


def _now_ns() -> int:
    """Return the nanoseconds since 1970, from 0 to the end of the year 9999: other times count as the nearest end."""
    try:
        now = time.time_ns()
    except OverflowError:  # beyond what Python can represent
        return _CLOCK_LAST_NS
    return now if 0 <= now <= _CLOCK_LAST_NS else min(max(now, 0), _CLOCK_LAST_NS)


def now_ms() -> int:
    """Return the milliseconds since 1970, from 0 to the end of the year 9999 whatever the clock shows."""
    return _now_ns() // _NANOS_PER_MS


def uptime() -> float:
    """Return seconds by a clock that is never set: only differences between times of one process have a meaning."""
    return time.monotonic()


def time_text(ms: int, timespec: str = "seconds") -> str:
    """Return a time as ISO 8601 in UTC; a time outside the calendar as the nearest one inside.

    Args:
        ms: Milliseconds since 1970.
        timespec: As for `datetime.isoformat`.
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(max(ms, 0), _CLOCK_LAST_MS))
    return moment.isoformat(timespec=timespec)


def time_of(identifier: str) -> int | None:
    """Return the milliseconds since 1970 inside an id that is a UUID of version 7 in hex digits; None for other ids."""
    ours = len(identifier) == 32 and identifier[12] == "7" and identifier[16] in "89ab"
    return int(identifier[:12], 16) if ours and not identifier.strip(_HEX_DIGITS) else None


_clock = IdClock()
new_id = _clock.new  # for ids that belong to no open session


def new_nonce() -> str:
    """Return 12 random hex digits, which name one writer, one life or one write; nonces have no order."""
    return os.urandom(6).hex()
