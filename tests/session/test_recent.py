"""Lists by markers show what a look at every card shows, for the requests of the days that they show."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import msgspec
import pytest
from tests.session.at_rest import KilledDriver, KilledError, Paused, put_card, replaces
from tests.session.backends import kill, tick
from tests.session.faults import OneFault

import treering
from treering import ids
from treering.api.store import Store
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import ConflictError, NotFoundError, UnavailableError, UsageError
from treering.format.paths import DAY_MS, Marker, SessionKeys, parse_marker, recent_folder, recent_until
from treering.format.register import Card, encode_latest
from treering.ids import now_ms
from treering.importers import FileImporter
from treering.journal import life
from treering.journal.marker import MARKED_MS_MAX
from treering.journal.register import LatestRegister
from treering.kinds import Kind
from treering.maintenance.reindexing import reindex
from treering.session import upkeep
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Delete, Driver, Get, List, Listed, Put, Request, Steps
from treering.storage.run import list_all, run
from treering.store import recent
from treering.store.place import Place

PROJECTS = ("", "shop", "travel")
FOLDERS = ("", "/shop", "/elsewhere")
MINUTE_MS = 60_000


class Clock:
    """A clock that tests set, in nanoseconds since 1970."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() + self.ahead_ms * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all writers, and of the store."""
    made = Clock()
    monkeypatch.setattr(ids, "_now_ns", made)
    return made


def marker_keys(driver: Driver, prefix: str = "") -> list[str]:
    """The keys of all markers of a namespace."""
    return [entry.key for entry in run(list_all(recent_folder(prefix)), driver) if parse_marker(entry.key, prefix)]


def card_of(driver: Driver, session: str) -> Card:
    """The card of a session."""
    there = run(LatestRegister(SessionKeys("", session, driver.appends)).read(), driver)
    assert there.value is not None
    return there.value.card


def say(store: Store, session: str, text: str = "hello", **options: str) -> None:
    """Record a message."""
    with store.session(session, **options) as opened:  # type: ignore[arg-type]
        opened.append(text)


def all_pages(store: Store, limit: int, **wanted: str | bool) -> list[str]:
    """The sessions of all pages."""
    shown, after = [], None
    while True:
        page = store.sessions(limit=limit, after=after, **wanted)  # type: ignore[arg-type]
        shown += [row.id for row in page.rows]
        if (after := page.after) is None:
            return shown


