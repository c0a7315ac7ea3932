"""What a killed run leaves, in each mode of LangGraph's durability: whole steps, in order, and a run that goes on.

`sync`: when a step begins, those before it are stored. `async`: a step is stored while the next ones run, in order, so
what is stored is what a run did first, without a gap, and may be several steps behind. `exit`: a run is stored when it
ends, and before that nothing of it. In each mode everything is stored when `invoke` returns.
"""

from __future__ import annotations

import operator
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from tests.docs.pages import ROOT
from tests.drivers import PassingDriver
from tests.integrations.langgraph.graphs import Graph, config
from tests.session.at_rest import KilledDriver, KilledError
from tests.session.backends import Backend, local_backend, memory_backend
from tests.storage.processes import start

from treering.api.store import Store
from treering.integrations.langgraph import TreeringSaver
from treering.storage.requests import Answer, Batch, Driver, Put
from treering.store.place import Place

MODES = ["sync", "async", "exit"]
STEPS = 5
WHOLE = [f"step {number}" for number in range(STEPS)]


class Steps(TypedDict):
    """What was done."""

    done: Annotated[list[str], operator.add]


def steps(saver: TreeringSaver, began: list[int] | None = None) -> Graph:
    """Steps one after the other; `began` gets the number of each when it begins."""
    told = began if began is not None else []
    builder: Any = StateGraph(Steps)
    for number in range(STEPS):
        builder.add_node(f"step-{number}", step(number, told))
        builder.add_edge(START if number == 0 else f"step-{number - 1}", f"step-{number}")
    builder.add_edge(f"step-{STEPS - 1}", END)
    return builder.compile(checkpointer=saver)


def step(number: int, began: list[int]) -> Callable[[Steps], dict[str, Any]]:
    """A step that tells when it begins."""

    def work(_: Steps) -> dict[str, Any]:
        began.append(number)
        return {"done": [f"step {number}"]}

    return work


def saver_of(driver: Driver) -> TreeringSaver:
    """A saver in a process with this driver."""
    return TreeringSaver(Store(Place(driver)))


def stored(backend: Backend, thread: str) -> list[str]:
    """What a new process finds."""
    done: list[str] = steps(TreeringSaver(backend.store())).get_state(config(thread)).values.get("done", [])
    return done


def go_on(backend: Backend, thread: str, mode: Any) -> tuple[list[str], list[int]]:
    """Run it to its end in a new process; what is then done, and the steps that began."""
    began: list[int] = []
    with TreeringSaver(backend.store()) as saver:
        graph = steps(saver, began)
        there = graph.get_state(config(thread))
        graph.invoke(None if there.created_at else {"done": []}, config(thread), durability=mode)
    return stored(backend, thread), began


@pytest.mark.parametrize("mode", MODES)
def test_a_run_killed_at_any_request_goes_on(backend: Backend, mode: Any) -> None:
    """From the step that is not stored, whichever that is; each step is in the result once."""
    at, lost = 0, set()
    while True:
        thread, began = f"t{at}", list[int]()
        try:
            steps(saver_of(KilledDriver(backend.driver(), at)), began).invoke(
                {"done": []}, config(thread), durability=mode
            )
        except KilledError:
            at += 1
        else:
            assert stored(backend, thread) == WHOLE
            break
        left = stored(backend, thread)
        assert left == WHOLE[: len(left)]
        assert len(left) <= len(began)
        if mode == "sync":
            assert len(left) >= len(began) - 1
        if mode == "exit":
            assert left in ([], WHOLE)
        lost.add(len(began) - len(left))
        done, again = go_on(backend, thread, mode)
        assert done == WHOLE
        assert again == list(range(STEPS))[STEPS - len(again) :]  # none of what is stored is done again
        assert len(again) <= STEPS - len(left)
    assert at > (4 if mode == "exit" else 8)
    assert mode != "exit" or max(lost) == STEPS


@pytest.mark.parametrize("mode", MODES)
def test_a_second_run_that_is_killed_leaves_the_first(backend: Backend, mode: Any) -> None:
    """Its input and its steps are stored or not; what the first run did is there in any case."""
    at = 0
    while True:
        thread = f"t{at}"
        with TreeringSaver(backend.store()) as saver:
            steps(saver).invoke({"done": []}, config(thread), durability=mode)
        try:
            killed = steps(saver_of(KilledDriver(backend.driver(), at)))
            killed.invoke({"done": ["again"]}, config(thread), durability=mode)
        except KilledError:
            at += 1
        else:
            break
        left = stored(backend, thread)
        assert left[:STEPS] == WHOLE
        assert left == [*WHOLE, "again", *WHOLE][: len(left)]
        assert mode != "exit" or len(left) in (STEPS, 2 * STEPS + 1)
    assert stored(backend, thread) == [*WHOLE, "again", *WHOLE]


class Slow(PassingDriver):
    """Takes no append before it is let go."""

    def __init__(self, inner: Driver) -> None:
        super().__init__(inner)
        self.free = threading.Event()

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run a batch, with an append when that is allowed."""
        if any(isinstance(request, Put) and "/tail" in request.key for request in batch):
            assert self.free.wait(60)
        return self.inner.execute(batch)


def test_with_async_a_slow_store_is_several_steps_behind() -> None:
    """Steps do not wait for the store; the end of the run does."""
    backend = memory_backend()
    slow = Slow(backend.driver())
    behind: list[list[str]] = []

    class Began(list[int]):
        """Looks what is stored when the last step begins, and lets the store go on."""

        def append(self, number: int) -> None:
            super().append(number)
            if number == STEPS - 1:
                behind.append(stored(backend, "t"))
                slow.free.set()

    steps(saver_of(slow), Began()).invoke({"done": []}, config(), durability="async")
    assert behind == [[]]
    assert stored(backend, "t") == WHOLE


PROGRAM = """
import treering
from tests.integrations.langgraph.graphs import config
from tests.integrations.langgraph.test_durability import steps
from treering.integrations.langgraph import TreeringSaver

class Told(list):
    def append(self, number):
        print(number, flush=True)
        sys.stdin.readline()

graph = steps(TreeringSaver(treering.open(sys.argv[1])), Told())
print("ready", flush=True)
for run in range(1000):
    graph.invoke({"done": []}, config(f"{sys.argv[2]}-{run}"), durability=sys.argv[2])
    print("ended", flush=True)
"""


@pytest.mark.parametrize("mode", MODES)
def test_kill_9_leaves_whole_steps(tmp_path: Path, mode: str) -> None:
    """A process with real kills, on disk: every run that ended is there, and the one that was cut off can go on."""
    backend = local_backend(tmp_path / "store")
    process = start(f"sys.path.insert(0, {str(ROOT)!r})\n{PROGRAM}", tmp_path / "store", mode)
    assert process.stdout is not None
    assert process.stdin is not None
    told = random.Random(mode).randrange(15, 40)
    print("\n" * (told + 3), file=process.stdin, flush=True)  # it is a few steps ahead when it is killed
    lines = [process.stdout.readline().strip() for _ in range(told)]
    process.kill()
    lines += process.stdout.read().splitlines()
    process.wait()
    process.stdout.close()
    process.stdin.close()
    ended = lines.count("ended")
    for run in range(ended):
        assert stored(backend, f"{mode}-{run}") == WHOLE
    left = stored(backend, f"{mode}-{ended}")
    assert left == WHOLE[: len(left)]
    assert go_on(backend, f"{mode}-{ended}", mode)[0] == WHOLE
