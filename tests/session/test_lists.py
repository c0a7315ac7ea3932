"""What lists show of sessions that are open, were killed or are shared: never nothing, and never what is over."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.servers import S3Server, moto
from tests.session.at_rest import KilledDriver, KilledError, Paused, put_card, replaces
from tests.session.backends import Backend, kill, memory_backend
from tests.session.faults import Meeting, OneFault, latest_write

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import AccessError, UsageError
from treering.ids import now_ms
from treering.journal.append import drop_sealed, rewrite_tail
from treering.journal.marker import first_marked
from treering.journal.resume import resume
from treering.session import upkeep
from treering.session.verbs import notes
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Delete, List
from treering.storage.run import run
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place

__all__ = ["moto"]

MINUTE_MS = upkeep.CARD_LAG_MS_MAX


class Clock:
    """Tells when cards are due."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return now_ms() + self.ahead_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that tests move on."""
    made = Clock()
    monkeypatch.setattr(upkeep, "now_ms", made)
    return made


def row_of(store: Store, session: str) -> treering.SessionInfo:
    """What a list shows of a session."""
    return next(row for row in store.sessions().rows if row.id == session)


@pytest.mark.parametrize("shared", [False, True])
def test_a_session_killed_at_once_lists_with_its_first_prompt(backend: Backend, *, shared: bool) -> None:
    """The card is born with what the first append says."""
    session = backend.store().session("s", title="T", shared=shared)
    session.commit([treering.assistant("welcome"), "fix the\nlogin"], state={"n": 1})
    kill(session)
    row = row_of(backend.store(), "s")
    assert (row.title, row.first_prompt, row.messages, row.checkpoints) == ("T", "fix the login", 2, 1)


@pytest.mark.parametrize("requests", range(10))
def test_an_announced_prompt_that_was_never_recorded_is_forgotten(backend: Backend, requests: int) -> None:
    """Who goes on with a session whose creator was killed before its first append begins with their own words."""
    session = Store(Place(KilledDriver(backend.driver(), 2 + requests))).session("s")
    with contextlib.suppress(KilledError):
        session.append("announced")
    kill(session)
    assert [row.first_prompt for row in backend.store().sessions().rows] in ([], ["announced"])
    with backend.store().session("s") as other:
        recorded = bool(other.context)
        other.append("theirs")
        other.set_status("here")
    row = row_of(backend.store(), "s")
    assert (row.first_prompt, row.messages) == (("announced", 2) if recorded else ("theirs", 1))


SAID: list[tuple[Callable[[Session], object], dict[str, str]]] = [
    (lambda session: session.set_title("New"), {"title": "New"}),
    (lambda session: session.set_status("done"), {"status": "done"}),
    (lambda session: session.move(project="p", cwd="/c"), {"project": "p", "cwd": "/c"}),
]


@pytest.mark.parametrize("shared", [False, True])
def test_titles_and_the_like_reach_the_card_at_once(backend: Backend, *, shared: bool) -> None:
    """A kill after the call changes nothing of what lists say."""
    for verb, facts in SAID:
        session = backend.store().session("s", shared=shared, title="Old")
        session.append("hello")
        verb(session)
        kill(session)
        row = row_of(backend.store(), "s")
        assert {name: getattr(row, name) for name in facts} == facts


def test_a_first_prompt_that_comes_late_reaches_the_card_at_once(backend: Backend) -> None:
    """The session began with an answer."""
    session = backend.store().session("s")
    session.append(treering.assistant("welcome"))
    session.append("my question")
    kill(session)
    assert row_of(backend.store(), "s").first_prompt == "my question"


def test_counts_lag_behind_by_a_minute_at_most(clock: Clock, backend: Backend) -> None:
    """The first append a minute after the last card is followed by a new one; the ones in between cost one request."""
    store, counting = backend.counted()
    session = store.session("s")
    session.append("one")
    counting.reset()
    for _ in range(5):
        session.append("more")
        clock.ahead_ms += MINUTE_MS // 5 - 1000
    assert counting.total == 5
    clock.ahead_ms += 5000
    session.append("the seventh")
    assert counting.total == 7
    session.append("not yet counted")
    assert counting.total == 8
    kill(session)
    assert row_of(backend.store(), "s").messages == 7


