"""What callers are told of the lease of a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from treering.ids import now_ms, uptime
from treering.session.replica import Replica


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a session for itself, and how long: see `Session.claim`."""

    number: int
    """Greater than that of every lease of this session before: a fencing token for other systems."""
    holder: str
    """One line about the process that has it."""
    ttl: float
    """After so many seconds without a sign of life another worker may take it over."""
    until: datetime | None
    """Nobody takes it over before that, by this computer's clock. None: another handle has it, which alone knows."""


def lease_of(replica: Replica) -> Lease | None:
    """Return the lease of a session as of the last read; None if nobody has it."""
    if replica.known_view is None or not (there := replica.known_view.lease).by:
        return None
    own, until = replica.claim, None
    if own is not None and there.by == replica.nonce:
        left_ms = own.ttl_ms - (uptime() - own.since) * 1000
        until = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms() + left_ms)
    return Lease(number=there.number, holder=there.holder, ttl=there.ttl / 1000, until=until)
