"""A wrapper that tells a function of the user's what was sent, and what came of it: for metrics and logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from treering.errors import TreeringError
from treering.storage.requests import Answer, Append, Batch, Driver, Found, Put, Request, key_of
from treering.storage.wrapper import DriverWrapper


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a store, and what came of it."""

    type: str
    """`Get`, `Put`, `Append`, `List` or `Delete`."""
    key: str
    """What it is about: a key; of a list the prefix, of a deletion the first key."""
    bytes_up: int
    """Bytes that were sent to be stored."""
    bytes_down: int
    """Bytes of an object that came back."""
    error: str
    """The kind of the error that was the answer, or empty. Most are no failures: a session that does not exist yet is a
    missing object, and a swap that another writer won is repeated."""


class RequestBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were sent together, and answered."""

    requests: tuple[RequestInfo, ...]
    """In the order in which they were made. A request that is sent again is in a batch of its own."""
    seconds: float
    """From sending the first to receiving the last answer."""


class Observer(Protocol):
    """A function that is called after each batch, in the thread or on the event loop that waited for it.

    Calls of several threads may come at once. It must not use the store.
    """

    def __call__(self, batch: RequestBatch, /) -> object: ...


class ObservedDriver(DriverWrapper):
    """Tells an observer of each batch.

    It belongs below what sends requests again, so that each is seen as often as it was sent. A batch that was
    interrupted is not seen. What the observer raises ends the call as an interrupt would.

    Args:
        inner: The driver that does the work.
        observer: Called with each batch.
        clock: Tells seconds, from any beginning.
    """

    def __init__(self, inner: Driver, observer: Observer, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(inner)
        self._observer = observer
        self._clock = clock

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch, and tell of it; see `Driver.execute`."""
        began = self._clock()
        answers = self.inner.execute(batch)
        self._tell(batch, answers, began)
        return answers

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch, and tell of it; see `Driver.aexecute`."""
        began = self._clock()
        answers = await self.inner.aexecute(batch)
        self._tell(batch, answers, began)
        return answers

    def _tell(self, batch: Batch, answers: tuple[Answer, ...], began: float) -> None:
        seconds = self._clock() - began
        self._observer(RequestBatch(requests=tuple(map(_info, batch, answers)), seconds=seconds))


def _info(request: Request, answer: Answer) -> RequestInfo:
    return RequestInfo(
        type=type(request).__name__,
        key=key_of(request),
        bytes_up=len(request.data) if isinstance(request, Put | Append) else 0,
        bytes_down=len(answer.data) if isinstance(answer, Found) else 0,
        error=str(answer.kind) if isinstance(answer, TreeringError) else "",
    )


def observed(driver: Driver, observer: Observer) -> Driver:
    """Have an observer told of what a driver sends: each time, if the driver sends again what was not answered."""
    if isinstance(driver, DriverWrapper):
        driver.inner = ObservedDriver(driver.inner, observer)
        return driver
    return ObservedDriver(driver, observer)
