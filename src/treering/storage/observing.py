"""A wrapper that reports each batch of requests and its outcome to a function of the user: for metrics and logs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from treering.errors import TreeringError
from treering.storage.requests import Answer, Append, Batch, Driver, Found, Put, Request, key_of
from treering.storage.wrapper import DriverWrapper


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a store, and its outcome."""

    type: str
    """`Get`, `Put`, `Append`, `List` or `Delete`."""
    key: str
    """Its key; the prefix of a list, or the first key of a deletion."""
    bytes_up: int
    """Bytes that were sent to be stored."""
    bytes_down: int
    """Bytes of an object that came back."""
    error: str
    """The kind of the error if the answer is one, else empty. Most of these errors are not failures: a session that
    does not exist yet is a missing object, and a swap that another writer won is repeated."""


class RequestBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were sent together, and answered."""

    requests: tuple[RequestInfo, ...]
    """In the order in which they were made. A request that is sent again is in a batch of its own."""
    seconds: float
    """From sending the first to receiving the last answer."""


class Observer(Protocol):
    """A function that is called after each batch, in the thread or on the event loop that waited for it.

    Several threads may call it at once. It must not use the store.
    """

    def __call__(self, batch: RequestBatch, /) -> object: ...


class ObservedDriver(DriverWrapper):
    """Reports each batch to an observer.

    It belongs below the wrapper that re-sends requests, so that the observer sees each request as often as it is sent.
    A batch that was interrupted is not reported. An exception of the observer ends the call as an interrupt would.

    Args:
        inner: The driver that does the work.
        observer: Called with each batch.
        clock: Returns seconds, from any beginning.
    """

    def __init__(self, inner: Driver, observer: Observer, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(inner)
        self._observer = observer
        self._clock = clock

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch, and report it; see `Driver.execute`."""
        began = self._clock()
        answers = self.inner.execute(batch)
        self._tell(batch, answers, began)
        return answers

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch, and report it; see `Driver.aexecute`."""
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
    """Report a driver's batches to an observer, below a wrapper that re-sends: each time that they are sent."""
    if isinstance(driver, DriverWrapper):
        driver.inner = ObservedDriver(driver.inner, observer)
        return driver
    return ObservedDriver(driver, observer)
