"""The sessions that an integration keeps open beside other writers, each used by one call at a time.

Rule 1: calls for one session run one after the other; calls for other sessions do not wait.
Rule 2: an open session holds no lock in the store, and their number is bounded.
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

from treering.errors import NotFoundError, SessionDeletedError, TreeringError, UnavailableError
from treering.integrations.shared import SharedSession
from treering.storage.effects import Job
from treering.storage.requests import Driver
from treering.storage.run import run

OPEN_MAX: Final = 128
"""Sessions kept open; each takes the memory of its newest state."""
WORKERS_MAX: Final = 32
"""Concurrent awaited calls: S3 clients keep 64 connections, and looking at a session takes two."""

K = TypeVar("K", bound=Hashable)
P = ParamSpec("P")
S = TypeVar("S", bound=SharedSession)
T = TypeVar("T")


class OpenSessions(Generic[K, S]):
    """Opens sessions, and runs what is done with them.

    Args:
        driver: Of the store.
        make: Returns the session of a name; nothing of it is read yet.
        open_max: How many to keep open.
    """

    def __init__(self, driver: Driver, make: Callable[[K], S], *, open_max: int = OPEN_MAX) -> None:
        self._driver = driver
        self._make = make
        self._open_max = open_max
        self._open: OrderedDict[K, _Open[S]] = OrderedDict()
        self._mutex = threading.Lock()
        self._pid = os.getpid()
        self._workers: ThreadPoolExecutor | None = None

    def use(self, name: K, work: Callable[[S], Job[T]]) -> T:
        """Do something with a session that is opened if necessary; again if it was deleted meanwhile.

        Raises:
            TreeringError: As `work`.
        """
        while True:
            opened = self._opened(name)
            with opened.lock:
                if opened.session is None:
                    continue  # it was given up while we waited
                try:
                    return run(work(opened.session), self._driver)
                except SessionDeletedError:
                    self._forget(name, opened)  # and begin again: the session is another one now
                except UnavailableError:
                    raise  # the session remembers an append with an unknown outcome
                except BaseException:
                    self._forget(name, opened)
                    raise

    def peek(self, name: K) -> S | None:
        """Return a session if it is open, to look at what never changes but as a whole."""
        with self._mutex:
            opened = self._open.get(name)
        return opened.session if opened is not None else None

    def delete(self, name: K, gone: Job[object]) -> None:
        """Delete a session; there may be none.

        Args:
            name: Which one.
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
        """Close all sessions; they are opened again when they are used."""
        with self._mutex:
            names = list(self._open)
        for name in names:
            with self._mutex:
                opened = self._open.get(name)
            if opened is not None:
                self._give_up(name, opened, wait=True)

    async def aside(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread; it runs to its end even if this is cancelled."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(function, *args, **kwargs))

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """Where functions run aside."""
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
        """Close a session, unless it is in use or an append of it has an unknown outcome."""
        if not opened.lock.acquire(blocking=wait):
            return
        try:
            if opened.session is not None and (wait or opened.session.writer.appender.pending is None):
                session = opened.session
                self._forget(name, opened)
                run(session.close(), self._driver)
        except TreeringError:
            return  # what was put is durable; only the card is behind
        finally:
            opened.lock.release()

    def _forget(self, name: K, opened: _Open[S]) -> None:
        """Let a session go; the caller holds its lock."""
        opened.session = None
        with self._mutex:
            if self._open.get(name) is opened:
                del self._open[name]


class _Open(Generic[S]):
    def __init__(self, session: S) -> None:
        self.session: S | None = session
        """None: it was let go."""
        self.lock = threading.Lock()
