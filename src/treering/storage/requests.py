"""The interface between protocols and drivers: five requests, their answers, and what a driver guarantees.

Protocols (append, seal, resume, ...) are generators without I/O. They yield a batch of requests, which a driver runs in
parallel, and receive one answer for each. An answer is a value or a `TreeringError`, returned and not raised, so that
one failed request does not hide the answers to the rest.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NewType, Protocol, TypeAlias, TypeVar

import msgspec

from treering.errors import TreeringError

Version = NewType("Version", str)
"""Opaque token of one state of one object; equal tokens mean equal bytes."""
ABSENT = Version("")
"""As an expected version: the object must not exist yet."""

LIST_KEYS_MAX = 1000  # what one S3 LIST returns
DELETE_KEYS_MAX = 1000  # what one S3 DeleteObjects takes


class Get(msgspec.Struct, frozen=True):
    """Read an object, or a part of it. Answered by `Found`, `Unchanged` or `NotFoundError`."""

    key: str
    start: int | None = None
    """First byte. If negative: that many bytes from the end (the whole object if it is shorter)."""
    end: int | None = None
    """One past the last byte; None for the rest. A range beyond the object's end is cut, not refused."""
    unless: Version | None = None
    """Answer `Unchanged` if the object still has this version."""
    register: bool = False
    """The object is written with conditions (see `Put.expect`)."""


class Put(msgspec.Struct, frozen=True):
    """Write a whole object. Answered by `Written`, `ConflictError` or, with a version, perhaps `NotFoundError`.

    Atomic: readers see the old bytes or the new ones, never a mixture. Durable when answered.
    """

    key: str
    data: bytes
    expect: Version | None = None
    """None: write unconditionally (only for keys never used twice). `ABSENT`: create. Else replace that version."""
    keeps_time: bool = False
    """A driver that serves `Append` keeps the time of modification of what is replaced, since nothing is new in it."""


class Append(msgspec.Struct, frozen=True):
    """Add bytes at the end of a log (a key ending in `.jsonl`). Answered by `Written` or an error like `Put`'s.

    `expect` names the first line and the length of complete lines. Bytes beyond that length which hold no complete
    line (a torn write) are cut. Only for drivers whose `appends` is true.
    """

    key: str
    data: bytes
    expect: Version
    """A version from the answer to a `Get`, `Put` or `Append`."""


class List(msgspec.Struct, frozen=True):
    """Name objects below `prefix`, sorted. Answered by `Listed`; an unknown prefix is an empty list.

    Some servers sort folder by folder, so `a/b` may come before `a-b`; to continue, pass the last key received as
    `after`.
    """

    prefix: str
    """Ends in `/`; empty for everything."""
    after: str = ""
    """Only keys greater than this one."""
    limit: int = LIST_KEYS_MAX
    """At least 1; an answer never has more than `LIST_KEYS_MAX` entries."""
    names_only: bool = False
    """Sizes and times are not needed: where each of them costs a system call, they may be 0."""


class Delete(msgspec.Struct, frozen=True):
    """Remove objects. Answered by `Deleted`; a missing key is not an error."""

    keys: tuple[str, ...]
    expect: Version | None = None
    """Only for a single key: remove it if it still has this version, else `ConflictError`."""


class Found(msgspec.Struct, frozen=True):
    """The answer to a `Get`: the requested bytes, and the version and size of their object."""

    data: bytes
    version: Version
    """If a part was requested, it may be valid for `unless` only, and satisfy no condition on a write."""
    size: int
    """Bytes of the whole object, also when a part was requested."""
    lost_bytes: int = 0
    """Durable bytes that are missing at the end of a log now: the file was damaged or replaced from outside."""
    modified_ms: int = 0
    """When the object was written, by the store's clock, if the store appends and a part was requested; else 0."""


class Unchanged(msgspec.Struct, frozen=True):
    """The answer to a `Get` with `unless`: nothing was read, the object still has that version."""


class Written(msgspec.Struct, frozen=True):
    """The answer to a `Put` or `Append` that is durable, with the version that it made."""

    version: Version


class Entry(msgspec.Struct, frozen=True):
    """One object in a list."""

    key: str
    size: int
    modified_ms: int


class Listed(msgspec.Struct, frozen=True):
    """The answer to a `List`, in the order of the store."""

    entries: tuple[Entry, ...]
    more: bool
    """There are keys after the last one; list again with `after`."""


class Deleted(msgspec.Struct, frozen=True):
    """The answer to a `Delete`: none of the keys exists any more."""


Request: TypeAlias = Get | Put | Append | List | Delete
Answer: TypeAlias = Found | Unchanged | Written | Listed | Deleted | TreeringError
Batch: TypeAlias = tuple[Request, ...]

T = TypeVar("T")
Steps: TypeAlias = Generator[Batch, tuple[Answer, ...], T]
"""A protocol without I/O: yields batches, receives their answers in order, returns T."""


def key_of(request: Request) -> str:
    """The key of a request; the prefix of a list, or the first key of a deletion."""
    if isinstance(request, List):
        return request.prefix
    if isinstance(request, Delete):
        return request.keys[0] if request.keys else ""
    return request.key


class Hold(Protocol):
    """A lock on a session, held by this process until released."""

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        ...


class Driver(Protocol):
    """Runs batches of requests against one store. Safe to use from several threads."""

    name: str
    """For messages: `memory`, `local`, `s3`, ..."""
    conditional: bool
    """Conditions on writes hold against any other process. If false, the user must promise a single writer."""
    proven: bool
    """Conditions are known to hold (our own code). If false, a probe checks them before this process first writes."""
    appends: bool
    """The driver serves `Append`; then the log of a session is appended to in place and not rewritten."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run all requests, in parallel where that helps; one answer for each, in order.

        Never raises because of a single request.
        """
        ...

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Like `execute`, without blocking the event loop."""
        ...

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> Hold | None:
        """Lock `key` for this process until released; None if this store has no locks.

        Args:
            key: A key that is used only for this lock.
            shared: Allow other shared holders at the same time.
            holder: One line that describes this process; shown to later processes.
            create: Create the key if needed. If false, return None if its folder does not exist.

        Raises:
            SessionHeldError: Another process holds it; the message shows its line.
        """
        ...

    def keeps_versions(self) -> bool | None:
        """Whether old bytes stay readable in the store after they were replaced or deleted; None if unknown."""
        ...

    def scrub(self, *keys: str) -> None:
        """Remove files of the driver that may hold earlier bytes of objects.

        Args:
            keys: Objects. A key that ends in `/` is a folder, with all objects below it. Missing objects are skipped.

        Raises:
            TreeringError: A file could not be removed; call again.
        """
        ...

    def close(self) -> None:
        """Close connections and descriptors. The driver may be used again afterwards."""
        ...
