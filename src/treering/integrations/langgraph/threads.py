"""The threads that a saver has open: one for each id, each used by one call at a time.

Rule 1: calls for one thread run one after the other; calls for other threads do not wait.
Rule 2: an open thread holds no lock in the store, and their number is bounded.
Rule 3: which checkpoints were handed out as the newest of their namespaces is remembered for all of them, also for
threads that were closed since.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from treering.checkpoint.policies import DEFAULT_POLICY
from treering.errors import NotFoundError, SessionDeletedError, TreeringError, UnavailableError
from treering.format.register import Card
from treering.ids import now_ms
from treering.integrations.langgraph.names import MARK
from treering.integrations.langgraph.thread import Thread
from treering.session.options import Options
from treering.session.writer import Writer
from treering.storage.effects import Job
from treering.storage.run import run
from treering.store.place import Place

OPEN_MAX: Final = 128
"""Threads kept open; each takes the memory of its newest state."""
WORKERS_MAX: Final = 32
"""Concurrent awaited calls: S3 clients keep 64 connections, and looking at a thread takes two."""
TOLD_MAX: Final = 10_000
"""Checkpoints that are remembered as handed out; about 200 bytes each."""

T = TypeVar("T")


class Threads:
    """Opens threads, and runs what is done with them.

    Args:
        place: The store.
        listed: As for `Thread`.
        open_max: How many to keep open.
    """

    def __init__(self, place: Place, *, listed: str, open_max: int) -> None:
        self.place = place
        self.told = Told()
        self._listed = listed
        self._open_max = open_max
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._mutex = threading.Lock()
        self._pid = os.getpid()
        self._workers: ThreadPoolExecutor | None = None

    def use(self, name: str, work: Callable[[Thread], Job[T]]) -> T:
        """Do something with a thread that is opened if necessary; again if it was deleted meanwhile.

        Raises:
            TreeringError: As `work`.
        """
        while True:
            opened = self._opened(name)
            with opened.lock:
                if opened.thread is None:
                    continue  # it was given up while we waited
                try:
                    return run(work(opened.thread), self.place.driver)
                except SessionDeletedError:
                    self._forget(name, opened)  # and begin again: the session is another one now
                except UnavailableError:
                    raise  # the thread remembers an append with an unknown outcome
                except BaseException:
                    self._forget(name, opened)
                    raise

    def peek(self, name: str) -> Thread | None:
        """Return a thread if it is open, to look at what never changes but as a whole."""
        with self._mutex:
            opened = self._open.get(name)
        return opened.thread if opened is not None else None

    def delete(self, name: str) -> None:
        """Delete a thread; there may be none."""
        with self._mutex:
            opened = self._open.get(name)
        if opened is not None:
            with opened.lock:
                self._forget(name, opened)
        try:
            run(self.place.delete(name), self.place.driver)
        except NotFoundError:
            return

    def close(self) -> None:
        """Close all threads; they are opened again when they are used."""
        with self._mutex:
            names = list(self._open)
        for name in names:
            with self._mutex:
                opened = self._open.get(name)
            if opened is not None:
                self._give_up(name, opened, wait=True)

    @property
    def workers(self) -> ThreadPoolExecutor:
        """Where awaited calls run."""
        with self._mutex:
            if self._workers is None or self._pid != os.getpid():
                self._workers = ThreadPoolExecutor(WORKERS_MAX, thread_name_prefix="treering-langgraph")
            return self._workers

    def _opened(self, name: str) -> _Open:
        with self._mutex:
            if self._pid != os.getpid():  # a forked process opens its own
                self._open.clear()
                self._workers, self._pid = None, os.getpid()
            opened = self._open.get(name)
            if opened is None:
                opened = self._open[name] = _Open(Thread(self._writer(name), self._listed))
            self._open.move_to_end(name)
            surplus = list(self._open.items())[: max(0, len(self._open) - self._open_max)]
        for other, unused in surplus:
            self._give_up(other, unused, wait=False)
        return opened

    def _writer(self, name: str) -> Writer:
        now = now_ms()
        card = Card(session=name, life="", write="", created=now, updated=now, extra={MARK: {"keeps": "thread"}})
        options = Options(shared=True)
        place = self.place
        return Writer(place.keys(name), DEFAULT_POLICY, card, options, place.prepare, memory=place.memory)

    def _give_up(self, name: str, opened: _Open, *, wait: bool) -> None:
        """Close a thread, unless it is in use or an append of it has an unknown outcome."""
        if not opened.lock.acquire(blocking=wait):
            return
        try:
            if opened.thread is not None and (wait or opened.thread.writer.appender.pending is None):
                thread = opened.thread
                self._forget(name, opened)
                run(thread.close(), self.place.driver)
        except TreeringError:
            return  # what was put is durable; only the card is behind
        finally:
            opened.lock.release()

    def _forget(self, name: str, opened: _Open) -> None:
        """Let a thread go; the caller holds its lock."""
        opened.thread = None
        with self._mutex:
            if self._open.get(name) is opened:
                del self._open[name]


class _Open:
    def __init__(self, thread: Thread) -> None:
        self.thread: Thread | None = thread
        """None: it was let go."""
        self.lock = threading.Lock()


class Told:
    """Which checkpoints were handed out as the newest of their namespaces."""

    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str, str | None], None] = OrderedDict()
        self._mutex = threading.Lock()

    def add(self, thread: str, ns: str, checkpoint: str | None) -> None:
        """Remember one; None: there was none."""
        with self._mutex:
            self._told[thread, ns, checkpoint] = None
            self._told.move_to_end((thread, ns, checkpoint))
            if len(self._told) > TOLD_MAX:
                self._told.popitem(last=False)

    def discard(self, thread: str, ns: str, checkpoint: str) -> None:
        """Forget one: somebody asked for it by its id when it was not the newest, so as to go on from there."""
        with self._mutex:
            self._told.pop((thread, ns, checkpoint), None)

    def __contains__(self, place: tuple[str, str, str | None]) -> bool:
        with self._mutex:
            return place in self._told
