"""A compare-and-swap register: one object, replaced only while it still has the version that was read.

Every object that several processes change is a register: the tail and `latest` of a session, and parcels. No other code
puts a condition on a write or a deletion; a test checks that.

Rule 1: a swap names the version that it replaces, `ABSENT` if there is no object. Of all swaps that name one version,
one wins.
Rule 2: a lost swap does not prove that another process won. Clients re-send after a lost reply, and then the second
request is refused because the first succeeded. Every value holds the id of its write, so reading the register back
shows which write won.
Rule 3: the outcome of a swap without an answer is unknown: it may take effect now, later, or never. `UnavailableError`
is raised, so that no caller goes on as if the outcome were known. To make the outcome final, change the register: a
swap that names an older version is refused from then on.

A swap that won may be replaced by the next one before it is read back; then it counts as lost. A caller that has to
tell these apart checks content that the next swap keeps: an append checks for its records at their position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, Literal, TypeVar

import msgspec

from treering._late import Kind
from treering.errors import ConflictError, CorruptError, NotFoundError, UnavailableError
from treering.format.paths import SessionKeys
from treering.format.register import (
    Card,
    Latest,
    Tail,
    TailHeader,
    decode_latest,
    decode_tail,
    encode_latest,
    encode_tail,
)
from treering.storage.requests import ABSENT, Answer, Append, Delete, Deleted, Found, Get, Put, Steps, Version, Written
from treering.storage.run import checked, found_in

# A swap that was lost to another process is tried again. Each lost attempt means that another process completed a swap
# within one round trip.
ATTEMPTS_MAX: Final = 100

T = TypeVar("T")


class Cell(msgspec.Struct, Generic[T], frozen=True):
    """The content of a register when it was read."""

    value: T | None
    """None where there is no object."""
    version: Version
    """The version that a swap has to name; `ABSENT` where there is no object."""


class Swapped(msgspec.Struct, frozen=True):
    """The swap won, and is durable."""

    version: Version
    """The version that the swap made."""
    sent_bytes: int


class Lost(msgspec.Struct, frozen=True):
    """The swap was refused: the object has another version, or there is none (rule 2)."""

    sent_bytes: int


class Attempts(msgspec.Struct):
    """Bounds a loop: `while attempts.another():`."""

    key: str
    """The key of the object that concurrent writers keep changing, for the error text."""
    _made: int = 0
    _seen: object = None
    _same: int = 0

    def another(self) -> Literal[True]:
        """Count one more attempt.

        Raises:
            UnavailableError: No attempt is left.
        """
        if self._made == ATTEMPTS_MAX:
            raise UnavailableError(
                f"concurrent writers were faster {ATTEMPTS_MAX} times in a row",
                kind=Kind.BUSY,
                key=self.key,
                remedy="try again when fewer processes write here",
            )
        self._made += 1
        return True

    def in_a_row(self, seen: object) -> int:
        """The number of attempts in a row, this one included, that saw the same value."""
        self._same = self._same + 1 if seen == self._seen else 1
        self._seen = seen
        return self._same


class Register(ABC, Generic[T]):
    """One object that is compared and swapped.

    Args:
        key: The key of the object.
    """

    def __init__(self, key: str) -> None:
        self.key = key

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Return the bytes of a value."""

    @abstractmethod
    def decode(self, data: bytes) -> T:
        """Return the value in some bytes."""

    @abstractmethod
    def write_id(self, value: T) -> str:
        """Return the write id in a value: a random name that its writer chose."""

    def read(self) -> Steps[Cell[T]]:
        """Read the register: one GET.

        Raises:
            CorruptError: It is damaged.
        """
        (answer,) = yield (Get(self.key, register=True),)
        return self.cell(answer)

    def cell(self, answer: Answer) -> Cell[T]:
        """Return the cell in the answer to a GET.

        Raises:
            CorruptError: The object is damaged, or its end is gone.
        """
        there = found_in(answer)
        if there is None:
            return Cell(None, ABSENT)
        value = self.decode(there.data)
        if there.lost_bytes:
            raise lost_end(there, key=self.key)
        return Cell(value, there.version)

    def prepare(self, value: T, *, expect: Version, keeps_time: bool = False) -> Put:
        """Return the request of a swap, for `swap_all`; see `Put.keeps_time`."""
        return Put(self.key, self.encode(value), expect=expect, keeps_time=keeps_time)

    def swap(self, value: T, *, expect: Version, keeps_time: bool = False) -> Steps[Swapped | Lost]:
        """Replace the version `expect` by a value: one PUT.

        Raises:
            UnavailableError: The outcome is unknown (rule 3).
        """
        (outcome,) = yield from swap_all(self.prepare(value, expect=expect, keeps_time=keeps_time))
        return outcome

    def replace(self, value: T, *, expect: Version, keeps_time: bool = False) -> Steps[Swapped | Cell[T]]:
        """Swap, and read the register back if the swap is lost: one PUT, and one GET after a lost one.

        Returns:
            `Swapped` if the register holds `value`; else its content.

        Raises:
            UnavailableError: The outcome is unknown (rule 3).
        """
        outcome = yield from self.swap(value, expect=expect, keeps_time=keeps_time)
        if isinstance(outcome, Swapped):
            return outcome
        there = yield from self.read()
        if there.value is not None and self.write_id(there.value) == self.write_id(value):
            return Swapped(there.version, outcome.sent_bytes)
        return there

    def remove(self, *, expect: Version) -> Steps[bool]:
        """Delete the object if it has the version `expect`: one DELETE. For `ABSENT` it does nothing.

        Returns:
            False if it has another version.
        """
        if expect == ABSENT:
            return True
        (answer,) = yield (Delete((self.key,), expect=expect),)  # rule: purge-by-version
        return not isinstance(checked(answer, Deleted, NotFoundError, ConflictError), ConflictError)


