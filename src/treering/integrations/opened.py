"""The sessions that an integration keeps open while other writers may use them; each serves one call at a time.

Rule 1: calls for one session run one after the other; calls for other sessions do not wait.
Rule 2: an open session holds no lock in the store, and the number of open sessions is bounded.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Generic, ParamSpec, TypeVar

from treering.errors import NotFoundError, SessionDeletedError, TreeringError, UnavailableError, UsageError
from treering.integrations.shared import SharedSession
from treering.kinds import Kind
from treering.storage.effects import Job
from treering.storage.requests import Driver
from treering.storage.run import run

OPEN_MAX: Final = 128
"""Sessions kept open; each holds its newest state in memory."""
WORKERS_MAX: Final = 32
"""Concurrent awaited calls: S3 clients keep 64 connections, and looking at a session takes two."""

K = TypeVar("K", bound=Hashable)
P = ParamSpec("P")
S = TypeVar("S", bound=SharedSession)
T = TypeVar("T")


def room(open_max: int) -> int:
    """Return `open_max`.

    Raises:
        UsageError: There is no room for the session that is used.
    """
    if open_max < 1:
        raise UsageError(f"at least one session must be kept open. open_max={open_max}", kind=Kind.OPTION)
    return open_max


class OpenSessions(Generic[K, S]):
    """Opens sessions, and runs operations on them.

    Args:
        driver: The store's driver.
        make: Returns the session with a name, without reading anything.
        open_max: How many sessions to keep open; at least 1.

    Raises:
        UsageError: `open_max` is less than 1.
    """

    def __init__(self, driver: Driver, make: Callable[[K], S], *, open_max: int = OPEN_MAX) -> None:
        self._driver = driver
        self._make = make
        self._open_max = room(open_max)
        self._open: OrderedDict[K, _Open[S]] = OrderedDict()
        self._mutex = threading.Lock()
        self._pid = os.getpid()
        self._workers: ThreadPoolExecutor | None = None

    def use(self, name: K, work: Callable[[S], Job[T]]) -> T:
        """Run an operation on a session, which is opened if necessary; run it again if the session was deleted.

        Raises:
            TreeringError: The same as `work` raises.
        """
        while True:
            opened = self._opened(name)
            with opened.lock:
                if opened.session is None:
                    continue  # another thread closed it while this one waited for the lock
                try:
                    return run(work(opened.session), self._driver)
                except SessionDeletedError:
                    self._forget(name, opened)  # and try again: the name may stand for a new session now
                except UnavailableError:
                    raise  # the session remembers an append with an unknown outcome
                except BaseException:
                    self._forget(name, opened)
                    raise

    def peek(self, name: K) -> S | None:
        """Return a session if it is open, without its lock: use only attributes that are replaced as a whole."""
        with self._mutex:
            opened = self._open.get(name)
        return opened.session if opened is not None else None

    def delete(self, name: K, gone: Job[object]) -> None:
        """Delete a session, if it exists.

        Args:
            name: The session.
            gone: Deletes it in the store.
        """
        with self._mutex:
            opened = self._open.get(name)
        if opened is not None:
            with opened.lock:
                self._forget(name, opened)
        try:
            run(gone, self._driver)
        except NotFoundError:
            return

    def close(self) -> None:
        """Close all sessions; a session is opened again when it is used."""
        with self._mutex:
            names = list(self._open)
        for name in names:
            with self._mutex:
                opened = self._open.get(name)
            if opened is not None:
                self._give_up(name, opened, wait=True)

    async def aside(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread; it runs to its end even if the awaiting task is cancelled."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *args, **kwargs))

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """The threads in which `aside` calls functions."""
        with self._mutex:
            if self._workers is None or self._pid != os.getpid():
                self._workers = ThreadPoolExecutor(WORKERS_MAX, thread_name_prefix="treering-integration")
            return self._workers

    def _opened(self, name: K) -> _Open[S]:
        with self._mutex:
            if self._pid != os.getpid():  # a forked process opens its own
                self._open.clear()
                self._workers, self._pid = None, os.getpid()
            opened = self._open.get(name)
            if opened is None:
                opened = self._open[name] = _Open(self._make(name))
            self._open.move_to_end(name)
            surplus = list(self._open.items())[: max(0, len(self._open) - self._open_max)]
        for other, unused in surplus:
            self._give_up(other, unused, wait=False)
        return opened

    def _give_up(self, name: K, opened: _Open[S], *, wait: bool) -> None:
        """Close a session. Without `wait`, leave it open if it is in use or has an append with an unknown outcome."""
        if not opened.lock.acquire(blocking=wait):
            return
        try:
            if opened.session is not None and (wait or opened.session.writer.appender.pending is None):
                session = opened.session
                self._forget(name, opened)
                run(session.close(), self._driver)
        except TreeringError:
            return  # every append is durable; only the card is out of date
        finally:
            opened.lock.release()

    def _forget(self, name: K, opened: _Open[S]) -> None:
        """Remove a session from the open ones; the caller holds its lock."""
        opened.session = None
        with self._mutex:
            if self._open.get(name) is opened:
                del self._open[name]


class _Open(Generic[S]):
    def __init__(self, session: S) -> None:
        self.session: S | None = session
        """None if it was removed from the open sessions."""
        self.lock = threading.Lock()
