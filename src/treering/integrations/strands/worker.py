"""One thread for all work on one session, so that no event loop waits for a store.

Strands calls a session manager from event loops (a new loop for each invocation of a blocking caller), and in a few
places without awaiting. Work in one thread is in order for all callers, and belongs to no loop. It cannot deadlock: a
call that blocks an event loop may wait for work of that loop, since the thread does the work without the loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from treering import UsageError
from treering.kinds import Kind

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """Calls functions one after the other, in a thread of its own that ends with the worker."""

    def __init__(self, name: str) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=f"treering-{name}")
        self._pid = os.getpid()

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and wait for its result."""
        return self._submit(function, *args, **kwargs).result()

    async def arun(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function and await its result. It runs to its end even if the awaiting task is cancelled."""
        return await asyncio.wrap_future(self._submit(function, *args, **kwargs))

    def close(self) -> None:
        """Let the thread end when its queue is empty."""
        self._threads.shutdown(wait=False)

    def _submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if os.getpid() != self._pid:  # the thread exists only in the parent, so a call would never return
            raise UsageError("this session manager was made before a fork", kind=Kind.FORKED, remedy="make another one")
        return self._threads.submit(function, *args, **kwargs)
