"""Leases: one worker has exclusive use of a session. The tail, which every append swaps, names that worker.

Rule 1: a worker takes a lease by swapping the tail that it read. So it knows all records, and every write of the
previous holder is refused from then on, however late it arrives.
Rule 2: a lease is taken only if no worker has it, or if no sign of life was seen for the lease's time to live. A sign
of life is a change that only the holder makes: of the lease's number, of its renewals, or of the end of the records. A
waiting worker counts from when it saw the newest sign, by its own clock; clocks of two computers are never compared.
Rule 3: while a worker has the lease, no other worker appends. A worker that lost its lease gets `LeaseLostError` at its
next append, and stops.
Rule 4: each lease has a number, greater than all before in this life of the session.
Rule 5: only its holder gives it back.

Theory of operation
-------------------
No promise about records depends on time. If a worker was wrongly taken for dead, its next append is refused, as the
tail has changed, and it reads that another worker has the lease. If no worker took the lease, its append counts,
however long ago the lease expired. Each append changes the tail, so it renews the lease at no extra cost.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import msgspec

from treering.errors import LeaseLostError, SessionHeldError
from treering.format.register import Lease, Tail
from treering.ids import uptime
from treering.journal.append import next_header, rewrite_tail
from treering.journal.register import Swapped, TailRegister
from treering.journal.view import View
from treering.kinds import Kind
from treering.storage.requests import ABSENT, Steps, Version

HOLDER_CHARS_MAX = 200
SEEN_MAX = 10_000  # sessions whose signs of life are remembered at once


class _Sign(NamedTuple):
    """Values that only the holder of a lease changes; two equal signs mean that it did nothing in between."""

    life: str
    number: int
    renewed: int
    end: int


class FailureDetector:
    """Knows when this process first saw the newest sign of life of each holder. Thread-safe.

    Args:
        clock: Returns monotonic seconds; see `treering.ids.uptime`.
    """

    def __init__(self, clock: Callable[[], float] = uptime) -> None:
        self.clock = clock
        self._seen: dict[str, tuple[_Sign, float]] = {}
        self._lock = Lock()

    def seconds_left(self, view: View) -> float:
        """Return for how long this process still has to take the holder for alive; 0: the lease has expired."""
        lease, key = view.lease, view.keys.tail
        sign = _Sign(view.life, lease.number, lease.renewed, view.end)  # rule: sign-of-holder
        with self._lock:
            now = self.clock()
            known = self._seen.get(key)
            if known is None or known[0] != sign:
                self._seen.pop(key, None)  # so that the oldest sign comes first
                known = self._seen[key] = sign, now
                if len(self._seen) > SEEN_MAX:
                    del self._seen[next(iter(self._seen))]
        return max(0.0, known[1] + lease.ttl / 1000 - now)


def take(
    view: View, *, by: str, holder: str, ttl_ms: int, nonce: str, detector: FailureDetector, alone: bool = False
) -> Steps[View | None]:
    """Take the lease of a session: one PUT.

    Args:
        view: The registers as last read.
        by: The nonce of the writer.
        holder: One line that describes this process, for people.
        ttl_ms: After how many milliseconds without a sign of life another worker may take it.
        nonce: Names the tail.
        detector: Knows the holder's signs of life that this process saw.
        alone: This process has the only lock on the session, so the previous holder has ended.

    Returns:
        The new registers; None if another process changed the tail since it was read, so that it has to be read again.

    Raises:
        SessionHeldError: Another worker has it.
        UnavailableError: The store did not answer; the lease may be taken now, later, or never.
    """
    there = view.lease
    if there.by not in ("", by) and not alone and detector.seconds_left(view) > 0:  # rule: spare-the-holder
        raise held(view, detector.seconds_left(view))
    number = there.number + 1  # rule: raise-number
    return (yield from _swap(view, Lease(number=number, by=by, holder=holder[:HOLDER_CHARS_MAX], ttl=ttl_ms), nonce))


def renew(view: View, number: int, *, by: str, ttl_ms: int, nonce: str) -> Steps[View | None]:
    """Give a sign of life, and set the time to live: one PUT. See `take`.

    Raises:
        LeaseLostError: Another worker took it.
    """
    require(view, number, by=by)
    return (
        yield from _swap(view, msgspec.structs.replace(view.lease, ttl=ttl_ms, renewed=view.lease.renewed + 1), nonce)
    )


def release(view: View, *, by: str, nonce: str, doubt: Version | None = None) -> Steps[View | None]:
    """Give a lease back, so that another worker can take it at once: one PUT, none if it is lost. See `take`.

    Args:
        view: The registers as last read.
        by: The nonce of the writer.
        nonce: Names the tail.
        doubt: The version of the tail that a claim without an answer is to replace. If the tail still has it, it is
            rewritten, so that the claim is refused when it arrives.
    """
    if view.lease.by != by:  # rule: release-own
        if view.tail_version != doubt:
            return view
        return (yield from rewrite_tail(view, nonce))  # rule: fence-claim
    return (yield from _swap(view, Lease(number=view.lease.number), nonce))


def _swap(view: View, lease: Lease, nonce: str) -> Steps[View | None]:
    """Replace the tail by one with this lease."""
    register = TailRegister(view.keys)
    if view.tail_version == ABSENT:
        yield from register.put_tombstone(nonce)
        return None
    header = msgspec.structs.replace(next_header(view, nonce), lease=lease)
    tail = Tail(header=header, lines=view.unsealed_lines)
    # Lists tell by the time of the log when a session was active; a lease is no activity.
    outcome = yield from register.replace(tail, expect=view.tail_version, keeps_time=True)  # rule: take-by-swap
    return view.with_tail(tail, outcome.version) if isinstance(outcome, Swapped) else None


def require(view: View, number: int, *, by: str) -> None:
    """Check that a writer may append: it has the lease, or took none and no other worker has one.

    Args:
        view: The registers as last read.
        number: The number of the lease that it took; 0 if it has none.
        by: The nonce of the writer.

    Raises:
        LeaseLostError: It had the lease, and another worker took it.
        SessionHeldError: Another worker has the lease.
    """
    if view.lease.by == by:  # even if it does not know the number: it may have taken the lease and got no answer
        return
    if number:
        raise lost(view, number)
    if view.lease.by:
        raise held(view)


def lost(view: View, number: int) -> LeaseLostError:
    """Return the error for a worker whose lease another worker took."""
    now = view.lease
    since = f"taken over. by={now.holder!r}" if now.by else "taken over, and given back since"
    return LeaseLostError(
        f"the lease of session {view.keys.session!r} was {since}, number={number}, now={now.number}",
        key=view.keys.tail,
        remedy="stop this work: what the other worker records counts; open the session again to wait for it",
    )


def held(view: View, left_seconds: float | None = None) -> SessionHeldError:
    """Return the error for a writer that finds that another worker has the lease."""
    lease = view.lease
    left = "" if left_seconds is None else f", free in {left_seconds:.1f}s if it is dead"
    return SessionHeldError(
        f"a worker has the lease. holder={lease.holder!r}, number={lease.number}, ttl={lease.ttl / 1000:g}s{left}",
        kind=Kind.LEASED,
        key=view.keys.tail,
        remedy="wait for it with `claim(ttl=..., wait=...)`, or look at the session with a view",
    )
