"""A record that a newer version marked critical: nothing is sealed over it, and nothing acknowledged is lost."""

from __future__ import annotations

import random

import pytest
from tests.session.backends import kill
from tests.session.faults import recorded

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import FormatVersionError
from treering.format.record import Record
from treering.ids import new_id
from treering.session.recording import Recording
from treering.session.writer import Writer
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Steps
from treering.store.place import Place

TURNS_MAX = 40  # a tail on an object store is full before that


def record_from_the_future(writer: Writer) -> Steps[Recording]:
    """Append what only a newer version understands."""

    def plan() -> Steps[Recording]:
        yield from ()
        recording = Recording(writer)
        recording.records.append(Record(at=0, by="", type="future", id=new_id(), critical=True))
        return recording

    return (yield from writer.appender.write(plan))


def begin(memory: MemoryDriver) -> Session:
    """A session with such a record, opened by this version."""
    session = Store(Place(memory)).session("s")
    session.append("first")
    session.perform(record_from_the_future)
    kill(session)
    return Store(Place(memory)).session("s", durability="turn")


def incompressible(rng: random.Random) -> str:
    """A text that takes a tenth of a full tail, and does not look like an attachment."""
    return f"text {rng.randbytes(100_000).hex()}"


def test_an_append_is_acknowledged_although_a_seal_is_due_that_cannot_be() -> None:
    """Upkeep that is refused after an append never makes it look as if the append had failed."""
    memory = MemoryDriver(appends=True)
    session = begin(memory)
    turns = [f"{turn} " + "x" * 100_000 for turn in range(TURNS_MAX)]
    for text in turns:
        session.commit([text])
    with pytest.raises(FormatVersionError):
        session.seal()
    kill(session)
    assert recorded(Store(Place(memory)).view("s")) == ["first", *turns]


def test_a_full_tail_that_cannot_be_sealed_keeps_what_was_put_off() -> None:
    """Where nothing fits any more the caller is told each time, nothing is recorded, and nothing put off is dropped."""
    memory = MemoryDriver()
    session = begin(memory)
    rng = random.Random(1)
    acknowledged = ["first"]

    def turns() -> None:
        for _ in range(TURNS_MAX):
            text = incompressible(rng)
            session.commit([text])
            acknowledged.append(text)

    with pytest.raises(FormatVersionError):
        turns()
    assert len(acknowledged) > 5
    kill(session)
    session = Store(Place(memory)).session("s", durability="turn")
    texts = [incompressible(rng), incompressible(rng)]  # of which one alone may just fit
    session.append(*texts)
    for _ in range(3):
        with pytest.raises(FormatVersionError):
            session.flush()
        assert [item.message["content"] for item in session.context][-2:] == texts
    assert recorded(Store(Place(memory)).view("s")) == acknowledged
