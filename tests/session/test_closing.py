"""What a session leaves behind when it is closed: each record once, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.budgets.texts import texts
from tests.drivers import PassingDriver, Unheld
from tests.session.backends import KINDS, Backend, backend_of, kill, memory_backend
from tests.session.faults import Meeting, Unreliable, recorded, says, tail_write

import treering
from treering import SessionHeldError, UnavailableError, UsageError
from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.session import upkeep
from treering.storage.faulty import Fault
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Batch, Get
from treering.store.place import Place

LONG = texts(400, 3000)
"""More than a tail takes before it is sealed."""
HEADER_BYTES_MAX = 400
SEALED_BYTES = 200_000  # at least, compressed or not


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place for sessions."""
    return backend_of(request.param, tmp_path / "store")


def tail_bytes(backend: Backend) -> int:
    """Size of the tail of the session `s`."""
    (size,) = (len(data) for key, data in backend.snapshot().items() if key.endswith(("tail.jsonl", "tail.jsonl.zst")))
    return size


@pytest.mark.parametrize("shared", [False, True])
def test_a_closed_session_keeps_what_is_sealed_once(backend: Backend, *, shared: bool) -> None:
    """Its tail is a header, resuming reads no sealed record, and it goes on as ever."""
    with backend.store().session("s", shared=shared) as session:
        session.commit(LONG, context=[])
        session.seal()
        assert tail_bytes(backend) > SEALED_BYTES
    assert tail_bytes(backend) < HEADER_BYTES_MAX
    store, counts = backend.counted()
    view = store.view("s")
    latest = backend.snapshot()["latest/s.jsonl.zst"]
    assert (counts.counts, counts.bytes_down - len(latest) < HEADER_BYTES_MAX) == ({"Get": 2}, True)
    assert recorded(view) == LONG
    with store.session("s", shared=shared) as session:
        session.append("next")
        assert len(session.path()) == len(LONG) + 1
    assert recorded(store.view("s")) == [*LONG, "next"]
    assert store.verify("s") == []


def test_what_is_not_sealed_stays_in_the_tail(backend: Backend) -> None:
    """A tail of sealed and unsealed records keeps the unsealed ones."""
    session = backend.store().session("s", shared=True)
    session.commit(LONG[:250], context=[])
    other = backend.store().session("s", shared=True)
    other.append("unsealed")
    session.seal()  # as far as it knows
    other.refresh()
    view = other._reader.replica.view
    assert (view.tail.header.base, len(view.unsealed_lines)) == (0, 1)
    other.close()
    view = other._reader.replica.view
    assert view.tail.lines == view.unsealed_lines
    assert tail_bytes(backend) < 2 * HEADER_BYTES_MAX
    assert recorded(backend.store().view("s")) == [*LONG[:250], "unsealed"]
    kill(session)


def test_a_few_sealed_records_wait_for_the_next_append() -> None:
    """They would not be worth a write of their own: closing is one request, as it is without a seal."""
    store, counts = memory_backend().counted()
    for seals in (False, True):
        with store.session("s") as session:
            session.append("one", "two")
            if seals:
                session.seal()
            counts.reset()
        assert counts.total == 1 - seals


@pytest.mark.parametrize("kind", KINDS)
def test_a_close_costs_one_write_more_where_much_is_sealed(kind: str, tmp_path: Path) -> None:
    """One conditional write of a header, and nothing is read or listed."""
    store, counts = backend_of(kind, tmp_path / "store").counted()
    session = store.session("s")
    session.commit(LONG, context=[])
    session.seal()
    counts.reset()
    session.close()
    assert (counts.counts, counts.bytes_up < HEADER_BYTES_MAX) == ({"Put": 1}, True)


def test_a_handle_that_recorded_nothing_drops_nothing(backend: Backend) -> None:
    """Opening and closing a session whose process was killed writes nothing; `optimize(everything=True)` drops."""
    session = backend.store().session("s")
    session.commit(LONG, context=[])
    session.seal()
    kill(session)
    before = backend.snapshot()
    backend.store().session("s").close()
    assert {key: data for key, data in backend.snapshot().items() if "lock" not in key and "hold" not in key} == {
        key: data for key, data in before.items() if "lock" not in key and "hold" not in key
    }
    with backend.store().session("s") as session:
        session.optimize(everything=True)
    assert tail_bytes(backend) < HEADER_BYTES_MAX


