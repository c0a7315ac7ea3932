"""Leases: one worker has a session for itself, on stores with locks and without; who loses it is told, and stops."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.drivers import PassingDriver, Unheld
from tests.servers import S3Server
from tests.session.backends import Backend, kill, local_backend, memory_backend, texts
from tests.session.faults import Meeting, Unreliable, Wanted, tail_write
from tests.storage.processes import start

import treering
from treering.api.async_store import AsyncStore
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import (
    ConflictError,
    LeaseLostError,
    NotFoundError,
    SessionDeletedError,
    SessionHeldError,
    UnavailableError,
    UsageError,
)
from treering.format.register import TailHeader, decode_tail
from treering.journal.lease import SEEN_MAX, FailureDetector
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Driver, Get, Put, Request
from treering.store.place import Place


class Time:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Workers:
    """Computers that work with one store without locks; all see one time, each from a beginning of its own."""

    def __init__(self, driver: Driver) -> None:
        self.driver = Unheld(driver)
        self.time = Time()
        self.count = 0

    def store(self) -> Store:
        """The store, as another computer opens it."""
        self.count += 1000
        place, began = Place(self.driver), self.count
        detector = FailureDetector(lambda: began + self.time())
        place.detector = lambda: detector
        return Store(place)


@pytest.fixture(params=["memory", "logs", "local"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Workers:
    """Workers on each kind of store."""
    if request.param == "local":
        return Workers(local_backend(tmp_path).driver())
    return Workers(memory_backend(appends=request.param == "logs").driver())


def header(session: Session) -> TailHeader:
    """The header of the tail as it is stored."""
    keys, driver = session._reader.keys, session._driver
    (answer,) = driver.execute((treering.storage.requests.Get(keys.tail),))
    assert isinstance(answer, treering.storage.requests.Found)
    return decode_tail(answer.data, key=keys.tail, compressed=not keys.appends).header


def test_a_released_session_is_handed_over_at_once(workers: Workers) -> None:
    """Who comes second is told who has it; when it is closed the next one continues, with a greater number."""
    with workers.store().session("s", claim=30) as first:
        assert first.is_new
        first.append("a")
        assert first.lease is not None
        assert (first.lease.number, first.lease.ttl) == (1, 30)
        assert first.lease.until is not None
        with pytest.raises(SessionHeldError, match=f"pid {os.getpid()}") as told:
            workers.store().session("s", claim=30)
        assert told.value.kind == "leased"
        seen = workers.store().view("s").lease
        assert seen is not None
        assert (seen.number, seen.until) == (1, None)
    assert workers.store().view("s").lease is None
    with workers.store().session("s", claim=30) as second:
        assert second.lease is not None
        assert second.lease.number == 2
        assert texts(second.context) == ["a"]
        second.append("b")
    assert texts(workers.store().view("s").context) == ["a", "b"]


def test_a_session_may_be_claimed_for_a_while(workers: Workers) -> None:
    """A handle takes the lease, gives it back, and takes it again; it then knows what others recorded."""
    one, two = workers.store().session("s"), workers.store().session("s")
    one.claim(ttl=5)
    one.append("a")
    one.release()
    assert workers.store().view("s").lease is None
    two.claim(ttl=5)
    two.append("b")
    two.release()
    one.claim(ttl=5)
    assert texts(one.context) == ["a", "b"]
    assert one.lease is not None
    assert one.lease.number == 3
    one.claim(ttl=7)  # again
    assert one.lease.number == 4
    one.append("c")
    one.close()
    assert texts(workers.store().view("s").context) == ["a", "b", "c"]


def test_a_dead_worker_is_succeeded_after_its_time(workers: Workers) -> None:
    """Who comes again and again takes over when it has seen no sign of life for the time that the lease tells."""
    dead = workers.store().session("s", claim=30)
    dead.append("a")
    kill(dead)
    other = workers.store()
    for seconds in (0, 10, 19.9):
        workers.time.now += seconds
        with pytest.raises(SessionHeldError):
            other.session("s", claim=30)
    with pytest.raises(SessionHeldError):  # it has just come, and knows nothing
        workers.store().session("s", claim=30)
    workers.time.now += 0.2
    with other.session("s", claim=30) as session:
        assert session.lease is not None
        assert session.lease.number == 2
        session.append("b")
    assert texts(workers.store().view("s").context) == ["a", "b"]


@pytest.mark.parametrize(
    "sign", [lambda s: s.append("sign"), lambda s: s.renew(), lambda s: s.renew(ttl=30)], ids=["append", "renew", "ttl"]
)
def test_whoever_gives_a_sign_of_life_keeps_it(workers: Workers, sign: Callable[[Session], object]) -> None:
    """An append is a sign of life as a renewal is; then the time begins anew."""
    with workers.store().session("s", claim=30) as session:
        other = workers.store()
        for _ in range(3):
            with pytest.raises(SessionHeldError):
                other.session("s", claim=30)
            workers.time.now += 29
            sign(session)
        session.append("a")
    assert other.verify("s") == []


def test_what_others_do_is_no_sign_of_life(workers: Workers) -> None:
    """A tail that others rewrite, to erase something or to tidy up, does not keep a dead worker's lease."""
    dead = workers.store().session("s", claim=30)
    node = dead.append("a").node
    dead.seal()
    kill(dead)
    other = workers.store()
    with pytest.raises(SessionHeldError):
        other.session("s", claim=30)
    workers.time.now += 20
    with workers.store().session("s") as eraser:
        eraser.erase(node)
        eraser.optimize(everything=True)
    assert header(eraser).lease
    workers.time.now += 11
    other.session("s", claim=30).append("b")


