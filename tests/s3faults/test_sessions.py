"""Whole sessions on a bad network: what was acknowledged is stored once, and a calm resume is two reads."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
import s3fs
from tests.concurrency.history import violations
from tests.concurrency.worker import SESSION, Task, Worker, read_calls, read_journal
from tests.faultlog import FaultLog, rounds
from tests.gateway import Act, Gateway
from tests.s3faults.faults import ACTS, LAYER, SLOW, Chance, Rule, Rules
from tests.sampling import few
from tests.session.faults import recorded
from tests.session.oracle import Oracle, describe, draw, expect, names_of, play

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import CorruptError, UnavailableError
from treering.storage.retrying import RetryingDriver
from treering.storage.s3 import S3Driver
from treering.store.place import Place

pytestmark = pytest.mark.s3

RATE = 0.12
WEIGHTS: dict[Act, int] = {act: 1 if act in SLOW else 4 for act in ACTS.values() if act != "short"}
SEEDS = few(2, whole=4)
WRITERS = 3
APPENDS = 6
OPERATIONS = 40
TRIES_MAX = 100

T = TypeVar("T")


class Network(NamedTuple):
    """A store, through a gateway and past it."""

    gateway: Gateway
    clients: dict[bool, s3fs.S3FileSystem]
    path: str

    def store(self, *, attempts: int = 5, patient: bool = False) -> Store:
        """The store as another process sees it through the gateway; it does not wait before it sends again."""
        fs = self.clients[not patient]
        fs.retries = 1
        return Store(Place(RetryingDriver(S3Driver(self.path, fs=fs), attempts_max=attempts, sleep=lambda _: None)))

    def breaks(self, seed: int) -> Chance:
        """Let chance break requests from now on."""
        chance = Chance(seed, RATE, WEIGHTS)
        self.gateway.plan, self.gateway.lands = chance, chance.lands
        return chance

    def calm(self) -> Store:
        """Let everything that is late take effect, break nothing any more, and open the store anew."""
        self.gateway.reset()
        return self.store(patient=True)


@pytest.fixture
def network(gateway: Gateway, clients: dict[bool, s3fs.S3FileSystem], path: str) -> Network:
    """A place of its own behind the gateway."""
    return Network(gateway, clients, path)


def check_calm(network: Network) -> Store:
    """Nothing is damaged, and resuming is two reads, whatever happened before."""
    store = network.calm()
    assert {finding.kind for finding in store.verify(SESSION)} <= {"waste"}
    assert not store.view(SESSION).problems()
    network.gateway.seen.clear()
    store.view(SESSION)
    assert [each.method for each in network.gateway.seen] == ["GET", "GET"]
    return store


def record(fault_log: FaultLog, chance: Chance, outcome: str) -> None:
    """Note every fault that was drawn."""
    for fault, times in chance.met.items():
        fault_log.record(LAYER, fault, outcome, times)


@pytest.mark.parametrize("seed", range(rounds(SEEDS)))
@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_writers_on_a_bad_network(
    network: Network, tmp_path: Path, fault_log: FaultLog, *, shared: bool, seed: int
) -> None:
    """Several writers append, seal and merge while requests and replies get lost: their history is linearisable."""
    chance = network.breaks(seed)
    tasks = [Task(f"{name}", APPENDS, shared, seed=10 * seed + name, upkeep=0.3) for name in range(WRITERS)]
    workers = [Worker(network.store(attempts=3), task, tmp_path) for task in tasks]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = read_calls(tmp_path)
    journal = read_journal(check_calm(network))
    assert violations(calls, journal) == []
    assert sum(call.verb == "append" and call.outcome == "done" for call in calls) == WRITERS * APPENDS
    record(fault_log, chance, "several writers: everything acknowledged stored once, in the order of the clock")


def patiently(call: Callable[[], T]) -> T:
    """Call until there is an answer."""
    for _ in range(TRIES_MAX):
        with contextlib.suppress(UnavailableError):
            return call()
    raise AssertionError("no answer after many tries")


@pytest.mark.parametrize("seed", range(rounds(SEEDS)))
def test_every_verb_on_a_bad_network(network: Network, fault_log: FaultLog, seed: int) -> None:
    """Every verb, while requests and replies get lost: the session is what a replay of the acknowledgements gives."""
    rng = random.Random(seed)
    oracle, names = Oracle(), dict[str, str]()
    chance = network.breaks(seed)
    session = patiently(lambda: network.store(attempts=1).session(SESSION))
    unanswered = 0
    for number in range(OPERATIONS):
        operation = draw(rng, oracle, f"{number}")
        after = oracle.copy()
        getattr(after, operation[0])(**operation[1])
        try:
            play(session, names, operation)
            oracle = after
        except UnavailableError:
            unanswered += 1
            patiently(session.flush)  # what is late comes too late from here on
            oracle = landed(session, oracle, after)
            names = patiently(lambda: names_of(session))
    assert unanswered
    view = check_calm(network).view(SESSION)
    assert describe(view) == expect(oracle)
    record(fault_log, chance, "one writer, every verb: equal to a replay of what was acknowledged")


def landed(session: Session, before: Oracle, after: Oracle) -> Oracle:
    """Which of two states a session is in after a call without an answer."""
    if not session.heads:
        assert not before.parents
        return before
    found = patiently(lambda: describe(session))
    assert found in (expect(before), expect(after))
    return before if found == expect(before) else after


def test_a_flush_settles_what_had_no_answer(network: Network, fault_log: FaultLog) -> None:
    """After a flush an append that is still on its way comes too late, so it can be made again."""
    session = network.store(attempts=1, patient=True).session(SESSION)
    before = session.append("a").node
    network.gateway.plan = Rules(Rule("late", "PUT", times=2))  # aiohttp sends once more by itself
    with pytest.raises(UnavailableError):
        session.append("b")
    session.flush()
    assert session.node == before
    session.append("b")
    session.close()
    assert network.gateway.late
    store = check_calm(network)
    assert recorded(store.view(SESSION)) == ["a", "b"]
    fault_log.record(LAYER, "request takes effect later", "after a flush: refused, stored once when sent again")


def test_half_a_body_is_never_taken_for_the_whole(network: Network, fault_log: FaultLog) -> None:
    """A server that sends half an object and calls it whole is found out, whichever object it is."""
    session = network.store(patient=True).session(SESSION)
    for number in range(6):
        session.commit([f"{number}", "x" * 5000], state={"n": number})
        if number % 2:
            session.seal()
    session.commit(["y" * 400_000])
    session.commit(["z"], context=[])
    session.close()
    expected = read_all(network.calm())
    told = set()
    for number in range(TRIES_MAX):
        store = network.calm()
        rules = Rules(Rule("short", "GET", after=number))
        network.gateway.plan = rules
        try:
            found = read_all(store)
            outcome = "a session is read: asked again"
            assert found == expected
        except (CorruptError, UnavailableError) as error:
            outcome = f"a session is read: `{type(error).__name__}`, nothing is written"
        if not rules.met:
            break
        told.add(outcome)
        fault_log.record(LAYER, "half a body, said to be whole", outcome)
    assert len(told) == 2
    assert read_all(check_calm(network)) == expected


def read_all(store: Store) -> tuple[object, ...]:
    """Everything a session holds."""
    view = store.view(SESSION)
    context = [item.message for item in view.context]
    return (view.state, context, list(view.lines()), view.tree(), view.checkpoints(), view.history())
