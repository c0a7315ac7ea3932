"""Blocking calls in threads, for asynchronous code."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from treering.storage.threads import in_thread

LOOKS = 20  # at the event loop: enough for a cancelled task to end, if it is going to


def test_a_call_is_waited_for_at_the_end_of_the_loop() -> None:
    """`asyncio.run` cancels all tasks when it ends. One that waits for a thread is cancelled when that has ended."""
    begun, gate = threading.Event(), threading.Event()
    events: list[str] = []

    def work(_: None) -> None:
        begun.set()
        gate.wait()
        events.append("worked")

    async def wait() -> None:
        try:
            await in_thread(work, None)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    async def let_go() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(LOOKS):
                await asyncio.sleep(0)
            gate.set()

    async def main() -> None:
        tasks = [asyncio.create_task(wait()), asyncio.create_task(let_go())]
        await asyncio.to_thread(begun.wait)
        assert not any(task.done() for task in tasks)

    asyncio.run(main())
    assert events == ["worked", "cancelled"]


async def test_a_call_sees_the_context_of_its_caller() -> None:
    """Results and errors come back, and context variables are those of the caller."""
    name: ContextVar[str] = ContextVar("name")
    name.set("mine")
    assert await in_thread(name.get, "nobody's") == "mine"
    with pytest.raises(ValueError, match="invalid literal"):
        await in_thread(int, "x")
