"""Open a session for one request that writes, and check the request's conditions.

Rule 1: with `If-Match` nothing is written unless the session still ends at the place that the client saw. This is
compared when the session was opened, and again in each plan of an append; see `treering.server.marks`.
Rule 2: a request that was done already is answered before Rule 1 is applied, since its first run has changed the
session.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from treering.api.async_session import AsyncSession
from treering.errors import ConflictError, TreeringError
from treering.ids import new_id
from treering.kinds import Kind
from treering.server.call import Call
from treering.server.views import place_of

_OF_REQUESTS: Final = uuid.UUID("5f2d8a52-2f3b-5c50-9c1d-9d6f6f0a7c11")
"""The UUID namespace of the ids that are made from keys of requests; never changed."""


class Opened:
    """A session opened for a request.

    Args:
        call: The request.
        session: The session; use `writable` to write to it.
        place: Where it ended when it was opened.
    """

    def __init__(self, call: Call, session: AsyncSession, place: str) -> None:
        self.session = session
        self._call = call
        self._place = place

    def writable(self) -> AsyncSession:
        """Return the session for writing; call it right before a write, once it is known that a write is needed.

        Raises:
            ConflictError: The session does not end at the place that the client saw.
        """
        expect(self._call, self._place)
        return self.session


@asynccontextmanager
async def opened(call: Call) -> AsyncIterator[Opened]:
    """Open the session of a call, shared with other writers, and close it.

    Raises:
        NotFoundError: There is no such session.
        SessionHeldError: Another process has it exclusively.
    """
    store, name = call.place
    async with store.session(name, shared=True, create=False) as session, within(call, session) as there:
        yield there


@asynccontextmanager
async def within(call: Call, session: AsyncSession) -> AsyncIterator[Opened]:
    """Check the conditions of a call in a session that stays open."""
    call.heads = session.heads
    try:
        yield Opened(call, session, await session.perform(place_of))
    except ConflictError:
        await _look_again(call, session)
        raise
    call.headers["etag"] = f'"{await session.perform(place_of)}"'


def expect(call: Call, place: str) -> None:
    """Compare the end of a session with the place that the client saw.

    Raises:
        ConflictError: It has another end.
    """
    if call.seen not in (None, place):
        raise ConflictError(
            f"the session has changed. expected={call.seen!r}, now={place!r}",
            kind=Kind.STALE,
            remedy="read it again, then decide",
        )


async def _look_again(call: Call, session: AsyncSession) -> None:
    """Read the current heads, to report them to the client."""
    try:
        await session.refresh()
    except TreeringError:
        return  # the first error is reported
    call.heads = session.heads


def request_key(call: Call) -> str | None:
    """Return the idempotency key of a request, or None."""
    return call.header("idempotency-key") or None


def ids_of(call: Call, count: int, *, about: str = "") -> list[str]:
    """Return ids for the records of a request: the same for the same key and session, or new ids without a key.

    Args:
        call: The request.
        count: How many.
        about: A node, if requests with the same key about other nodes have other ids.
    """
    key = request_key(call)
    if key is None:
        return [new_id() for _ in range(count)]
    session = call.request.path_params.get("key", "")
    said = f"{key}\n{session}\n{about}\n" if about else f"{key}\n{session}\n"
    return [uuid.uuid5(_OF_REQUESTS, f"{said}{index}").hex for index in range(count)]
