"""What happens when somebody comes at the one moment that hardly any schedule by chance would choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.session.at_rest import Paused, holding, replaces
from tests.session.backends import kill, memory_backend
from tests.session.faults import Meeting, Unreliable, latest_write, recorded, says, tail_write

from treering import journal
from treering.api.store import Store
from treering.errors import ConflictError, NotFoundError, SessionDeletedError, UnavailableError, UsageError
from treering.format.erasure import Erasure
from treering.format.paths import SessionKeys
from treering.journal.erase import fence
from treering.journal.life import delete
from treering.journal.resume import resume
from treering.kinds import Kind
from treering.session import upkeep
from treering.session.verbs import forking
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Driver, Get, List, Listed, Put, Request, Steps
from treering.storage.run import run
from treering.storage.wrapper import DriverWrapper
from treering.store import copying
from treering.store.moment import Moment, read_moment
from treering.store.place import Place

SECRET = "the password is swordfish"


class HalvedList(DriverWrapper):
    """Its first list of segments shows none, as half of one does while others merge; before the second it calls."""

    def __init__(self, inner: Driver, before_second: Callable[[], object]) -> None:
        super().__init__(inner)
        self._lists = 0
        self._before_second = before_second

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        if not any(isinstance(request, List) and "/segments/" in request.prefix for request in batch):
            return self.inner.execute(batch)
        self._lists += 1
        if self._lists == 2:
            self._before_second()
        answers = self.inner.execute(batch)
        return tuple(Listed((), more=False) for _ in answers) if self._lists == 1 else answers

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)


def test_a_gap_that_is_seen_twice_may_be_that_of_a_session_which_is_deleted() -> None:
    """A list was halved by a merge, and the next one came right behind a deletion: that is no damage."""
    memory = MemoryDriver()
    others = Store(Place(memory))
    with others.session("s") as session:
        session.append("a")
        session.seal()
        session.append("b")
    view = Store(Place(HalvedList(memory, lambda: others.delete("s")))).view("s")
    with pytest.raises(NotFoundError):
        view.nodes()


def test_a_move_waits_until_latest_carries_what_it_needs() -> None:
    """Somebody else replaces `latest` at that moment, without what the move needs; two reads resume it all the same."""
    memory = MemoryDriver()
    meeting = Meeting(memory)
    others = Store(Place(memory))
    with others.session("s", shared=True) as session:
        first = session.append("a").node
        session.commit(["b"], context=[])
        session.seal()
    session = Store(Place(meeting)).session("s", shared=True)
    other = others.session("s", shared=True)
    meeting.before(latest_write, lambda: other.perform(lambda writer: writer.upkeep.cover(seal=False, again=True)))
    session.checkout(first)
    counts = CountingDriver(memory)
    assert [item.node for item in Store(Place(counts)).view("s").context] == [first]
    assert counts.counts == {"Get": 2}


def test_who_replaces_latest_before_a_move_is_recorded_leaves_in_it_what_the_move_needs() -> None:
    """Somebody else writes `latest` once more before the move is recorded; two reads resume it all the same."""
    memory = MemoryDriver()
    meeting = Meeting(memory)
    others = Store(Place(memory))
    with others.session("s", shared=True) as session:
        first = session.append("a").node
        session.commit(["b"], context=[])
        session.seal()
    session = Store(Place(meeting)).session("s", shared=True)
    other = others.session("s", shared=True)

    def replace() -> None:
        other.refresh()
        other.perform(lambda writer: writer.upkeep.cover(seal=False, again=True))

    meeting.before(lambda request: isinstance(request, Put) and "/tail" in request.key, replace)
    session.checkout(first)
    counts = CountingDriver(memory)
    assert [item.node for item in Store(Place(counts)).view("s").context] == [first]
    assert counts.counts == {"Get": 2}


def test_what_was_stored_late_of_what_was_erased_goes_with_the_next_who_tidies() -> None:
    """A segment that was made before the erasure and arrives after it; nobody erases again."""
    backend = memory_backend()
    driver = backend.driver()
    with backend.store().session("s", shared=True) as session:
        node = session.append(SECRET).node
        sealing = backend.store().session("s", shared=True)._reader.upkeep.seal()
        late = Paused(sealing, driver, lambda request: isinstance(request, Put) and "/segments/" in request.key)
        session.erase(node)
        driver.execute(late.batch)
        assert holding(backend.snapshot(), SECRET) != []
    with backend.store().session("s", shared=True) as session:
        session.optimize()
    assert holding(backend.snapshot(), SECRET) == []


def test_what_was_to_be_brought_before_an_erasure_is_not_in_latest_after_it() -> None:
    """An erasure got no further than the tail, and another one passes while it is finished on the way to a move."""
    memory = MemoryDriver()
    meeting = Meeting(memory)
    others = Store(Place(memory))
    with others.session("s", shared=True) as session:
        session.append("erased before")
        node = session.append(SECRET).node
        session.commit(["after"], context=[])
        session.seal()
    mover = Store(Place(meeting)).session("s", shared=True)
    mover.append("goes on")
    keys = SessionKeys("", "s", appends=False)
    view = run(resume(keys), memory)
    assert run(fence(view, Erasure(epoch=0, time=0, reason="", records=((0, ""),)), nonce="n"), memory) is not None
    mover.refresh()

    def erase() -> None:
        with others.session("s", shared=True) as session:
            session.erase(node)

    meeting.before(latest_write, erase)
    mover.checkout(node)
    assert holding(memory.snapshot(), SECRET) == []
    assert run(resume(keys), memory).epoch == 2


def test_what_a_move_needs_is_brought_although_it_lies_in_the_tail() -> None:
    """Somebody else seals before the move is recorded, the next append drops it from the tail; two reads resume it."""
    memory = MemoryDriver()
    meeting = Meeting(memory)
    others = Store(Place(memory))
    with others.session("s", shared=True) as session:
        first = session.append("a").node
        session.commit(["b"], context=[])  # covered now, and in no segment
    mover = Store(Place(meeting)).session("s", shared=True)
    other = others.session("s", shared=True)

    def seal() -> None:
        other.refresh()
        other.seal()

    meeting.before(tail_write, seal)
    mover.checkout(first)
    mover.refresh()
    last = mover.append("c").node
    counts = CountingDriver(memory)
    assert [item.node for item in Store(Place(counts)).view("s").context] == [first, last]
    assert counts.counts == {"Get": 2}


def test_what_a_killed_fork_left_beside_one_that_lives_goes_with_what_is_erased() -> None:
    """A fork stored its copies while another one got the name, and was killed before it learned of that."""
    backend = memory_backend()
    driver = backend.driver()
    with backend.store().session("s", shared=True) as session:
        node = session.append(SECRET).node
        late = Paused(forking.fork(session._reader, "fork"), driver, _stores_copies)
        session.fork("fork")
        driver.execute(late.batch)
        assert len({key.split("/")[2] for key in holding(backend.snapshot(), SECRET) if "sessions/fork/" in key}) == 2
        session.erase(node)
    assert holding(backend.snapshot(), SECRET) == []


def _stores_copies(request: Request) -> bool:
    return isinstance(request, Put) and request.key.startswith("sessions/fork/") and "/segments/" in request.key


@pytest.mark.parametrize("number", range(1, 8))
def test_who_creates_a_session_knows_nothing_of_an_earlier_one(number: int) -> None:
    """A session is deleted while a handle reads its graph to open it; what the handle begins then is all new."""
    memory = MemoryDriver()
    meeting, others = Meeting(memory), Store(Place(memory))
    first, second = (others.session("s", shared=True) for _ in range(2))
    first.append("old")
    second.refresh()
    first.branch("other")
    first.compact("gist")
    first.seal()
    second.refresh()
    second.drop_head("other")  # which was the current one: only the graph tells what the other head shows
    for each in (first, second):
        kill(each)
    reads = 0

    def is_that_one(request: Request) -> bool:
        nonlocal reads
        reads += isinstance(request, Get)
        return reads == number

    meeting.before(is_that_one, lambda: others.delete("s"))
    session = Store(Place(meeting)).session("s", shared=True, hold=False)
    if session.is_new:
        session.append("new")
        assert [row.id for row in session.nodes()] == [session.node]
        assert [row.id for row in others.view("s").nodes()] == [session.node]


def test_who_creates_a_session_again_uses_another_folder() -> None:
    """Somebody deletes what a handle created without an answer, and is slow to empty the folder of it."""
    place = Unreliable()
    session = place.store.session("s")
    place.fails(Fault.AFTER, lambda: session.append("lost"), replaces("latest/"))
    removing = Paused(
        delete(SessionKeys("", "s", appends=False), nonce="d"), place.memory, lambda request: isinstance(request, List)
    )
    session.append("kept")
    session.seal()
    session.append("in the tail")
    removing.go_on()
    assert recorded(place.sound.view("s")) == ["kept", "in the tail"]


def test_nothing_behind_the_end_is_listed_as_erased() -> None:
    """A record was seen in a log before it was safe, and is gone: what takes its place must not be taken for erased."""
    memory = MemoryDriver(appends=True)
    keys = SessionKeys("", "s", appends=True)
    with Store(Place(memory)).session("s") as session:
        session.append("a")
    view, before = run(resume(keys), memory), memory.snapshot()
    gone = Erasure(epoch=0, time=0, reason="", records=((view.end, ""),))
    assert run(fence(view, gone, nonce="n"), memory) is None
    assert memory.snapshot() == before
    there = msgspec.structs.replace(gone, records=((view.end - 1, ""),))
    assert run(fence(view, there, nonce="n"), memory) is not None


def test_what_was_put_off_and_is_about_nothing_any_more_does_not_wait_for_ever() -> None:
    """An edit waits for the end of its turn, and what it is about is erased meanwhile: there is nothing to record."""
    store = Store(Place(MemoryDriver()))
    with store.session("s", shared=True) as session:
        node = session.append("a").node
        waiting = store.session("s", shared=True, durability="turn")
        waiting.amend(node, {"role": "user", "content": "b"})
        session.erase(node)
        waiting.refresh()
        waiting.flush()
        waiting.append("c")
        waiting.close()
    assert {"role": "user", "content": "c"} in [row.node.payload for row in store.view("s").history().rows]


@pytest.mark.parametrize("tidies", [False, True])
@pytest.mark.parametrize("erases", [False, True])
def test_an_exclusive_handle_goes_on_beside_one_that_only_seals_and_erases(
    monkeypatch: pytest.MonkeyPatch, *, erases: bool, tidies: bool
) -> None:
    """None is an append: nor is it one that its own records leave the tail before it knows that they are there."""
    monkeypatch.setattr(upkeep, "SEALED_BYTES_DROP", 1)
    place = Unreliable(appends=True)
    other = place.sound.session("s", shared=True)
    one = other.append("one").node
    other.append("two")
    kill(other)
    session = place.store.session("s")
    kill(session)
    place.fails(Fault.AFTER if tidies else Fault.BEFORE, lambda: session.append("in doubt"))
    other.refresh()
    other.seal()
    if erases:
        other.erase(one)
    if tidies:
        other.optimize(everything=True)
        assert not other._reader.replica.view.tail.lines
    session.append("three")
    between = ["in doubt"] * tidies
    assert says(session)[1:] == says(place.sound.view("s"))[1:] == ["two", *between, "three"]


@pytest.mark.parametrize("in_doubt", [False, True])
def test_an_exclusive_handle_stops_where_others_left_nothing_in_the_tail(
    monkeypatch: pytest.MonkeyPatch, *, in_doubt: bool
) -> None:
    """What somebody else recorded is sealed and dropped before the handle looks again; its own append may be, too."""
    monkeypatch.setattr(upkeep, "SEALED_BYTES_DROP", 1)
    place = Unreliable()
    session = place.store.session("s")
    session.append("one")
    kill(session)
    if in_doubt:
        place.fails(Fault.AFTER, lambda: session.append("in doubt"))
    with place.sound.session("s") as other:
        other.append("two")
        other.seal()
    assert not run(resume(SessionKeys("", "s", appends=False)), place.memory).tail.lines
    with pytest.raises(ConflictError):
        session.append("three")
    assert recorded(place.sound.view("s")) == ["one", *(["in doubt"] * in_doubt), "two"]


def test_a_scan_does_not_go_on_in_another_session_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is deleted and created again after it was opened: neither a copy nor a scan mixes the two."""
    store = Store(Place(MemoryDriver()))
    with store.session("s", title="first") as session:
        session.append("one")
    view = store.view("s")

    def replaced(keys: SessionKeys) -> Steps[Moment]:
        found = yield from read_moment(keys)
        store.delete("s")
        with store.session("s", title="second") as session:
            session.append("two")
        return found

    monkeypatch.setattr(copying, "read_moment", replaced)
    with pytest.raises(SessionDeletedError):
        store.copy("s", name="copy")
    with pytest.raises(SessionDeletedError):
        list(view.lines())
    assert recorded(store.view("s")) == ["two"]


