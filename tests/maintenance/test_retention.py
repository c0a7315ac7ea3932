"""Retention: what is chosen, that a dry run writes nothing, and that nothing newer than what was looked at is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.session.at_rest import KilledDriver, KilledError
from tests.session.backends import Backend, kill, local_backend, memory_backend

import treering
from treering import KeepCheckpoints, Retention, Store
from treering.errors import SessionDeletedError, UnavailableError, UsageError
from treering.ids import now_ms
from treering.maintenance.retention import choose
from treering.session.verbs import notes
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Get, List, Put, key_of
from treering.storage.run import run
from treering.store.info import SessionInfo
from treering.store.place import Place

HOUR_MS = 3_600_000
NOW_MS = 10_000 * HOUR_MS
LATER = datetime.now(UTC) + timedelta(days=60)
OLD = Retention(sessions_days=30)


class Watched(MemoryDriver):
    """An object store, which holds nothing; it runs something once, right before the first batch that fits."""

    def __init__(self) -> None:
        super().__init__()
        self.fits: Callable[[Batch], bool] = lambda _: False
        self.then: Callable[[], object] = lambda: None

    def hold(self, key: str, *, shared: bool, holder: str, create: bool = True) -> None:
        del key, shared, holder, create

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        if self.fits(batch):
            self.fits = lambda _: False
            self.then()
        return super().execute(batch)


def put(key: str) -> Callable[[Batch], bool]:
    """Fits what writes a register."""
    return lambda batch: any(isinstance(each, Put) and each.key == key for each in batch)


def fail() -> None:
    """The network is gone."""
    raise UnavailableError("no answer", key="a")


def made(store: Store, *names: str, **options: Any) -> None:
    """Sessions with three checkpoints each, no two of one age."""
    for name in names:
        with store.session(name, **options) as session:
            for step in range(3):
                session.commit([f"{name} {step}"], state={"step": step})
        made_at = now_ms()
        while now_ms() == made_at:
            pass


def done(store: Store, policy: Retention, **options: Any) -> dict[str, str]:
    """What became of each session, or would."""
    return {row.session: row.action for row in store.retain(policy, **{"now": LATER, **options}).rows}


# what is chosen

ROWS = st.lists(
    st.builds(
        SessionInfo,
        id=st.uuids().map(str),
        project=st.sampled_from(["", "a", "b"]),
        updated_ms=st.integers(0, 100).map(lambda hours: NOW_MS - hours * HOUR_MS),
        status=st.sampled_from(["", "", "", "done", "keep"]),
        warning=st.sampled_from(["", "", "", "damaged"]),
    ),
    unique_by=lambda row: row.id,
    max_size=12,
)
POLICIES = st.builds(
    Retention,
    sessions_days=st.integers(1, 100).map(lambda hours: hours / 24),
    sessions_max=st.integers(1, 6),
    per_project=st.booleans(),
    min_idle_hours=st.integers(0, 50),
)


@given(ROWS, POLICIES)
def test_exactly_what_is_past_a_limit_and_not_spared_goes(rows: list[SessionInfo], policy: Retention) -> None:
    """Counted anew for each session: how many that may go are newer, and how old it is."""
    assert policy.sessions_days is not None
    assert policy.sessions_max is not None
    counted = [row for row in rows if not row.warning and row.status != "keep"]
    for choice in choose(rows, policy, NOW_MS):
        row = choice.row
        group = [each for each in counted if not policy.per_project or each.project == row.project]
        newer = sum((each.updated_ms, row.id) > (row.updated_ms, each.id) for each in group)
        age_hours = (NOW_MS - row.updated_ms) / HOUR_MS
        past = newer >= policy.sessions_max or age_hours > policy.sessions_days * 24
        spared = row not in counted or age_hours < policy.min_idle_hours
        assert (choice.action == "delete") == (past and not spared), choice


@given(ROWS, POLICIES)
def test_every_session_gets_one_choice_in_order_of_activity(rows: list[SessionInfo], policy: Retention) -> None:
    """None is left out, whatever order they are listed in."""
    choices = choose(rows, policy, NOW_MS)
    assert sorted(choice.row.id for choice in choices) == sorted(row.id for row in rows)
    times = [choice.row.updated_ms for choice in choices]
    assert times == sorted(times, reverse=True)
    assert choices == choose(rows[::-1], policy, NOW_MS)


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"min_idle_hours": 2},
        {"sessions_days": 0},
        {"sessions_days": float("nan")},
        {"sessions_max": 0},
        {"sessions_max": 1, "min_idle_hours": -1},
        {"sessions_days": 1, "per_project": True},
        {"sessions_max": 1, "purge": True},
    ],
)
def test_a_policy_without_a_meaning_is_refused(limits: dict[str, Any]) -> None:
    """A slip of the pen must not delete everything."""
    with pytest.raises(UsageError):
        Retention(**limits)


# what is done


def test_a_dry_run_changes_no_byte(backend: Backend) -> None:
    """It says what the real run then does; a killed writer's tail is not even covered."""
    made(backend.store(), "a", "b", "c")
    killed = backend.store().session("c")
    killed.append("not covered")
    kill(killed)
    policy = Retention(sessions_max=1, checkpoints=KeepCheckpoints(last=1))
    before = backend.snapshot()
    planned = backend.store().retain(policy, dry_run=True, now=LATER)
    assert backend.snapshot() == before
    assert [(row.session, row.action, row.checkpoints) for row in planned.rows] == [
        ("c", "prune", 2), ("b", "delete", 0), ("a", "delete", 0)
    ]  # fmt: skip
    assert all(row.bytes for row in planned.rows if row.action == "delete")
    real = backend.store().retain(policy, now=LATER)
    assert real.rows == planned.rows
    assert [row.id for row in backend.store().each_session()] == ["c"]
    assert len(backend.store().view("c").checkpoints()) == 1


