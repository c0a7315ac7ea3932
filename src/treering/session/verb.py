"""Make blocking and asynchronous methods from one protocol."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from treering.storage.requests import Steps

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Protocol):
    """Something whose protocols run to their end before a call returns."""

    def perform(self, verb: Callable[Concatenate[Any, P], Steps[T]], *args: P.args, **kwargs: P.kwargs) -> T: ...


class Asynchronous(Protocol):
    """Something whose protocols are awaited."""

    async def perform(self, verb: Callable[Concatenate[Any, P], Steps[T]], *args: P.args, **kwargs: P.kwargs) -> T: ...


def blocking(verb: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that runs `verb` on the session's reader or writer and returns what it returns."""

    @wraps(verb)
    def method(self: Blocking, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.perform(verb, *args, **kwargs)

    _sign(method, verb)
    return method


def awaited(verb: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A coroutine method that runs `verb` on the session's reader or writer."""

    @wraps(verb)
    async def method(self: Asynchronous, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.perform(verb, *args, **kwargs)

    _sign(method, verb)
    return method


def _sign(method: Callable[..., Any], verb: Callable[..., Any]) -> None:
    """Give a method the signature that a caller sees: `self` for the session, and what the protocol returns."""
    seen = signature(verb)
    first, *rest = seen.parameters.values()
    returned = str(seen.return_annotation).removeprefix("Steps[").removesuffix("]")
    me = Parameter("self", Parameter.POSITIONAL_ONLY if first.kind is Parameter.POSITIONAL_ONLY else first.kind)
    method.__signature__ = seen.replace(parameters=[me, *rest], return_annotation=returned)  # type: ignore[attr-defined]