@pytest.mark.parametrize("appends", [False, True])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
def test_a_close_that_cannot_drop_is_a_close(fault: Fault, *, appends: bool) -> None:
    """The store does not take the write, or takes it and does not answer, or takes it late: nothing is lost."""
    place = Unreliable(appends=appends)
    session = place.store.session("s")
    session.commit(LONG, context=[])
    session.seal()
    place.plan.arm(fault, tail_write)
    session.close()
    assert not place.plan.pending
    assert recorded(place.sound.view("s")) == LONG
    with place.sound.session("s") as other:
        other.append("next")
        place.settle()
        other.append("last")
    assert recorded(place.sound.view("s")) == [*LONG, "next", "last"]
    assert place.sound.verify("s") == []


@pytest.mark.parametrize("appends", [False, True])
def test_who_appends_before_a_tail_is_dropped_wins(*, appends: bool) -> None:
    """The drop is refused, and the record stands."""
    memory = MemoryDriver(appends=appends)
    meeting, others = Meeting(memory), Store(Place(memory))
    session = Store(Place(meeting)).session("s", shared=True)
    session.commit(LONG, context=[])
    session.seal()
    other = others.session("s", shared=True)
    meeting.before(tail_write, lambda: other.append("other"))
    session.close()
    assert recorded(others.view("s")) == [*LONG, "other"]


@pytest.mark.parametrize("shared", [False, True])
def test_an_open_handle_goes_on_upon_a_tail_that_was_dropped(backend: Backend, *, shared: bool) -> None:
    """Its next append is refused once, as behind any other write, and then recorded; the head stays the same."""
    session = backend.store().session("s", shared=shared)
    session.commit(LONG, context=[])
    session.seal()
    kill(session)
    view = backend.store().view("s")
    with backend.store().session("s", shared=True) as other:
        other.optimize(everything=True)
        kill(other)
    assert tail_bytes(backend) < HEADER_BYTES_MAX
    session.append("next")
    assert (session.head, len(session.path())) == ("main", len(LONG) + 1)
    assert view.refresh()
    assert recorded(view) == [*LONG, "next"]
    assert says(view)[-1:] == ["next"]
    kill(session)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
def test_an_append_without_an_answer_does_not_stop_who_is_next(fault: Fault, *, shared: bool) -> None:
    """A close finds out whether it is recorded; if not, it never will be. The closed handle shows what is."""
    place = Unreliable()
    session = place.store.session("s", shared=shared)
    session.append("one")
    place.fails(fault, lambda: session.append("two"))
    session.close()
    there = ["one", "two"] if fault is Fault.AFTER else ["one"]
    assert (says(session), says(place.sound.view("s"))) == (there, there)
    session.close()
    with place.sound.session("s") as other:
        place.settle()
        other.append("next")
    assert recorded(place.sound.view("s")) == [*there, "next"]
    assert place.sound.verify("s") == []


def test_a_close_behind_another_writer_is_a_close() -> None:
    """The append is not recorded, and the other writer's record stays."""
    place = Unreliable()
    session = place.store.session("s")
    session.append("one")
    place.fails(Fault.LATE, lambda: session.append("two"))
    Store(Place(Unheld(place.memory))).session("s").append("other")
    session.close()
    place.settle()
    assert recorded(place.sound.view("s")) == ["one", "other"]


@pytest.mark.parametrize("purged", [False, True])
def test_a_close_behind_a_deletion_is_a_close(*, purged: bool) -> None:
    """Nobody asks for the append any more."""
    place = Unreliable()
    session = place.store.session("s")
    session.append("one")
    place.fails(Fault.LATE, lambda: session.append("two"))
    others = Store(Place(Unheld(place.memory)))
    others.delete("s")
    if purged:
        others.purge("s")
    session.close()
    place.settle()
    assert not place.sound.sessions().rows


