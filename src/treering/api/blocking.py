"""The base classes of blocking stores and sessions: they run protocols, and close handles."""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from treering import storage
from treering.api.session_body import SessionProperties, close
from treering.api.store_body import StoreBody
from treering.errors import TreeringError
from treering.session import verbs
from treering.session.reader import Readable
from treering.session.writer import Writer
from treering.storage.run import run
from treering.store.place import Opened, Place, release

if TYPE_CHECKING:
    from treering.api.streaming import StreamWriter
    from treering.storage.effects import Job, Pause, Stream

R = TypeVar("R", bound=Readable)
P = ParamSpec("P")
T = TypeVar("T")


class BlockingStore:
    """Runs the protocols of a store, each to its end before the call returns."""

    def __init__(self, place: Place) -> None:
        self.place = place
        """Where its sessions are and how they are opened: integrations pass it to protocols in `treering.store`."""
        self._body = StoreBody(place)

    def __repr__(self) -> str:
        """The driver and the prefix of the store."""
        return f"<{type(self).__name__} {self.place.driver.name} {self.place.prefix!r}>"

    def _run(self, job: Job[T]) -> T:
        return run(job, self.place.driver)

    def _each(self, stream: Stream[T]) -> Iterator[T]:
        for part in storage.effects.parts(stream):
            found = self._run(part)
            if isinstance(found, storage.effects.Items):
                yield from found.values

    def close(self) -> None:
        """Release connections and files. Sessions opened from this store must be closed before."""
        self.place.driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingSession(SessionProperties[R]):
    """Runs the protocols of a session, each to its end before the call returns; calls of several threads one by one."""

    def __init__(self, opened: Opened[R]) -> None:
        super().__init__(opened)
        self._lock = RLock()

    def perform(self, verb: Callable[Concatenate[Any, P], Job[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a protocol on this session, as all its methods do; integrations use it for operations of their own."""
        if os.getpid() != self._pid:  # before the lock, which a thread of the parent may have had
            raise self._unusable()
        with self._lock:
            nested = self._admit()
            try:
                self._under_way, self._known.outside.runs = True, False  # from here on, signal handlers are refused
                if self._unfinished and not nested:
                    self._known.roll_back()
                    self._unfinished = False
                self._known.save()
                self._unfinished = True
                result = run(verb(self._known, *args, **kwargs), self._driver)
                # Noted without a call: Python runs signal handlers where one begins, and a handler may read properties.
                self._unfinished = nested
                if nested:
                    self._known.save()  # what it did stays if the call around it is interrupted
            except TreeringError:
                self._unfinished = nested
                if nested:
                    self._known.save()
                raise
            except BaseException:
                if nested:
                    self._known.roll_back()  # the call around it may go on
                raise
            finally:
                self._under_way = self._known.outside.runs = nested
            return result

    def _each(self, verb: Callable[Concatenate[Any, P], Stream[T]], *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        """Yield the results of a stream, which begins now. Other calls may run between two results."""
        return self._given(verb(self._reader, *args, **kwargs))

    def _given(self, stream: Stream[T]) -> Iterator[T]:
        for part in storage.effects.parts(stream):
            found = self.perform(lambda _, part: part, part)
            if isinstance(found, storage.effects.Items):
                yield from found.values
            elif isinstance(found, storage.effects.Pause):
                _wait(found)

    def _recover(self) -> None:
        if os.getpid() != self._pid:  # as in `perform`; the parent's threads are not in this process
            super()._recover()
            return
        with self._lock:
            if self._unfinished and not self._under_way:  # else another thread did it
                super()._recover()

    def close(self) -> None:
        """Close the view. It cannot be used afterwards."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingWriting(BlockingSession[Writer]):
    """Operations of sessions that are open for writing."""

    def claim(self, *, ttl: float | None = None, wait: float = 0.0) -> None:
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
        self.perform(verbs.leasing.claim, ttl=ttl, wait=wait)

    def release(self) -> None:
        """Unlock the session and release its lease, while this handle stays open.

        If two handles then record, the second one gets an error. This handle also gets an error on its next record if
        another worker had already taken its lease.

        Raises:
            UnavailableError: The store did not answer; the lease ends by itself after its time.
        """
        if os.getpid() != self._pid:
            raise self._unusable()
        with self._lock:
            if self._closed:
                return
            self._admit()
            try:
                if self._may_have_lease:
                    self.perform(verbs.leasing.release)
            finally:
                self._known.locks = False
                release(self._holds)

    def stream(self, /, role: str = "assistant", **fields: object) -> StreamWriter:
        """Begin an answer, whose text is stored and shown to readers while it is written.

        If the process is killed, the text of about the last 100 ms is lost, in a bucket that of the last 500 ms. The
        finished answer is recorded as a node with the id of the stream; until then no context contains it.

        Args:
            role: The role of the message.
            fields: Further fields of the message.

        Raises:
            UsageError: The store redacts texts, or too many streams are open. Further errors are those of `append`.
        """
        from treering.api.streaming import StreamWriter

        live = self.perform(verbs.streaming.begin, role, **fields)
        return self._writing(StreamWriter(live, self._driver, self.perform))

    def continue_stream(self, stream: str) -> StreamWriter:
        """Continue an open stream, whose writer died or failed, at its end.

        If its writer is still alive, it gets a `StreamLostError`, and nothing that it writes from now on is stored.

        Args:
            stream: Its id, see `open_streams`.

        Raises:
            NotFoundError: No stream with this id is open. Further errors are those of `append`.
        """
        from treering.api.streaming import StreamWriter

        live = self.perform(verbs.streaming.take_over, stream)
        return self._writing(StreamWriter(live, self._driver, self.perform))

    def _writing(self, answer: StreamWriter) -> StreamWriter:
        """Remember the writer of an answer."""
        self._remember(answer)
        return answer

    @property
    def is_new(self) -> bool:
        """Whether the session did not exist: this handle created it, or will with its first record."""
        return self._reader.creation.is_new

    def close(self) -> None:
        """Record buffered messages, write `latest` so that it covers everything, and unlock the session.

        The handle cannot be used afterwards. Streams that it did not end stay open, as failed. An append without an
        answer is recorded or never will be, unless the store does not answer now either. If this raises or is
        interrupted, the session is unlocked all the same, unless another call is under way, and the handle stays open:
        what is not recorded waits for the next call of `close` or `flush`.

        Raises:
            UsageError: The call comes from a signal handler in the middle of another one, and did nothing. Further
                errors are those of `flush`.
        """
        if os.getpid() != self._pid and not self._closed:
            raise self._unusable()
        with self._unlocking():
            for answer in () if self._closed else tuple(self._answers):
                answer.give_up("its session was closed")
            with self._lock:
                if not self._closed:
                    self.perform(close)
                    self._closed = True


def _wait(pause: Pause) -> None:
    from threading import Event  # resuming a session does not need it

    woken = Event()
    if pause.unless is not None:
        pause.unless.notify(woken.set)
    try:
        woken.wait(pause.seconds)
    finally:
        if pause.unless is not None:
            pause.unless.forget(woken.set)