def test_what_was_active_a_moment_ago_stays(backend: Backend) -> None:
    """Neither count nor pruning touches it."""
    made(backend.store(), "a", "b")
    policy = Retention(sessions_max=1, checkpoints=KeepCheckpoints(last=1))
    assert done(backend.store(), policy, now=None) == {"a": "keep", "b": "keep"}


def test_pruning_makes_a_session_no_younger(backend: Backend) -> None:
    """Its age counts from what was recorded last, in the tail and on the card."""
    made(backend.store(), "a")
    before = backend.store().view("a").info.updated_ms
    assert done(backend.store(), Retention(checkpoints=KeepCheckpoints(last=1), min_idle_hours=0), now=None) == {
        "a": "prune"
    }
    assert backend.store().view("a").info.updated_ms == before
    (row,) = backend.store().each_session()
    assert row.updated_ms == before


def mark_kept(store: Store, backend: Backend, session: str) -> None:
    """Mark a session to be kept, and be killed before the card tells."""
    opened = store.session(session)
    with pytest.raises(KilledError):
        run(notes.set_status(opened._reader, "keep"), KilledDriver(backend.driver(), 2))
    kill(opened)


def test_a_status_that_no_card_tells_yet_counts(backend: Backend) -> None:
    """The tail is looked at before anything goes."""
    made(backend.store(), "a")
    mark_kept(backend.store(), backend, "a")
    assert [row.status for row in backend.store().each_session()] == [""]
    assert done(backend.store(), OLD) == {"a": "keep"}


@pytest.mark.parametrize("verb", ["status", "append"])
def test_what_no_card_tells_yet_spares_checkpoints(verb: str) -> None:
    """A session in use, or marked to be kept, is not pruned either."""
    backend = memory_backend()
    store = backend.store()
    made(store, "a")
    now = datetime.fromtimestamp(store.view("a").info.updated_ms / 1000 + 3600, UTC)
    if verb == "status":
        mark_kept(store, backend, "a")
    else:
        session = store.session("a")
        session.append(treering.Draft(kind="message", role="user", payload="x", time_ms=int(now.timestamp() * 1000)))
        kill(session)
    min_idle_hours = 0 if verb == "status" else 1
    policy = Retention(checkpoints=KeepCheckpoints(last=1), min_idle_hours=min_idle_hours)
    (row,) = store.retain(policy, now=now + timedelta(seconds=1)).rows
    assert (row.action, row.reason) == ("keep", "used since it was looked at")
    assert len(store.view("a").checkpoints()) == 3


def test_activity_that_no_card_tells_yet_counts() -> None:
    """The card of `a` says that it is the older one; then `b` is, and goes."""
    backend = memory_backend()
    made(backend.store(), "a", "b")
    session = backend.store().session("a")
    session.append("and now this")
    assert [row.id for row in sorted(backend.store().each_session(), key=lambda row: row.updated_ms)] == ["a", "b"]
    assert done(backend.store(), Retention(sessions_max=1)) == {"a": "keep", "b": "delete"}
    session.append("still here")


