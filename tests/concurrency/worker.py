"""One of several workers on a session: it appends, seals, merges and reads, and logs the results."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.concurrency.history import Call, Outcome
from tests.session.faults import recorded
from tests.storage.processes import wait_until

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import (
    ConflictError,
    HeadMovedError,
    NotFoundError,
    SessionHeldError,
    TreeringError,
    UnavailableError,
)

SESSION = "s"
PAUSE_SECONDS = 0.002  # so that who holds a session does not have it again before anybody looked


class Task(NamedTuple):
    """What a worker is to do."""

    name: str
    appends: int
    """It ends when so many were acknowledged."""
    shared: bool
    seed: int
    upkeep: float = 0.1
    """The share of turns that seal or merge; as many read."""
    until: Path | None = None
    """It goes on until this file is there, too."""

    def is_done(self, acknowledged: int) -> bool:
        """Whether it is all done."""
        return acknowledged >= self.appends and (self.until is None or self.until.exists())


class Log:
    """The calls of one worker, in a file that outlives it: each is written when it begins and when it ends."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._worker = worker
        self._file = (folder / f"{worker}.calls").open("ab", buffering=0)

    def call(self, verb: str, texts: tuple[str, ...], do: Callable[[], object]) -> TreeringError | None:
        """Do something that is part of the history and return what it raised; a read returns the texts it saw."""
        call = Call(worker=self._worker, verb=verb, texts=texts, began=time.monotonic_ns())
        self._write(call)
        outcome: Outcome = "done"
        error: TreeringError | None = None
        try:
            result = do()
        except UnavailableError as raised:
            outcome, error = "unknown", raised
        except ConflictError as raised:
            outcome, error = "refused", raised
        else:
            texts = tuple(result) if verb == "read" and isinstance(result, tuple) else texts
        told = f"{type(error).__name__} {error.kind}" if error else ""
        ended = time.monotonic_ns()
        self._write(msgspec.structs.replace(call, texts=texts, ended=ended, outcome=outcome, error=told))
        return error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, call: Call) -> None:
        self._file.write(msgspec.json.encode(call) + b"\n")


def read_calls(folder: Path) -> list[Call]:
    """All calls that workers logged in a folder; of each what was known last."""
    calls: dict[tuple[str, int], Call] = {}
    for file in sorted(folder.glob("*.calls")):
        for line in file.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                call = msgspec.json.decode(line, type=Call)
                calls[call.worker, call.began] = call
    return list(calls.values())


def read_journal(store: Store) -> tuple[str, ...]:
    """What all messages say, in the order of the journal."""
    return tuple(str(text) for text in recorded(store.view(SESSION)))


class Worker:
    """Works on the session until enough is acknowledged, whatever it is told in between.

    Args:
        store: Opened by the worker itself, as another process would.
        task: What to do.
        folder: Where to log.
        session: A handle that others use too; else the worker has its own, and opens it anew when it is over.
    """

    def __init__(self, store: Store, task: Task, folder: Path, session: Session | None = None) -> None:
        self._store = store
        self._task = task
        self._rng = random.Random(task.seed)
        self._log = Log(folder, task.name)
        self._given = session
        self._session = session

    def run(self) -> None:
        """Work."""
        done = 0
        for texts in self._texts():
            if self._task.is_done(done):
                break
            done += self._append(texts)
            if self._rng.random() < self._task.upkeep:
                self._maintain()
            if self._rng.random() < self._task.upkeep:
                self.read()
            if self._rng.random() < 0.3:
                self._leave()
        self._leave()
        self._log.close()

    def append_once(self) -> None:
        """Append a single time, whatever comes of it."""
        session, texts = self.open(), next(self._texts())
        self._log.call("append", texts, lambda: session.append(*texts))
        self._leave()
        self._log.close()

    def open(self) -> Session:
        """Open the session, as often as it takes."""
        if self._session is None:
            wait_until(self._opens, seconds=math.inf, pause_seconds=PAUSE_SECONDS)
        assert self._session
        return self._session

    def _opens(self) -> bool:
        with contextlib.suppress(SessionHeldError, UnavailableError):
            self._session = self._store.session(SESSION, shared=self._task.shared)
        return self._session is not None

    def read(self) -> None:
        """Read the whole session past every handle."""
        with contextlib.suppress(NotFoundError):  # nobody has created it yet
            self._log.call("read", (), lambda: read_journal(self._store))

    def _texts(self) -> Iterator[tuple[str, ...]]:
        number = 0
        while True:
            count = self._rng.choice((1, 1, 2, 3))
            yield tuple(f"{self._task.name}.{number + more}" for more in range(count))
            number += count

    def _append(self, texts: tuple[str, ...]) -> bool:
        session = self.open()
        error = self._log.call("append", texts, lambda: self._record(session, texts))
        if isinstance(error, HeadMovedError):
            self._log.call("refresh", (), session.refresh)
        elif isinstance(error, ConflictError):
            self._leave()
        return error is None

    def _record(self, session: Session, texts: tuple[str, ...]) -> None:
        roll = self._rng.random()
        if roll < 0.3:
            session.commit(texts, state={self._task.name: texts[0]})
        elif roll < 0.5 and self._task.shared:
            session.append(*texts, expect=session.node)
        else:
            session.append(*texts)

    def _maintain(self) -> None:
        session = self._session
        if session is not None:
            verb = self._rng.choice(("seal", "seal", "optimize"))
            with contextlib.suppress(NotFoundError):  # its first append had no answer
                self._log.call(verb, (), session.seal if verb == "seal" else lambda: session.optimize(everything=True))

    def _leave(self) -> None:
        if self._session is not None and not self._given:
            self._log.call("close", (), self._session.close)
            self._session = None
