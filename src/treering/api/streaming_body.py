"""The state of stream writers, without I/O: the answer so far, which pieces wait, and when to store them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from treering.errors import StreamLostError, TreeringError, UnavailableError, UsageError
from treering.ids import uptime
from treering.journal.stream import BEAT_SECONDS
from treering.kinds import Kind
from treering.session.verbs.streaming import Live
from treering.storage.requests import Driver

WINDOW_SECONDS: Final = 0.1
"""On a disk, a piece is stored when it is this old."""
WINDOW_BYTES: Final = 16 * 1024
"""On a disk, pieces are also stored when this much waits."""
REMOTE_SECONDS: Final = 0.5
"""Time between two writes to an object store: at most two requests a second."""
RETRY_SECONDS: Final = 1.0
"""Time after a write without an answer until it is tried again."""
UNSAVED_BYTES_MAX: Final = 1024 * 1024
"""If more than this waits, a call that writes waits until it is stored."""


class StreamBody:
    """An answer that is being written."""

    def __init__(self, live: Any, driver: Any) -> None:
        self._live: Live = live
        self._driver: Driver = driver
        self._lock = Lock()
        self._unsaved_bytes = 0
        self._oldest: float | None = None
        """When the oldest waiting piece was written."""
        self._sent = uptime()
        """When the last write began."""
        self._trouble = False
        """A write is running, or the last one had no answer."""
        self._error: TreeringError | None = None
        self._ended = False
        self._is_ending = False
        """The end was sent and had no answer: it may be recorded, so no piece can be stored any more."""
        self._pid = os.getpid()

    def __repr__(self) -> str:
        """The id, the offset, and whether the stream has ended."""
        return f"<{type(self).__name__} {self.id!r} at {self.offset}{', ended' if self._ended else ''}>"

    @property
    def id(self) -> str:
        """The id of the stream, and of the node that it becomes."""
        return self._live.id

    @property
    def text(self) -> str:
        """The text so far, without thinking and calls."""
        return self._live.answer.text

    @property
    def offset(self) -> int:
        """The offset at the end of the answer so far; see `follow_stream`."""
        return self._live.answer.offset

    @property
    def unsaved(self) -> str:
        """The text of all pieces that are not known to be stored, including thinking and the arguments of calls."""
        return "".join(piece.text for piece in self._live.tape.unsaved)

    def _add(self, kind: str, text: str, *, call: str = "", name: str = "", signature: str = "") -> bool:
        """Add a piece; return whether the thread or task that stores pieces has to wake up for it."""
        with self._lock:
            self._require_open()
            piece = self._live.answer.add(kind, text, call=call, name=name, signature=signature)
            if piece is None:
                return False
            self._live.tape.add(piece)
            first, self._oldest = self._oldest is None, self._oldest or uptime()
            before, self._unsaved_bytes = self._unsaved_bytes, self._unsaved_bytes + len(text.encode())
            return first or before < WINDOW_BYTES <= self._unsaved_bytes

    def _require_open(self, *, ends: bool = False) -> None:
        """Raise if nothing can be written any more; with `ends`, if it cannot be ended.

        Raises:
            StreamLostError: Another writer took the stream over, or ended it.
            UsageError: It has ended, or may have; or another process began it.
        """
        if self._is_ending and not ends:
            raise UsageError(
                f"the stream may have ended: that had no answer. stream={self.id!r}", kind=Kind.STREAM,
                remedy="call `finish` or `stop` again",
            )  # fmt: skip
        if self._error is not None:
            raise self._error
        if self._ended or os.getpid() != self._pid:
            raise UsageError(f"the stream has ended, or is another process's. stream={self.id!r}", kind=Kind.STREAM)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Store no more pieces from here on, unless it turns out inside the block that the end was not recorded."""
        self._require_open(ends=True)
        self._is_ending = True
        try:
            yield
        except UnavailableError:
            raise
        except TreeringError:
            self._is_ending = False
            raise

    def _seconds_left(self) -> float:
        """How long to wait before the next write."""
        now = uptime()
        with self._lock:
            if self._trouble:
                return self._sent + RETRY_SECONDS - now
            if self._oldest is None:
                return self._sent + BEAT_SECONDS - now
            if not self._driver.appends:
                return self._sent + REMOTE_SECONDS - now
            return 0.0 if self._unsaved_bytes >= WINDOW_BYTES else self._oldest + WINDOW_SECONDS - now

    def _sending(self) -> None:
        """Note that a write begins."""
        with self._lock:
            self._sent, self._oldest, self._unsaved_bytes, self._trouble = uptime(), None, 0, True

    def _stored(self) -> None:
        """Note that the write is done."""
        with self._lock:
            self._trouble = False

    def _fatal(self, error: TreeringError) -> None:
        """Note that nothing can be stored any more."""
        if isinstance(error, StreamLostError):
            error.unsaved = self.unsaved
        self._error = error
