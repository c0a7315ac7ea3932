"""`StreamWriter`: an answer that is being written, for blocking code. Its thread stores the waiting pieces."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from treering.api.streaming_body import RETRY_SECONDS, UNSAVED_BYTES_MAX, StreamBody
from treering.errors import TreeringError, UnavailableError
from treering.format.stream import TEXT, THINKING, TOOL_CALL
from treering.session import verbs
from treering.session.streams import StreamStatus
from treering.storage.run import run

if TYPE_CHECKING:
    from treering.session.record import Appended


class StreamWriter(StreamBody):
    """An answer that is being written. Use it as a context manager: the end of the block ends it.

    Text is stored within 100 ms on a disk, or as soon as 16 KB wait; in a bucket within 500 ms, by at most two requests
    a second. An exception in the block leaves the stream open, as failed; see `Session.open_streams`.
    """

    def __init__(self, live: Any, driver: Any, perform: Callable[..., Any]) -> None:  # by a session
        super().__init__(live, driver)
        self._perform = perform
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
        self._take(TEXT, text)

    def thinking(self, text: str, *, signature: str = "") -> None:
        """Add thinking; the last piece of it may have a signature. Errors as for `write`."""
        self._take(THINKING, text, signature=signature)

    def tool_call(self, arguments: str = "", *, id: str, name: str = "") -> None:  # noqa: A002  # as APIs call it
        """Begin a call of a tool, or add to its arguments. Errors as for `write`.

        Args:
            arguments: A piece of the arguments; all pieces together are JSON.
            id: The id of the call; the same id as before continues that call.
            name: The name of the tool; only the first piece needs it.
        """
        self._take(TOOL_CALL, arguments, call=id, name=name)

    def flush(self) -> None:
        """Store all pieces written so far; durable when it returns.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it.
            UnavailableError: The store did not answer. The text in `unsaved` may be stored or not; it is tried again.
        """
        with self._turn:
            self._require_open()
            if self._live.tape.unsaved:
                self._store()

    def finish(self, /, **fields: object) -> Appended:
        """End the answer, and record it as a node with the id of the stream. The end of the block calls it.

        Args:
            fields: Further fields of the message.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it; nothing was recorded.
            UnavailableError: The store did not answer; call `finish` again. Further errors are those of `append`.
        """
        return self._finish(StreamStatus.COMPLETE, **fields)

    def stop(self, /, **fields: object) -> Appended:
        """End the answer early, because the user stopped it: the brief of its node says `stream: stopped`.

        Arguments and errors as for `finish`.
        """
        return self._finish(StreamStatus.STOPPED, **fields)

    def fail(self, reason: str) -> None:
        """Give up: the stream stays open, and readers see that it failed, and why.

        Then `continue_stream`, `keep_stream` or `discard_stream` can end it.

        Args:
            reason: A text for people, not a part of the answer. At most 200 bytes of it are kept.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it.
            UnavailableError: The store did not answer.
        """
        with self._turn:
            self._require_open()
            self._perform(verbs.streaming.fail, self._live, reason)
            self._end()

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
        """Call `fail` unless the stream has ended, and raise no error: readers also notice missing signs of life."""
        try:
            if not self._ended:
                self.fail(reason)
        except TreeringError:
            self._end()

    def _take(self, kind: str, text: str, *, call: str = "", name: str = "", signature: str = "") -> None:
        if self._add(kind, text, call=call, name=name, signature=signature):
            self._woken.set()
        if self._unsaved_bytes > UNSAVED_BYTES_MAX:
            self.flush()

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

    def _finish(self, status: StreamStatus, /, **fields: object) -> Appended:
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