def test_an_append_in_doubt_is_not_given_up_by_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the close cannot find out, dropping would refuse it for good; so the tail stays, and it may still arrive."""
    monkeypatch.setattr(upkeep, "SEALED_BYTES_DROP", 1)
    place = Unreliable()
    session = place.store.session("s")
    session.append("one")
    session.seal()
    place.fails(Fault.LATE, lambda: session.commit([], state={"n": 1}))
    place.plan.arm(Fault.BEFORE, lambda request: isinstance(request, Get))
    session.close()
    assert not place.plan.pending
    place.settle()
    assert place.sound.view("s").state == {"n": 1}


def test_a_buffered_commit_of_state_alone_is_recorded_at_the_end() -> None:
    """There is no message with it, and something else has created the session."""
    store = memory_backend().store()
    session = store.session("s", first_write="assistant")
    session.commit(state={"n": 1}, label="first")
    session.claim(ttl=30)
    session.close()
    assert store.view("s").state == {"n": 1}


class Gate(PassingDriver):
    """Calls something in front of each batch; an asynchronous one waits for it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalDriver(folder))
        self.before: Callable[[], Any] = lambda: None

    def execute(self, batch: Batch) -> Any:
        self.before()
        return self.inner.execute(batch)

    async def aexecute(self, batch: Batch) -> Any:
        if (waited := self.before()) is not None:
            await waited
        return await self.inner.aexecute(batch)


@pytest.mark.parametrize("error", [UnavailableError("no answer"), KeyboardInterrupt()], ids=["answer", "interrupt"])
def test_a_close_that_failed_is_repeated(tmp_path: Path, error: BaseException) -> None:
    """What was buffered still is, nobody is kept out meanwhile, and the second call records it."""
    driver = Gate(tmp_path)
    session = Store(Place(driver)).session("s", durability="turn")
    session.append("one")
    session.commit()
    session.append("buffered")

    def fail() -> None:
        raise error

    driver.before = fail
    with pytest.raises(type(error)):
        session.close()
    driver.before = lambda: None
    with treering.open(tmp_path).session("s") as other:
        assert says(other) == ["one"]
    assert says(session) == ["one", "buffered"]
    session.close()
    session.close()
    assert says(treering.open(tmp_path).view("s")) == ["one", "buffered"]
    with pytest.raises(UsageError, match="closed"):
        session.append("late")


def test_a_close_tells_again_what_another_writer_prevents(tmp_path: Path) -> None:
    """Buffered messages that can never be recorded keep nobody out; once they are discarded, the handle is closed."""
    session = treering.open(tmp_path).session("s", durability="turn", hold=False)
    session.append("one")
    session.commit()
    session.append("buffered")
    with treering.open(tmp_path).session("s", hold=False) as other:
        other.append("first")
    for _ in range(2):
        with pytest.raises(treering.ConflictError):
            session.close()
    assert [draft.payload["content"] for draft in session.discard()] == ["buffered"]
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.append("late")


def test_a_close_by_a_signal_handler_leaves_all_as_it_is(tmp_path: Path) -> None:
    """It is refused in the middle of a call: the session is neither closed nor unlocked."""
    driver = Gate(tmp_path)
    session = Store(Place(driver)).session("s", durability="turn")
    session.append("one")
    met: list[str] = []

    def handler() -> None:
        for call in (session.close, session.release):
            with pytest.raises(UsageError, match="in the middle of another call") as caught:
                call()
            met.append(caught.value.kind)
        with pytest.raises(SessionHeldError):
            treering.open(tmp_path).session("s")

    session.flush()
    session.append("two")
    driver.before = handler
    session.flush()
    driver.before = lambda: None
    session.append("three")
    session.close()
    assert set(met) == {"reentered"}
    assert says(treering.open(tmp_path).view("s")) == ["one", "two", "three"]


async def test_a_close_that_waited_in_vain_unlocks_nothing(tmp_path: Path) -> None:
    """The append for which it waited ends with the lock, the handle goes on, and the close can be repeated."""
    driver, gate, begun = Gate(tmp_path), asyncio.Event(), asyncio.Event()
    session = await AsyncStore(Place(driver)).session("s")
    await session.append("one")

    def wait() -> Any:
        begun.set()
        return gate.wait()

    driver.before = wait
    append = asyncio.create_task(session.append("two"))
    await begun.wait()
    close = asyncio.create_task(session.close())
    await asyncio.sleep(0)
    close.cancel()
    with pytest.raises(asyncio.CancelledError):
        await close
    with pytest.raises(SessionHeldError):
        treering.open(tmp_path).session("s")
    gate.set()
    await append
    await session.append("three")
    await session.close()
    with treering.open(tmp_path).session("s") as other:
        assert says(other) == ["one", "two", "three"]
