"""The two registers of a session: `tail`, the write-ahead log, and `latest`, the snapshot that a resume reads."""

from __future__ import annotations

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
from treering.journal.register import Register
from treering.storage.requests import ABSENT, Steps


class TailRegister(Register[Tail]):
    """The tail: the records from its base on, or the tombstone of a life.

    On a local disk it is a log, and appends are written in place.
    """

    def __init__(self, keys: SessionKeys) -> None:
        super().__init__(keys.tail)
        self._keys = keys

    def encode(self, value: Tail) -> bytes:
        return encode_tail(value, compressed=not self._keys.appends)

    def decode(self, data: bytes) -> Tail:
        return decode_tail(data, key=self.key, compressed=not self._keys.appends)

    def write_id(self, value: Tail) -> str:
        return value.header.nonce

    def tombstone(self, life: str, nonce: str) -> Tail:
        """The tail of a life that ended; with an empty `life`, of one that never was."""
        return Tail(header=TailHeader(session=self._keys.session, life=life, base=0, dead=True, nonce=nonce))

    def put_tombstone(self, nonce: str) -> Steps[None]:
        """Write the tombstone of a life that never was if there is no tail; one by another process will do as well.

        A write that replaces it is refused once it is gone, while a delayed write that expects no object may succeed at
        any time, even after the session was deleted and purged.
        """
        yield from self.swap(self.tombstone("", nonce), expect=ABSENT)


class LatestRegister(Register[Latest]):
    """`latest`: the card, and the newest state with all records that its context needs; or a tombstone."""

    def __init__(self, keys: SessionKeys) -> None:
        super().__init__(keys.latest)
        self._keys = keys

    def encode(self, value: Latest) -> bytes:
        return encode_latest(value.card, value.lines)

    def decode(self, data: bytes) -> Latest:
        return decode_latest(data, key=self.key)

    def write_id(self, value: Latest) -> str:
        return value.card.write

    def tombstone(self, life: str, write: str, *, updated: int = 0) -> Latest:
        """The `latest` of a life that ended; with an empty `life`, of one that never was."""
        return Latest(card=Card(session=self._keys.session, life=life, write=write, updated=updated, dead=True))
