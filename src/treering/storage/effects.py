"""Effects that a protocol may yield in addition to batches of requests to one store.

`Steps` is enough for everything inside a session. A protocol that moves sessions between stores, or reads the files of
an importer, is a `Job`: it names the store of a batch, has functions called that wait for something other than a store,
and still does no I/O itself. `treering.storage.run` carries out all effects, blocking or not.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from treering.storage.requests import Batch, Driver, Steps

A = TypeVar("A")
T = TypeVar("T")


class On(msgspec.Struct, frozen=True):
    """A batch for a given store. Answered like the batch."""

    driver: Driver
    batch: Batch


class Call(msgspec.Struct, frozen=True):
    """A function that may wait for a disk or another process; asynchronous code calls it in a thread.

    Its argument is the driver of the store. Answered by its result; its exceptions are raised in the protocol.
    """

    function: Callable[[Driver], Any]


class Performer(Protocol):
    """A session, blocking or asynchronous, that runs protocols of other modules on itself."""

    def perform(self, verb: Callable[..., Steps[Any]], /, *args: Any, **kwargs: Any) -> Any: ...


class Perform(msgspec.Struct, frozen=True):
    """A call of another session's method, which asynchronous code awaits. Answered like a `Call`."""

    method: Callable[[], Any | Awaitable[Any]]


class Tell(msgspec.Struct, frozen=True):
    """A function of the caller, for example to show progress; called where the caller runs, on the event loop.

    Answered by None; its exceptions are raised in the protocol.
    """

    function: Callable[[], object]


class Wait(msgspec.Struct, frozen=True):
    """Let time pass in the middle of a job; asynchronous code waits on the event loop. Answered by None."""

    seconds: float


Effect: TypeAlias = Batch | On | Call | Perform | Tell | Wait
Job: TypeAlias = Generator[Effect, Any, T]
"""A protocol without I/O that may reach several stores: yields effects, receives their answers, returns T.

A plain batch goes to the store that the job is run against. All `Steps` are jobs.
"""


class Items(msgspec.Struct, Generic[T], frozen=True):
    """Some results of a stream, in order. Answered by None."""

    values: Iterable[T]


class Signal:
    """An event that happens once, and calls the functions that wait for it, in the thread where it happens."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._happened = False
        self._waiting: list[Callable[[], object]] = []

    def happen(self) -> None:
        """Call the waiting functions; functions that are added later are called at once."""
        with self._lock:
            self._happened = True
            waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def notify(self, callback: Callable[[], object]) -> None:
        """Call a function when the event happens, or now if it has happened."""
        with self._lock:
            if not self._happened:
                self._waiting.append(callback)
                return
        callback()

    def forget(self, callback: Callable[[], object]) -> None:
        """Do not call a function any more."""
        with self._lock:
            if callback in self._waiting:
                self._waiting.remove(callback)


class Pause(msgspec.Struct, frozen=True):
    """The stream has no result for now: if it follows a store, it waits before it looks again. Answered by None."""

    seconds: float
    unless: Signal | None = None
    """Ends the wait earlier if it happens."""


Stream: TypeAlias = Generator[Effect | Items[T] | Pause, Any, None]
"""A job that yields its results one by one, as soon as each is known."""


def on(driver: Driver, job: Job[T]) -> Job[T]:
    """Run a protocol against a given store, as a part of a job that is run against another store."""
    try:
        effect = next(job)
        while True:
            try:
                answer = yield _for(driver, effect)
            except BaseException as error:  # noqa: BLE001  # the inner job handles it, or ends with it
                effect = job.throw(error)
            else:
                effect = job.send(answer)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # typed by Job[T]
    finally:
        job.close()


def _for(driver: Driver, effect: Effect) -> Effect:
    if isinstance(effect, tuple):
        return On(driver, effect)
    return Call(lambda _: effect.function(driver)) if isinstance(effect, Call) else effect


def call(function: Callable[[], T]) -> Job[T]:
    """Call a function that may wait, as a part of a job."""
    result: T = yield Call(lambda _: function())
    return result


def tell(function: Callable[[A], object] | None, told: A) -> Job[None]:
    """Call a function of the caller, unless it is None, as a part of a job."""
    if function is not None:
        yield Tell(lambda: function(told))


def ask_driver(function: Callable[[Driver], T]) -> Job[T]:
    """Call a method of the driver that is not a request, as a part of a job."""
    result: T = yield Call(function)
    return result


def parts(stream: Stream[T]) -> Iterator[Job[Items[T] | Pause | None]]:
    """Cut a stream into jobs, each of which ends with the next results; run them one after the other.

    The last job returns None. Between two of them no request is under way, so the reader of the stream may use the
    session or the store for something else.
    """
    ended = False

    def part() -> Job[Items[T] | Pause | None]:
        nonlocal ended
        try:
            found = next(stream)
            while not isinstance(found, Items | Pause):
                try:
                    answer = yield found
                except BaseException as error:  # noqa: BLE001  # the inner job handles it, or ends with it
                    found = stream.throw(error)
                else:
                    found = stream.send(answer)
        except StopIteration:
            ended = True
            return None
        return found

    try:
        while not ended:
            yield part()
    finally:
        stream.close()
