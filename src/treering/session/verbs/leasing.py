"""Give one worker exclusive use of a session, across computers, too: take its lease, renew it, release it.

The rules are in `treering.journal.lease`. A handle adds to them: it waits for another worker up to a limit, reads all
records made before it took the lease, and stops when it loses the lease.
"""

from __future__ import annotations

import msgspec

from treering import journal
from treering.errors import ConflictError, SessionDeletedError, SessionHeldError, TreeringError, UsageError
from treering.ids import new_nonce, uptime
from treering.journal.register import Attempts
from treering.kinds import Kind
from treering.session.replica import Claim
from treering.session.writer import Writer
from treering.storage.effects import Job, Wait
from treering.storage.requests import Get, Steps, Unchanged

TTL_SECONDS_MAX = 86_400
LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 0.05, 1.0  # between two looks while waiting: one small GET each
LOOKS_PER_TTL = 20


def claim(writer: Writer, *, ttl: float | None = None, wait: float = 0.0, opens: bool = False) -> Job[None]:
    """Lock the session; with `ttl` also take its lease, and create the session if it does not exist.

    Args:
        writer: The session.
        ttl: Seconds after which another worker may take the lease over if this one gave no sign of life: it recorded
            nothing, and did not call `renew`. None: lock only.
        wait: Maximum number of seconds to wait for another worker; only with `ttl`.
        opens: The caller is opening the session, and has seen nothing of it: if it is deleted meanwhile, it is opened
            again, as one that does not exist.

    Raises:
        SessionDeletedError: Another process deleted it.
        SessionHeldError: Another worker has it, or another process of this computer has the session open.
        UsageError: The session was opened shared, or a number is out of range.
        ConflictError: This handle was stopped before by another writer; open the session again.
        UnavailableError: The store did not answer. The lease may be taken; call again.
    """
    if ttl is None:
        writer.lock()
        return
    ttl_ms = _milliseconds(ttl)
    if writer.options.shared:
        raise UsageError(
            "a lease is for one writer; this session was opened shared",
            kind=Kind.LEASE,
            remedy="open it without shared=True",
        )
    if not wait >= 0:
        raise UsageError(f"wait must be at least 0. got={wait!r}", kind=Kind.LEASE)
    detector = writer.detector() if writer.detector is not None else journal.lease.FailureDetector()
    began, looks = detector.clock(), False
    while True:
        try:
            yield from _lock_and_take(writer, ttl_ms, detector, looks=looks, opens=opens)
        except SessionHeldError:
            left = began + wait - detector.clock()
            if looks and left <= 0:
                raise
        else:
            return
        if looks:
            yield Wait(min(left, _pause(writer, detector, ttl)))
        looks = True  # the session in memory may be out of date


def renew(writer: Writer, *, ttl: float | None = None) -> Steps[None]:
    """Keep the lease for another `ttl` seconds from now on: one write. Every append renews the lease, too.

    Call it before a long turn, with a `ttl` that is longer than the turn, or from time to time during the turn.

    Args:
        writer: The session.
        ttl: Seconds from now on; by default the `ttl` of `claim`, or of the last call.

    Raises:
        LeaseLostError: Another worker took it. Stop: only that worker's records count now.
        UsageError: This handle has no lease, or `ttl` is out of range.
        UnavailableError: The store did not answer; the lease may be renewed.
    """
    own = writer.replica.claim
    if own is None:
        raise UsageError("this handle has no lease", kind=Kind.LEASE, remedy="take it with `claim(ttl=...)`")
    ttl_ms = own.ttl_ms if ttl is None else _milliseconds(ttl)
    _count_on_less(writer, ttl_ms)
    attempts = Attempts(writer.keys.tail)
    while attempts.another():
        yield from writer.appender.begin()
        began = uptime()
        view = yield from journal.lease.renew(
            writer.replica.view, own.number, by=writer.replica.nonce, ttl_ms=ttl_ms, nonce=new_nonce()
        )
        if view is not None:
            writer.replica.note(view)
            writer.replica.claim = Claim(view.lease.number, ttl_ms, began)
            return
        yield from writer.replica.catch_up()


