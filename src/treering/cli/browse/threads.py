"""Run blocking reads in threads, so that keys are answered during them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run work in a daemon thread, so that a store that does not answer does not keep the process alive.

    Use `asyncio.to_thread` for writes, since the program waits for it at the end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]  # there is a result if there is no error
        else:
            done.set_exception(error)

    def run() -> None:
        result, failed = None, None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # raised where the result is awaited
            failed = error
        if not loop.is_closed():  # else the program has ended
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, daemon=True).start()
    return await done


class Newest(Generic[K]):
    """Runs one piece of work at a time, for the newest request; requests in between are dropped.

    Args:
        start: Starts a coroutine concurrently.
        work: Does the work for a request.
    """

    def __init__(self, start: Callable[[Awaitable[None]], object], work: Callable[[K], Awaitable[None]]) -> None:
        self._start = start
        self._work = work
        self._wishes: list[K] = []
        self._busy = False

    def want(self, wish: K) -> None:
        """Do the work for this request, as soon as the current work has ended."""
        self._wishes = [wish]
        if not self._busy:
            self._busy = True
            self._start(self._run())

    @property
    def outdated(self) -> bool:
        """Whether there is a newer request than the current one."""
        return bool(self._wishes)

    async def _run(self) -> None:
        try:
            while self._wishes:
                await self._work(self._wishes.pop())
        finally:
            self._busy = False