def wait_out_lease(workers: Workers, other: Store) -> None:
    """Have `other` ask for the session in vain, and let the time of the lease pass."""
    with pytest.raises(SessionHeldError):
        other.session("s", claim=30)
    workers.time.now += 31


def test_who_lost_its_lease_is_told_and_stops(workers: Workers) -> None:
    """Nothing of it is recorded from then on, and each call says why; what it recorded before stays."""
    slow, other = workers.store().session("s", claim=30), workers.store()
    slow.append("a")
    wait_out_lease(workers, other)
    with other.session("s", claim=30) as session:
        session.append("b")
        for call in (lambda: slow.append("late"), lambda: slow.commit(state={"n": 1}), slow.renew):
            with pytest.raises(LeaseLostError) as told:
                call()
            assert told.value.kind == "leaselost"
        session.append("c")
    slow.close()
    assert texts(workers.store().view("s").context) == ["a", "b", "c"]
    assert workers.store().verify("s") == []


def test_who_lost_its_lease_does_not_get_it_back_by_itself(workers: Workers) -> None:
    """Also when the other worker recorded nothing, and gave it back: that one may have done the work elsewhere."""
    slow, other = workers.store().session("s", claim=30, durability="turn"), workers.store()
    slow.append("waits")
    wait_out_lease(workers, other)
    session = other.session("s", claim=30)
    session.close()
    with pytest.raises(LeaseLostError):
        slow.commit(["late"])
    assert [draft.payload["content"] for draft in slow._reader.unrecorded] == ["waits"]
    kill(slow)
    assert texts(workers.store().view("s").context) == []


def test_to_give_back_what_one_lost_does_nothing(workers: Workers) -> None:
    """The other worker keeps it."""
    slow, other = workers.store().session("s", claim=30), workers.store()
    wait_out_lease(workers, other)
    with other.session("s", claim=30) as session:
        slow.release()
        slow.close()
        session.append("a")
    assert texts(workers.store().view("s").context) == ["a"]


def test_who_gives_back_what_it_lost_is_stopped(workers: Workers) -> None:
    """Also if the other worker gave it back and recorded nothing: its next call that records says that it was lost."""
    slow, other = workers.store().session("s", claim=30), workers.store()
    slow.append("a")
    wait_out_lease(workers, other)
    other.session("s", claim=30).close()
    slow.release()
    for call in (lambda: slow.append("late"), lambda: slow.claim(ttl=30)):
        with pytest.raises(LeaseLostError, match="given back since"):
            call()
    slow.close()
    assert texts(workers.store().view("s").context) == ["a"]


