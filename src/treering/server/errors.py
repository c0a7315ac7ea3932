"""Errors over HTTP: the status, and a JSON body that describes the error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from treering.api.encoding import to_json
from treering.errors import (
    AccessError,
    ConflictError,
    CorruptError,
    FormatVersionError,
    NotFoundError,
    SessionDeletedError,
    SessionHeldError,
    TreeringError,
    UnavailableError,
    UnsafeStoreError,
    UsageError,
)
from treering.kinds import Kind

STATUS: Final[Mapping[type[TreeringError], int]] = {
    SessionDeletedError: 410,
    SessionHeldError: 423,
    UsageError: 400,
    NotFoundError: 404,
    ConflictError: 409,
    UnavailableError: 503,
    AccessError: 502,
    UnsafeStoreError: 500,
    CorruptError: 500,
    FormatVersionError: 500,
}
"""Status by class of the error; a class that is not listed has the status of its base class."""
STATUS_OF_KIND: Final[Mapping[str, int]] = {
    Kind.TOKEN: 401,
    Kind.HOST: 403,
    Kind.ORIGIN: 403,
    Kind.REFUSED: 403,
    Kind.METHOD: 405,
    Kind.APPEND_TOO_LARGE: 413,
    Kind.REQUEST_TOO_LARGE: 413,
    Kind.DUPLICATE_ID: 409,
}
"""Status by kind, if the kind is more specific than the class."""
HEADERS: Final[Mapping[int, Mapping[str, str]]] = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error, for programs."""

    kind: str
    """A stable word, one of `treering.Kind`."""
    message: str
    remedy: str
    """What to do, or empty."""
    type: str
    """The class of the error in Python."""
    head: Mapping[str, str | None] | None = None
    """In a conflict: the current node of each head."""


class FailureBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every answer that is an error."""

    error: Failure


def status_of(error: TreeringError) -> int:
    """Return the status of an error."""
    if error.kind in STATUS_OF_KIND:
        return STATUS_OF_KIND[error.kind]
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def failure_of(error: TreeringError, *, head: Mapping[str, str | None] | None = None) -> FailureBody:
    """Return the body for an error.

    Args:
        error: The error.
        head: The current heads of the session, if another writer moved one.
    """
    heads = dict(head) if head is not None else None
    name, message = type(error).__name__, str(error).removesuffix(f"; {error.remedy}")
    said = Failure(kind=error.kind, message=message, remedy=error.remedy, type=name, head=heads)
    return FailureBody(error=said)


def failure(error: TreeringError, *, head: Mapping[str, str | None] | None = None) -> Response:
    """Return the response for an error; arguments as for `failure_of`."""
    status = status_of(error)
    body = to_json(failure_of(error, head=head))
    return Response(body, status, HEADERS.get(status), media_type="application/json")


def accident() -> Response:
    """Return the response to a request on which the server itself failed."""
    said = Failure(kind="unexpected", message="the server failed", remedy="its log says why", type="Exception")
    return Response(msgspec.json.encode(FailureBody(error=said)), 500, media_type="application/json")
