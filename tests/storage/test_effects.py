"""What protocols ask for beside batches, blocking and awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from treering.storage.effects import Items, Job, Pause, Perform, Stream, call, on, parts
from treering.storage.memory import MemoryDriver
from treering.storage.requests import ABSENT, Found, Get, Put, Steps, Written
from treering.storage.run import arun, ask, run

Runner = Callable[[Job[Any], MemoryDriver], Any]
EACH = pytest.mark.parametrize("runner", [run, lambda job, driver: asyncio.run(arun(job, driver))], ids=["run", "arun"])


def put(key: str, data: bytes) -> Steps[None]:
    """Create an object."""
    yield from ask(Put(key, data, expect=ABSENT), Written)


def get(key: str) -> Steps[bytes]:
    """Read an object."""
    return (yield from ask(Get(key), Found)).data


@EACH
def test_a_job_reaches_the_store_that_it_names(runner: Runner) -> None:
    """Batches go to the store that the job is run against, and those in `on` to the one named there."""
    here, there = MemoryDriver(), MemoryDriver()

    def copy() -> Job[bytes]:
        data = yield from get("a")
        yield from on(there, put("b", data))
        return (yield from on(there, on(here, get("a"))))

    run(put("a", b"x"), here)
    assert runner(copy(), here) == b"x"
    assert run(get("b"), there) == b"x"


@EACH
def test_a_call_answers_with_its_result_or_its_error(runner: Runner) -> None:
    """What a called function raises is raised in the job, which may go on."""

    def failing() -> int:
        raise OSError("no")

    def job() -> Job[list[int]]:
        found = [(yield from call(lambda: 1))]
        try:
            yield from on(MemoryDriver(), call(failing))
        except OSError:
            found.append(2)
        return found

    assert runner(job(), MemoryDriver()) == [1, 2]


def test_a_call_does_not_hold_up_asynchronous_code() -> None:
    """The event loop goes on while a called function waits: here, for something that only the loop will do."""
    done = threading.Event()

    def job() -> Job[bool]:
        return (yield from call(lambda: done.wait(60)))

    async def both() -> bool:
        waiting = asyncio.ensure_future(arun(job(), MemoryDriver()))
        await asyncio.sleep(0)
        done.set()
        return await waiting

    assert asyncio.run(both())


def test_a_method_of_a_session_is_awaited() -> None:
    """`Perform` calls a blocking method, and awaits one that is a coroutine."""

    async def method() -> int:
        return 7

    def job(method: Callable[[], Any]) -> Job[int]:
        result: int = yield Perform(method)
        return result

    assert run(job(lambda: 7), MemoryDriver()) == 7
    assert asyncio.run(arun(job(method), MemoryDriver())) == 7


def test_a_stream_gives_what_it_found_as_soon_as_it_did() -> None:
    """Each part asks for what the next results need, and no more; the last one returns nothing."""
    asked: list[str] = []
    driver = MemoryDriver()

    def stream() -> Stream[str]:
        for name in ("a", "b"):
            yield from call(lambda name=name: asked.append(name))  # type: ignore[misc]
            yield Items([name])
        yield Pause(1.0)

    found = [(run(part, driver), list(asked)) for part in parts(stream())]
    assert found == [(Items(["a"]), ["a"]), (Items(["b"]), ["a", "b"]), (Pause(1.0), ["a", "b"]), (None, ["a", "b"])]


def test_a_stream_that_is_not_read_to_its_end_is_closed() -> None:
    """Whoever stops reading lets the stream give back what it holds."""
    ended: list[bool] = []

    def stream() -> Stream[int]:
        try:
            yield Items([1])
            yield Items([2])
        finally:
            ended.append(True)

    reading = parts(stream())
    assert run(next(reading), MemoryDriver()) == Items([1])
    reading.close()  # type: ignore[attr-defined]
    assert ended == [True]
