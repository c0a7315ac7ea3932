"""Make blocking and asynchronous methods from one protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
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

    return method


def awaited(verb: Callable[Concatenate[Any, P], Steps[T]]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """A coroutine method that runs `verb` on the session's reader or writer."""

    @wraps(verb)
    async def method(self: Asynchronous, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.perform(verb, *args, **kwargs)

    return method