def release(writer: Writer) -> Steps[None]:
    """Release the lease, so that another worker can take it at once; does nothing if this handle has none.

    A handle that lost it stops: its next call that records anything raises `LeaseLostError`.
    """
    doubt = writer.replica.claims
    if doubt is not None:  # it had no answer, and may have been recorded
        yield from writer.replica.catch_up()
    number = _last_number(writer)
    if not number and doubt is None:
        return
    writer.replica.claim = None  # also if the store does not answer: the lease must not count as lost then
    writer.save()
    attempts = Attempts(writer.keys.tail)
    while attempts.another():
        seen = writer.replica.view
        view = yield from journal.lease.release(seen, by=writer.replica.nonce, nonce=new_nonce(), doubt=doubt)
        if view is not None:
            writer.replica.claims = None
            writer.replica.note(view)
            if number and view.lease.number > number:
                writer.replica.stop(journal.lease.lost(view, number))
            return
        yield from writer.replica.catch_up()
        number = _last_number(writer) or number


def _last_number(writer: Writer) -> int:
    """Return the number of the lease that a handle took last, even if the store did not answer; 0 if it has none."""
    view, claim = writer.replica.known_view, writer.replica.claim
    if view is not None and view.lease.by == writer.replica.nonce:
        return view.lease.number
    return claim.number if claim is not None else 0


def give_back(writer: Writer) -> Steps[None]:
    """Release the lease when the session is closed. If that fails, the lease expires by itself."""
    try:
        yield from release(writer)
    except TreeringError:
        return


def _lock_and_take(
    writer: Writer, ttl_ms: int, detector: journal.lease.FailureDetector, *, looks: bool, opens: bool
) -> Steps[None]:
    """Lock the session and take its lease, after another look if `looks`; for `opens` see `claim`."""
    deletions = Attempts(writer.keys.tail)
    while deletions.another():
        try:
            if looks:
                yield from _look_again(writer)
            writer.lock()
            yield from _take(writer, ttl_ms, detector)
        except SessionDeletedError:
            if not opens:
                raise
            yield from writer.open()
        else:
            return


def _take(writer: Writer, ttl_ms: int, detector: journal.lease.FailureDetector) -> Steps[None]:
    attempts = Attempts(writer.keys.tail)
    _count_on_less(writer, ttl_ms)
    while attempts.another():
        yield from _begin(writer)
        began = uptime()
        writer.replica.claims = writer.replica.view.tail_version
        try:
            view = yield from journal.lease.take(
                writer.replica.view,
                by=writer.replica.nonce,
                holder=writer.holder(),
                ttl_ms=ttl_ms,
                nonce=new_nonce(),
                detector=detector,
                alone=writer.lock(),
            )
        except SessionHeldError:
            writer.replica.claims = None
            raise
        writer.replica.claims = None
        if view is not None:
            writer.replica.note(view)
            writer.replica.claim = Claim(view.lease.number, ttl_ms, began)
            return
        yield from writer.refresh()


def _count_on_less(writer: Writer, ttl_ms: int) -> None:
    """Assume a shorter time from now on: it may be in force even if the store does not answer."""
    own = writer.replica.claim
    if own is not None and ttl_ms < own.ttl_ms:
        writer.replica.claim = msgspec.structs.replace(own, ttl_ms=ttl_ms)
        writer.save()


def _begin(writer: Writer) -> Steps[None]:
    """Create the session, or open it if another worker created it first."""
    if writer.replica.exists:
        yield from writer.appender.begin()
        return
    try:
        yield from writer.appender.begin()
    except SessionHeldError:
        raise
    except ConflictError:
        writer.replica.stopped = None
        yield from writer.open()
        yield from writer.appender.begin()


def _pause(writer: Writer, detector: journal.lease.FailureDetector, ttl: float) -> float:
    """Return how long to wait before the next look: about as long as the holder has left, if that is known."""
    seconds, view = min(ttl / LOOKS_PER_TTL, LOOK_SECONDS_MAX), writer.replica.known_view
    if view is not None and view.lease.by:
        seconds = min(seconds, detector.seconds_left(view))
    return max(seconds, LOOK_SECONDS_MIN)  # its time may be over while its process still has the lock


def _look_again(writer: Writer) -> Steps[None]:
    """Read the session again if its tail has changed: one GET without a body if it has not."""
    if not writer.replica.exists:
        return
    tail = writer.replica.view.tail_version
    (answer,) = yield (Get(writer.keys.tail, unless=tail or None, register=True),)
    if not isinstance(answer, Unchanged):
        yield from writer.refresh()


def _milliseconds(seconds: float) -> int:
    if not 0 < seconds <= TTL_SECONDS_MAX:
        raise UsageError(
            f"a lease lasts more than 0 and at most {TTL_SECONDS_MAX} seconds. got={seconds!r}", kind=Kind.LEASE
        )
    return max(1, round(seconds * 1000))