def test_a_branch_keeps_its_state_where_a_refused_handle_of_another_head_seals() -> None:
    """The branch begins at the very node of a first append that had no answer; whoever seals then says what it has."""
    bucket = Unreliable()
    session = bucket.store.session("s")
    bucket.plan.arm(Fault.AFTER, tail_write, after=1)  # the first one looks for a tombstone
    with pytest.raises(UnavailableError):
        session.append("x")
    session._holds.pop().release()  # no bucket has locks
    with bucket.sound.session("s", shared=True, create=False) as other:
        other.branch("aside")
        other.commit(state={"step": 2})
    with pytest.raises(ConflictError):
        session.append("y")
    session.seal()
    view = bucket.sound.view("s")
    assert (view.head, view.state) == ("aside", {"step": 2})
    assert bucket.sound.verify("s") == []


def test_what_a_seal_of_a_full_tail_read_was_shown_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put together from parts: an append meets a full tail, and sealing it reads what another writer committed."""
    append, seal = journal.append.append, upkeep.Upkeep.seal
    full = [True]

    def meets_a_full_tail(*args: Any, **named: Any) -> Steps[object]:
        if full:
            full.pop()
            raise UsageError("the tail is full", kind=Kind.TAIL_FULL)
        return (yield from append(*args, **named))

    def reads(kept: upkeep.Upkeep) -> Steps[None]:
        yield from seal(kept)
        yield from kept._replica.catch_up()

    memory = MemoryDriver()
    session = Store(Place(memory)).session("s", shared=True)
    session.commit(["x"], state={"n": 0})
    with Store(Place(memory)).session("s", shared=True) as other:
        other.commit(state={"n": 5})
    monkeypatch.setattr(journal.append, "append", meets_a_full_tail)
    monkeypatch.setattr(upkeep.Upkeep, "seal", reads)
    session.commit(state={"n": 1})
    assert full == []
    assert session.head == "main-2"
    view = Store(Place(memory)).view("s")
    assert (view.head, view.state) == ("main", {"n": 5})


@pytest.mark.parametrize("flushes", [False, True])
def test_an_exclusive_handle_beside_the_current_head_stays_on_its_own(*, flushes: bool) -> None:
    """It got there by a branch that had no answer and was there already, while another writer went back to `main`."""
    bucket = Unreliable()
    session = bucket.store.session("s")
    session.append("one")
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        session.branch("side")
    session._holds.pop().release()  # no bucket has locks
    with bucket.sound.session("s", shared=True, create=False) as other:
        other.switch("main")
        other.commit(["theirs"], state={"n": 1})
    session.refresh()
    session.commit(["mine"], state={"n": 2})
    assert (session.head, says(session)) == ("side", ["one", "mine"])
    bucket.fails(Fault.BEFORE, lambda: session.append("lost"))
    if flushes:
        session.flush()
    else:
        session.append("more")
    assert says(session)[:2] == ["one", "mine"]
    assert (session.head, session.state) == ("side", {"n": 2})
    assert says(bucket.sound.view("s")) == ["one", "theirs"]
    assert bucket.sound.verify("s") == []


@pytest.mark.parametrize("shared", [False, True])
def test_a_handle_goes_on_from_what_a_refresh_showed(*, shared: bool) -> None:
    """Its append had no answer and was there already, as was what another writer added to it."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=shared)
    session.commit(["one"], state={"n": 0})
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        session.commit(["mine"], state={"n": 1})
    if not shared:
        session._holds.pop().release()  # no bucket has locks
    with bucket.sound.session("s", shared=True, create=False) as other:
        other.commit(["theirs"], state={"n": 2})
    session.refresh()
    assert (says(session), session.state) == (["one", "mine", "theirs"], {"n": 2})
    session.flush()
    assert (says(session), session.state) == (["one", "mine", "theirs"], {"n": 2})
    session.commit(["more"], state={"n": 3})
    assert session.head == "main"
    view = bucket.sound.view("s")
    assert (says(view), view.state) == (["one", "mine", "theirs", "more"], {"n": 3})
    assert bucket.sound.verify("s") == []


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_handle_behind_a_late_commit_of_state_goes_on_from_what_a_refresh_showed(
    *, shared: bool, elsewhere: bool
) -> None:
    """The commit had no message, so the head and the node alone do not say what the refresh showed."""
    bucket = Unreliable()
    session = bucket.store.session("s", shared=shared)
    session.commit(["zero"], state={"n": -1})
    session.commit(["one"], state={"n": 0})
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        session.commit(state={"n": 1})
    if not shared:
        session._holds.pop().release()  # no bucket has locks
    with bucket.sound.session("s", shared=True, create=False) as other:
        if elsewhere:
            other.branch("side", node=other.path()[0])
        other.commit(state={"n": 2})
    session.refresh()
    moves = elsewhere and not shared  # a shared handle keeps its head
    head, n = "side" if moves else "main", 2 if moves or not elsewhere else 1
    assert (session.head, session.state) == (head, {"n": n})
    session.flush()
    assert (session.head, session.state) == (head, {"n": n})
    session.commit(["more"], state={"n": 3})
    assert session.head == head
    assert (says(session)[-1], session.state) == ("more", {"n": 3})
    assert bucket.sound.verify("s") == []


