"""The thread of a session: work is done in order, whoever asks, and never lost half-way."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import pytest
from tests.storage.processes import wait_until

from treering import UsageError
from treering.integrations.strands.worker import Worker


def test_work_is_done_in_the_order_in_which_it_was_asked_for() -> None:
    """Calls that wait and calls that are awaited, from several loops, are made one after the other."""
    worker, done = Worker("w"), list[int]()
    begin = threading.Event()

    async def ask(number: int) -> None:
        running = asyncio.create_task(worker.arun(done.append, number))
        await asyncio.sleep(0)
        begin.set()
        await running

    first = threading.Thread(target=worker.run, args=(begin.wait,))
    first.start()
    asyncio.run(ask(1))
    first.join()
    asyncio.run(ask(2))
    worker.run(done.append, 3)
    assert done == [1, 2, 3]
    worker.close()


def test_a_blocking_call_does_not_wait_for_a_task_of_its_own_loop() -> None:
    """While a task awaits the worker, another task of the same loop may block on it."""
    worker, done = Worker("w"), list[str]()

    async def go() -> None:
        awaited = asyncio.create_task(worker.arun(done.append, "awaited"))
        await asyncio.sleep(0)
        worker.run(done.append, "blocking")
        await awaited

    asyncio.run(go())
    assert done == ["awaited", "blocking"]
    worker.close()


def test_what_was_begun_ends_though_the_task_was_cancelled() -> None:
    """A cancelled task does not leave a write half done."""
    worker, begun, go_on, done = Worker("w"), threading.Event(), threading.Event(), list[str]()

    def write() -> None:
        begun.set()
        go_on.wait()
        done.append("written")

    async def go() -> None:
        task = asyncio.create_task(worker.arun(write))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    go_on.set()
    worker.run(lambda: None)
    assert done == ["written"]
    worker.close()


def test_errors_come_back() -> None:
    """What a function raises is raised where it was asked for."""
    worker = Worker("w")
    with pytest.raises(ZeroDivisionError):
        worker.run(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(worker.arun(lambda: 1 // 0))
    worker.close()


def test_a_forked_child_is_told() -> None:
    """A child has no such thread: it is told so instead of waiting for ever."""
    worker = Worker("w")
    worker.run(lambda: None)
    worker._pid = os.getpid() + 1  # as a child sees it
    with pytest.raises(UsageError, match="fork"):
        worker.run(lambda: None)
    worker.close()


def test_the_thread_ends_with_its_worker() -> None:
    """Who drops a session manager without closing it leaves no thread behind."""
    worker = Worker("of-this-test")
    worker.run(lambda: None)
    del worker
    gc.collect()
    assert wait_until(lambda: not any("of-this-test" in thread.name for thread in threading.enumerate()))
