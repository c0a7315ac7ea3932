"""A script of real session calls, and what the session must be like after each of them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.durability.disk import Crash, Disk, restore
from tests.session.backends import kill, local_backend
from tests.session.oracle import Operation, Oracle, draw, go_on, names_of, play, stage_of

from treering.api.session import Session
from treering.api.store import Store
from treering.store.place import Place

REOPENINGS = {"close", "kill"}
QUIET = {*REOPENINGS, "seal", "optimize"}
"""Operations that need not build on what others recorded last."""


def plan(seed: int, length: int) -> tuple[list[Operation], list[Oracle]]:
    """Operations, and what the session is like before the first and after each of them.

    Each kind of operation is among them, and now and then the session is closed, or its process killed.
    """
    rng = random.Random(seed)
    forced = [
        "append",
        "commit",
        "seal",
        "append",
        "rewind",
        "seal",
        "close",
        "optimize",
        "checkout",
        "commit",
        "branch",
        "append",
        "seal",
    ]
    operations: list[Operation] = []
    stages = [Oracle()]
    while len(operations) < length:
        number = len(operations)
        operation = draw(rng, stages[-1], f"{seed}.{number}")
        wanted = forced[number] if number < len(forced) else operation[0]
        while operation[0] != wanted and wanted not in REOPENINGS:
            operation = draw(rng, stages[-1], f"{seed}.{number}")
        if number % 7 == 6:
            operation = (wanted if wanted in REOPENINGS else rng.choice(sorted(REOPENINGS)), {})
            after = stages[-1]
        else:
            after = stages[-1].copy()
            getattr(after, operation[0])(**operation[1])
        operations.append(operation)
        stages.append(after)
    return operations, stages


class Player:
    """Plays a script on a disk, reopening the session where the script says so."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.session = self._open()
        self.names: dict[str, str] = {}

    def _open(self) -> Session:
        return Store(Place(self.disk.driver())).session("s")

    def play(self, operation: Operation) -> None:
        """Do one operation; it is acknowledged when this returns."""
        if operation[0] in REOPENINGS:
            kill(self.session) if operation[0] == "kill" else self.session.close()
            self.reopen()
        else:
            play(self.session, self.names, operation)

    def acknowledge(self, operation: Operation) -> None:
        """Note that an operation has returned; what was seen before counts as told once something was built on it."""
        if self.disk.unsure and operation[0] in QUIET:
            self.disk.leave_open()
        else:
            self.disk.acknowledge()

    def reopen(self) -> None:
        """Open the session in a new process."""
        self.session = self._open()
        self.learn()

    def learn(self) -> None:
        """Find out the ids of all nodes by their texts."""
        self.names = names_of(self.session)

    def kill(self) -> None:
        """The process is gone."""
        kill(self.session)


def check(crashes: Iterable[Crash], stages: list[Oracle], base: Path, go_on_every: int) -> None:
    """After each power cut the session is there, as it was acknowledged; after some it is gone on with."""
    for number, crash in enumerate(crashes):
        folder = base / f"cut-{number}"
        folder.mkdir()
        restore(crash.tree, folder)
        backend = local_backend(folder / "store")
        try:
            oracle = stage_of(backend, stages[crash.acknowledged : crash.acknowledged + crash.unsure + 2])
            if number % go_on_every == 0:
                go_on(backend, oracle)
        except Exception as error:
            raise AssertionError(f"cut after {crash.acknowledged} acknowledgements, {crash.how}: {error!r}") from error
        shutil.rmtree(folder)
