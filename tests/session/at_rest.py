"""What a store holds at rest, decoded; and protocols that are stopped in the middle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec
from tests.drivers import PassingDriver

from treering.format.frames import decompress_frame, skippable_payload, walk
from treering.format.paths import SessionKeys
from treering.format.register import Card, Tail, decode_tail, encode_latest, encode_tail
from treering.ids import new_nonce
from treering.journal.register import LatestRegister
from treering.session.content import Restored
from treering.session.reader import Readable
from treering.storage.requests import (
    ABSENT,
    Answer,
    Batch,
    Delete,
    Deleted,
    Driver,
    Found,
    Get,
    Put,
    Request,
    Steps,
    Written,
)
from treering.storage.run import run
from treering.testing.conformance import ask

T = TypeVar("T")
MAGIC = b"\x28\xb5\x2f\xfd"  # of a zstd frame
INDEX_KIND = 4


def contents(data: bytes) -> bytes:
    """All that an object says: its bytes, the content of all its frames, and the index inside a skippable one."""
    if not data.startswith(MAGIC):
        return data
    parts = [data]
    for frame in walk(data, key=""):
        if frame.content_size is not None:
            parts.append(decompress_frame(data, frame, key=""))
        elif data[frame.offset : frame.offset + 4] == (0x184D2A50 + INDEX_KIND).to_bytes(4, "little"):
            inner = skippable_payload(data, frame, INDEX_KIND, key="")[4:]
            parts.append(decompress_frame(inner, next(iter(walk(inner, key=""))), key=""))
    return b"".join(parts)


def holding(objects: Mapping[str, bytes], *secrets: str) -> list[str]:
    """The objects in which any of some texts can still be found."""
    wanted = [secret.encode() for secret in secrets]
    return [key for key, data in objects.items() if any(text in contents(data) for text in wanted)]


def replaces(part: str) -> Callable[[Request], bool]:
    """Chooses writes of objects with this in their key, but for those that only put a tombstone where nothing is."""
    return lambda request: isinstance(request, Put) and part in request.key and request.expect != ABSENT


def put_back(driver: Driver, session: str, before: bytes) -> None:
    """Write the log of a session anew as it was before: the sync of what came then failed, so it was never safe."""
    key = f"sessions/{session}/tail.jsonl"
    now = ask(driver, Get(key), Found)
    tail = decode_tail(before, key=key, compressed=False)
    anew = Tail(header=msgspec.structs.replace(tail.header, nonce=new_nonce()), lines=tail.lines)
    ask(driver, Put(key, encode_tail(anew, compressed=False), now.version), Written)


def put_card(driver: Driver, session: str, change: Callable[[Card], Card]) -> None:
    """Change the card of a session, and move its marker to where the new card names it; without a name it goes."""
    keys = SessionKeys("", session, driver.appends)
    there = run(LatestRegister(keys).read(), driver)
    assert there.value is not None
    old, new = there.value.card, change(there.value.card)
    ask(driver, Delete((keys.marker(old.marker),)), Deleted)
    if new.marker:
        ask(driver, Put(keys.marker(new.marker), b""), Written)
    ask(driver, Put(keys.latest, encode_latest(new, there.value.lines), expect=there.version), Written)


class Paused(Generic[T]):
    """A protocol that is stopped before it sends a request of some kind, and can be let go later."""

    def __init__(self, steps: Steps[T], driver: Driver, before: Callable[[Request], bool]) -> None:
        self._steps, self._driver = steps, driver
        self.batch: Batch = next(steps)
        """What it is about to send."""
        while not any(map(before, self.batch)):
            self.batch = steps.send(driver.execute(self.batch))

    def go_on(self, driver: Driver | None = None) -> T:
        """Let it send what it was about to, and all the rest; through another driver if one is given."""
        try:
            while True:
                self.batch = self._steps.send((driver or self._driver).execute(self.batch))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


class KilledError(BaseException):
    """The process ends here."""


class KilledDriver(PassingDriver):
    """Passes on so many requests and then kills whoever asks."""

    def __init__(self, inner: Driver, requests: int) -> None:
        super().__init__(inner)
        self._left = requests

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run a batch if there are requests left."""
        self._left -= len(batch)
        if self._left < 0:
            raise KilledError
        return self.inner.execute(batch)


def restored_at(opened: Readable, node: str | None, *, head: str | None = None) -> Steps[Restored]:
    """What an open session would be like at a node; for `perform`."""
    return opened.content.restore(node, head=head)
