"""`StreamWriter`: an answer that is being written, for blocking code. Its thread stores the waiting pieces."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from treering.api.streaming_body import RETRY_SECONDS, UNSAVED_BYTES_MAX, StreamBody
from treering.errors import TreeringError, UnavailableError, UsageError
from treering.format.stream import TEXT, THINKING, TOOL_CALL
from treering.kinds import Kind
from treering.session import verbs
from treering.session.streams import StreamStatus
from treering.storage.run import run

if TYPE_CHECKING:
    from treering.session.record import Appended

P = ParamSpec("P")
T = TypeVar("T")


class StreamWriter(StreamBody):
    """An answer that is being written. Use it as a context manager: the end of the block ends it.

    Text is stored within 100 ms on a disk, or as soon as 16 KB wait; in a bucket within 500 ms, by at most two requests
    a second. An exception in the block leaves the stream open, as failed; see `Session.open_streams`.
    """

    def __init__(self, live: Any, driver: Any, perform: Callable[..., Any]) -> None:  # by a session
        super().__init__(live, driver)
        self._perform = perform
        self._callers: set[int] = set()
        """The threads that are in a call of this object."""
        self._turn = threading.Lock()
        """Held while writing to the store."""
        self._woken = threading.Event()
        threading.Thread(
            target=_keep_storing, args=(weakref.ref(self), self._woken), name=f"treering-{live.id}", daemon=True
        ).start()

    def write(self, text: str) -> None:
        """Add text. It is buffered when this returns, and stored soon; see `flush`.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it.
            UsageError: The stream has ended, the text contains a lone surrogate, or the answer is too long.
            UnavailableError: Too much text waits to be stored, and the store does not answer; this text waits, too.
        """
        self._alone(self._take, TEXT, text)

    def thinking(self, text: str, *, signature: str = "") -> None:
        """Add thinking; the last piece of it may have a signature. Errors as for `write`."""
        self._alone(self._take, THINKING, text, signature=signature)

    def tool_call(self, arguments: str = "", *, id: str, name: str = "") -> None:  # noqa: A002  # as APIs call it
        """Begin a call of a tool, or add to its arguments. Errors as for `write`.

        Args:
            arguments: A piece of the arguments; all pieces together are JSON.
            id: The id of the call; the same id as before continues that call.
            name: The name of the tool; only the first piece needs it.
        """
        self._alone(self._take, TOOL_CALL, arguments, call=id, name=name)

    def flush(self) -> None:
        """Store all pieces written so far; durable when it returns.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it.
            UnavailableError: The store did not answer. The text in `unsaved` may be stored or not; it is tried again.
        """
        self._alone(self._flush)

    def finish(self, /, **fields: object) -> Appended:
        """End the answer, and record it as a node with the id of the stream. The end of the block calls it.

        Args:
            fields: Further fields of the message.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it; nothing was recorded.
            UnavailableError: The store did not answer; call `finish` again. Further errors are those of `append`.
        """
        return self._alone(self._finish, StreamStatus.COMPLETE, fields)

    def stop(self, /, **fields: object) -> Appended:
        """End the answer early, because the user stopped it: the brief of its node says `stream: stopped`.

        Arguments and errors as for `finish`.
        """
        return self._alone(self._finish, StreamStatus.STOPPED, fields)

    def fail(self, reason: str) -> None:
        """Give up: the stream stays open, and readers see that it failed, and why.

        Then `continue_stream`, `keep_stream` or `discard_stream` can end it.

        Args:
            reason: A text for people, not a part of the answer. At most 200 bytes of it are kept.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it.
            UnavailableError: The store did not answer.
        """
        self._alone(self._fail, reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if kind is None:
            self.finish()
            return
        self.give_up(f"{kind.__name__}: {error}")

    def give_up(self, reason: str) -> None:
        """Call `fail` unless the stream has ended, and raise no error: readers also notice missing signs of life.

        Raises:
            UsageError: A signal handler calls this in the middle of another call, which goes on.
        """
        try:
            if not self._ended:
                self.fail(reason)
        except TreeringError as error:
            if error.kind == Kind.REENTERED:
                raise
            self._end()

    def _alone(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that takes locks.

        Raises:
            UsageError: Another process began the stream, whose threads may have had the locks; or this thread may have
                them: it is in another call, and this one comes from a signal handler.
        """
        if os.getpid() != self._pid:
            self._require_open(ends=True)
        thread = threading.get_ident()
        if thread in self._callers:
            raise UsageError(
                f"the stream is in the middle of another call. stream={self.id!r}",
                kind=Kind.REENTERED,
                remedy="do not use it in a signal handler: set a flag there, or raise, and go on outside",
            )
        try:
            self._callers.add(thread)
            return step(*args, **kwargs)
        finally:
            self._callers.discard(thread)

    def _take(self, kind: str, text: str, *, call: str = "", name: str = "", signature: str = "") -> None:
        if self._add(kind, text, call=call, name=name, signature=signature):
            self._woken.set()
        if self._unsaved_bytes > UNSAVED_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        with self._turn:
            self._require_open()
            if self._live.tape.unsaved:
                self._store()

    def _fail(self, reason: str) -> None:
        with self._turn:
            self._require_open()
            self._perform(verbs.streaming.fail, self._live, reason)
            self._end()

    def _store(self) -> None:
        self._sending()
        try:
            run(self._live.tape.write(), self._driver)
        except UnavailableError:
            raise
        except TreeringError as error:
            self._fatal(error)
            raise
        self._stored()

    def _finish(self, status: StreamStatus, fields: dict[str, object]) -> Appended:
        with self._turn:
            with self._ending():
                done: Appended = self._perform(verbs.streaming.end, self._live, status, **fields)
            self._end()
            return done

    def _end(self) -> None:
        self._ended = True
        self._woken.set()

    def _store_if_due(self) -> float | None:
        """Store pieces that are due; return the seconds to wait before the next look, None if the stream has ended."""
        with self._turn:
            if self._ended or self._error is not None:
                return None
            left = RETRY_SECONDS if self._is_ending else self._seconds_left()
            if left > 0:
                return left
            try:
                self._store()
            except UnavailableError:
                pass  # it is tried again; `flush` and `finish` raise the error
            except TreeringError:
                return None  # the next call that writes raises the error
            return max(0.0, self._seconds_left())


def _keep_storing(there: weakref.ref[StreamWriter], woken: threading.Event) -> None:
    """Store waiting pieces and signs of life while the writer object exists."""
    while (writer := there()) is not None:
        left = writer._store_if_due()  # noqa: SLF001  # the thread is a part of it
        del writer
        if left is None:
            return
        woken.wait(left)
        woken.clear()
