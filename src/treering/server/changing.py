"""A session opened for one request that writes, with what the request expects of it.

Rule 1: with `If-Match` nothing is written unless the session ends where the client saw it end. It is compared when the
session was opened; what moves a head compares that head once more when it is written.
Rule 2: what an `Idempotency-Key` adds has ids made of it. So whoever repeats a request, to whichever worker, finds what
the first one added, and adds nothing.
Rule 3: what is done already is answered before Rule 1 is applied: whoever repeats a request has changed the session.
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
"""The namespace of the ids that are made of keys of requests; never changed."""


class Opened:
    """A session opened for a request.

    Args:
        call: The request.
        session: The session; `writable` gives it to be written.
        place: Where it ended when it was opened.
    """

    def __init__(self, call: Call, session: AsyncSession, place: str) -> None:
        self.session = session
        self._call = call
        self._place = place

    @property
    def is_expected(self) -> bool:
        """The session ends where the client saw it end, or the client does not say where."""
        return self._call.header("if-match") in (None, "*", self._place)

    def writable(self) -> AsyncSession:
        """Return the session to write: called right before, when it is known that there is something to write.

        Raises:
            ConflictError: It does not end where the client saw it end.
        """
        expect(self._call, self._place)
        return self.session


@asynccontextmanager
async def opened(call: Call) -> AsyncIterator[Opened]:
    """Open the session that a call is about, beside other writers, and close it.

    Raises:
        NotFoundError: There is none.
        SessionHeldError: Another process has it for itself.
    """
    store, name = call.place
    async with store.session(name, shared=True, create=False) as session:
        call.heads = session.heads
        try:
            yield Opened(call, session, await session.perform(place_of))
        except ConflictError:
            await _look_again(call, session)
            raise
        call.headers["etag"] = f'"{await session.perform(place_of)}"'


def expect(call: Call, place: str) -> None:
    """Compare where a session ends with what the client saw.

    Raises:
        ConflictError: It ends elsewhere.
    """
    wanted = call.header("if-match")
    if wanted not in (None, "*", place):
        raise ConflictError(
            f"the session has changed. expected={wanted!r}, now={place!r}",
            kind=Kind.STALE,
            remedy="read it again, then decide",
        )


async def _look_again(call: Call, session: AsyncSession) -> None:
    """Learn the heads that there are now, to tell the client."""
    try:
        await session.refresh()
    except TreeringError:
        return  # what happened first is told
    call.heads = session.heads


def request_key(call: Call) -> str | None:
    """Return what names a request among all of its session, or None."""
    return call.header("idempotency-key") or None


def ids_of(call: Call, count: int) -> list[str]:
    """Return ids for what a request adds: the same for the same request and session, else new ones."""
    key = request_key(call)
    if key is None:
        return [new_id() for _ in range(count)]
    session = call.request.path_params.get("key", "")
    return [uuid.uuid5(_OF_REQUESTS, f"{key}\n{session}\n{index}").hex for index in range(count)]