@pytest.mark.parametrize("lost", [2, 3, 4])
def test_what_is_sealed_behind_a_late_branch_has_the_state_of_the_branch(lost: int) -> None:
    """Both heads are before the first node. The read that would tell the handle the state of its branch is lost."""
    bucket = Unreliable()
    with bucket.sound.session("s", shared=True) as other:
        first = other.commit(state={"n": 1}).checkpoint
        other.seal()
        other.commit(["a"], state={"n": 2})
        other.seal()
        other.rewind(first or "")
        other.seal()
    session = bucket.store.session("s", shared=True)
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        session.branch("side")
    session.refresh()
    assert session.head == "main"
    bucket.plan.arm(Fault.BEFORE, after=lost)
    with pytest.raises(UnavailableError):
        session.flush()
    session.seal()
    view = bucket.sound.view("s")
    *_, newest = view.checkpoints()
    assert (view.head, view.checkpoint_id, newest.head) == ("side", newest.id, "side")


def test_what_is_written_behind_a_late_append_has_the_state_of_the_current_head() -> None:
    """Another writer's branch at the same node is current. The handle goes on from its own late append, on its head."""
    bucket = Unreliable()
    session = bucket.store.session("s")
    session.commit(["one"], state={"n": 0})
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        session.commit(["two"], state={"n": 1})
    session._holds.pop().release()  # no bucket has locks
    with bucket.sound.session("s", shared=True, create=False) as other:
        other.branch("side")
        other.commit(state={"n": 2})
    session.refresh()
    assert (session.head, session.state) == ("side", {"n": 2})
    session._reader.upkeep._card_ms = 1  # the card was written long ago, so this append writes it
    session.compact("gist")
    assert (session.head, session.state) == ("main", {"n": 1})
    view = bucket.sound.view("s")
    assert (view.head, view.state, view.checkpoint_id) == ("side", {"n": 2}, view.checkpoints()[-2].id)
    session.refresh()
    assert (session.head, session.state) == ("side", {"n": 2})
