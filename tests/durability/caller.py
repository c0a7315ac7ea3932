"""A process that makes calls which change something outside, until it is killed. The outside is a file of lines."""

from __future__ import annotations

import os
import signal
from collections import Counter
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import treering

_server = get_context("forkserver")
_server.set_forkserver_preload(["tests.durability.caller"])


class Outside:
    """The world: each call that reaches it is a line in a file, which no kill takes back."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def call(self, key: str) -> str:
        """Do it, whether or not it was done before."""
        there = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(there, f"{key}\n".encode())
        os.close(there)
        return f"result of {key}"

    @property
    def made(self) -> Counter[str]:
        """How often each call was made."""
        return Counter(self._file.read_text().split()) if self._file.exists() else Counter()


class Caller:
    """Such a process on the session `s` of a store."""

    def __init__(self, folder: Path, first: int, dies: tuple[str, int]) -> None:
        self._ours, theirs = _server.Pipe()
        self._process = _server.Process(target=_work, args=(theirs, str(folder), first, dies), daemon=True)
        self._process.start()
        theirs.close()

    def hear(self) -> str:
        """What it says next: `open`, and a key when it has made that call."""
        said: str = self._ours.recv()
        return said

    def kill(self, *, waits: bool) -> None:
        """Kill it at this instant, or wait until it is killed at the one that it was given."""
        if not waits:
            self._process.kill()
        self._process.join()
        assert self._process.exitcode == -signal.SIGKILL
        self._ours.close()
        self._process.close()


def _work(pipe: Connection, folder: str, first: int, dies: tuple[str, int]) -> None:
    outside = Outside(Path(folder, "outside"))
    session = treering.open(f"{folder}/store").session("s")
    find_out(session, outside)
    pipe.send("open")
    number = first
    while True:
        key = f"call-{number}"
        effect = session.effect(key)
        die_at(dies, "begun", number)
        if not effect.is_resolved:
            result = outside.call(key)
            die_at(dies, "made", number)
            session.end_effect(key, result)
        session.append(f"did {key}")
        if number % 8 == 0:
            session.seal()
        pipe.send(key)
        number += 1


def die_at(dies: tuple[str, int], instant: str, number: int) -> None:
    """Be killed, if this is the instant of a call, or one like it of a later call."""
    if dies[0] == instant and number >= dies[1]:
        os.kill(os.getpid(), signal.SIGKILL)


def find_out(session: treering.Session, outside: Outside) -> None:
    """End each unresolved effect, by what the world tells of it."""
    for effect in session.unresolved_effects():
        if effect.key in outside.made:
            session.end_effect(effect.key, f"result of {effect.key}")
        else:
            session.end_effect(effect.key, made=False)
