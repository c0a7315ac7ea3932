"""Run blocking calls for asynchronous code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


async def in_thread(function: Callable[[A], T], argument: A) -> T:
    """Call a function in a thread. A cancelled caller is cancelled only after the call has ended.

    A thread cannot be stopped. If it went on after the caller, it could write to a session that the caller has closed
    and that another process may hold, or into a folder that was removed.
    """
    import asyncio  # slower to import than all of Treering, and blocking code does not need it
    from contextvars import copy_context

    # No task: `asyncio.run` cancels all tasks at its end, and this one could not tell when the thread has ended.
    call = asyncio.get_running_loop().run_in_executor(None, copy_context().run, function, argument)
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait((call,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return call.result()
    call.exception()  # retrieved, so that asyncio does not log it as never retrieved
    raise cancelled
