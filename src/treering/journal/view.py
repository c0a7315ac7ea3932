"""The registers of a session as one process read them, each with its version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import overload

import msgspec
from msgspec import UNSET

from treering.errors import FormatVersionError, SessionDeletedError
from treering.format.erasure import Burials
from treering.format.paths import Marks, SessionKeys
from treering.format.record import Record, decode_record
from treering.format.register import Card, Latest, Lease, Tail, TailHeader
from treering.storage.requests import Version

_NEVER_TAKEN = Lease()


class Lines(Sequence[bytes]):
    """Immutable lines; extending them costs time for the added lines only, however many there are.

    Every append extends a tail on disk until it is sealed. A tuple would be copied each time: some thousand references,
    each to an object that is no longer in the processor's cache. A longer sequence shares the list of the shorter one;
    each sees only its own part of the list. Not thread-safe.
    """

    __slots__ = ("_count", "shared", "size")

    def __init__(self, lines: Sequence[bytes], more: Sequence[bytes]) -> None:
        """Join `lines` and `more`; copies `lines` if lines were added behind them before."""
        known = lines if isinstance(lines, Lines) else None
        self.shared: list[bytes] = known.shared if known and len(known.shared) == len(known) else list(lines)
        self.shared += more
        self.size: int = (sum(map(len, lines)) if known is None else known.size) + sum(map(len, more))
        """Total bytes."""
        self._count = len(self.shared)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return islice(self.shared, self._count)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, int):
            return self.shared[range(self._count)[index]]
        if index.indices(self._count) == (0, self._count, 1):
            return self
        return tuple(self.shared[: self._count][index])


class View(msgspec.Struct, frozen=True):
    """Both registers of an existing session, consistent with each other, as they were at one moment.

    `latest` covers the records below `latest.card.covers`; those from there to `end` are in the tail.
    """

    keys: SessionKeys
    latest: Latest
    latest_version: Version
    tail: Tail
    tail_version: Version
    in_place: bool
    """The tail is a log that is in the store exactly as in this view, so records can be appended in place."""

    @property
    def life(self) -> str:
        return self.latest.card.life

    @property
    def end(self) -> int:
        """One past the last position."""
        return self.tail.header.base + len(self.tail.lines)

    @property
    def covers(self) -> int:
        return self.latest.card.covers

    @property
    def sealed(self) -> int:
        return self.latest.card.sealed

    @property
    def epoch(self) -> int:
        """The number of erasures."""
        return self.tail.header.epoch

    @property
    def lease(self) -> Lease:
        """The lease of the worker with exclusive use of the session; number 0 if no worker ever took one."""
        return self.tail.header.lease or _NEVER_TAKEN

    @property
    def burials(self) -> Burials:
        """Which records were erased."""
        return self.tail.header.burials

    @property
    def torn(self) -> bool:
        """An erasure is pending: the tail lists it, and `latest` may still hold the payloads."""
        return self.epoch != self.latest.card.epoch

    @property
    def fresh_lines(self) -> Sequence[bytes]:
        """Lines that `latest` does not cover yet."""
        start = self.covers - self.tail.header.base
        return self.tail.lines[start:] if start > 0 else self.tail.lines

    @property
    def unsealed_lines(self) -> Sequence[bytes]:
        """Lines in no segment yet; `tail.lines` itself if that is all of them."""
        start = self.latest.card.sealed - self.tail.header.base
        return self.tail.lines[start:] if start > 0 else self.tail.lines

    def mark_at(self, position: int) -> str:
        """Return the mark of a position; empty if the registers do not hold it."""
        return self.tail.mark_at(position) or (self.latest.card.mark if position == self.covers else "")

    def marks(self, first: int, end: int) -> Marks:
        """Return the marks of a segment made of records in the registers."""
        return Marks(self.mark_at(first), self.mark_at(end), self.tail.header.erased_mark(self.epoch))

    def with_tail(self, tail: Tail, version: Version) -> View:
        """The same view with a tail that this process wrote."""
        return msgspec.structs.replace(self, tail=tail, tail_version=version, in_place=self.keys.appends)

    def with_latest(self, latest: Latest, version: Version) -> View:
        return msgspec.structs.replace(self, latest=latest, latest_version=version)

    def require_same_life(self, life: str) -> None:
        """Raise if the session was deleted and created again under the same name.

        Raises:
            SessionDeletedError: This view is of another life.
        """
        if self.life != life:  # rule: same-life
            raise deleted(self.keys)

    def require_known_critical(self, knows: Callable[[Record], bool]) -> None:
        """Raise if a seal would cover a record that is marked critical and that this version does not understand.

        Args:
            knows: Whether a record is understood, by its type and kind.

        Raises:
            FormatVersionError: There is such a record among the unsealed ones.
        """
        for line in self.unsealed_lines:
            if b'"critical":true' not in line:
                continue
            record = decode_record(line, key=self.keys.tail)
            if record.critical and not knows(record):
                raise FormatVersionError(
                    f"a critical record is not understood. at={record.at}, type={record.type!r}, kind={record.kind!r}",
                    key=self.keys.tail,
                    remedy="upgrade treering to seal this session; reading goes on",
                )


def empty_tail(card: Card, session: str, nonce: str) -> Tail:
    """The tail of a life before its first append; records that it was born with are in segments.

    If the life was copied from another store, the card may have a list of erasures.
    """
    header = TailHeader(
        session=session,
        life=card.life,
        base=card.born,  # rule: tail-from-born
        epoch=card.epoch,
        erased=card.erased,
        erasures=card.erasures or UNSET,
        before=(card.born, card.mark) if card.mark and card.covers == card.born else UNSET,
        nonce=nonce,
    )
    return Tail(header=header, lines=())


def deleted(keys: SessionKeys) -> SessionDeletedError:
    """The error for access to a deleted session."""
    return SessionDeletedError(
        f"session {keys.session!r} was deleted", key=keys.tail, remedy="open it again to start a new one"
    )