def test_who_is_late_goes_on_if_nobody_came(workers: Workers) -> None:
    """A lease whose time is over stays with its holder until another worker takes it."""
    with workers.store().session("s", claim=30) as session:
        workers.time.now += 1000
        session.append("a")
        session.renew()
    assert texts(workers.store().view("s").context) == ["a"]


def test_nobody_records_beside_a_holder(workers: Workers) -> None:
    """Handles without a lease, exclusive or shared, are refused as long as somebody has it, and go on afterwards."""
    with workers.store().session("s", claim=30) as session:
        session.append("a")
        others = [workers.store().session("s", shared=shared) for shared in (False, True)]
        for other in others:
            with pytest.raises(SessionHeldError) as told:
                other.append("beside")
            assert told.value.kind == "leased"
            with pytest.raises(SessionHeldError):
                other.set_title("T")
    for number, other in enumerate(others):
        other.refresh()
        other.append(str(number))
        other.close()
    assert texts(workers.store().view("s").context) == ["a", "0", "1"]


def test_an_exclusive_handle_is_stopped_by_a_lease_in_between(workers: Workers) -> None:
    """Who opened the session before, without a lease, is refused like any second writer."""
    before = workers.store().session("s")
    before.append("a")
    with workers.store().session("s", claim=30) as session:
        session.append("b")
        with pytest.raises(ConflictError):
            before.append("c")
    assert texts(workers.store().view("s").context) == ["a", "b"]


def test_a_lease_begins_a_session(workers: Workers) -> None:
    """Who claims a session that does not exist creates it; of two, one does, and the other one waits for it."""
    one, two = workers.store().session("s"), workers.store().session("s")
    one.claim(ttl=30)
    with pytest.raises(SessionHeldError):
        two.claim(ttl=30)
    one.append("a")
    one.close()
    two.claim(ttl=30)
    assert (one.is_new, two.is_new) == (True, False)
    two.append("b")
    two.close()
    assert texts(workers.store().view("s").context) == ["a", "b"]
    with pytest.raises(NotFoundError):
        workers.store().session("none", claim=30, create=False)


