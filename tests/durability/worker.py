"""Processes that work on one session until they are killed. They are forked from one that has imported everything."""

from __future__ import annotations

import contextlib
import fcntl
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.session.oracle import Operation, names_of, play

import treering
from treering.api.session import Session
from treering.errors import SessionHeldError

_server = get_context("forkserver")
_server.set_forkserver_preload(["tests.durability.worker"])


class Worker:
    """A process on the session `s` of a store."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = _server.Pipe()
        self._process = _server.Process(target=_work, args=(theirs, str(folder)), daemon=True)
        self._process.start()
        theirs.close()

    def give(self, operations: list[Operation]) -> None:
        """Hand it operations; it says `done` after each."""
        for operation in operations:
            self._ours.send(operation)

    def hear(self) -> Any:
        """What it says next."""
        return self._ours.recv()

    def kill(self) -> list[Any]:
        """Kill it at this instant; return what it had said and nobody had heard."""
        self._process.kill()
        self._process.join()
        heard: list[Any] = []
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                heard.append(self._ours.recv())
        self._ours.close()
        self._process.close()
        return heard


def _work(pipe: Connection, folder: str) -> None:
    session = _hold(pipe, folder)
    names = names_of(session)
    pipe.send("open")
    while True:
        operation = pipe.recv()
        if operation[0] == "close":
            session.close()
            session = _hold(pipe, folder)
            names = names_of(session)
        else:
            play(session, names, operation)
        pipe.send("done")


def _hold(pipe: Connection, folder: str) -> Session:
    """Open the session as soon as the one process that holds it is gone."""
    try:
        return treering.open(folder).session("s")
    except SessionHeldError as error:
        pipe.send("waiting")
        with Path(folder, error.key or "").open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
    return treering.open(folder).session("s")
