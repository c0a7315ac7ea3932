"""Every error that the library raises, grouped by what the caller does next.

    TreeringError
    ├── UsageError            fix the call; nothing was written           (also ValueError)
    ├── NotFoundError         the key, session, node or checkpoint does not exist (also KeyError)
    │   └── SessionDeletedError   deleted, perhaps created again: open it anew
    ├── ConflictError         another writer was first: read again, then decide
    │   ├── HeadMovedError    the head is not where the caller said it was
    │   ├── SessionHeldError  another process or worker holds the session: wait, or open it shared
    │   ├── LeaseLostError    another worker took the lease: stop, only its records count now
    │   ├── UnresolvedEffectError  a call began before and may have been made: find out, then end the effect
    │   └── StreamLostError   another writer continues the answer, or ended it: stop
    ├── UnavailableError      the store did not answer; the write may or may not have landed (also OSError)
    │   └── PoisonedError     a sync failed: only a rewrite can be trusted
    ├── AccessError           the store refused the credentials or the path  (also PermissionError)
    ├── UnsafeStoreError      the store cannot keep the promises asked of it
    ├── CorruptError          bytes at rest are damaged or missing: run `treering verify`
    └── FormatVersionError    written by a newer version: upgrade

`kind` is a stable word for programs, one of `treering.Kind`; message texts may change. There is a new class only where
a caller would act differently; otherwise there is a new kind.
"""

from __future__ import annotations

from typing import ClassVar


class TreeringError(Exception):
    """Base of all errors raised by this library.

    Attributes:
        kind: A stable word that distinguishes errors of one class.
        key: The storage key concerned, or None.
        offset: The byte offset inside the object, or None.
        remedy: What to do, or empty.
    """

    usual_remedy: ClassVar[str] = ""
    """The remedy of errors of this class that are made without one."""

    def __init__(
        self, message: str, *, kind: str = "", key: str | None = None, offset: int | None = None, remedy: str = ""
    ) -> None:
        self.kind = str(kind) or type(self).__name__.removesuffix("Error").lower()
        self.key = key
        self.offset = offset
        self.remedy = remedy = remedy or self.usual_remedy
        where = [f"{name}={value!r}" for name, value in (("key", key), ("offset", offset)) if value is not None]
        text = ". ".join(part for part in (message, ", ".join(where)) if part)
        super().__init__(f"{text}; {remedy}" if remedy else text)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__  # KeyError would quote it


class UsageError(TreeringError, ValueError):
    """The call itself is wrong; nothing was written."""


class NotFoundError(TreeringError, KeyError):
    """The requested object does not exist."""


class SessionDeletedError(NotFoundError):
    """The session was deleted while this handle was open, and perhaps created again."""


class ConflictError(TreeringError):
    """Another writer was first; nothing was written by this call."""


class HeadMovedError(ConflictError):
    """The head is not where the caller expected it."""


class SessionHeldError(ConflictError):
    """Another process, or the worker that has the lease, holds the session exclusively; the message names it."""


class LeaseLostError(ConflictError):
    """Another worker took the lease of the session, since this one gave no sign of life; nothing was written."""


class UnresolvedEffectError(ConflictError):
    """The call began before, here or elsewhere, and its end is not recorded; it must not be made now."""

    usual_remedy = "find out whether it was made, and say so with `end_effect`"


class StreamLostError(ConflictError):
    """Another writer took this stream over, or it was kept, discarded or erased.

    Attributes:
        unsaved: The text that was written and is not stored.
    """

    unsaved: str = ""


class UnavailableError(TreeringError, OSError):
    """The store did not answer. A write may have landed, may land later, or never."""


class PoisonedError(UnavailableError):
    """A sync to disk failed; nothing in the file counts until its content is written to a new file."""


class AccessError(TreeringError, PermissionError):
    """The store refused: wrong credentials, missing rights, or a missing bucket."""


class UnsafeStoreError(TreeringError):
    """The store cannot perform the operation safely, for example because it ignores write conditions."""


class CorruptError(TreeringError):
    """Stored bytes are damaged or missing. Nothing was changed."""

    usual_remedy = "nothing was changed; run `treering verify` to see what else is damaged, and restore it from a copy"


class FormatVersionError(TreeringError):
    """The bytes were written by a newer format version than this library reads."""

    usual_remedy = "upgrade treering"