def fill(driver: Driver, count: int, *, a_day: int) -> None:
    """Store so many sessions, so many of them a day, every tenth of the project `tenth`."""
    with Store(Place(driver)).session("first") as session:
        session.append("x")
    latest = run(LatestRegister(SessionKeys("", "first", driver.appends)).read(), driver).value
    assert latest is not None
    today = now_ms() - DAY_MS
    for number in range(count - 1):
        project = "tenth" if number % 10 == 0 else "other"
        marker = Marker.of(today - number * DAY_MS // a_day, project, "", f"{number:012x}").text
        keys = SessionKeys("", f"s{number:06}", driver.appends)
        card = msgspec.structs.replace(latest.card, session=keys.session, project=project, marker=marker)
        driver.execute((Put(keys.marker(marker), b""), Put(keys.latest, encode_latest(card, ()), expect=None)))


# requests


@pytest.mark.parametrize(("count", "a_day"), [(1000, 100), (5000, 50), (5000, 1000), (5000, 5000)])
def test_a_page_of_20_costs_20_small_reads_and_one_list(count: int, a_day: int) -> None:
    """However many sessions there are, and were active on its day; so do the next page, and one of a project."""
    driver = CountingDriver(MemoryDriver(), keep=True)
    fill(driver, count, a_day=a_day)
    store = Store(Place(driver))
    driver.reset()
    page = store.sessions(limit=20)
    assert len(page.rows) == 20
    assert driver.counts == {"List": 1, "Get": 20 + 1}
    assert driver.batches == 2
    driver.reset()
    second = store.sessions(limit=20, after=page.after)
    assert not {row.id for row in page.rows} & {row.id for row in second.rows}
    assert driver.counts == {"List": 1, "Get": 20 + 1}
    driver.reset()
    assert {row.project for row in store.sessions(project="tenth", limit=20).rows} == {"tenth"}
    assert driver.counts == {"List": 1, "Get": 20 + 1}
    driver.reset()
    assert store.recent(project="tenth") is not None
    assert driver.counts["List"] == 1


def test_a_later_page_does_not_list_what_was_shown() -> None:
    """It begins with the time at which the page before ended, however many were active on that day."""
    driver = CountingDriver(MemoryDriver(), keep=True)
    fill(driver, 3000, a_day=1000)
    store, after, page = Store(Place(driver)), None, treering.Sessions(rows=(), after=None)
    for _ in range(75):
        page = store.sessions(limit=20, after=after)
        after = page.after
    last = Marker.parse(card_of(driver, page.rows[-1].id).marker)
    assert last is not None
    driver.reset()
    page = store.sessions(limit=20, after=after)
    asked = [request.after for request in driver.requests if isinstance(request, List)]
    assert asked == [recent_until("", last.ms)]
    assert driver.counts["Get"] == 21


def test_appends_write_a_marker_every_ten_minutes_at_most(clock: Clock) -> None:
    """Together with the card that is due anyway; all others cost what they cost before."""
    driver = CountingDriver(MemoryDriver(), keep=True)
    with Store(Place(driver)).session("s") as session:
        session.append("one")
        driver.reset()
        for _ in range(4 * 15):
            clock.ahead_ms += 15_000
            session.append("more")
        marked = [request for request in driver.requests if isinstance(request, Put) and "recent/" in request.key]
        assert len(marked) == 1
        assert len(marker_keys(driver)) == 1
        assert driver.counts["Put"] <= 1.5 * 60
        assert driver.counts["Delete"] == 1
        clock.ahead_ms += DAY_MS
        driver.reset()
        session.append("the next day")
        assert driver.counts == {"Put": 3, "Delete": 1}
    assert len(marker_keys(driver)) == 1


# the same as by cards


@pytest.mark.parametrize("seed", range(12))
def test_lists_by_markers_show_what_lists_by_cards_show(clock: Clock, seed: int) -> None:
    """Random sessions are written, moved, deleted, made again and killed, by random clocks; by cards means all."""
    rng = random.Random(seed)
    memory = MemoryDriver()
    for _ in range(60):
        clock.ahead_ms = rng.choice((0, 0, 0, -DAY_MS, 40 * DAY_MS, rng.randrange(3 * DAY_MS)))
        _do_something(rng, memory, f"s{rng.randrange(9)}")
        if rng.random() < 0.2:
            _compare(rng, memory)
    _compare(rng, memory)
    assert not [found for _, found in Store(Place(memory)).verify_all() if "unmarked" in [each.kind for each in found]]
    Store(Place(memory)).reindex()
    _compare(rng, memory)
    living = [row.id for row in Store(Place(memory)).each_session()]
    assert len(marker_keys(memory)) == len(living)


def _do_something(rng: random.Random, memory: MemoryDriver, name: str) -> None:
    driver: Driver = KilledDriver(memory, rng.randrange(1, 14)) if rng.random() < 0.4 else memory
    store = Store(Place(driver))
    with contextlib.suppress(KilledError):
        match rng.randrange(6):
            case 0:
                store.delete(name, missing_ok=True)
            case 1:
                with store.session(name) as session:
                    session.append("hello")
                    session.move(project=rng.choice(PROJECTS), cwd=rng.choice(FOLDERS))
            case 2:
                store.purge(older_than=timedelta(0))
            case 3:
                with store.session(name) as session:
                    session.set_status(rng.choice(("", "done")))
            case _:
                say(store, name, project=rng.choice(PROJECTS), cwd=rng.choice(FOLDERS))


def _compare(rng: random.Random, memory: MemoryDriver) -> None:
    store, every = Store(Place(memory)), list(Store(Place(memory)).each_session())
    assert sorted(all_pages(store, rng.choice((1, 2, 100)))) == sorted(row.id for row in every)
    for project in PROJECTS:
        expected = sorted(row.id for row in every if row.project == project)
        assert sorted(all_pages(store, 2, project=project)) == expected
        found = store.recent(project=project)
        assert (found is not None) == bool(expected)
    for folder in FOLDERS[1:]:
        assert sorted(all_pages(store, 2, cwd=folder)) == sorted(row.id for row in every if row.cwd == folder)
    done = sorted(row.id for row in every if row.status == "done")
    assert sorted(all_pages(store, 3, status="done")) == done


def test_the_order_is_that_of_activity(clock: Clock) -> None:
    """Day by day, and within a day."""
    store = Store(Place(MemoryDriver()))
    for ahead, name in [(0, "a"), (DAY_MS, "b"), (0, "c"), (2 * DAY_MS, "d")]:
        clock.ahead_ms = ahead
        say(store, name)
        tick()
    assert all_pages(store, 1) == all_pages(store, 10) == ["d", "b", "c", "a"]


@pytest.mark.parametrize("appends", [False, True])
@pytest.mark.parametrize("work", ["prune", "merge", "close"])
def test_upkeep_moves_no_session(clock: Clock, work: str, *, appends: bool) -> None:
    """A session that is merged, pruned or closed days later was not active then: it stays where it is in lists."""
    store = Store(Place(MemoryDriver(appends=appends)))
    left = store.session("old")
    for step in range(3):
        left.commit(["x"], state={"n": step})
    if work != "close":
        left.close()
    for days, name in [(1, "middle"), (2, "new")]:
        clock.ahead_ms = days * DAY_MS
        say(store, name)
    clock.ahead_ms = 4 * DAY_MS
    with left if work == "close" else store.session("old") as session:
        match work:
            case "prune":
                assert session.prune(KeepCheckpoints(last=1)).plan.pruned
            case "merge":
                session.seal()
                session.optimize(everything=True)
    assert all_pages(store, 1) == all_pages(store, 10) == ["new", "middle", "old"]
    found = store.recent()
    assert found is not None
    assert found.id == "new"


def test_a_record_behind_late_upkeep_moves_its_session(clock: Clock) -> None:
    """The card that upkeep wrote tells an old time, so it is due with the next record, however soon that comes."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    late = store.session("late")
    late.append("one")
    clock.ahead_ms = 30 * MINUTE_MS
    say(store, "other")
    clock.ahead_ms = 60 * MINUTE_MS
    late.seal()
    late.optimize(everything=True)
    assert all_pages(store, 1) == ["other", "late"]
    clock.ahead_ms += 1000
    late.append("two")
    kill(late)
    assert all_pages(store, 1) == ["late", "other"]


# what kills and others leave


def stray(driver: Driver, session: str, *, days: int, project: str = "") -> str:
    """Leave a marker that no session names, of so many days from now."""
    key = SessionKeys("", session, driver.appends).marker(
        Marker.of(now_ms() + days * DAY_MS, project, "", "0123456789ab").text
    )
    driver.execute((Put(key, b""),))
    return key


@pytest.mark.parametrize("days", [-3, 0, 3])
def test_a_marker_that_the_card_does_not_name_moves_nothing(clock: Clock, days: int) -> None:
    """Of another life, or of a writer that was killed before it named it: the session stays where it is."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    for ahead, name in [(0, "old"), (DAY_MS, "middle"), (2 * DAY_MS, "new")]:
        clock.ahead_ms = ahead
        say(store, name)
    for name in ("old", "middle", "new", "never"):
        stray(memory, name, days=days)
    assert all_pages(store, 1) == all_pages(store, 10) == ["new", "middle", "old"]
    found = store.recent()
    assert found is not None
    assert found.id == "new"


def test_a_session_that_is_made_again_has_the_marker_of_its_new_life() -> None:
    """Deleting removes the marker; purging, too, what a killed deletion left."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    say(store, "s", project="shop")
    before = marker_keys(memory)
    store.delete("s")
    assert not marker_keys(memory)
    memory.execute((Put(before[0], b""),))  # a delayed write
    assert store.sessions().rows == ()
    say(store, "s", project="travel")
    assert [row.project for row in store.sessions().rows] == ["travel"]
    assert store.sessions(project="shop").rows == ()
    store.delete("s")
    memory.execute((Put(before[0], b""),))
    store.purge()
    left = [entry.key for entry in run(list_all(""), memory) if entry.key != before[0]]
    assert left == ["recent.json", "treering.json"]


@pytest.mark.parametrize("requests", range(14))
def test_killed_anywhere_a_new_session_is_found_or_does_not_exist(requests: int) -> None:
    """Never does it exist and is not listed."""
    memory = MemoryDriver()
    say(Store(Place(memory)), "other")
    store = Store(Place(KilledDriver(memory, requests)))
    with contextlib.suppress(KilledError):
        say(store, "s")
    fresh = Store(Place(memory))
    listed = {row.id for row in fresh.sessions().rows}
    assert listed == {row.id for row in fresh.each_session()}
    try:
        fresh.view("s")
    except treering.NotFoundError:
        assert listed == {"other"}
    else:
        assert listed == {"other", "s"}


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_creation_fails_with_its_marker(fault: Fault) -> None:
    """And nothing of the session is stored."""
    plan, memory = OneFault(), MemoryDriver()
    store = Store(Place(FaultyDriver(memory, plan)))
    say(store, "other")
    plan.arm(fault, lambda request: isinstance(request, Put) and request.key.startswith("recent/"))
    session = store.session("s")
    with pytest.raises(UnavailableError):
        session.append("hello")
    kill(session)
    assert [row.id for row in Store(Place(memory)).each_session()] == ["other"]


def test_a_session_that_gets_another_marker_while_a_list_is_read_is_not_passed_over(clock: Clock) -> None:
    """It moves from a day that was not read yet to one that was."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    for name in ("a", "b"):
        say(store, name)

    class Moving(CountingDriver):
        """Lets a session be active between the list and the cards."""

        def execute(self, batch):  # type: ignore[no-untyped-def]
            if any(isinstance(request, Get) and request.key.startswith("latest/") for request in batch):
                clock.ahead_ms = DAY_MS
                say(store, "a")
            return super().execute(batch)

    assert sorted(row.id for row in Store(Place(Moving(memory))).sessions().rows) == ["a", "b"]


@pytest.mark.parametrize("foreign", ["~99999999.x=...0", "!0.x=...0", " x=...0", "~86400000.y=...0", "zz"])
def test_files_of_others_below_recent_hide_nothing(clock: Clock, foreign: str) -> None:
    """Nor the order: whatever is taken for a marker has its place by its key."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    tenant = store.namespace("a")
    names = []
    for number in range(8):
        clock.ahead_ms = -number * DAY_MS // 4
        say(tenant if number % 2 else store, f"s{number}")
        names.append(f"s{number}")
    for entry in run(list_all("ns/a/recent/"), memory):
        memory.execute((Put(entry.key.rpartition("/")[0] + "/" + foreign, b""),))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recent, "LIST_KEYS_MAX", 2)
        for limit in (1, 3):
            assert all_pages(store, limit, below=True) == names


@pytest.mark.parametrize(
    "cursor",
    [
        "20700-1790000000000-latest/a.jsonl.zst",
        "9" * 5000 + "-latest/a.jsonl.zst",
        "1790000000000-latest/a",
        "1790000000000-ns/latest/a.jsonl.zst",
        "latest/a/b.jsonl.zst",
        "sessions/a/tail.jsonl",
        "x",
        "",
    ],
)
def test_a_cursor_of_another_kind_is_refused(cursor: str) -> None:
    """One of an early version, or an invented one: no page is taken for a further one and is the first."""
    store = Store(Place(MemoryDriver()))
    say(store, "a")
    with pytest.raises(UsageError, match="no place in a list") as caught:
        store.sessions(after=cursor)
    assert caught.value.kind == Kind.OPTION


def test_a_cursor_of_other_sessions_is_refused() -> None:
    """Of a namespace beside this one, or around it; those of namespaces below are known here."""
    store = Store(Place(MemoryDriver()))
    ann, bob = store.namespace("ann"), store.namespace("latest")
    for part in (store, ann, bob):
        say(part, "a")
        say(part, "b")
    for mine, other in ((ann, store), (ann, bob), (bob, ann)):
        with pytest.raises(UsageError):
            mine.sessions(after=other.sessions(limit=1).after)
    for each in (store, ann, bob):
        assert len(each.sessions(after=each.sessions(limit=1).after).rows) == 1
    assert store.sessions(after=ann.sessions(limit=1).after, below=True).rows


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("became", ["deleted", "purged", "made again", "used"])
def test_a_cursor_is_a_place_whatever_became_of_its_session(became: str, *, marked: bool) -> None:
    """The rest is shown, and nothing that was shown before; a session that is used again is at the top by then."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    for name in ("a", "b", "c", "d", "e"):
        say(store, name)
        tick()
    if not marked:
        memory.execute((Delete(("recent.json",)),))
    page = store.sessions(limit=3)
    last = page.rows[-1].id
    if became == "used":
        say(store, last)
    else:
        store.delete(last)
    if became in {"purged", "made again"}:
        store.purge(last)
    if became == "made again":
        say(store, last)
    rest = [row.id for row in store.sessions(after=page.after).rows]
    assert rest == [row.id for row in store.each_session() if row.id not in {shown.id for shown in page.rows}]
    assert len(rest) == 2


def test_a_store_whose_first_session_is_in_a_namespace_is_new(tmp_path: Path) -> None:
    """The lock of that session is no object that was there before."""
    with treering.open(tmp_path).namespace("ann").session("s") as session:
        session.append("hi")
    assert (tmp_path / "recent.json").exists()


@pytest.mark.parametrize("marked", [True, False])
def test_a_cursor_outlives_its_session(*, marked: bool) -> None:
    """It is a place in the list, also when the session at its end was deleted and purged: the rest is shown."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    for name in ("a", "b", "c"):
        say(store, name)
    if not marked:
        memory.execute((Delete(("recent.json",)),))
    page = store.sessions(limit=1)
    gone = page.rows[0].id
    store.delete(gone)
    store.purge(gone)
    assert {row.id for row in store.sessions(after=page.after).rows} == {"a", "b", "c"} - {gone}


def test_a_clock_that_went_wrong_is_forgotten_with_the_next_record(clock: Clock) -> None:
    """A session of the year 2100 stands first until somebody records in it whose clock is right."""
    store = Store(Place(MemoryDriver()))
    clock.ahead_ms = 75 * 365 * DAY_MS
    say(store, "future")
    clock.ahead_ms = 0
    say(store, "now")
    assert all_pages(store, 10) == ["future", "now"]
    say(store, "future")
    clock.ahead_ms = DAY_MS
    say(store, "now")
    assert all_pages(store, 10) == ["now", "future"]


def test_a_marker_says_nothing_of_a_project_that_was_erased() -> None:
    """Not even the few digits that tell it from others."""
    memory = MemoryDriver()
    with Store(Place(memory)).session("s") as session:
        session.append("hello")
        session.move(project="secret", cwd="/secret")
        (note,) = session.notes(kind="place")
        (before,) = marker_keys(memory)
        session.erase(note.id)
    (after,) = marker_keys(memory)
    assert card_of(memory, "s").project == ""
    assert before.rpartition("=.")[2].rpartition(".")[0] != "."
    assert after.rpartition("=.")[2].rpartition(".")[0] == "."


# stores of earlier versions, and what is brought in by hand


def forget_markers(driver: Driver, *sessions: str) -> None:
    """Let these sessions be such as an earlier version made."""
    for session in sessions:
        put_card(driver, session, lambda card: msgspec.structs.replace(card, marker=""))


def test_a_store_that_does_not_say_that_markers_are_complete_lists_all_cards() -> None:
    """One by an earlier version; `reindex` lets it say so."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    names = [f"s{number}" for number in range(5)]
    for name in names:
        say(store, name, project="shop")
    memory.execute((Delete(("recent.json",)),))
    forget_markers(memory, *names[:3])
    assert sorted(all_pages(store, 2)) == names
    done = store.reindex()
    assert (done.sessions, done.marked, done.removed) == (5, 3, 0)
    assert sorted(all_pages(store, 2)) == names
    counting = CountingDriver(memory)
    assert len(Store(Place(counting)).sessions(project="shop", limit=2).rows) == 2
    assert counting.counts == {"List": 1, "Get": 3}
    assert (store.reindex().marked, store.reindex().removed) == (0, 0)


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_first_append_does_not_fail_with_what_says_that_markers_are_complete(fault: Fault) -> None:
    """Lists read all cards then."""
    plan, memory = OneFault(), MemoryDriver()
    plan.arm(fault, _says_complete)
    say(Store(Place(FaultyDriver(memory, plan))), "s")
    assert not plan.pending
    assert [row.id for row in Store(Place(memory)).sessions().rows] == ["s"]


def _says_complete(request: Request) -> bool:
    return isinstance(request, List) or (isinstance(request, Put) and request.key == "recent.json")


def test_a_new_store_with_sessions_in_it_does_not_say_that_markers_are_complete() -> None:
    """They were copied there by hand, without their markers."""
    memory, other = MemoryDriver(), MemoryDriver()
    say(Store(Place(memory)), "s")
    for entry in run(list_all(""), memory):
        if not entry.key.startswith(("recent", "treering.json")):
            (found,) = memory.execute((Get(entry.key),))
            other.execute((Put(entry.key, found.data),))  # type: ignore[union-attr]
    say(Store(Place(other)), "new")
    assert [row.id for row in Store(Place(other)).sessions().rows] == ["new", "s"]


def test_what_was_copied_by_hand_is_told_by_verify_and_found_by_reindex() -> None:
    """Until then only lists lack it."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    for name in ("a", "b", "c"):
        say(store, name)
    (gone,) = [key for key in marker_keys(memory) if ".a=." in key]
    memory.execute((Delete((gone,)),))
    forget_markers(memory, "b")
    kept = stray(memory, "c", days=0)
    found = {name: [(each.kind, each.severity) for each in findings] for name, findings in store.verify_all()}
    assert found == {"a": [("unmarked", "oddity")], "b": [("unmarked", "oddity")], "c": [("stray", "oddity")]}
    assert [row.id for row in store.sessions().rows] == ["c"]
    assert sorted(row.id for row in store.each_session()) == ["a", "b", "c"]
    done = store.reindex()
    assert (done.sessions, done.marked, done.removed) == (3, 2, 1)
    assert kept not in marker_keys(memory)
    assert sorted(all_pages(store, 2)) == ["a", "b", "c"]
    assert not any(findings for _, findings in store.verify_all())


def test_a_marker_of_a_deleted_session_is_told_and_removed() -> None:
    """Left by a write that took effect late."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    say(store, "s")
    store.delete("s")
    key = stray(memory, "s", days=0)
    assert [(name, [each.kind for each in found]) for name, found in store.verify_all()] == [("s", ["stray"])]
    assert store.reindex().removed == 1
    assert key not in marker_keys(memory)
    assert not list(store.verify_all())


def test_a_damaged_card_is_a_row_by_markers_as_well() -> None:
    """With a warning; also if it has lost its marker, once somebody reindexed."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    for name in ("a", "b"):
        say(store, name)
    (found,) = memory.execute((Get("latest/a.jsonl.zst"),))
    memory.execute((Put("latest/a.jsonl.zst", b"damaged", expect=found.version),))  # type: ignore[union-attr]
    assert sorted((row.id, bool(row.warning)) for row in store.sessions().rows) == [("a", True), ("b", False)]
    (gone,) = [key for key in marker_keys(memory) if ".a=." in key]
    memory.execute((Delete((gone,)),))
    assert store.reindex().marked == 1
    assert sorted((row.id, bool(row.warning)) for row in store.sessions().rows) == [("a", True), ("b", False)]


def test_a_reindex_does_not_remove_what_a_writer_is_about_to_name(clock: Clock) -> None:
    """The writer is refused, and its next try has a marker of its own."""
    memory = MemoryDriver()
    with Store(Place(memory)).session("s") as first:
        first.append("one")

    class Between(CountingDriver):
        """Reindexes between a marker and the card that names it."""

        armed = False

        def execute(self, batch):  # type: ignore[no-untyped-def]
            if self.armed and any(_writes_card(request) for request in batch):
                self.armed = False
                Store(Place(memory)).reindex()
            return super().execute(batch)

    between = Between(memory)
    session = Store(Place(between)).session("s")
    clock.ahead_ms = DAY_MS
    between.armed = True
    session.append("two")
    assert not between.armed
    session.append("three")
    session.close()
    assert [row.id for row in Store(Place(memory)).sessions().rows] == ["s"]
    assert not any(findings for _, findings in Store(Place(memory)).verify_all())


def _writes_card(request: Request) -> bool:
    return isinstance(request, Put) and request.key.startswith("latest/")


def test_namespaces_have_markers_of_their_own() -> None:
    """The store says for all of them that they are complete; a reindex of one says so for what is in it."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    ann = store.namespace("ann")
    say(ann, "hers")
    say(ann.namespace("work"), "inner")
    say(store, "mine")
    assert sorted(row.id for row in store.sessions(below=True).rows) == ["hers", "inner", "mine"]
    assert [row.id for row in ann.sessions().rows] == ["hers"]
    memory.execute((Delete(("recent.json",)),))
    ann.reindex()
    for prefix, lists in (("", 2), ("ns/ann/", 1), ("ns/ann/ns/work/", 1)):
        counting = CountingDriver(memory)
        assert len(Store(Place(counting, prefix)).sessions().rows) == 1
        assert counting.counts["List"] == lists


def test_a_backup_has_markers_of_its_own() -> None:
    """So it lists what it holds, also when it is brought up to date, and what was deleted there is gone."""
    source, target = Store(Place(MemoryDriver())), MemoryDriver()
    backup = Store(Place(target))
    for name in ("a", "b"):
        say(source, name, project="shop")
    for _ in range(2):
        source.backup(backup)
        assert sorted(row.id for row in backup.sessions(project="shop").rows) == ["a", "b"]
        assert len(marker_keys(target)) == 2
        say(source, "a", "more")
    source.delete("b")
    source.backup(backup, delete=True)
    assert [row.id for row in backup.sessions().rows] == ["a"]
    assert len(marker_keys(target)) == 1


# where keys have no times, as in early versions


def age(driver: Driver, session: str, *, timed: bool = False) -> str:
    """Let the marker of a session be one of an early version, and its card of that time; return the marker's key."""
    new = Marker.parse(card_of(driver, session).marker)
    assert new is not None
    old = msgspec.structs.replace(new, timed=timed)
    put_card(driver, session, lambda card: msgspec.structs.replace(card, marker=old.text, updated=new.ms))
    return SessionKeys("", session, driver.appends).marker(old.text)


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_markers_of_early_versions_stand_before_others_of_their_day(clock: Clock, limit: int) -> None:
    """They tell the day alone. The next card of a session names a marker with the time, and the old one goes."""
    memory = MemoryDriver()
    store = Store(Place(memory))
    noon = -(now_ms() % DAY_MS) + DAY_MS // 2
    for hours, name in [(0, "b"), (1, "0old"), (2, "a"), (24, "tomorrow"), (25, "zold"), (-24, "yesterday")]:
        clock.ahead_ms = noon + hours * 3_600_000
        say(store, name)
    keys = [age(memory, name) for name in ("0old", "zold")]
    assert [key.rpartition("/")[2].partition("=")[0] for key in keys] == ["0old", "zold"]
    assert all_pages(store, limit) == ["zold", "tomorrow", "0old", "a", "b", "yesterday"]
    assert not any(findings for _, findings in store.verify_all())
    clock.ahead_ms = noon + 3 * 1_800_000
    say(store, "0old", "again")
    assert all_pages(store, limit) == ["zold", "tomorrow", "a", "0old", "b", "yesterday"]
    assert keys[0] not in marker_keys(memory)
    store.delete("zold")
    assert keys[1] not in marker_keys(memory)
    assert all_pages(store, limit) == ["tomorrow", "a", "0old", "b", "yesterday"]


@pytest.mark.parametrize("local", [False, True])
def test_the_newest_of_early_sessions_is_found_and_a_reindex_puts_them_in_order(
    tmp_path: Path, clock: Clock, *, local: bool
) -> None:
    """Their keys do not tell the order within the day, and those of others do not tell more than their own."""
    driver: Driver = LocalDriver(tmp_path) if local else MemoryDriver()
    store, backup = Store(Place(driver)), Store(Place(MemoryDriver()))
    noon = -(now_ms() % DAY_MS) - DAY_MS // 2
    for hour, name in [(8, "d"), (9, "b"), (10, "a"), (11, "new"), (20, "c"), (11, "x")]:
        clock.ahead_ms = noon + (hour - 12) * 3_600_000
        say(store, name)
        if local:
            at = (now_ms() + clock.ahead_ms) / 1000
            os.utime(tmp_path / f"sessions/{name}/tail.jsonl", (at, at))
        age(driver, name, timed=name in ("new", "x"))
    for each in (store, backup):
        if each is backup:
            store.backup(backup)
        found = each.recent()
        assert found is not None
        assert found.id == "c"
    assert all_pages(backup, 10)[0] == "c"
    assert all_pages(store, 2)[:4] == ["a", "b", "c", "d"]
    done = store.reindex()
    assert (done.sessions, done.marked, done.removed) == (6, 0, 0)
    assert all_pages(store, 2)[0] == "c"
    assert all_pages(store, 2)[3:] == ["a", "b", "d"]
    assert len(marker_keys(driver)) == 6


# on a disk


@pytest.mark.parametrize("local", [False, True])
def test_sessions_of_the_first_minutes_of_1970_are_listed(tmp_path: Path, clock: Clock, *, local: bool) -> None:
    """A clock that was never set, or times of another program."""
    store = Store(Place(LocalDriver(tmp_path) if local else MemoryDriver()))
    for number, name in enumerate(("a", "b", "c")):
        store.load(
            name,
            [treering.user("old", time_ms=number)],
            leaf=lambda: None,
            origin=lambda active=number, name=name: {"session": name, "active_ms": active},  # type: ignore[misc]
        )
    assert sorted(all_pages(store, 1)) == ["a", "b", "c"]
    assert store.recent() is not None


def test_on_a_disk_many_imported_sessions_are_looked_at_together(tmp_path: Path) -> None:
    """Each has a log that is younger than its session, and holds nothing."""
    driver = CountingDriver(LocalDriver(tmp_path))
    store = Store(Place(driver))
    for number in range(100):
        store.load(
            f"s{number}",
            [treering.user("old", time_ms=10**12)],
            leaf=lambda: None,
            origin=lambda number=number: {"session": f"s{number}", "active_ms": 10**12 + number},  # type: ignore[misc]
        )
    for look in (lambda: store.sessions(limit=20), store.recent):
        driver.reset()
        assert look()
        assert driver.batches <= 16


def test_on_a_disk_a_page_looks_at_the_names_of_few_markers(tmp_path: Path) -> None:
    """And at no marker's file: a thousand sessions of one day cost no more than a hundred."""

    class Asking(CountingDriver):
        keys = 0

        def execute(self, batch: tuple[Request, ...]) -> tuple[Answer, ...]:
            answers = super().execute(batch)
            for request, answer in zip(batch, answers, strict=True):
                if isinstance(request, List) and request.prefix.startswith("recent/"):
                    assert isinstance(answer, Listed)
                    assert {(entry.size, entry.modified_ms) for entry in answer.entries} <= {(0, 0)}
                    self.keys += len(answer.entries)
            return answers

    driver = Asking(LocalDriver(tmp_path))
    fill(driver, 300, a_day=300)
    store, after = Store(Place(driver)), None
    for _ in range(3):
        driver.keys = 0
        page = store.sessions(limit=20, after=after)
        assert len(page.rows) == 20
        assert driver.keys == 64
        after = page.after


def test_files_may_be_copied_by_programs_that_do_not_keep_times(tmp_path: Path, clock: Clock) -> None:
    """The order of a list is in the keys."""
    store, names = Store(Place(LocalDriver(tmp_path / "store"))), ["d", "a", "c", "b"]
    for number, name in enumerate(reversed(names)):
        clock.ahead_ms = (number - 9) * 3_600_000
        say(store, name)
    shutil.copytree(tmp_path / "store", tmp_path / "copy", copy_function=shutil.copyfile)
    assert all_pages(Store(Place(LocalDriver(tmp_path / "copy"))), 3) == names


def test_on_a_disk_a_session_that_is_active_between_two_markers_comes_first(tmp_path: Path, clock: Clock) -> None:
    """Its log says so, however many others there are."""
    store = Store(Place(LocalDriver(tmp_path)))
    open_one = store.session("working")
    open_one.append("begin")
    for number in range(80):
        say(store, f"s{number:02}")
    open_one.append("still here")
    later = now_ms() // 1000 + 1  # the clock of a file system may be coarse
    os.utime(tmp_path / "sessions/working/tail.jsonl", (later, later))
    kill(open_one)
    assert store.sessions(limit=1).rows[0].id == "working"
    shown = all_pages(store, 7)
    assert shown[0] == "working"
    assert sorted(shown) == sorted(["working", *(f"s{number:02}" for number in range(80))])
    found = store.recent()
    assert found is not None
    assert found.id == "working"


def test_on_a_disk_a_log_left_by_a_kill_stands_on_one_page(tmp_path: Path, clock: Clock) -> None:
    """Its marker is of hours ago, and nobody wrote a card behind its last record: out of order, but there."""
    store = Store(Place(LocalDriver(tmp_path)))
    names = [f"s{number}" for number in range(9)]
    now = now_ms() // 1000
    for number, name in enumerate(names):
        clock.ahead_ms = -100_000 * number
        say(store, name)
        log = now - 100 * number if number % 2 else now + 5000 + number
        os.utime(tmp_path / f"sessions/{name}/tail.jsonl", (log, log))
    for limit in (1, 2, 4, 100):
        assert sorted(all_pages(store, limit)) == names


@pytest.mark.parametrize("look", [Store.sessions, Store.recent])
def test_lists_write_nothing(look: Callable[[Store], object]) -> None:
    """Also where strays lie about."""
    memory = MemoryDriver()
    say(Store(Place(memory)), "s")
    stray(memory, "s", days=1)
    counting = CountingDriver(memory)
    look(Store(Place(counting)))
    assert counting.counts.keys() <= {"Get", "List"}


def test_ten_minutes_and_a_minute_are_what_a_marker_lags_behind() -> None:
    """The order on a disk rests on it."""
    assert recent.LAG_MS_MAX == MARKED_MS_MAX + upkeep.CARD_LAG_MS_MAX


@pytest.mark.parametrize("local", [False, True])
def test_imported_sessions_stand_where_they_were_active(tmp_path: Path, *, local: bool) -> None:
    """Whenever and in whatever order they came in; whoever goes on in one finds it at the top, also after a kill."""
    store = Store(Place(LocalDriver(tmp_path / "store") if local else MemoryDriver()))
    for name in ("today", "now"):
        say(store, name)
    importer = FileImporter(store)
    for name, day in (("noon", "05-01T12"), ("march", "03-01T08"), ("night", "05-01T23"), ("dawn", "05-01T05")):
        importer.load(_pi_file(tmp_path / f"{name}.jsonl", name, f"2026-{day}:00:00.000Z"))
    found = [row.id for row in store.sessions(limit=10).rows]
    assert found == ["now", "today", "night", "noon", "dawn", "march"]
    pages = all_pages(store, 2)
    assert (pages[:2], {*pages[2:5]}, pages[5:]) == (["now", "today"], {"night", "noon", "dawn"}, ["march"])
    going_on = store.session("march", create=False)
    going_on.append("again")
    kill(going_on)
    assert store.sessions(limit=1).rows[0].id == "march"
    assert [each for each in store.verify("march") if each.severity == "damage"] == []


def _pi_file(path: Path, name: str, time: str) -> Path:
    message = {"role": "user", "content": "hello", "timestamp": datetime.fromisoformat(time).timestamp() * 1000}
    entries = (
        {"type": "session", "version": 3, "id": name, "timestamp": time, "cwd": "/repo"},
        {"type": "message", "id": "a1b2c3d4", "parentId": None, "timestamp": time, "message": message},
    )
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def _creating(keys: SessionKeys) -> Steps[object]:
    return life.create(keys, Card(session=keys.session, life="", write=""), (), life="l1", nonce="w1", now_ms=now_ms())


def _reads_tail(request: Request) -> bool:
    return isinstance(request, Get) and request.key.endswith("/tail.jsonl.zst")


def _reads_latest(request: Request) -> bool:
    return isinstance(request, Get) and request.key.startswith("latest/")


def test_who_removes_markers_spares_that_of_a_session_created_meanwhile() -> None:
    """Its marker was written, and listed before `latest` named it."""
    memory = MemoryDriver()
    keys = SessionKeys("", "s", appends=False)
    creating = Paused(_creating(keys), memory, replaces("latest/"))
    removing = Paused(reindex("", appends=False), memory, _reads_tail)
    assert creating.go_on() is not None
    removing.go_on()
    assert marker_keys(memory) == [keys.marker(card_of(memory, "s").marker)]


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "backwards"])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("used", [False, True], ids=["a new name", "a deleted one"])
def test_who_creates_a_session_puts_its_marker_where_nobody_takes_it_for_waste(
    *, used: bool, number: int, order: int
) -> None:
    """Before each request of a creation markers are swept and tombstones purged; those of a batch come in any order."""
    memory = MemoryDriver()
    keys = SessionKeys("", "s", appends=False)
    store = Store(Place(memory))
    if used:
        say(store, "s")
        store.delete("s")

    def sweep() -> None:
        run(reindex("", appends=False), memory)
        with contextlib.suppress(NotFoundError):
            store.purge("s")

    creating, sent = _creating(keys), count()
    try:
        batch = next(creating)
        while True:
            answers: dict[int, Answer] = {}
            for place, request in [*enumerate(batch)][::order]:
                if next(sent) == number:
                    sweep()
                [answers[place]] = memory.execute((request,))
            batch = creating.send(tuple([answers[place] for place in range(len(batch))]))
    except StopIteration:
        assert marker_keys(memory) == [keys.marker(card_of(memory, "s").marker)]
    except ConflictError:
        assert store.sessions().rows == ()  # its tombstone was taken; a marker alone shows nothing
    if next(sent) <= number:
        pytest.skip("it sends fewer requests")
