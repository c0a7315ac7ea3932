"""A route: its definition names method, path and function; the function's type hints define the rest.

The application's routing, the validation of requests and the OpenAPI document are made from routes.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from inspect import cleandoc, signature
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from starlette.datastructures import QueryParams

from treering.errors import UsageError
from treering.kinds import Kind

Handler = Callable[..., Awaitable[Any]]

_Decoder = msgspec.json.Decoder
_named = re.compile(r"\{(\w+)(?::path)?\}")


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters in the query string of a URL; the base of all such types."""


class Types(NamedTuple):
    """The types in the annotations of a handler."""

    query: type[Query]
    body: Any
    """None if the handler takes no body."""
    answer: Any
    lines: bool
    """The body has one such value per line, and each is handled when it arrives."""


class Route(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One method and path, with its handler."""

    method: str
    path: str
    """Below the API, with names in braces; `{node:path}` is a name that may hold slashes."""
    handler: Handler
    """Takes the call and, by the names `asked` and `body`, the query parameters and the body."""
    status: int = 200
    writes: bool = False
    """A read-only server refuses it."""
    media_type: str = "application/json"
    """Media type of the response."""
    headers: Mapping[str, str] = {}
    """Request headers that the handler uses, with their descriptions."""

    @cached_property
    def types(self) -> Types:
        """The types of the handler's arguments and result."""
        hints = get_type_hints(self.handler, include_extras=True)
        body = hints.get("body")
        lines = get_origin(body) is AsyncIterator
        return Types(hints.get("asked", Query), get_args(body)[0] if lines else body, hints["return"], lines)

    @cached_property
    def takes(self) -> frozenset[str]:
        """The names of the handler's parameters."""
        return frozenset(signature(self.handler).parameters)

    @cached_property
    def decoders(self) -> tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
        """Decoders for the query string and for a body. Made with the table, since two threads must not make one."""
        return _Decoder(self.types.query), _Decoder(self.types.body)

    @property
    def said(self) -> tuple[str, str]:
        """The handler's description: the first line of its docstring, and the rest."""
        first, _, rest = cleandoc(self.handler.__doc__ or "").partition("\n")
        return first, rest.strip()

    @property
    def names(self) -> list[str]:
        """The names in the path."""
        return _named.findall(self.path)

    @property
    def shown_path(self) -> str:
        """The path as documents show it."""
        return _named.sub(r"{\1}", self.path)

    def asked(self, given: QueryParams) -> Query:
        """Read the query string.

        Raises:
            UsageError: A parameter is unknown, occurs twice, or has an invalid value.
        """
        query_decoder, _ = self.decoders
        fields = {field.name: field for field in msgspec.structs.fields(self.types.query)}
        values: dict[str, object] = {}
        for name, value in given.multi_items():
            if name in fields and isinstance(fields[name].default, tuple):
                values.setdefault(name, [])
                values[name].append(value)  # type: ignore[attr-defined]  # the list of the line above
            elif name in values:
                raise UsageError(f"a parameter is there twice. name={name!r}", kind=Kind.REQUEST)
            else:
                values[name] = value
        try:
            found: Query = msgspec.convert(values, strict=False, type=query_decoder.type)
        except msgspec.ValidationError as error:
            raise UsageError(f"what is asked cannot be read: {error}", kind=Kind.REQUEST) from error
        return found

    def sent(self, data: bytes) -> Any:
        """Read a body.

        Raises:
            UsageError: It is not JSON, or has the wrong type.
        """
        try:
            return self.decoders[1].decode(data or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"the body cannot be read: {error}", kind=Kind.REQUEST) from error


JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