def test_a_session_that_is_open_stays(tmp_path: Path) -> None:
    """A local store detects an open session; the run continues with the others."""
    store = local_backend(tmp_path).store()
    made(store, "a", "b", "c")
    with store.session("b") as held:
        rows = {row.session: row for row in store.retain(OLD, now=LATER).rows}
        assert (rows["b"].action, rows["b"].reason) == ("keep", "another process has it open")
        assert not rows["b"].error
        held.append("on and on")
    assert [row.id for row in store.each_session()] == ["b"]


@pytest.mark.parametrize("again", [False, True], ids=["appended", "created again"])
def test_a_session_used_between_look_and_deletion_stays(*, again: bool) -> None:
    """Right before the tombstone is written, somebody else writes: the tombstone is refused, and nothing is lost."""
    driver = Watched()
    store, other = Store(Place(driver)), Store(Place(driver))
    made(store, "a", "b")

    def use() -> None:
        if again:
            other.delete("a")
        with other.session("a") as session:
            session.append("at the last moment")

    driver.fits, driver.then = put("sessions/a/tail.jsonl.zst"), use
    rows = {row.session: row for row in store.retain(OLD, now=LATER).rows}
    assert (rows["a"].action, rows["a"].reason) == ("keep", "used since it was looked at")
    assert rows["b"].action == "delete"
    assert store.view("a").context[-1].message["content"] == "at the last moment"
    assert store.verify("a") == []


def test_a_session_used_while_it_is_pruned_is_no_failure() -> None:
    """Somebody else writes right before the prune is recorded; nothing is pruned."""
    driver = Watched()
    store, other = Store(Place(driver)), Store(Place(driver))
    with store.session("a") as session:
        for step in range(3):
            session.commit([f"step {step}"], state={"step": step})

    def use() -> None:
        with other.session("a", shared=True) as session:
            session.append("at the last moment")

    driver.fits, driver.then = put("sessions/a/tail.jsonl.zst"), use
    result = store.retain(Retention(checkpoints=KeepCheckpoints(last=1), min_idle_hours=0), now=LATER)
    assert [(row.action, row.reason, row.error) for row in result.rows] == [("keep", "used since it was looked at", "")]
    assert len(store.view("a").checkpoints()) == 3


def test_who_appends_after_the_tombstone_is_told() -> None:
    """Nothing is acknowledged that is gone."""
    store = Store(Place(Watched()))
    session = store.session("a")
    session.append("x")
    store.retain(OLD, now=LATER)
    with pytest.raises(SessionDeletedError):
        session.append("y")


def test_one_failing_session_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """An interrupted deletion is reported, and finished by the next run; a damaged session is reported and kept."""
    driver = Watched()
    store = Store(Place(driver))
    made(store, "a", "b", "c")
    driver.fits, driver.then = put("latest/a.jsonl.zst"), fail
    (tail,) = (key for key in driver.snapshot() if key.startswith("sessions/b/tail"))
    damage(driver, tail)
    with caplog.at_level(logging.INFO, logger="treering.retention"):
        result = store.retain(OLD, now=LATER)
    rows = {row.session: row for row in result.rows}
    assert {name: (row.action, bool(row.error)) for name, row in rows.items()} == {
        "a": ("keep", True), "b": ("keep", True), "c": ("delete", False)
    }  # fmt: skip
    assert result.failed
    told = [(record.levelname, record.args) for record in caplog.records]
    assert sorted((level, args[1]) for level, args in told if isinstance(args, tuple) and args) == [
        ("INFO", "c"), ("WARNING", "a"), ("WARNING", "b")
    ]  # fmt: skip
    assert not [key for key in driver.snapshot() if key.startswith("sessions/c/") and "tail" not in key]


