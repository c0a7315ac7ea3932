"""Stores for session tests: each can be opened anew, as another process would, and looked at past all our code."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from treering.api.async_session import AsyncSession
from treering.api.async_store import AsyncStore
from treering.api.session import Session
from treering.api.store import Store
from treering.ids import now_ms
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Driver
from treering.store.place import Place


class Backend(NamedTuple):
    """One place for sessions."""

    name: str
    driver: Callable[[], Driver]
    """Makes a driver, as a new process would."""
    snapshot: Callable[[], dict[str, bytes]]
    """Everything that is stored, by key; bookkeeping of the driver included."""

    def store(self) -> Store:
        """The store, opened by a new process."""
        return Store(Place(self.driver()))

    def async_store(self) -> AsyncStore:
        """The store, opened by a new process."""
        return AsyncStore(Place(self.driver()))

    def counted(self) -> tuple[Store, CountingDriver]:
        """The store, opened by a new process, and what counts its requests."""
        driver = CountingDriver(self.driver(), keep=True)
        return Store(Place(driver)), driver


def memory_backend(*, appends: bool = False) -> Backend:
    """A store in memory, like an object store or, with `appends`, like a disk."""
    driver = MemoryDriver(appends=appends)
    return Backend("logs" if appends else "memory", lambda: driver, driver.snapshot)


def local_backend(folder: Path) -> Backend:
    """A store on disk."""
    return Backend("local", lambda: LocalDriver(folder), lambda: files_below(folder))


KINDS = ("memory", "logs", "local")


def backend_of(kind: str, folder: Path) -> Backend:
    """A store of one of these kinds; one on disk is in `folder`."""
    return local_backend(folder) if kind == "local" else memory_backend(appends=kind == "logs")


def tick() -> None:
    """Wait until the clock shows a later millisecond: what is written next is younger than what was written before."""
    start = now_ms()
    while now_ms() == start:
        pass


def files_below(folder: Path) -> dict[str, bytes]:
    """All files with their bytes; empty if there is no such folder."""
    return {
        os.path.join(where, name).removeprefix(f"{folder}/"): Path(where, name).read_bytes()
        for where, _, names in os.walk(folder)
        for name in names
    }


def kill(session: Session | AsyncSession) -> None:
    """Let a session go as a kill does: nothing is recorded, and only what the system gives back is given back."""
    while session._holds:
        session._holds.pop().release()


def texts(items: Any) -> list[str]:
    """What the messages of a context say."""
    return [item.message["content"] for item in items]
