"""A process is killed at any system call, other processes continue, and then the power is cut."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from tests.durability.disk import Disk, KilledError, installed
from tests.durability.script import QUIET, Player, check, plan
from tests.faultlog import FaultLog, rounds
from tests.sampling import few
from tests.session.oracle import Oracle, describe, expect

SEED, LENGTH = 9, 20
TRIED = few(4, whole=8)
GO_ON_EVERY = 4  # of the states that a power cut can leave
FOLLOWED = 2  # operations of the next process at every call of which the power may go


def play(disk: Disk, number: int) -> list[Oracle]:
    """Play the script; at one call the process dies, and another one goes on."""
    operations, stages = plan(SEED, LENGTH)
    with installed(disk), contextlib.ExitStack() as stack:
        player = Player(disk)
        stack.callback(player.kill)
        disk.kill(number)
        followed = 0
        for place, operation in enumerate(operations):
            with contextlib.suppress(KilledError):
                player.play(operation)
            if disk.dead:
                player.kill()
                disk.revive()
                disk.watching = True
                player.reopen()
                found = describe(player.session)
                assert found in [expect(stage) for stage in stages[place : place + 2]]
                if found == expect(stages[place + 1]):
                    disk.leave_open()
                    continue
                player.play(operation)
            player.acknowledge(operation)
            followed += disk.watching and operation[0] not in QUIET
            if followed == FOLLOWED:
                break
    return stages


@pytest.mark.parametrize("part", range(4))
def test_what_others_built_on_an_unsynced_write_lasts(part: int, tmp_path: Path, fault_log: FaultLog) -> None:
    """What a killed process left unsynced is not lost once somebody else has built on it."""
    sound = Disk(tmp_path / "sound" / "disk", watching=False)
    play(sound, 0)
    count, tried = sound.changes, rounds(TRIED)
    cuts = 0
    for number in [1 + place * count // tried for place in range(tried)][part::4]:
        folder = tmp_path / f"{number}"
        disk = Disk(folder / "disk", watching=False)
        stages = play(disk, number)
        check(disk.crashes.values(), stages, folder, GO_ON_EVERY)
        cuts += len(disk.crashes)
    assert cuts > tried
    fault_log.record("local disk", "power cut after a kill", "nothing acknowledged lost", cuts)