def test_a_session_taken_up_again_is_told_of_with_its_first_record(clock: Clock, backend: Backend) -> None:
    """It was last active long ago."""
    with backend.store().session("s") as session:
        session.append("one")
    clock.ahead_ms += MINUTE_MS
    session = backend.store().session("s")
    session.append("two")
    kill(session)
    assert row_of(backend.store(), "s").messages == 2


def test_a_clock_that_was_set_back_holds_no_card_back(clock: Clock, backend: Backend) -> None:
    """What it tells of the age of a card means nothing."""
    session = backend.store().session("s")
    session.append("one")
    clock.ahead_ms -= 10 * MINUTE_MS
    session.append("two")
    kill(session)
    assert row_of(backend.store(), "s").messages == 2


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("shared", [False, True])
def test_a_card_that_could_not_be_written_is_with_the_next_record(fault: Fault, *, shared: bool) -> None:
    """The title is recorded, so no error is told; the card catches up."""
    plan = OneFault()
    backend = memory_backend()
    session = Store(Place(FaultyDriver(backend.driver(), plan))).session("s", title="Old", shared=shared)
    session.append("one")
    plan.arm(fault, latest_write)
    session.set_title("New")
    assert not plan.pending
    session.append("two")
    kill(session)
    assert row_of(backend.store(), "s").title == "New"


@pytest.mark.parametrize("requests", range(3))
@pytest.mark.parametrize("shared", [False, True])
def test_killed_anywhere_a_title_is_the_old_or_the_new_one(backend: Backend, requests: int, *, shared: bool) -> None:
    """And the new one once it was acknowledged."""
    session = backend.store().session("s", title="Old", shared=shared)
    session.append("one")
    killed = KilledDriver(backend.driver(), requests)
    acknowledged = False
    with contextlib.suppress(KilledError):
        run(notes.set_title(session._reader, "New"), killed)
        acknowledged = True
    kill(session)
    row = row_of(backend.store(), "s")
    assert acknowledged == (requests == 2)
    assert row.title == ("New" if acknowledged else "Old")
    assert backend.store().view("s").info.title == ("New" if requests else "Old")


def two(memory: MemoryDriver) -> tuple[Meeting, Session, Session]:
    """Two shared handles on a session of one message; what the first one meets can be chosen."""
    meeting = Meeting(memory)
    with Store(Place(memory)).session("s", shared=True) as session:
        session.append("one")
    return meeting, Store(Place(meeting)).session("s", shared=True), Store(Place(memory)).session("s", shared=True)


def test_a_card_never_goes_back_when_another_writer_was_faster() -> None:
    """Who finds that the card covers more leaves it alone."""
    memory = MemoryDriver()
    meeting, slow, fast = two(memory)
    meeting.before(latest_write, lambda: fast.set_title("later"))
    slow.set_title("earlier")
    row = row_of(Store(Place(memory)), "s")
    assert (row.title, Store(Place(memory)).view("s").info.title) == ("later", "later")


def test_a_title_stays_told_when_an_older_card_came_in_between() -> None:
    """Who lost the swap against a card that covers less writes it again."""
    memory = MemoryDriver()
    meeting, ours, theirs = two(memory)
    theirs.append("two")
    renewal = Paused(theirs._reader.upkeep.renew_card(), memory, replaces("latest/"))
    meeting.before(latest_write, renewal.go_on)
    ours.set_title("ours")
    kill(ours)
    row = row_of(Store(Place(memory)), "s")
    assert (row.title, row.messages) == ("ours", 2)


def test_a_shared_session_on_s3_is_listed_as_it_is(moto: S3Server) -> None:
    """First prompt, title and status, whoever said them."""
    place = f"s3://{moto.bucket}/lists-{os.urandom(6).hex()}"
    store = treering.open(place, storage_options=moto.storage_options)
    for name in ("older", "newer"):
        with store.session(name, shared=True) as session:
            session.append(f"first prompt of {name}")
    with store.session("older", shared=True) as session, store.session("older", shared=True) as other:
        session.set_title("A good title")
        other.set_status("done")
        other.append("more")
    row = row_of(store, "older")
    assert (row.title, row.first_prompt, row.status) == ("A good title", "first prompt of older", "done")
    store.close()


