"""One request to the API, with what its handler needs: the store, the session, and the sent data."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import ClientDisconnect, Request

from treering.api.async_store import AsyncStore
from treering.api.async_view import AsyncView
from treering.errors import UsageError
from treering.format.paths import namespaces_in
from treering.kinds import Kind
from treering.server.keys import key_of, named_by
from treering.server.limits import BODY_BYTES_MAX, NAME_CHARACTERS_MAX
from treering.server.route import JSON, LINES
from treering.server.views import Kept, Views
from treering.store.info import SessionInfo

if TYPE_CHECKING:
    from treering.server.searching import Searches
    from treering.server.streaming import Writers

StoreFor = Callable[[Request], AsyncStore | Awaitable[AsyncStore]]
"""Returns the store for a request's sender; raises `starlette.exceptions.HTTPException` if there is none."""


class Service(NamedTuple):
    """Objects that all requests of one application share."""

    store_for: StoreFor
    read_only: bool
    views: Views
    searches: Searches | None
    """None if this server has no search."""
    writers: Writers


class Call:
    """One request.

    Args:
        service: Objects that it shares with other requests.
        request: The request.
        store: The store for its sender.
    """

    def __init__(self, service: Service, request: Request, store: AsyncStore) -> None:
        self.service = service
        self.request = request
        self.store = store
        self.headers: dict[str, str] = {}
        """Headers of the response."""
        self.heads: Mapping[str, str | None] | None = None
        """The heads of the session when it was opened for writing; reported in a conflict."""

    @classmethod
    async def of(cls, service: Service, request: Request) -> Call:
        """Make the call for a request."""
        found = service.store_for(request)
        return cls(service, request, await found if isawaitable(found) else found)

    def name(self, name: str) -> str:
        """Return a named part of the URL's path."""
        return str(self.request.path_params[name])

    @property
    def place(self) -> tuple[AsyncStore, str]:
        """The store and the name of the session in the URL.

        Raises:
            NotFoundError: The key is not valid.
        """
        return self.place_of(self.name("key"))

    def place_of(self, key: str) -> tuple[AsyncStore, str]:
        """Return the store and the name of the session that a key stands for.

        Raises:
            NotFoundError: The key is not valid.
        """
        namespaces, session = named_by(key)
        store = self.store
        for each in namespaces:
            store = store.namespace(each)
        return store, session

    def key_of(self, info: SessionInfo) -> str:
        """Return the key of a session in a list of this store."""
        above = len(namespaces_in(self.store.place.prefix))
        return key_of(info.namespace[above:], info.id)

    async def kept(self) -> Kept:
        """Return the kept view, and what was computed from it, of the session in the URL, up to date.

        Raises:
            NotFoundError: There is none.
        """
        kept = await self.service.views.get(*self.place)
        self.headers["etag"] = f'"{kept.place}"'
        return kept

    async def view(self) -> AsyncView:
        """Return the view of the session in the URL, up to date.

        Raises:
            NotFoundError: There is none.
        """
        return (await self.kept()).view

    def header(self, name: str) -> str | None:
        """Return the value of a header, without quotes around it; None if there is none.

        Raises:
            UsageError: It is too long.
        """
        value = self.request.headers.get(name)
        if value is not None and len(value) > NAME_CHARACTERS_MAX:
            raise UsageError(f"a header is too long. name={name!r}, most={NAME_CHARACTERS_MAX}", kind=Kind.REQUEST)
        return None if value is None else value.strip().strip('"')

    @property
    def seen(self) -> str | None:
        """The place of the session that the client saw, from `If-Match`; None if any will do.

        A proxy that compresses answers marks their `ETag` as weak (`W/"..."`). It stands for the same place.
        """
        value = self.header("if-match")
        return None if value in (None, "*") else value.removeprefix("W/").strip('"')

    async def body(self) -> bytes:
        """Read the body.

        Raises:
            UsageError: It is too long, or its type is not JSON.
        """
        parts, size = [], 0
        async for part in self.request.stream():
            size += len(part)
            if size > BODY_BYTES_MAX:
                raise UsageError(f"a body is too long. most={BODY_BYTES_MAX}", kind=Kind.REQUEST_TOO_LARGE)
            parts.append(part)
        if size:
            self._require(JSON)
        return b"".join(parts)

    async def lines(self) -> AsyncIterator[bytes]:
        """Read the lines of the body while it is being sent; stops when the client ends the body or disconnects.

        Raises:
            UsageError: A line is too long, or the body's type is not lines of JSON.
        """
        rest = b""
        self._require(LINES)
        with contextlib.suppress(ClientDisconnect):
            async for part in self.request.stream():
                *whole, rest = (rest + part).split(b"\n")
                for line in filter(bytes.strip, whole):
                    yield line
                if len(rest) > BODY_BYTES_MAX:
                    raise UsageError(f"a line is too long. most={BODY_BYTES_MAX}", kind=Kind.REQUEST_TOO_LARGE)
            if rest.strip():
                yield rest

    def _require(self, wanted: str) -> None:
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != wanted:
            raise UsageError(
                f"a body is JSON here. content_type={kind[:100]!r}",
                kind=Kind.REQUEST,
                remedy=f"send it with `Content-Type: {wanted}`",
            )