@pytest.mark.parametrize(
    "options",
    [
        {"claim": 0},
        {"claim": -1},
        {"claim": float("nan")},
        {"claim": 86_401},
        {"claim": 1, "shared": True},
        {"claim": 1, "wait": -1},
        {"wait": 1},
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: Any) -> None:
    """Nothing is written for them."""
    workers = Workers(memory_backend().driver())
    with pytest.raises(UsageError):
        workers.store().session("s", **options)
    assert workers.store().sessions().rows == ()


def test_only_a_holder_renews() -> None:
    """Without a lease there is nothing to renew; to release nothing is no error."""
    session = Workers(memory_backend().driver()).store().session("s")
    session.append("a")
    with pytest.raises(UsageError, match="no lease"):
        session.renew()
    session.release()
    session.close()


def test_a_session_with_a_holder_can_be_deleted_copied_and_forked(workers: Workers) -> None:
    """A copy has no lease; who had that of a deleted session is told that it is deleted, and its name has none."""
    store = workers.store()
    session = store.session("s", claim=30)
    session.append("a")
    session.fork("fork")
    store.copy("s", name="copy")
    for name in ("fork", "copy"):
        assert store.view(name).lease is None
        store.session(name).append("b")
    store.delete("s")
    with pytest.raises(SessionDeletedError):
        session.append("late")
    again = workers.store().session("s", claim=30)
    assert again.lease is not None
    assert again.lease.number == 1


def test_a_lease_survives_seals_merges_and_closing_beside(workers: Workers) -> None:
    """Whatever rewrites the tail or replaces latest, the holder goes on, and has the lease."""
    with workers.store().session("s", claim=30) as session:
        for round_ in range(5):
            session.append(f"{round_}" + "x" * 1000)
            session.seal()
            with workers.store().session("s") as other:
                other.optimize(everything=True)
        assert header(session).lease
    assert workers.store().view("s").lease is None
    assert workers.store().verify("s") == []


def test_a_process_remembers_of_few_sessions_when_it_saw_them() -> None:
    """What a process remembers is bounded; what it forgot it sees as new, which only makes it wait longer."""
    workers = Workers(memory_backend().driver())
    detector, views = FailureDetector(workers.time), []
    for number in range(3):
        session = workers.store().session(f"{number}", claim=30)
        session.append("a")
        views.append(session._reader.replica.view)
    for _ in range(SEEN_MAX):
        detector.seconds_left(views[0])
    assert len(detector._seen) == 1
    detector._seen = {str(number): detector._seen[next(iter(detector._seen))] for number in range(SEEN_MAX)}
    assert detector.seconds_left(views[1]) == 30
    assert len(detector._seen) == SEEN_MAX


def test_threads_may_see_signs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers of a process ask one memory of signs, also while old ones are dropped from it."""
    monkeypatch.setattr("treering.journal.lease.SEEN_MAX", 20)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    store = memory_backend().store()
    sessions = [store.session(str(number), claim=30) for number in range(60)]
    views = [session._reader.replica.view for session in sessions]
    detector = FailureDetector()

    def ask(number: int) -> None:
        for turn in range(10_000):
            assert detector.seconds_left(views[(turn + 7 * number) % len(views)]) > 0

    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert len(detector._seen) == 20


# answers that are lost, and interrupts


class Failing(Unheld):
    """Lets one write of a tail have no answer, or have it twice; or is interrupted behind it."""

    how = ""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        hit = self.how if any(isinstance(each, Put) and "tail" in each.key for each in batch) else ""
        if hit:
            self.how = ""
        if hit == "lost":
            return tuple(UnavailableError("no answer") for _ in batch)
        answers = self.inner.execute(batch)
        if hit == "unanswered":
            return tuple(UnavailableError("no answer") for _ in batch)
        if hit == "interrupted":
            raise KeyboardInterrupt
        return self.inner.execute(batch) if hit == "twice" else answers


@pytest.fixture
def failing() -> Failing:
    """A bucket."""
    return Failing(memory_backend().driver())


def test_a_claim_that_is_sent_twice_counts(failing: Failing) -> None:
    """The second request is refused because the first one succeeded."""
    store = Store(Place(failing))
    store.session("s").append("a")
    session = store.session("s")
    failing.how = "twice"
    session.claim(ttl=30)
    assert failing.how == ""
    session.append("b")
    failing.how = "twice"
    session.renew()
    failing.how = "twice"
    session.release()
    assert store.view("s").lease is None


@pytest.mark.parametrize("how", ["lost", "unanswered", "interrupted"])
def test_a_claim_without_an_answer_is_made_again(failing: Failing, how: str) -> None:
    """Whatever became of it, the handle takes the lease with its next call, and does not wait for itself."""
    store = Store(Place(failing))
    session = store.session("s")
    session.append("a")
    failing.how = how
    with pytest.raises((UnavailableError, KeyboardInterrupt)):
        session.claim(ttl=30)
    session.claim(ttl=30)
    session.append("b")
    for call in (session.renew, lambda: session.append("c")):
        failing.how = how
        with pytest.raises((UnavailableError, KeyboardInterrupt)):
            call()
        session.renew()
    session.close()
    assert texts(store.view("s").context)[:2] == ["a", "b"]
    assert store.view("s").lease is None
    assert store.verify("s") == []


@pytest.mark.parametrize("how", ["lost", "unanswered"])
def test_who_claims_without_an_answer_may_go_on(failing: Failing, how: str) -> None:
    """It is not kept out by a lease of its own, and gives that back when it sees it."""
    store = Store(Place(failing))
    session = store.session("s")
    session.append("a")
    failing.how = how
    with pytest.raises(UnavailableError):
        session.claim(ttl=30)
    session.append("b")
    session.close()
    assert store.view("s").lease is None
    assert texts(store.view("s").context) == ["a", "b"]


@pytest.mark.parametrize("how", ["lost", "unanswered", "interrupted"])
def test_who_releases_without_an_answer_may_go_on(failing: Failing, how: str) -> None:
    """It wanted to be without a lease, so it is not told that another worker took it."""
    store = Store(Place(failing))
    session = store.session("s", claim=30)
    session.append("a")
    failing.how = how
    with pytest.raises((UnavailableError, KeyboardInterrupt)):
        session.release()
    session.append("b")
    session.release()
    session.append("c")
    session.close()
    assert store.view("s").lease is None
    assert texts(store.view("s").context) == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["lost", "unanswered"])
def test_a_close_whose_release_has_no_answer_does_not_fail(failing: Failing, how: str) -> None:
    """All is recorded by then; at worst the lease ends after its time."""
    store = Store(Place(failing))
    session = store.session("s", claim=30)
    session.append("a")
    failing.how = how
    session.close()
    assert (store.view("s").lease is None) == (how == "unanswered")


@pytest.mark.parametrize("how", ["lost", "unanswered"])
def test_an_append_without_an_answer_before_the_lease_was_lost(failing: Failing, how: str) -> None:
    """It is recorded before the other worker took over, or never; the loser is told which, and that it lost it."""
    workers = Workers(failing.inner)
    slow = Store(Place(failing)).session("s", claim=30)
    slow.append("a")
    failing.how = how
    with pytest.raises(UnavailableError):
        slow.append("b")
    other = workers.store()
    wait_out_lease(workers, other)
    with other.session("s", claim=30) as session:
        there = texts(session.context)
        with pytest.raises(LeaseLostError):
            slow.append("c")
    assert there == (["a", "b"] if how == "unanswered" else ["a"])
    assert texts(workers.store().view("s").context) == there


# waiting


def test_who_waits_gets_it_when_it_is_released() -> None:
    """`wait` bounds how long; a look a moment costs one GET."""
    workers = Workers(memory_backend().driver())
    first = Store(Place(workers.driver)).session("s", claim=1)
    first.append("a")
    began = time.monotonic()
    with pytest.raises(SessionHeldError):
        Store(Place(workers.driver)).session("s", claim=1, wait=0.2)
    assert 0.2 <= time.monotonic() - began < 0.9
    first.close()
    Store(Place(workers.driver)).session("s", claim=1, wait=0.2).close()


def look(request: Request) -> bool:
    """The request by which a worker that waits looks again."""
    return isinstance(request, Get) and bool(request.unless)


class Ending:
    """A session that its worker deletes right before another worker's request.

    Args:
        wanted: A `look`, while that worker has the lease; or the write that takes the lease, which is free.
        purged: It is purged, too.
    """

    def __init__(self, wanted: Wanted, *, purged: bool) -> None:
        memory = MemoryDriver()
        self.others = Store(Place(Unheld(memory)))
        first = self.others.session("s")
        first.append("old")
        first.claim(ttl=3600 if wanted is look else None)
        self._meeting = Meeting(memory)
        self.store = Store(Place(Unheld(self._meeting)))
        self._wanted, self._purged = wanted, purged

    def arm(self) -> None:
        """Delete it before the next wanted request."""
        self._meeting.before(self._wanted, self._end)

    def _end(self) -> None:
        self.others.delete("s")
        if self._purged:
            self.others.purge("s")


@pytest.mark.parametrize("purged", [False, True])
@pytest.mark.parametrize("wanted", [look, tail_write])
def test_who_opens_a_session_that_is_deleted_meanwhile_creates_it(wanted: Wanted, *, purged: bool) -> None:
    """As who comes a moment later does, whether it waited for the lease or was about to take it."""
    ending = Ending(wanted, purged=purged)
    ending.arm()
    with ending.store.session("s", claim=1, wait=1) as session:
        assert session.is_new
        assert session.lease is not None
        session.append("new")
    assert texts(ending.others.view("s").context) == ["new"]
    assert ending.others.verify("s") == []


@pytest.mark.parametrize("purged", [False, True])
@pytest.mark.parametrize("wanted", [look, tail_write])
def test_who_may_not_create_or_saw_a_session_is_told_that_it_is_deleted(wanted: Wanted, *, purged: bool) -> None:
    """With `create=False` there is nothing to open; who had it open must not go on in another one."""
    ending = Ending(wanted, purged=purged)
    ending.arm()
    with pytest.raises(NotFoundError):
        ending.store.session("s", create=False, claim=1, wait=1)
    ending = Ending(wanted, purged=purged)
    session = ending.store.session("s")
    ending.arm()
    with pytest.raises(SessionDeletedError):
        session.claim(ttl=1, wait=1)


@pytest.mark.parametrize("locks", [False, True])
async def test_tasks_take_turns(tmp_path: Path, *, locks: bool) -> None:
    """Many workers that wait for one session have it one after the other; nobody is refused, nothing is lost."""
    inner = local_backend(tmp_path).driver()

    async def work(number: int) -> None:
        store = AsyncStore(Place(inner if locks else Unheld(inner)))
        async with store.session("s", claim=5, wait=30) as session:
            turns = len(session.context)
            await session.append(f"{number} begins")
            await asyncio.sleep(0.01)
            await session.commit([f"{number} ends"], state={"turns": turns + 2})

    await asyncio.gather(*(work(number) for number in range(6)))
    with treering.open(tmp_path).session("s") as session:
        said = texts(session.context)
        assert session.state == {"turns": 12}
    assert [text.split()[0] for text in said[::2]] == [text.split()[0] for text in said[1::2]]
    assert sorted(said) == sorted(f"{number} {word}" for number in range(6) for word in ("begins", "ends"))


async def test_a_task_renews_while_the_model_answers() -> None:
    """Others wait longer than its time, in vain."""
    driver = Unheld(memory_backend().driver())
    one, two = AsyncStore(Place(driver)), AsyncStore(Place(driver))

    async def keep(session: treering.AsyncSession) -> None:
        while True:
            await asyncio.sleep(0.1)
            await session.renew()

    async with one.session("s", claim=0.4) as session:
        keeping = asyncio.create_task(keep(session))
        with pytest.raises(SessionHeldError):
            await two.session("s", claim=0.4, wait=1.2)
        await session.append("a")
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    async with two.session("s", claim=0.4) as session:
        assert texts(session.context) == ["a"]
        await session.release()
        with pytest.raises(UsageError):
            await session.renew()
        await session.claim(ttl=1)
        await session.append("b")


# processes

WORKER = """
import treering
store = treering.open(sys.argv[1], storage_options=eval(sys.argv[2]))
with store.session("s", claim=float(sys.argv[3])) as session:
    session.append("recorded")
    print("ready", flush=True)
    sys.stdin.read()  # until it is killed
"""


@contextmanager
def working(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lease and waits; killed at the end, if it was not before."""
    process = start(WORKER, *arguments)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_killed_process_of_this_computer_is_succeeded_at_once(tmp_path: Path) -> None:
    """On a disk the system gives its lock back, which proves that it is gone; nobody has to wait."""
    store = treering.open(tmp_path)
    with working(tmp_path, None, 3600) as process, pytest.raises(SessionHeldError, match=f"pid {process.pid}"):
        store.session("s", claim=10)
    with store.session("s", claim=10) as session:
        assert session.lease is not None
        assert session.lease.number == 2
        assert texts(session.context) == ["recorded"]
        session.append("mine")
    assert store.verify("s") == []


@pytest.mark.s3
def test_a_killed_process_of_another_computer_is_succeeded_after_its_time(seaweedfs: S3Server) -> None:
    """In a bucket nothing tells that it is gone, so its time has to pass; who was slow is refused."""
    url, options = f"s3://{seaweedfs.bucket}/leases-{os.urandom(6).hex()}", seaweedfs.storage_options
    with treering.open(url, storage_options=options) as store, treering.open(url, storage_options=options) as other:
        with working(url, options, 2) as process, pytest.raises(SessionHeldError, match=f"pid {process.pid}"):
            store.session("s", claim=1)
        began = time.monotonic()
        with store.session("s", claim=2, wait=60) as slow:
            assert time.monotonic() - began > 1  # the first look was before the kill
            assert texts(slow.context) == ["recorded"]
            slow.append("slow")
            with other.session("s", claim=2, wait=60) as last:
                last.append("last")
                with pytest.raises(LeaseLostError):
                    slow.append("late")
        assert texts(store.view("s").context) == ["recorded", "slow", "last"]
        assert store.verify("s") == []


def test_backends_with_locks_need_no_time(backend: Backend) -> None:
    """Handles of one process are kept apart by its lock, and a handle that is gone leaves nothing to wait for."""
    session = backend.store().session("s", claim=3600)
    session.append("a")
    with pytest.raises(SessionHeldError):
        backend.store().session("s", claim=1, wait=0.1)
    kill(session)
    del session
    with backend.store().session("s", claim=1) as again:
        assert texts(again.context) == ["a"]
    assert isinstance(again.info, treering.SessionInfo)


def test_written_answers_are_all_that_is_needed() -> None:
    """A lease is in the tail and nowhere else: no other object is written for it."""
    backend = memory_backend()
    store, counting = backend.counted()
    with store.session("s") as session:
        session.append("a")
        before = set(backend.snapshot())
        counting.reset()
        session.claim(ttl=30)
        session.renew()
        session.release()
        assert counting.counts == {"Put": 3}
        assert set(backend.snapshot()) == before


@pytest.mark.parametrize("how", ["lost", "unanswered", "interrupted"])
@pytest.mark.parametrize("again", [True, False])
def test_a_lease_that_is_taken_again_without_an_answer_is_not_lost(failing: Failing, how: str, *, again: bool) -> None:
    """It may have another number by then; it is the lease of the same handle all the same."""
    session = Store(Place(failing)).session("s", claim=30)
    session.append("a")
    failing.how = how
    with pytest.raises((UnavailableError, KeyboardInterrupt)):
        session.claim(ttl=40)
    if again:
        session.claim(ttl=50)
    session.append("b")
    session.renew()
    session.release()
    assert Store(Place(failing)).view("s").lease is None


@pytest.mark.parametrize("how", ["unanswered", "interrupted"])
@pytest.mark.parametrize("call", [Session.renew, Session.claim])
def test_who_asked_for_less_time_counts_on_less(failing: Failing, how: str, call: Callable[..., None]) -> None:
    """Whatever became of it: `until` is when nobody can have taken it over."""
    session = Store(Place(failing)).session("s", claim=300)
    session.append("a")
    failing.how = how
    with pytest.raises((UnavailableError, KeyboardInterrupt)):
        call(session, ttl=1)
    lease = session.lease
    assert lease is not None
    assert lease.until is not None
    assert lease.until < datetime.now(UTC) + timedelta(seconds=2)


def test_who_waits_for_a_lock_looks_now_and_then(tmp_path: Path) -> None:
    """Also when the time of the lease is over, as its holder may work on without a sign of life."""
    looks = Counting(local_backend(tmp_path).driver())
    with treering.open(str(tmp_path)).session("s", claim=0.1) as session:
        session.append("a")
        with pytest.raises(SessionHeldError):
            Store(Place(looks)).session("s", claim=0.1, wait=1)
    assert looks.count < 60


class Counting(PassingDriver):
    """Counts batches."""

    count = 0

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        self.count += 1
        return self.inner.execute(batch)


@pytest.mark.parametrize("end", ["release", "close"])
def test_a_lease_whose_claim_had_no_answer_is_given_back(end: str) -> None:
    """It was taken, so otherwise no other worker would get it until its time is over."""
    bucket = Unreliable()
    session = bucket.store.session("s")
    session.append("one")
    bucket.fails(Fault.AFTER, lambda: session.claim(ttl=3600))
    assert bucket.sound.view("s").lease is not None
    getattr(session, end)()
    assert bucket.sound.view("s").lease is None


@pytest.mark.parametrize("end", ["release", "close"])
def test_a_claim_that_arrives_after_the_end_is_refused(end: str) -> None:
    """A worker that is gone must not get the lease."""
    bucket = Unreliable()
    session = bucket.store.session("s")
    session.append("one")
    bucket.fails(Fault.LATE, lambda: session.claim(ttl=3600))
    getattr(session, end)()
    bucket.settle()
    assert bucket.sound.view("s").lease is None
    bucket.sound.session("s", claim=1).append("two")


def test_giving_up_a_claim_without_an_answer_leaves_the_lease_of_another_worker() -> None:
    """That worker replaced the tail that the claim names; the handle that gives up had no lease, so it lost none."""
    bucket = Unreliable()
    session = bucket.store.session("s")
    session.append("one")
    bucket.fails(Fault.LATE, lambda: session.claim(ttl=3600))
    other = Store(Place(Unheld(bucket.memory))).session("s", claim=3600)
    session.release()
    bucket.settle()
    other.append("two")
    other.close()
    assert texts(bucket.sound.view("s").context) == ["one", "two"]
