"""One request to the API, and what its handler needs: the store, the session it is about, what it was sent."""

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
"""Returns the store of whoever sent a request; raises `starlette.exceptions.HTTPException` if there is none."""


class Service(NamedTuple):
    """What all requests of one application share."""

    store_for: StoreFor
    read_only: bool
    views: Views
    searches: Searches | None
    """None: this server has no search."""
    writers: Writers


class Call:
    """One request.

    Args:
        service: What it shares with others.
        request: The request.
        store: The store of whoever sent it.
    """

    def __init__(self, service: Service, request: Request, store: AsyncStore) -> None:
        self.service = service
        self.request = request
        self.store = store
        self.headers: dict[str, str] = {}
        """Of the answer."""
        self.heads: Mapping[str, str | None] | None = None
        """Of the session as it was when it was opened to be written: told in a conflict."""

    @classmethod
    async def of(cls, service: Service, request: Request) -> Call:
        """Begin to answer a request."""
        found = service.store_for(request)
        return cls(service, request, await found if isawaitable(found) else found)

    def name(self, name: str) -> str:
        """Return a name out of the path of the URL."""
        return str(self.request.path_params[name])

    @property
    def place(self) -> tuple[AsyncStore, str]:
        """The store and the name of the session that the URL is about.

        Raises:
            NotFoundError: There is no such key.
        """
        namespaces, session = named_by(self.name("key"))
        store = self.store
        for each in namespaces:
            store = store.namespace(each)
        return store, session

    def key_of(self, info: SessionInfo) -> str:
        """Return the key of a session in a list of this store."""
        above = len(namespaces_in(self.store.place.prefix))
        return key_of(info.namespace[above:], info.id)

    async def kept(self) -> Kept:
        """Return what is kept of the session that the URL is about, up to date.

        Raises:
            NotFoundError: There is none.
        """
        kept = await self.service.views.get(*self.place)
        self.headers["etag"] = f'"{kept.place}"'
        return kept

    async def view(self) -> AsyncView:
        """Return the view of the session that the URL is about, up to date.

        Raises:
            NotFoundError: There is none.
        """
        return (await self.kept()).view

    def header(self, name: str) -> str | None:
        """Return a header that says what is wanted, without quotes around it; None if there is none.

        Raises:
            UsageError: It is too long.
        """
        value = self.request.headers.get(name)
        if value is not None and len(value) > NAME_CHARACTERS_MAX:
            raise UsageError(f"a header is too long. name={name!r}, most={NAME_CHARACTERS_MAX}", kind=Kind.REQUEST)
        return None if value is None else value.strip().strip('"')

    async def body(self) -> bytes:
        """Read the body.

        Raises:
            UsageError: It is too long, or of another type than JSON.
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
        """Read the lines of the body while it is being sent; it ends where its client ends it or is gone.

        Raises:
            UsageError: A line is too long, or the body of another type than lines of JSON.
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
