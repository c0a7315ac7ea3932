"""The application: routes, checks and pages; it runs alone, or is mounted into another application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route as Path

import treering
from treering.api.async_store import AsyncStore
from treering.errors import AccessError, ConflictError, NotFoundError, TreeringError, UsageError
from treering.kinds import Kind
from treering.server.call import Call, Service, StoreFor
from treering.server.errors import accident, failure
from treering.server.limits import QUERY_BYTES_MAX
from treering.server.pages import pages
from treering.server.route import Route
from treering.server.searching import Searches
from treering.server.security import ALWAYS, Guard, TokenCheck
from treering.server.streaming import Writers
from treering.server.table import ROUTES
from treering.server.views import Views

API = "/api/v1"


def app(
    store: AsyncStore | None = None,
    *,
    store_for: StoreFor | None = None,
    token: str | None = None,
    read_only: bool = False,
    search: bool = False,
    hosts: Collection[str] | None = None,
    origins: Collection[str] = (),
) -> Starlette:
    """Return an ASGI application that serves a store over HTTP, with its viewer.

    It can be mounted into a Starlette or FastAPI application, at any path.

    Args:
        store: The store, the same for every request.
        store_for: Instead of `store`, a function or coroutine function that returns the store for a request's sender,
            such as `root.namespace(user)`. It raises `HTTPException` if it knows no sender.
        token: The token that requests must send as `Authorization: Bearer`; None if the host application checks
            senders.
        read_only: Refuse everything that writes.
        search: Offer search, with an index in the cache folder of the server's user, as `treering search` uses it.
        hosts: Host names of the server in addition to addresses and `localhost`; None allows any.
        origins: Other sites whose pages may send requests, such as `https://chat.example`.

    Raises:
        UsageError: Both `store` and `store_for` are given, or neither.
    """
    if (store is None) == (store_for is None):
        raise UsageError("a server needs a store, or a function from a request to one", kind=Kind.OPTIONS)
    choose: StoreFor = store_for if store_for is not None else lambda _: store  # type: ignore[assignment,return-value]
    service = Service(
        store_for=choose, read_only=read_only, views=Views(), searches=Searches() if search else None, writers=Writers()
    )
    api = [Path(f"/{route.path}", _endpoint(route, service), methods=[route.method]) for route in ROUTES]
    return Starlette(
        routes=[*pages(API), Mount(API, routes=api, middleware=[Middleware(TokenCheck, token=token)])],
        middleware=[Middleware(Guard, hosts=hosts, origins=origins)],
        exception_handlers={HTTPException: _refused, Exception: _accident},
    )


def _endpoint(route: Route, service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        call = None
        try:
            if route.writes and service.read_only:
                raise AccessError("this server only reads", kind=Kind.REFUSED)
            if len(request.url.query) > QUERY_BYTES_MAX:
                raise UsageError(f"a query is too long. most={QUERY_BYTES_MAX}", kind=Kind.REQUEST)
            call = await Call.of(service, request)
            given = await _given(route, call)
            answered = await route.handler(call, **given)
        except TreeringError as error:
            return failure(error, head=call.heads if call is not None and isinstance(error, ConflictError) else None)
        if isinstance(answered, Response):
            return answered
        body = treering.to_json(answered)
        return Response(body, route.status, call.headers, media_type="application/json")

    return answer


async def _given(route: Route, call: Call) -> dict[str, object]:
    """The handler's arguments other than the call."""
    given: dict[str, object] = {}
    asked = route.asked(call.request.query_params)
    if "asked" in route.takes:
        given["asked"] = asked
    if "body" in route.takes:
        given["body"] = _lines(route, call) if route.types.lines else route.sent(await call.body())
    return given


async def _lines(route: Route, call: Call) -> AsyncIterator[object]:
    """Read a body line by line, while it is being sent."""
    async for line in call.lines():
        yield route.sent(line)


async def _refused(_: Request, error: Exception) -> Response:
    """Return the JSON response for an error of Starlette, or of the function that chooses the store."""
    assert isinstance(error, HTTPException)  # noqa: S101  # it is registered for these alone
    if error.status_code == 404:
        answer = failure(NotFoundError("there is no such path", kind=Kind.ROUTE))
    elif error.status_code == 405:
        answer = failure(UsageError("this path has no such method", kind=Kind.METHOD))
    else:
        answer = failure(AccessError(str(error.detail), kind=Kind.ACCESS))
        answer.status_code = error.status_code
    answer.headers.update(error.headers or {})
    return answer


async def _accident(_: Request, error: Exception) -> Response:  # noqa: ARG001  # Starlette raises it again, for the log
    """Return a response for an unexpected error, without details, which are in the log."""
    answer = accident()
    answer.headers.update(ALWAYS)  # this runs outside of the middleware that adds them
    return answer
