"""The lease of a session as callers see it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from treering.ids import now_ms, uptime
from treering.session.replica import Replica


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The lease of a session: which process has exclusive use of it, and for how long; see `Session.claim`."""

    number: int
    """Greater than the number of every earlier lease of this session: a fencing token for other systems."""
    holder: str
    """One line about the process that has it."""
    ttl: float
    """After this many seconds without a sign of life another worker may take it over."""
    until: datetime | None
    """No other worker takes it over before this time, by this computer's clock. None: another handle has the lease, and
    only that handle knows the time."""


def lease_of(replica: Replica) -> Lease | None:
    """Return the lease of a session as of the last read; None if no worker has it."""
    if replica.known_view is None or not (there := replica.known_view.lease).by:
        return None
    own, until = replica.claim, None
    if own is not None and there.by == replica.nonce:
        left_ms = own.ttl_ms - (uptime() - own.since) * 1000
        until = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms() + left_ms)
    return Lease(number=there.number, holder=there.holder, ttl=there.ttl / 1000, until=until)
