"""What the benchmarks found to be the same at every length is counted here, so that it stays so."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from benchmarks import workload
from benchmarks.contestants.ours import Treering, unsynced_store
from benchmarks.stage import weigh
from tests.sampling import few
from tests.storage.processes import await_tick

from treering.api.store import Store
from treering.api.view import View
from treering.session import index as session_index, loader
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Put
from treering.store.place import Place

SHORT, LONG = 12, 1_500
PAGE = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two sessions that end alike, with a checkpoint at every turn, a branch and compactions."""
    folder = tmp_path_factory.mktemp("flat")
    contestant = Treering(str(folder))
    for count in (SHORT, LONG):
        contestant.write(f"s-{count}", list(workload.session(count)))
    return Path(contestant.root)


def counted(folder: Path) -> tuple[Store, CountingDriver]:
    """The store as a new process opens it, and what it asks for."""
    counts = CountingDriver(LocalDriver(folder))
    return Store(Place(counts)), counts


def resumed(folder: Path, count: int) -> CountingDriver:
    """Resume a session and look at all that there is to restore."""
    store, counts = counted(folder)
    closing = [each["content"] for each in workload.closing()]
    with store.session(f"s-{count}", create=False) as session:
        assert [item.message["content"] for item in session.recorded_context] == closing
        assert session.state == {"step": (count - 1) // 2}
    return counts


def test_resuming_asks_for_the_same_at_every_length(folder: Path) -> None:
    """A long session is resumed by the same two requests as a short one, and by as many bytes."""
    short, long = (resumed(folder, count) for count in (SHORT, LONG))
    assert short.counts == long.counts == {"Get": 2}
    assert long.bytes_down <= 1.1 * short.bytes_down


def test_resuming_allocates_the_same_at_every_length(folder: Path) -> None:
    """The peak of memory of a resume follows the context, which is the same, and not the length."""
    peaks = []
    for count in (SHORT, LONG):
        resumed(folder, count)  # what is made once for all is no part of it
        tracemalloc.start()
        resumed(folder, count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] <= 1.1 * peaks[0]


def test_a_turn_writes_the_same_at_every_length(folder: Path) -> None:
    """A turn with a checkpoint is one append, whose bytes follow its messages and not the length."""
    written = []
    for count in (SHORT, LONG):
        store, counts = counted(folder)
        with store.session(f"s-{count}") as session:
            session.commit(["first"], state={"step": -1})
            counts.reset()
            session.commit(["question", "answer"], context=session.context[-8:], state={"step": -2})
            assert counts.counts == {"Append": 1}
            written.append(counts.bytes_up)
    assert written[1] <= 1.1 * written[0]


def test_the_last_page_reads_indexes_and_one_frame_of_a_segment(folder: Path) -> None:
    """The newest messages of a long session cost its indexes and what holds the page, not the history."""
    store, counts = counted(folder)
    view = store.view(f"s-{LONG}")
    segments = view.stored().segments
    counts.reset()
    rows = view.history(limit=PAGE).rows
    assert len(rows) == PAGE
    assert counts.counts["Get"] <= 2 + 2 * segments
    assert counts.bytes_down < weigh(folder) / 2


def calls_of(view: View, rows: int) -> int:
    """How many functions a page calls, when all that it reads is remembered."""
    view.history(limit=rows)
    calls = 0

    def see(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        view.history(limit=rows)
    finally:
        sys.setprofile(before)
    return calls


def test_a_row_of_a_page_takes_few_calls(folder: Path) -> None:
    """Of functions in Python: 34, where looking each thing up for each row took 106."""
    view = counted(folder)[0].view(f"s-{LONG}")
    assert calls_of(view, 60) - calls_of(view, 20) <= 40 * 36


def test_the_tree_reads_a_small_part_of_the_history(folder: Path) -> None:
    """The skeleton is read from indexes: less than an eighteenth of the text, where a file would be parsed whole."""
    store, counts = counted(folder)
    assert len(store.view(f"s-{LONG}").nodes()) > LONG
    text = sum(len(workload.text(each)) for each in workload.session(LONG))
    tail = (folder / f"sessions/s-{LONG}/tail.jsonl").stat().st_size
    latest = (folder / f"latest/s-{LONG}.jsonl.zst").stat().st_size
    assert counts.bytes_down - tail - latest < text / 18


LOOKS: dict[str, tuple[int, Callable[[View], object]]] = {
    "page": (4, lambda view: view.history(limit=PAGE)),
    "old turn": (4, lambda view: view.checkpoint(next(row.id for row in view.checkpoints() if row.step == 2))),
    "tree": (5, lambda view: view.tree()),
}
"""Most requests with one segment, and what they are for."""


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("count", [SHORT, LONG])
def test_looking_back_takes_few_requests(folder: Path, look: str, count: int) -> None:
    """On an object store a page, an old turn and the tree take a few requests, and four for each segment more."""
    most, do = LOOKS[look]
    counts = CountingDriver(MemoryDriver())
    store = Store(Place(counts))
    Store(Place(LocalDriver(folder))).copy(f"s-{count}", store)
    segments = store.view(f"s-{count}").stored().segments
    counts.reset()
    do(store.view(f"s-{count}"))
    assert counts.total <= most + 4 * (segments - 1)


def asked_for_the_end_of_a_version(count: int) -> tuple[int, int]:
    """Requests and waits for the newest leaf below an edited message, behind `count` others."""
    driver = MemoryDriver()
    with Store(Place(driver)).session("s") as session:
        above = session.append(*["x"] * count).node
        old = session.append("version 1", *["x"] * 50).nodes
        session.checkout(above)
        session.append("version 2", *["x"] * 50)
        session.seal()
        session.optimize(everything=True)
    counts = CountingDriver(driver)
    view = Store(Place(counts)).view("s")
    counts.reset()
    before = counts.batches
    assert view.newest_leaf(old[0]) == old[-1]
    return counts.total, counts.batches - before


def test_the_end_of_a_version_takes_the_same_at_every_length() -> None:
    """Of an edited message near the end: what is read follows the branch below it, and not the session."""
    found = [asked_for_the_end_of_a_version(count) for count in (2_000, few(8_000, 20_000))]
    assert found[0] == found[1] == (1, 1)  # the end of the segment, which holds its last rows, too


@pytest.mark.parametrize(
    ("count", "waits"), [(5_000, 2), (20_000, 4), pytest.param(60_000, 6, marks=pytest.mark.whole)]
)
def test_the_end_of_a_long_run_takes_few_waits(count: int, waits: int) -> None:
    """Below the first of many nodes: each chunk is read once, and the more at a time the longer the run is."""
    driver = MemoryDriver()
    with Store(Place(driver)).session("s") as session:
        for _ in range(count // 1_000):
            session.append(*["x"] * 1_000)
        session.seal()
        session.optimize(everything=True)
    counts = CountingDriver(driver)
    view = Store(Place(counts)).view("s")
    first = Store(Place(driver)).view("s").nodes().ids[0]
    before = counts.batches
    assert view.newest_leaf(first) == view.node
    assert counts.batches - before <= waits + 2  # the end of the segment, and its first chunk
    assert counts.total <= count // 1_024 + 4


def asked_to_erase(turns: int) -> tuple[dict[str, int], int]:
    """Requests of an erasure behind so many turns with a checkpoint each, and the bytes read but for the segment's."""
    driver = MemoryDriver()
    with Store(Place(driver)).session("s") as session:
        for first in range(0, turns, 100):
            for number in range(first, first + 100):
                session.commit([f"question {number}", f"answer {number}"], state={"step": number})
            session.compact("what was said before")
        session.seal()
        session.optimize(everything=True)
    counts = CountingDriver(driver)
    with Store(Place(counts)).session("s") as session:
        old = session.children(None)[0]
        counts.reset()
        assert session.erase(old).segments == 1
        asked = dict(counts.counts), counts.bytes_down
    sizes = [len(data) for key, data in driver.snapshot().items() if "/segments/" in key]
    return asked[0], asked[1] - sum(sizes)


def test_an_erasure_reads_what_it_erases() -> None:
    """However long the session is: its segment once, to write it again, and a few parts of that."""
    short, long = (asked_to_erase(turns) for turns in (1_000, few(3_000, 10_000)))
    assert long[0] == short[0]
    assert long[1] <= 1.5 * short[1]


def asked_to_tidy(turns: int) -> tuple[dict[str, int], int]:
    """Requests, and bytes read, of an `optimize` after a large part was erased from a session of so many turns."""
    driver = MemoryDriver()
    with Store(Place(driver)).session("s") as session:
        part = session.append("large " * 60_000).node
        for number in range(turns):
            session.append(f"question {number}")
        session.compact("what was said before")
        session.erase(part)
        session.seal()
        session.optimize(everything=True)
    counts = CountingDriver(driver)
    with Store(Place(counts)).session("s") as session:
        session.optimize()
        counts.reset()
        session.optimize()
        return dict(counts.counts), counts.bytes_down


def test_a_large_part_that_was_erased_is_looked_for_by_its_name() -> None:
    """Records are read only if it is left; not each time from then on."""
    short, long = (asked_to_tidy(turns) for turns in (100, 1_000))
    assert long[0] == short[0]
    assert long[1] <= 1.1 * short[1]


TURNS, TURN_BYTES, KEPT_TURNS = 300, 24_000, 20


@pytest.fixture(scope="module")
def turns() -> tuple[MemoryDriver, list[str]]:
    """A session of long messages with a checkpoint a turn, often compacted; and the last node of each turn."""
    driver = MemoryDriver()
    texts = iter(workload.even_texts(2 * TURNS, TURN_BYTES // 2))
    with Store(Place(driver)).session("s") as session:
        nodes = []
        for turn in range(TURNS):
            session.commit([next(texts), next(texts)], state={"turn": turn})
            nodes.append(session.node or "")
            if turn % KEPT_TURNS == KEPT_TURNS - 1:
                session.compact("what was said before", kept=nodes[-1])
    return driver, nodes


@pytest.mark.parametrize("turn", [3, 77, 150, 222, TURNS - 3])
def test_an_old_checkpoint_is_restored_in_three_waits(turns: tuple[MemoryDriver, list[str]], turn: int) -> None:
    """However far back its chain goes: two indexes and each frame once, of which the smallest context takes one."""
    driver, nodes = turns
    counts = CountingDriver(driver)
    view = Store(Place(counts)).view("s")
    assert view.context
    counts.reset()
    restored = view.context_at(nodes[turn])
    assert restored[-1].node == nodes[turn]
    assert counts.batches <= 3
    assert counts.total <= 6
    frame = 300_000  # as stored
    assert counts.bytes_down <= 3 * sum(len(str(item.message)) for item in restored) + frame


@pytest.mark.parametrize("many", [10, TURNS])
def test_many_old_checkpoints_are_restored_together(turns: tuple[MemoryDriver, list[str]], many: int) -> None:
    """All checkpoints of a session of 7 MiB take its index, and its frames twice at most; a page, what holds that."""
    driver, _ = turns
    counts = CountingDriver(driver)
    view = Store(Place(counts)).view("s")
    frames = -(-TURNS * TURN_BYTES // (1024 * 1024)) + 2 * view.stored().segments
    wanted = [entry.id for entry in view.checkpoints(limit=many)]
    counts.reset()
    found = view.checkpoints_at(wanted)
    assert [each.info.id for each in found] == wanted
    assert len({id(item) for each in found for item in each.context}) <= 3 * many + 2 * KEPT_TURNS
    assert counts.total <= (4 if many == 10 else 2 * frames)


def _peak_of_fork(nodes: int) -> int:
    driver = MemoryDriver()
    with Store(Place(driver)).session("s") as session:
        for first in range(0, nodes, 500):
            session.commit([f"message {number}" for number in range(first, first + 500)], context=[])
    with Store(Place(driver)).session("s") as session:
        tracemalloc.start()
        session.fork("fork")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_a_fork_takes_memory_for_a_part_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the length takes positions of the path, and what a store remembers of segments, within bounds."""
    monkeypatch.setattr(loader, "SEGMENT_BYTES", 64 * 1024)
    short, long = (_peak_of_fork(nodes) for nodes in (few(2_500, 5_000), few(10_000, 20_000)))
    assert long < 2.6 * short  # 3.3 with an index of what is copied


@pytest.mark.parametrize("turn", [3, 77, 150, 222, TURNS - 3])
def test_two_old_turns_are_compared_in_three_waits(turns: tuple[MemoryDriver, list[str]], turn: int) -> None:
    """However far back they are: the ends of segments, and what both need once."""
    driver, nodes = turns
    counts = CountingDriver(driver)
    view = Store(Place(counts)).view("s")
    counts.reset()
    before = counts.batches
    assert view.diff(nodes[turn], nodes[turn + 1]).state.changed["turn"].after == turn + 1
    assert counts.batches - before <= 3
    assert counts.total <= 6


def test_frames_read_just_before_are_not_read_again(turns: tuple[MemoryDriver, list[str]]) -> None:
    """The pages above the one shown lie in the same frame, until something is erased."""
    driver = MemoryDriver()
    driver.execute(tuple(Put(key, data) for key, data in turns[0].snapshot().items()))
    counts = CountingDriver(driver)
    view = Store(Place(counts)).view("s")
    nodes = turns[1]
    view.history(before=nodes[200], limit=4)
    counts.reset()
    view.history(before=nodes[198], limit=4)
    assert counts.total == 0
    with Store(Place(driver)).session("s", create=False) as session:
        session.erase(nodes[10])
    view.refresh()
    counts.reset()
    view.history(before=nodes[198], limit=4)
    assert counts.total > 0


def test_many_sessions_are_listed_by_their_cards(tmp_path: Path) -> None:
    """A page of the list reads one small frame for each row it shows, of however many sessions."""
    store = unsynced_store(tmp_path)
    for number in range(40):
        store.session(f"s-{number}").append("x" * 5_000)
    listing, counts = counted(tmp_path)
    assert len(listing.sessions(limit=10).rows) == 10
    assert counts.counts["Get"] <= 10 + 1  # which says that each session has a marker
    assert counts.bytes_down <= 10 * 4_096


def test_of_short_logs_those_of_the_page_are_read(tmp_path: Path) -> None:
    """A log that may hold no record is read only if its session would be on the page."""
    store = unsynced_store(tmp_path)
    for number in range(40):
        store.session(f"s-{number}").append("short")
        if number >= 29:  # the order of those shown is told
            await_tick()
    listing, counts = counted(tmp_path)
    assert [row.id for row in listing.sessions(limit=10).rows] == [f"s-{number}" for number in range(39, 29, -1)]
    assert counts.counts["Get"] <= 10 + 10 + 1
    assert counts.batches <= 6


def test_an_old_turn_behind_the_whole_tree_is_found_by_columns() -> None:
    """The first question about an old turn, once the tree was read, looks at no checkpoint of others one by one."""
    store = Store(Place(MemoryDriver()))
    with store.session("s") as session:
        for number in range(400):
            session.commit([str(number)], state={"n": number}, context=session.context[-3:])
        session.seal()
        session.optimize(everything=True)
    view = store.view("s")
    assert sum(row.count for row in view.tree()) == 400
    node, lines = view.nodes().ids[200], 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_code.co_filename == session_index.__file__ else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert view.context_at(node)[-1].node == node
    finally:
        sys.settrace(before)
    assert 10 < lines < 200
