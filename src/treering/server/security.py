"""Checks of requests by host name, origin and token, and security headers of every response.

Rule 1: a `Host` is an address, `localhost`, or one of the server's names. A page of another site can point its own name
to this server (DNS rebinding), and then that name is in the request.
Rule 2: a request with an `Origin` comes from a page of this server, or of a site that was allowed.
Rule 3: everything below the API needs the token, if there is one. No cookie is set or read, so no browser sends it by
itself. The token is in a header, never in a URL, so no log has it.
"""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treering.errors import AccessError, TreeringError
from treering.kinds import Kind
from treering.server.errors import failure

ALWAYS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of each response that does not set its own."""
_BEARER: Final = "bearer "


class Guard:
    """Refuses requests with a foreign host name or from a foreign page, and adds headers to every response.

    Args:
        app: The guarded application.
        hosts: Names of the server in addition to addresses and `localhost`; None allows any, if the host application
            checks them.
        origins: Sites, such as `https://chat.example`, whose pages may send requests.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None, origins: Collection[str]) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(map(str.lower, hosts))
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add(message)
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        await (self._app if refusal is None else failure(refusal))(scope, receive, with_headers)

    def _refusal(self, headers: Headers) -> TreeringError | None:
        host = headers.get("host", "").lower()
        if self._hosts is not None and not _is_own(host, self._hosts):
            return AccessError(
                f"this server has no such name. host={host[:200]!r}",
                kind=Kind.HOST,
                remedy="open it by its address, or start it with `--hostname`",
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and _host_of(origin) != host:
            return AccessError(f"a page of another site sent this. origin={origin[:200]!r}", kind=Kind.ORIGIN)
        return None


class TokenCheck:
    """Refuses requests without the token.

    Args:
        app: The guarded application.
        token: The token; None if no token is needed.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and not self._allows(Headers(scope=scope)):
            refusal = AccessError("the token is missing or wrong", kind=Kind.TOKEN)
            await failure(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allows(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        given = headers.get("authorization", "")
        if given[: len(_BEARER)].lower() != _BEARER:
            return False
        return compare_digest(given[len(_BEARER) :].strip().encode("latin-1"), self._token)  # in constant time


def _add(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in ALWAYS.items():
        headers.setdefault(name, value)


def _is_own(host: str, names: Collection[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
