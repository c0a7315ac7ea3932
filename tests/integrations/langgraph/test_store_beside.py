"""Several processes with one store: nothing that was put is lost, whoever writes beside, and whoever is killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, PutOp
from tests.drivers import PassingDriver
from tests.session.at_rest import KilledDriver, KilledError, holding
from tests.session.backends import Backend, local_backend, memory_backend
from tests.storage.processes import start

from treering.api.store import Store
from treering.errors import UnavailableError
from treering.integrations.langgraph import TreeringStore
from treering.integrations.langgraph.store import NAMESPACE
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.requests import Answer, Batch, Driver, Put, Request
from treering.store.place import Place

NS = ("alice", "memories")
WRITERS, PUTS = 4, 12
SECRET = "the launch code is 0000"


def store_of(backend: Backend, **options: Any) -> TreeringStore:
    """A store in a new process."""
    return TreeringStore(backend.store(), **options)


def everything(store: TreeringStore) -> dict[str, Any]:
    """All values by key."""
    return {item.key: item.value for item in store.search((), limit=10_000, refresh_ttl=False)}


def at_once(works: list[Callable[[], None]]) -> None:
    """Run all of them in threads; raise what one of them raised."""
    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # raised again by who waits
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_writers_to_one_session_lose_nothing(anywhere: Backend) -> None:
    """Four processes put, change and delete items in one session at the same time."""
    store_of(anywhere).put(NS, "before", {"n": 0})
    stores = [store_of(anywhere) for _ in range(WRITERS)]

    def work(writer: int) -> None:
        for number in range(PUTS):
            stores[writer].put(NS, f"{writer}-{number}", {"n": number})
            if number % 3 == 2:
                stores[writer].delete(NS, f"{writer}-{number - 1}")

    at_once([lambda writer=writer: work(writer) for writer in range(WRITERS)])  # type: ignore[misc]
    expected = {f"{writer}-{number}" for writer in range(WRITERS) for number in range(PUTS) if number % 3 != 1}
    assert set(everything(store_of(anywhere))) == {"before", *expected}
    for store in stores:
        assert everything(store) == everything(store_of(anywhere))


@pytest.mark.slow
def test_pruning_and_erasing_beside_writers_lose_nothing(anywhere: Backend) -> None:
    """Items are recorded anew while three processes put and delete others, and one is erased."""
    store_of(anywhere).batch([PutOp(NS, f"kept-{number}", {"n": number}) for number in range(20)])
    stores = [store_of(anywhere) for _ in range(WRITERS)]
    running = [True]

    def write(writer: int) -> None:
        for number in range(PUTS):
            stores[writer].put(NS, f"{writer}-{number}", {"n": number})
            stores[writer].put(NS, f"kept-{number}", {"n": number, "by": writer})
            if number % 3 == 2:
                stores[writer].delete(NS, f"{writer}-{number - 1}")
        running.clear()

    def tidy() -> None:
        stores[0].put(NS, "secret", {"text": SECRET})
        stores[0].erase(NS, "secret")
        while running:
            stores[0].prune(("alice",))

    at_once([tidy, *(lambda writer=writer: write(writer) for writer in range(1, WRITERS))])
    there = everything(store_of(anywhere))
    mine = {f"{writer}-{number}" for writer in range(1, WRITERS) for number in range(PUTS) if number % 3 != 1}
    assert set(there) == {f"kept-{number}" for number in range(20)} | mine
    assert all(there[f"kept-{number}"]["n"] == number for number in range(20))
    for store in stores:
        assert everything(store) == there
    stores[1].prune()
    assert everything(store_of(anywhere)) == there
    assert holding(anywhere.snapshot(), SECRET) == []
    assert anywhere.store().namespace(NAMESPACE).verify("alice/memories") == []


@pytest.mark.parametrize("what", ["erase", "prune", "put", "sweep_ttl"])
def test_a_store_sees_what_was_put_during_its_own_call(what: str) -> None:
    """Another process puts an item before one of its requests, whichever that is."""
    backend = memory_backend()
    other = store_of(backend)
    ns, countdown = NS, [-1]

    class Beside(PassingDriver):
        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            countdown[0] -= 1
            if countdown[0] == 0:
                other.put(ns, "beside", {})
            return self.inner.execute(batch)

    for at in range(1, 100):
        ns = (f"u{at}", "memories")
        store = TreeringStore(Store(Place(Beside(backend.driver()))))
        store.put(ns, "secret", {"text": SECRET})
        store.put(ns, "old", {}, ttl=0)
        works: dict[str, Callable[[], object]] = {
            "erase": partial(store.erase, ns, "secret"), "prune": partial(store.prune, ns),
            "sweep_ttl": store.sweep_ttl, "put": partial(store.batch, [PutOp(ns, "a", {}), PutOp(ns, "nothing", None)]),
        }  # fmt: skip
        countdown[0] = at
        works[what]()
        if countdown[0] > 0:
            break
        there = {item.key for item in store_of(backend).search(ns, refresh_ttl=False)}
        assert "beside" in there
        assert {item.key for item in store.search(ns, refresh_ttl=False)} == there, at
        assert store.get(ns, "beside") is not None
    assert at > 2


class Interrupted(PassingDriver):
    """Calls a function before one of its batches."""

    def __init__(self, inner: Driver) -> None:
        super().__init__(inner)
        self.left = -1
        self.meanwhile: Callable[[], object] = list

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run a batch."""
        self.left -= 1
        if self.left == 0:
            self.meanwhile()
        return self.inner.execute(batch)


