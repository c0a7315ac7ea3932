"""What protocols ask for beside batches, blocking and awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from treering.errors import TreeringError
from treering.storage.effects import Items, Job, Pause, Perform, Stream, call, on, parts, tell
from treering.storage.memory import MemoryDriver
from treering.storage.requests import ABSENT, Found, Get, Put, Steps, Written
from treering.storage.run import ASIDE_BYTES, arun, ask, run

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


def moving(*sizes: int) -> Steps[None]:
    """Read objects of these sizes, which exist."""
    for size in sizes:
        yield from ask(Get(f"{size}"), Found)


def holding(*sizes: int) -> MemoryDriver:
    """A store with objects of these sizes."""
    driver = MemoryDriver()
    for size in sizes:
        run(put(f"{size}", bytes(size)), driver)
    return driver


def test_a_job_that_moved_much_does_not_hold_up_asynchronous_code() -> None:
    """The event loop goes on while it works: here, until something happens that only the loop will do."""
    done = threading.Event()

    def job() -> Job[bool]:
        yield from moving(ASIDE_BYTES)
        return done.wait(60)

    async def both() -> bool:
        waiting = asyncio.ensure_future(arun(job(), holding(ASIDE_BYTES)))
        await asyncio.sleep(0)
        done.set()
        return await waiting

    assert asyncio.run(both())


@pytest.mark.parametrize("much", [False, True])
def test_only_a_job_that_moved_much_leaves_its_thread(*, much: bool) -> None:
    """What was moved adds up, in both directions; a job that may not leave its thread never does."""

    def job() -> Job[list[int]]:
        threads = [threading.get_ident()]
        yield from moving(ASIDE_BYTES // 2)
        threads.append(threading.get_ident())
        yield from on(MemoryDriver(), put("x", bytes(ASIDE_BYTES // 2 - (not much))))
        return [*threads, threading.get_ident()]

    driver, here = holding(ASIDE_BYTES // 2), threading.get_ident()
    assert [each == here for each in asyncio.run(arun(job(), driver))] == [True, True, not much]
    assert set(asyncio.run(arun(job(), driver, aside=False))) == {here}
    assert set(run(job(), driver)) == {here}


@EACH
@pytest.mark.parametrize("much", [False, True])
def test_what_a_step_raises_is_raised(runner: Runner, *, much: bool) -> None:
    """Wherever it ran; and what a job catches in between does not end it."""

    def job() -> Job[None]:
        yield from moving(ASIDE_BYTES if much else 1)
        with pytest.raises(TreeringError):
            yield from moving(2)
        raise KeyError("told")

    with pytest.raises(KeyError, match="told"):
        runner(job(), holding(1, ASIDE_BYTES))


def test_a_job_that_is_cancelled_beside_the_loop_learns_of_it() -> None:
    """Its step ends first, so that nothing of it is under way; what it would have sent next is not sent."""
    begun, there, told = threading.Event(), threading.Event(), []

    def job() -> Job[None]:
        yield from moving(ASIDE_BYTES)
        begun.set()
        assert there.wait(60)
        try:
            yield from put("sent", b"")
        except BaseException as error:
            told.append(type(error))
            raise

    async def cancelled(driver: MemoryDriver) -> None:
        task = asyncio.ensure_future(arun(job(), driver))
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        there.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    driver = holding(ASIDE_BYTES)
    asyncio.run(cancelled(driver))
    assert (told, "sent" in driver.snapshot()) == ([asyncio.CancelledError], False)


@EACH
def test_what_the_caller_gave_is_called_in_its_thread(runner: Runner) -> None:
    """Also by a job that works beside the loop; what it raises is raised in the job."""
    threads: list[int] = []

    def note(done: int) -> None:
        threads.append(threading.get_ident())
        if done:
            raise KeyError("stop")

    def job() -> Job[None]:
        yield from moving(ASIDE_BYTES)
        yield from tell(None, 0)
        yield from tell(note, 0)
        yield from on(MemoryDriver(), tell(note, 1))

    with pytest.raises(KeyError, match="stop"):
        runner(job(), holding(ASIDE_BYTES))
    assert threads == [threading.get_ident()] * 2
