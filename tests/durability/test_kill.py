"""Processes are killed with SIGKILL at random instants: acknowledged records exist, and other processes continue.

`make kill` does eight times as many.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.durability.worker import Worker
from tests.faultlog import FaultLog, rounds
from tests.session.backends import local_backend
from tests.session.oracle import Operation, Oracle, draw, go_on, stage_of

KILLS = 60
OPERATIONS = 8
"""Given to one life; it is killed somewhere among them."""
SPIN_MAX = 60_000  # steps of an empty loop: a few milliseconds, as long as an operation takes
GO_ON_EVERY = 6
LIVES_PER_STORE = 15


class Life(NamedTuple):
    """What a process is given, and what the session is like before the first operation and after each."""

    operations: list[Operation]
    stages: list[Oracle]


def plan(rng: random.Random, oracle: Oracle, name: str, *, closes: bool) -> Life:
    """Operations of all kinds, more often than not some that seal, merge, rewind or close."""
    life = Life([], [oracle])
    for number in range(OPERATIONS):
        before = life.stages[-1]
        operation = draw(rng, before, f"{name}.{number}")
        if before.parents and rng.random() < 0.3:
            operation = (rng.choice(["seal", "optimize", *["close"] * closes]), {})
        if before.made and rng.random() < 0.1:
            operation = ("rewind", {"number": rng.randrange(len(before.made))})
        after = before.copy()
        if operation[0] != "close":
            getattr(after, operation[0])(**operation[1])
        life.operations.append(operation)
        life.stages.append(after)
    return life


def live(worker: Worker, life: Life, rng: random.Random) -> int:
    """Let a process work and kill it at some instant; return how many operations it acknowledged."""
    worker.give(life.operations)
    wanted = rng.randrange(OPERATIONS)
    heard = [worker.hear() for _ in range(wanted)]
    for _ in range(rng.randrange(SPIN_MAX)):
        pass
    heard += worker.kill()
    return [word for word in heard if word != "waiting"].count("done")


def begun(folder: Path) -> tuple[Path, Oracle, Worker]:
    """A store where nothing was said so far, and the first process that works there."""
    worker = Worker(folder)
    assert worker.hear() == "open"
    return folder, Oracle(), worker


@pytest.mark.parametrize("waiting", [False, True], ids=["alone", "with another one waiting"])
def test_killed_at_random_instants(waiting: bool, tmp_path: Path, fault_log: FaultLog) -> None:  # noqa: FBT001
    """Each life goes on where the one before was killed; now and then a writer appends, seals and merges in between."""
    rng = random.Random(31 + waiting)
    kills = rounds(KILLS) // 2
    cut = 0
    folder, oracle, worker = begun(tmp_path / "0")
    for number in range(kills):
        if number and number % LIVES_PER_STORE == 0:
            folder, oracle, worker = begun(tmp_path / f"{number}")
        life = plan(rng, oracle, f"{number}", closes=not waiting)  # who waits would take it
        follower = Worker(folder) if waiting and oracle.parents else None
        if follower is not None:
            assert follower.hear() == "waiting"
        acknowledged = live(worker, life, rng)
        cut += acknowledged < OPERATIONS
        if follower is not None:  # until it has looked, a reader may or may not see what the killed one left
            assert follower.hear() == "open"
        oracle = stage_of(local_backend(folder), life.stages[acknowledged : acknowledged + 2])
        if follower is None and number % GO_ON_EVERY == 0 and oracle.parents:
            oracle = go_on(local_backend(folder), oracle)
            assert local_backend(folder).store().verify("s") == []  # not even waste is left
        worker = follower or Worker(folder)
        if follower is None:
            assert worker.hear() == "open"
    worker.kill()
    assert cut > kills / 2
    fault = "process killed while another waits for the lock" if waiting else "process killed at a random instant"
    fault_log.record("local disk", fault, "nothing acknowledged lost", kills)
