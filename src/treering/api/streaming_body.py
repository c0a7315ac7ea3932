"""What writers of an answer have besides their calls: what was written so far, and when it is to be stored. No I/O."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, Final

from treering.errors import StreamLostError, TreeringError, UsageError
from treering.ids import uptime
from treering.journal.stream import BEAT_SECONDS
from treering.kinds import Kind
from treering.session.verbs.streaming import Live
from treering.storage.requests import Driver

WINDOW_SECONDS: Final = 0.1
"""What was written so long ago is stored, on a disk."""
WINDOW_BYTES: Final = 16 * 1024
"""And what is followed by so many bytes."""
REMOTE_SECONDS: Final = 0.5
"""Between two writes to an object store: at most two requests a second."""
RETRY_SECONDS: Final = 1.0
"""After a write without an answer."""
UNSAVED_BYTES_MAX: Final = 1024 * 1024
"""Whoever writes more waits until it is stored."""


class StreamBody:
    """An answer that is being written."""

    def __init__(self, live: Any, driver: Any) -> None:
        self._live: Live = live
        self._driver: Driver = driver
        self._lock = Lock()
        self._unsaved_bytes = 0
        self._oldest: float | None = None
        """When the oldest of what waits was written."""
        self._sent = uptime()
        """When the last write began."""
        self._trouble = False
        """The last write had no answer."""
        self._error: TreeringError | None = None
        self._ended = False
        self._pid = os.getpid()

    def __repr__(self) -> str:
        """The id, and how far it is."""
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
        """Behind all that was written; see `follow_stream`."""
        return self._live.answer.offset

    @property
    def unsaved(self) -> str:
        """What of all that was written is not known to be stored."""
        return "".join(piece.text for piece in self._live.tape.unsaved)

    def _add(self, kind: str, text: str, *, call: str = "", name: str = "", signature: str = "") -> bool:
        """Take a piece; true if who writes has to wake up for it."""
        with self._lock:
            self._require_open()
            piece = self._live.answer.add(kind, text, call=call, name=name, signature=signature)
            if piece is None:
                return False
            self._live.tape.add(piece)
            first, self._oldest = self._oldest is None, self._oldest or uptime()
            before, self._unsaved_bytes = self._unsaved_bytes, self._unsaved_bytes + len(text)
            return first or before < WINDOW_BYTES <= self._unsaved_bytes

    def _require_open(self) -> None:
        """Raise if nothing can be written any more.

        Raises:
            StreamLostError: Another writer has it.
            UsageError: It was ended, or begun by another process.
        """
        if self._error is not None:
            raise self._error
        if self._ended or os.getpid() != self._pid:
            raise UsageError(f"the stream has ended, or is another process's. stream={self.id!r}", kind=Kind.STREAM)

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
        """Note that it is done."""
        with self._lock:
            self._trouble = False

    def _fatal(self, error: TreeringError) -> None:
        """Note that nothing can be stored any more."""
        if isinstance(error, StreamLostError):
            error.unsaved = self.unsaved
        self._error = error