class TailRegister(Register[Tail]):
    """The tail: the records from its base on, or the tombstone of a life.

    On a local disk it is a log, and appends are written in place.
    """

    def __init__(self, keys: SessionKeys) -> None:
        self.key = keys.tail
        self._keys = keys

    def encode(self, value: Tail) -> bytes:
        return encode_tail(value, compressed=not self._keys.appends)

    def decode(self, data: bytes) -> Tail:
        return decode_tail(data, key=self.key, compressed=not self._keys.appends)

    def write_id(self, value: Tail) -> str:
        return value.header.nonce

    def tombstone(self, life: str, nonce: str) -> Tail:
        """The tail of a life that ended or, if `life` is empty, of a life that never existed."""
        return Tail(header=TailHeader(session=self._keys.session, life=life, base=0, dead=True, nonce=nonce))

    def put_tombstone(self, nonce: str) -> Steps[None]:
        """Write the tombstone of a life that never existed, unless there is a tail or another process's tombstone.

        A write that expects the tombstone is refused once it is gone, while a delayed write that expects no object may
        succeed at any time, even after the session was deleted and purged.
        """
        yield from self.swap(self.tombstone("", nonce), expect=ABSENT)


class LatestRegister(Register[Latest]):
    """`latest`: the card, and the newest state with all records that its context needs; or a tombstone."""

    def __init__(self, keys: SessionKeys) -> None:
        self.key = keys.latest
        self._keys = keys

    def encode(self, value: Latest) -> bytes:
        return encode_latest(value.card, value.lines)

    def decode(self, data: bytes) -> Latest:
        return decode_latest(data, key=self.key)

    def write_id(self, value: Latest) -> str:
        return value.card.write

    def tombstone(self, life: str, write: str, *, updated: int = 0, marker: str = "") -> Latest:
        """The `latest` of a life that ended or, if `life` is empty, of a life that never existed."""
        card = Card(session=self._keys.session, life=life, write=write, updated=updated, marker=marker, dead=True)
        return Latest(card=card)


def lost_end(found: Found, *, key: str) -> CorruptError:
    """Return the error for a log whose end is gone though it was durable."""
    return CorruptError(
        f"the last {found.lost_bytes} bytes of the log are gone; they were durable",
        kind=Kind.TRUNCATED,
        key=key,
        offset=found.size,
        remedy="put the object back from a copy, or `treering repair` what is left; if you put an older copy back on "
        "purpose, remove the file .lock beside it",
    )


def extend(key: str, data: bytes, *, expect: Version) -> Steps[Swapped | Lost]:
    """Append bytes in place to a log that has the version `expect`; see `Register.swap`.

    Raises:
        PoisonedError: A sync failed; content that is in this log alone does not count.
        UnavailableError: The outcome is unknown (rule 3).
    """
    (outcome,) = yield from swap_all(Append(key, data, expect=expect))
    return outcome


def swap_all(*requests: Put | Append) -> Steps[list[Swapped | Lost]]:
    """Send swaps of several registers at once; each wins or loses independently.

    Raises:
        UnavailableError: The outcome of a swap is unknown (rule 3).
    """
    outcomes: list[Swapped | Lost] = []
    for request, answer in zip(requests, (yield requests), strict=True):
        told, size = checked(answer, Written, ConflictError, NotFoundError), len(request.data)
        outcomes.append(Swapped(told.version, size) if isinstance(told, Written) else Lost(size))
    return outcomes