def test_an_item_that_is_read_during_a_sweep_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process reads it before one of the sweep's requests, and so puts its expiry off: the sweep sees that."""
    clock = [1_700_000_000_000_000]
    monkeypatch.setattr("treering.integrations.langgraph.store._now_us", lambda: clock[0])
    for at in range(1, 100):
        backend = memory_backend()
        driver = Interrupted(backend.driver())
        sweeper, reader = TreeringStore(Store(Place(driver))), store_of(backend)
        sweeper.batch([PutOp(NS, "read", {}, ttl=1), PutOp(NS, "unread", {}, ttl=1)])
        clock[0] += 120_000_000
        got: list[object] = []
        driver.meanwhile, driver.left = lambda reader=reader, got=got: got.append(reader.get(NS, "read")), at  # type: ignore[misc]
        sweeper.sweep_ttl()
        if driver.left > 0:
            break
        there = everything(store_of(backend))
        assert set(there) == ({"read"} if got[0] is not None else set()), at
    assert at > 2


def test_what_was_put_again_while_it_was_erased_is_gone_everywhere_or_there() -> None:
    """An erasure takes all values up to its end, also one that another process put meanwhile; nothing is half there."""
    outcomes = set()
    for at in range(1, 100):
        backend = memory_backend()
        driver = Interrupted(backend.driver())
        store, other = TreeringStore(Store(Place(driver))), store_of(backend)
        store.put(NS, "secret", {"text": SECRET})
        driver.meanwhile, driver.left = lambda other=other: other.put(NS, "secret", {"text": "new"}), at  # type: ignore[misc]
        store.erase(NS, "secret")
        if driver.left > 0:
            break
        there = everything(store_of(backend))
        assert there in ({}, {"secret": {"text": "new"}}), at
        for each in (store, other, store_of(backend)):
            assert everything(each) == there, at
            assert each.list_namespaces() == ([NS] if there else []), at
            assert (each.get(NS, "secret") is not None) is bool(there), at
        assert holding(backend.snapshot(), SECRET) == []
        other.put(NS, "secret", {"text": "newer"})
        assert everything(store) == {"secret": {"text": "newer"}}
        outcomes.add(bool(there))
    assert outcomes == {True, False}


def test_one_store_serves_many_threads(backend: Backend) -> None:
    """Of one process, in one session and in several."""
    store = store_of(backend, open_max=3)

    def work(writer: int) -> None:
        for number in range(PUTS):
            store.put((f"u{number % 5}", "m"), f"{writer}-{number}", {"n": number})
            assert store.get((f"u{number % 5}", "m"), f"{writer}-{number}") is not None

    at_once([lambda writer=writer: work(writer) for writer in range(8)])  # type: ignore[misc]
    assert len(everything(store_of(backend))) == 8 * PUTS