def test_an_asynchronous_session_is_listed_alike() -> None:
    """Both run one body."""

    async def record() -> None:
        store = memory.async_store()
        session = await store.session("s")
        await session.append("hello")
        await session.set_title("New")
        kill(session)
        page = await store.sessions()
        recent = await store.recent()
        assert [(row.title, row.first_prompt) for row in page.rows] == [("New", "hello")]
        assert recent is not None
        assert recent.id == "s"

    memory = memory_backend()
    asyncio.run(record())


# on a disk, the log tells when a session was active


def written(folder: Path, session: str, *, card: int, log: int) -> None:
    """Pretend that marker and card, and the log, of a session were written at these seconds."""
    put_card(LocalDriver(folder), session, partial(first_marked, ms=card * 1000, unique="0"))
    os.utime(folder / f"latest/{session}.jsonl.zst", (card, card))
    os.utime(folder / f"sessions/{session}/tail.jsonl", (log, log))


def test_on_a_disk_the_last_active_session_comes_first(tmp_path: Path) -> None:
    """Also one that was killed, whose card is older than that of a session closed in between."""
    store = Store(Place(LocalDriver(tmp_path)))
    working = store.session("working", cwd="/c")
    working.append("refactor the whole thing")
    for number in range(20):
        working.append(treering.assistant(f"step {number}"))
    kill(working)
    with store.session("quick", cwd="/c") as session:
        session.append("what is 2+2?")
    now = now_ms() // 1000 + 1
    written(tmp_path, "working", card=now - 50, log=now)
    written(tmp_path, "quick", card=now - 30, log=now - 30)
    assert [row.id for row in store.sessions().rows] == ["working", "quick"]
    assert row_of(store, "working").updated_ms == now * 1000
    assert row_of(store, "quick").updated_ms > now * 1000 - 60_000  # its card is newer than its log
    found = store.recent(cwd="/c")
    assert found is not None
    assert found.id == "working"


@pytest.mark.parametrize("text", ["short", "long " * 2000])
def test_a_loaded_session_is_as_old_as_it_says(tmp_path: Path, text: str) -> None:
    """Its log is made behind its card, and holds no record until something is appended."""
    store = Store(Place(LocalDriver(tmp_path)))
    draft = treering.user("old", time_ms=1_000_000)
    store.load("s", [draft], leaf=lambda: None, origin=lambda: {"session": "s", "active_ms": 1_000_000})
    written(tmp_path, "s", card=2000, log=3000)
    assert row_of(store, "s").updated_ms == 1_000_000
    session = store.session("s")
    session.append(text)
    kill(session)
    written(tmp_path, "s", card=2000, log=4000)
    assert row_of(store, "s").updated_ms == 4_000_000


def test_on_a_disk_pages_go_on_where_they_ended(tmp_path: Path) -> None:
    """In the order of activity."""
    store = Store(Place(LocalDriver(tmp_path)))
    names = [f"s{number}" for number in range(6)]
    for number, name in enumerate(names):
        session = store.session(name)
        session.append("x")
        kill(session)
        written(tmp_path, name, card=1000 + number, log=1500 - number)
    shown, after = [], None
    while True:
        page = store.sessions(limit=2, after=after)
        shown += [row.id for row in page.rows]
        if (after := page.after) is None:
            break
    assert shown == names


def test_a_namespace_of_any_name_is_listed_by_its_logs(tmp_path: Path) -> None:
    """Also one that is called like a folder of ours."""
    store = Store(Place(LocalDriver(tmp_path))).namespace("latest").namespace("sessions")
    session = store.session("s")
    session.append("x")
    kill(session)
    written(tmp_path / "ns/latest/ns/sessions", "s", card=1000, log=2000)
    assert row_of(store, "s").updated_ms == 2_000_000


MANY = "x" * 70_000
"""Text that takes a few bytes when compressed, and more than a reader takes for a card when not."""


