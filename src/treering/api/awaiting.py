"""The base classes of asynchronous stores and sessions: they run protocols, and close handles."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from treering.api.session_body import SessionProperties, close
from treering.api.store_body import StoreBody
from treering.errors import TreeringError
from treering.session import verbs
from treering.session.reader import Readable
from treering.session.writer import Writer
from treering.storage.effects import Items, Job, Pause, Stream, call, parts
from treering.storage.run import arun
from treering.store.place import Opened, Place, release

if TYPE_CHECKING:
    from treering.api.async_streaming import AsyncStreamWriter
    from treering.session.verbs.streaming import Live

R = TypeVar("R", bound=Readable)
P = ParamSpec("P")

H = TypeVar("H", bound=AbstractAsyncContextManager[Any])
T = TypeVar("T")


class AsyncOpening(Coroutine[Any, Any, H]):
    """A session being opened: await it, or use `async with`, which also closes the session."""

    def __init__(self, opening: Coroutine[Any, Any, H]) -> None:
        self._opening = opening
        self._opened: H | None = None

    def __await__(self) -> Generator[Any, Any, H]:
        """Open the session."""
        return self._opening.__await__()

    def send(self, value: Any) -> Any:
        """Part of the coroutine protocol; so a task can be made of this object."""
        return self._opening.send(value)

    def throw(self, *error: Any) -> Any:
        """Part of the coroutine protocol."""
        return self._opening.throw(*error)

    def close(self) -> None:
        """Part of the coroutine protocol."""
        self._opening.close()

    async def __aenter__(self) -> H:
        """Open the session."""
        self._opened = await self._opening
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)


class AwaitingStore:
    """Runs the protocols of a store without blocking the event loop."""

    def __init__(self, place: Place) -> None:
        self.place = place
        """Where its sessions are and how they are opened: integrations pass it to protocols in `treering.store`."""
        self._body = StoreBody(place)

    def __repr__(self) -> str:
        """The driver and the prefix of the store."""
        return f"<{type(self).__name__} {self.place.driver.name} {self.place.prefix!r}>"

    async def _run(self, job: Job[T]) -> T:
        return await arun(job, self.place.driver)

    async def _each(self, stream: Stream[T]) -> AsyncIterator[T]:
        for part in parts(stream):
            found = await self._run(part)
            if isinstance(found, Items):
                for value in found.values:
                    yield value

    def _opening(self, kind: Callable[[Opened[R]], H], job: Job[Opened[R]]) -> AsyncOpening[H]:
        found: list[Opened[R]] = []

        def steps() -> Job[Opened[R]]:
            found.append((yield from job))
            return found[0]

        async def opened() -> H:
            try:
                return kind(await self._run(steps()))
            except BaseException:
                for each in found:  # a thread opened it, and the caller was cancelled meanwhile
                    release(each.holds)
                raise

        return AsyncOpening(opened())

    async def close(self) -> None:
        """Release connections and files. Sessions opened from this store must be closed before."""
        await self._run(call(self.place.driver.close))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AwaitingSession(SessionProperties[R]):
    """Runs the protocols of a session without blocking the event loop, one after the other."""

    def __init__(self, opened: Opened[R]) -> None:
        super().__init__(opened)
        self._lock = asyncio.Lock()

    async def perform(self, verb: Callable[Concatenate[Any, P], Job[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a protocol on this session, as all its methods do; integrations use it for operations of their own."""
        if os.getpid() != self._pid:
            raise self._unusable()
        if self._lock.locked() and not self._under_way:
            self._lock.release()  # an interrupted call did not get to it: a call that waits has not ended
        async with self._lock:
            self._admit()
            try:
                self._under_way = True
                if self._unfinished:
                    self._known.roll_back()
                    self._unfinished = False
                self._known.save()
                self._unfinished = True
                result = await arun(verb(self._known, *args, **kwargs), self._driver, aside=False)
                self._unfinished = False  # noted without a call, see `BlockingSession.perform`
            except TreeringError:
                self._unfinished = False
                raise
            finally:
                self._under_way = False
            return result

    def _each(
        self, verb: Callable[Concatenate[Any, P], Stream[T]], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[T]:
        """Yield the results of a stream, which begins now. Other calls may run between two results."""
        return self._given(verb(self._reader, *args, **kwargs))

    async def _given(self, stream: Stream[T]) -> AsyncIterator[T]:
        for part in parts(stream):
            found = await self.perform(lambda _, part: part, part)
            if isinstance(found, Items):
                for value in found.values:
                    yield value
            elif isinstance(found, Pause):
                await _wait(found)

    async def close(self) -> None:
        """Close the view. It cannot be used afterwards."""
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AwaitingWriting(AwaitingSession[Writer]):
    """Operations of sessions that are open for writing."""

    async def claim(self, *, ttl: float | None = None, wait: float = 0.0) -> None:
        """Take exclusive use of the session until `release` or `close`: lock it, and with `ttl` take its lease.

        The lock excludes other processes on this computer, if the store has locks. The lease excludes all other
        handles, in a bucket, too: while this handle has it, no other one can record anything. Another worker can take
        the lease as soon as it is released, or if this handle gave no sign of life for `ttl` seconds: it recorded
        nothing, and did not call `renew`. The session is created if it does not exist, and read again if it has
        changed.

        Args:
            ttl: Seconds until another worker may take the lease over; None: lock only.
            wait: Maximum seconds to wait for a worker that has the lease or the lock; only with `ttl`.

        Raises:
            SessionHeldError: Another process holds it, or another worker has the lease.
            UsageError: The session was opened shared, or a number is out of range.
            UnavailableError: The store did not answer. The lease may be taken; call again.
        """
        await self.perform(verbs.leasing.claim, ttl=ttl, wait=wait)

    async def release(self) -> None:
        """Unlock the session and release its lease, while this handle stays open.

        If two handles then record, the second one gets an error. This handle also gets an error on its next record if
        another worker had already taken its lease.

        Raises:
            UnavailableError: The store did not answer; the lease ends by itself after its time.
        """
        try:
            if not self._closed and self._may_have_lease:
                await self.perform(verbs.leasing.release)
        finally:
            async with self._lock:
                self._known.locks = False
                release(self._holds)

    def stream(self, /, role: str = "assistant", **fields: object) -> AsyncOpening[AsyncStreamWriter]:
        """Begin an answer, whose text is stored and shown to readers while it is written.

        If the process is killed, the text of about the last 100 ms is lost, in a bucket that of the last 500 ms. The
        finished answer is recorded as a node with the id of the stream; until then no context contains it.

        Args:
            role: The role of the message.
            fields: Further fields of the message.

        Raises:
            UsageError: The store redacts texts, or too many streams are open. Further errors are those of `append`.
        """
        return AsyncOpening(self._writing(verbs.streaming.begin, role, **fields))

    def continue_stream(self, stream: str) -> AsyncOpening[AsyncStreamWriter]:
        """Continue an open stream, whose writer died or failed, at its end.

        If its writer is still alive, it gets a `StreamLostError`, and nothing that it writes from now on is stored.

        Args:
            stream: Its id, see `open_streams`.

        Raises:
            NotFoundError: No stream with this id is open. Further errors are those of `append`.
        """
        return AsyncOpening(self._writing(verbs.streaming.take_over, stream))

    async def _writing(
        self, verb: Callable[Concatenate[Any, P], Job[Live]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncStreamWriter:
        """Begin or continue an answer, and remember its writer."""
        from treering.api.async_streaming import AsyncStreamWriter

        live = await self.perform(verb, *args, **kwargs)
        answer = AsyncStreamWriter(live, self._driver, self.perform)
        self._remember(answer)
        return answer

    @property
    def is_new(self) -> bool:
        """Whether the session did not exist: this handle created it, or will with its first record."""
        return self._reader.creation.is_new

    async def close(self) -> None:
        """Record buffered messages, write `latest` so that it covers everything, and unlock the session.

        The handle cannot be used afterwards. Streams that it did not end stay open, as failed. An append without an
        answer is recorded or never will be, unless the store does not answer now either. If this raises or is
        interrupted, the session is unlocked all the same, unless another call is under way, and the handle stays open:
        what is not recorded waits for the next call of `close` or `flush`.

        Raises:
            UsageError: The call comes from a signal handler in the middle of another one, and did nothing. Further
                errors are those of `flush`.
        """
        with self._unlocking():
            for answer in () if self._closed else tuple(self._answers):
                await answer.give_up("its session was closed")
            if not self._closed:
                await self.perform(close)
                self._closed = True


async def _wait(pause: Pause) -> None:
    if pause.unless is None:
        await asyncio.sleep(pause.seconds)
        return
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:  # called by the thread that looked at the session
        with suppress(RuntimeError):  # the loop was closed since
            loop.call_soon_threadsafe(woken.set)

    pause.unless.notify(wake)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause.seconds):
                await woken.wait()
    finally:
        pause.unless.forget(wake)