def test_sweeping_beside_a_reader_keeps_what_was_read(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process put off before the sweep was recorded does not expire: the sweep is planned again."""
    clock = [1_700_000_000_000_000]
    monkeypatch.setattr("treering.integrations.langgraph.store._now_us", lambda: clock[0])
    reader, sweeper = store_of(backend), store_of(backend)
    reader.put(NS, "read", {}, ttl=1)
    reader.put(NS, "unread", {}, ttl=1)
    assert sweeper.sweep_ttl() == 0  # it knows both now
    clock[0] += 30_000_000
    assert reader.get(NS, "read") is not None
    clock[0] += 45_000_000
    assert sweeper.sweep_ttl() == 1
    assert list(everything(store_of(backend))) == ["read"]


def test_too_many_conflicts_end_in_a_typed_error() -> None:
    """A writer that always finds another version gives up after a bounded number of attempts, and says what to do."""
    backend = memory_backend()
    store_of(backend).put(NS, "a", {})
    other = store_of(backend)
    numbers = iter(range(10_000))

    class Meeting(PassingDriver):
        """Another process puts something before each of our appends."""

        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            if any(isinstance(request, Put) and "tail" in request.key for request in batch):
                other.put(NS, f"{next(numbers)}", {})
            return self.inner.execute(batch)

    store = TreeringStore(Store(Place(Meeting(backend.driver()))))
    with pytest.raises(UnavailableError, match="concurrent writers were faster") as caught:
        store.put(NS, "ours", {})
    assert caught.value.remedy
    assert "ours" not in everything(store_of(backend))


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
def test_a_put_without_an_answer_is_settled(fault: Fault) -> None:
    """The error is typed; the next call finds out whether it was recorded, and repeating it is harmless."""
    backend = memory_backend()
    store_of(backend).put(NS, "a", {"n": 0})
    faults: list[Fault] = []

    def plan(request: Request) -> Fault:
        return faults.pop() if faults and isinstance(request, Put) else Fault.NONE

    store = TreeringStore(Store(Place(FaultyDriver(backend.driver(), plan))))
    store.get(NS, "a")
    faults.append(fault)
    with pytest.raises(UnavailableError):
        store.put(NS, "b", {"n": 1})
    store.put(NS, "c", {"n": 2})
    there = everything(store_of(backend))
    assert {"a", "c"} <= set(there)
    assert fault is Fault.LATE or ("b" in there) is (fault is Fault.AFTER)
    store.put(NS, "b", {"n": 3})
    assert everything(store_of(backend))["b"] == {"n": 3}


def test_a_writer_killed_at_any_request_leaves_a_whole_store(backend: Backend) -> None:
    """What was acknowledged is there; of a batch that was cut off there is all or nothing."""
    at, acknowledged, is_done = 0, 0, False
    while not is_done:
        ns = (f"u{at}", "memories")
        store_of(backend).batch([PutOp(ns, "a", {"n": 0}), PutOp(ns, "b", {"n": 0}), PutOp(ns, "c", {"n": 0})])
        killed = TreeringStore(Store(Place(KilledDriver(backend.driver(), at))))
        acknowledged = 0
        try:
            for number in (1, 2):
                killed.batch([PutOp(ns, "a", {"n": number}), PutOp(ns, "b", {"n": number}), GetOp(ns, "a")])
                acknowledged = number
            killed.delete(ns, "c")
            acknowledged = 3
            killed.prune(ns)
            killed.close()
            is_done = True
        except KilledError:
            at += 1
        there = {item.key: item.value["n"] for item in store_of(backend).search(ns)}
        assert there["a"] == there["b"] >= min(acknowledged, 2)
        assert there.get("c", 0) == 0
        assert "c" not in there or acknowledged < 3
        store_of(backend).put(ns, "d", {"n": 4})
        assert {item.key for item in store_of(backend).search(ns)} == {*there, "d"}
    assert at > 8


PROGRAM = """
import treering
from treering.integrations.langgraph import TreeringStore
store = TreeringStore(treering.open(sys.argv[1]))
for number, _ in enumerate(sys.stdin):
    store.put(("alice", "memories"), f"{sys.argv[2]}-{number}", {"n": number, "text": "x" * 200})
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """Two processes put items into one session on disk, both at the same time, until they are killed."""
    backend = local_backend(tmp_path / "store")
    acknowledged: set[str] = set()
    for name in ("one", "two"):
        writers = [start(PROGRAM, tmp_path / "store", f"{name}{which}") for which in range(2)]
        for _ in range(random.Random(name).randrange(20, 60)):  # in turns: a disk in memory makes nobody wait
            for writer in writers:
                print(file=writer.stdin, flush=True)
            for which, writer in enumerate(writers):
                assert writer.stdout is not None
                acknowledged.add(f"{name}{which}-{writer.stdout.readline().strip()}")
        for writer in writers:
            print(file=writer.stdin, flush=True)
        for which, writer in enumerate(writers):
            writer.kill()
            assert writer.stdout is not None
            assert writer.stdin is not None
            rest = writer.stdout.read()
            writer.wait()
            writer.stdout.close()
            writer.stdin.close()
            acknowledged |= {f"{name}{which}-{line}" for line in rest.splitlines()}
    there = everything(store_of(backend))
    assert acknowledged <= set(there)
    assert all(key.partition("-")[2] == str(value["n"]) for key, value in there.items())
    assert len(there) <= len(acknowledged) + 4  # one of each that was durable before it was told
    found = backend.store().namespace(NAMESPACE).verify("alice/memories")
    assert [each for each in found if each.severity == "damage"] == []  # a merge may have been killed


def test_an_erasure_that_was_cut_off_can_be_repeated(backend: Backend) -> None:
    """At whatever request: the second call finishes it, and what was put beside is there."""
    at = 0
    while True:
        name = f"u{at}"
        with store_of(backend) as store:
            store.put((name, "m"), "code", {"text": SECRET})
            store.put((name, "m"), "other", {"text": "tea"})
        try:
            TreeringStore(Store(Place(KilledDriver(backend.driver(), at)))).erase((name, "m"), "code")
        except KilledError:
            store_of(backend).erase((name, "m"), "code")
            at += 1
        else:
            break
        assert holding(backend.snapshot(), SECRET) == [], at
    assert at > 5
    assert set(everything(store_of(backend))) == {"other"}
