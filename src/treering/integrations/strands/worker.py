"""One thread for all that is done to one session, so that nobody's event loop waits for a store.

Strands calls a session manager from event loops, a new one for each invocation of a blocking caller, and in a few
places without awaiting. Work in one thread is in order whoever asks for it, belongs to no loop, and cannot wait for
itself: a blocking call finds the thread at work for a task of its own loop, and the thread goes on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from treering import UsageError

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """Calls functions one after the other, in a thread of its own that ends with the worker."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=f"treering-{name}")
        self._pid = os.getpid()

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and wait for what it returns."""
        return self._submit(function, *args, **kwargs).result()

    async def arun(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and wait without blocking the event loop. What was begun ends, whatever becomes of us."""
        return await asyncio.wrap_future(self._submit(function, *args, **kwargs))

    def close(self) -> None:
        """Let the thread end when it has done what it was given."""
        self._threads.shutdown(wait=False)

    def _submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if os.getpid() != self._pid:  # the thread is the parent's, so nobody would ever answer
            raise UsageError("this session manager was made before a fork", kind="forked", remedy="make another one")
        return self._threads.submit(function, *args, **kwargs)