class Odd(MemoryDriver):
    """A store in memory that fails in an unexpected way whenever some session's tail is read."""

    odd = ""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Raise an error without a message, or answer."""
        if self.odd and any(self.odd in key_of(request) for request in batch):
            raise RecursionError
        return super().execute(batch)


def test_an_unexpected_error_keeps_its_session_and_stops_no_other() -> None:
    """Also one without a message: the session is neither deleted nor looked at for ever."""
    driver = Odd()
    store = Store(Place(driver))
    made(store, "a", "b")
    driver.odd = "sessions/b/tail"
    result = store.retain(OLD, now=LATER)
    assert {row.session: (row.action, row.error) for row in result.rows} == {
        "a": ("delete", ""), "b": ("keep", "RecursionError: ")
    }  # fmt: skip
    driver.odd = ""
    assert [row.id for row in store.sessions().rows] == ["b"]


def test_a_deletion_that_was_cut_short_is_finished() -> None:
    """The tombstone stands in the tail, the card still lives."""
    driver = Watched()
    store = Store(Place(driver))
    made(store, "a")
    driver.fits, driver.then = put("latest/a.jsonl.zst"), fail
    assert store.retain(OLD, now=LATER).failed
    (row,) = store.retain(OLD, now=LATER).rows
    assert (row.action, row.reason, row.error) == ("delete", "its deletion was cut short", "")
    assert list(store.each_session()) == []


def test_a_session_created_again_after_a_deletion_that_was_cut_short_stays() -> None:
    """Only the life that was being deleted is finished off."""
    driver = Watched()
    store, other = Store(Place(driver)), Store(Place(driver))
    made(store, "a")
    driver.fits, driver.then = put("latest/a.jsonl.zst"), fail
    assert store.retain(OLD, now=LATER).failed
    driver.fits = lambda batch: any(isinstance(each, List) and each.prefix == "sessions/a/" for each in batch)
    driver.then = lambda: made(other, "a")
    (row,) = store.retain(OLD, now=LATER).rows
    assert (row.action, row.reason) == ("keep", "used since it was looked at")
    assert len(store.view("a").checkpoints()) == 3


def test_a_session_that_is_gone_when_it_is_looked_at_is_no_failure() -> None:
    """Two processes may run a policy at once."""
    driver = Watched()
    store = Store(Place(driver))
    made(store, "a")
    driver.fits = lambda batch: len(batch) == 2 and all(isinstance(each, Get) for each in batch)

    def gone() -> None:
        store.delete("a")
        store.purge("a")

    driver.then = gone
    assert not store.retain(OLD, now=LATER).failed


def damage(driver: MemoryDriver, key: str) -> None:
    """Overwrite an object with rubbish."""
    (answer,) = driver.execute((Put(key, b"rubbish"),))
    assert not isinstance(answer, Exception), answer


def test_forks_and_children_of_deleted_sessions_stay_readable(backend: Backend) -> None:
    """They are sessions of their own."""
    store = backend.store()
    with store.session("parent") as parent:
        parent.append(treering.user(["x" * 300_000]))
        parent.fork("fork")
        with store.spawn(parent, "child", task="look") as child:
            child.append("found it")
    for name in ("fork", "child"):
        with store.session(name) as session:
            session.set_status("keep")
    assert done(store, OLD) == {"parent": "delete", "fork": "keep", "child": "keep"}
    assert backend.store().view("fork").context[0].message["content"] == ["x" * 300_000]
    assert backend.store().view("child").context[0].message["content"] == "found it"
    assert backend.store().verify("fork") == []
    with backend.store().session("fork") as fork:
        fork.append("and on")


def test_purge_takes_old_tombstones(backend: Backend) -> None:
    """Those that are younger than the age stay."""
    made(backend.store(), "a", "b")
    backend.store().delete("a")
    policy = Retention(sessions_days=30, purge=True)
    assert backend.store().retain(policy).purged == ()
    assert backend.store().retain(policy, dry_run=True, now=LATER).purged == ()
    assert backend.store().retain(policy, now=LATER + timedelta(days=40)).purged == ("a", "b")


def test_namespaces_and_projects_are_counted_by_themselves(backend: Backend) -> None:
    """A policy of one tenant touches no other's sessions."""
    store = backend.store()
    made(store, "a1", "a2", project="a")
    made(store, "b1", project="b")
    made(store.namespace("tenant"), "t1", "t2")
    assert done(store, Retention(sessions_max=1, per_project=True)) == {"a1": "delete", "a2": "keep", "b1": "keep"}
    assert {row.id for row in store.namespace("tenant").each_session()} == {"t1", "t2"}


def test_asynchronous_code_has_it_too(backend: Backend) -> None:
    """With the same rows, each told as it is done."""
    made(backend.store(), "a", "b")
    told: list[str] = []

    async def retained() -> treering.Retained:
        return await backend.async_store().retain(
            Retention(sessions_max=1), now=LATER, on_result=lambda row: told.append(row.session)
        )

    result = asyncio.run(retained())
    assert [(row.session, row.action) for row in result.rows] == [("b", "keep"), ("a", "delete")]
    assert told == ["a", "b"]