TOO_MUCH: dict[str, Callable[[Session], object]] = {
    "title": lambda session: session.set_title(MANY),
    "project": lambda session: session.move(project=MANY),
    "cwd": lambda session: session.move(cwd=f"/{MANY}"),
    "head": lambda session: session.branch(MANY),
    "node": lambda session: session.append(treering.user("x", id=MANY)),
    "extra": lambda session: session.note("card", payload={"mine": {"fact": MANY}}),
    "fork": lambda session: session.fork("fork", title=MANY),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_no_list_can_read_is_refused_however_well_it_compresses(backend: Backend, what: str) -> None:
    """Before it is acknowledged; the session can be used as before, and no other one is made."""
    session = backend.store().session("s")
    session.append("hello")
    with pytest.raises(UsageError, match="longest=") as caught:
        TOO_MUCH[what](session)
    assert caught.value.kind == "card_too_large"
    session.append("goes on")
    session.close()
    store = backend.store()
    assert [row.id for row in store.sessions().rows] == ["s"]
    with store.session("s") as session:
        assert [item.message["content"] for item in session.context] == ["hello", "goes on"]
    with pytest.raises(UsageError, match="longest='title'"):
        store.session("other", title=MANY).append("hello")
    store.delete("s")
    assert store.sessions().rows == ()


def test_a_name_may_have_any_ending(backend: Backend) -> None:
    """Endings that a driver reserves for its own files do not take a session out of lists, or break these."""
    store = backend.store()
    for name in ("report.poisoned", "report.a", "report"):
        with store.session(name) as session:
            session.append("x")
            assert session.optimize(everything=True) is not None
    names = ["report", "report.a", "report.poisoned"]
    assert sorted(row.id for row in store.sessions().rows) == sorted(row.id for row in store.each_session()) == names
    assert sorted(name for name, found in store.verify_all() if not found) == names
    for name in names:
        store.delete(name)
    assert sorted(store.purge()) == names


class Refusing(DriverWrapper):
    """Refuses to list the folder of one session, as a disk does where another user keeps it closed."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        answers = self.inner.execute(batch)
        return tuple(
            AccessError("access is denied", key=request.prefix)
            if isinstance(request, List) and request.prefix.startswith("sessions/closed/")
            else answer
            for request, answer in zip(batch, answers, strict=True)
        )

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)


@pytest.mark.parametrize("with_markers", [True, False])
def test_a_folder_that_is_closed_to_this_user_hides_no_other_session(with_markers: bool) -> None:  # noqa: FBT001
    """It is a row with a warning and what its card says; the newest session is another one."""
    memory = MemoryDriver(appends=True)
    store = Store(Place(Refusing(memory)))
    for name in ("one", "two", "closed"):
        with store.session(name, title=name) as session:
            session.append("x")
    if not with_markers:
        memory.execute((Delete(("recent.json",)),))
    rows = {row.id: row for row in store.sessions().rows}
    assert sorted(rows) == ["closed", "one", "two"]
    assert "access is denied" in rows["closed"].warning
    assert rows["closed"].title == "closed"
    assert rows["one"].warning == rows["two"].warning == ""
    assert len(list(store.each_session())) == 3
    assert (newest := store.recent()) is not None
    assert newest.id == "two"


@pytest.mark.parametrize("verb", ["claim", "drop", "rewrite"])
def test_what_records_nothing_is_no_activity(verb: str, tmp_path: Path) -> None:
    """On a disk the time of a log tells when its session was active; leases and upkeep rewrite the log and keep it."""
    store = treering.open(tmp_path)
    session = store.session("s")
    session.append("one")
    session.seal()
    session.append("two")
    kill(session)
    log, then_ms = tmp_path / "sessions/s/tail.jsonl", now_ms() + MINUTE_MS  # a time that no write gives it
    os.utime(log, ns=(then_ms * 1_000_000, then_ms * 1_000_000))
    assert row_of(store, "s").updated_ms == then_ms
    before = log.read_bytes()
    if verb == "claim":
        with store.session("s", claim=30) as session:
            session.renew()
    else:
        view = run(resume(store.place.keys("s")), store.place.driver)
        assert run((drop_sealed if verb == "drop" else rewrite_tail)(view, "n"), store.place.driver)
    assert log.read_bytes() != before
    assert row_of(store, "s").updated_ms == then_ms
    with store.session("s") as session:
        session.append("three")
        assert row_of(store, "s").updated_ms != then_ms
