"""Any call to the system fails once: the caller gets a typed error or never hears of it, and nothing is lost."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest
from tests.durability.disk import FAILS, Disk, installed
from tests.durability.script import REOPENINGS, Player, check, plan
from tests.faultlog import FaultLog, rounds
from tests.sampling import few
from tests.session.oracle import Operation, Oracle, describe, expect

from treering.errors import AccessError, TreeringError, UnavailableError

SEED, LENGTH = 5, 20
TRIED = few(2, whole=4)  # places in the script at which each call fails
GO_ON_EVERY = 4
AFTER = {"ftruncate": "pwrite"}
"""Calls that are made only when another one failed."""


def try_one(disk: Disk, player: Player, operation: Operation, stages: list[Oracle], *, reopen: bool) -> str:
    """Do an operation, again if it was refused and did not happen; return what was told, and whether it was done."""
    told = refusal(player, operation)
    if told is None:
        return ""
    disk.note(always=True)
    if reopen or operation[0] in REOPENINGS:
        player.kill()
        player.reopen()
    else:
        player.session.refresh()
        player.learn()
    found = describe(player.session)
    assert found in [expect(stage) for stage in stages], "neither done nor not done"
    assert told.key
    assert told.kind
    if found == expect(stages[1]) and operation[0] not in REOPENINGS:
        return f"done: {type(told).__name__}"
    player.play(operation)
    return type(told).__name__


def refusal(player: Player, operation: Operation) -> TreeringError | None:
    """The error that an operation raises; any but these two would be one of ours."""
    try:
        player.play(operation)
    except (UnavailableError, AccessError) as error:
        return error
    return None


def play(disk: Disk, call: str, number: int, code: int, *, reopen: bool) -> tuple[list[Oracle], set[str]]:
    """Play the script while one call fails; return its stages, and what was told."""
    operations, stages = plan(SEED, LENGTH)
    told = {""}
    with installed(disk), contextlib.ExitStack() as stack:
        player = Player(disk)
        stack.callback(player.kill)
        if call in AFTER:
            disk.fail_both(AFTER[call], number, call, code)
        else:
            disk.fail(call, number, code)
        for place, operation in enumerate(operations):
            failed = disk.failed
            answer = try_one(disk, player, operation, stages[place : place + 2], reopen=reopen)
            told.add(answer.removeprefix("done: "))
            if answer.startswith("done: "):
                disk.leave_open()
            else:
                player.acknowledge(operation)
            if disk.failed and not failed:
                disk.note(always=True)
        disk.note(always=True)
    return stages, told - {""}


@pytest.mark.sampled(2, "call")
@pytest.mark.parametrize(
    ("call", "code"),
    [pytest.param(call, code, id=f"{call}-{errno.errorcode[code]}") for call, codes in FAILS.items() for code in codes],
)
def test_a_call_that_fails_once_loses_nothing(call: str, code: int, tmp_path: Path, fault_log: FaultLog) -> None:
    """Wherever it fails: what was acknowledged is there, also after a power cut, and the session goes on."""
    sound = Disk(tmp_path / "sound" / "disk", watching=False)
    play(sound, "", 0, 0, reopen=False)
    count = sound.calls[AFTER.get(call, call)]
    met = 0
    tried = min(count, rounds(TRIED))
    for number in {1 + place * count // tried for place in range(tried)}:
        folder = tmp_path / f"{number}"
        disk = Disk(folder / "disk", watching=False)
        stages, told = play(disk, call, number, code, reopen=number % 2 == 0)
        if not disk.failed and call in AFTER:
            continue  # what failed before was no write of a log
        assert disk.failed
        met += 1
        check(disk.crashes.values(), stages, folder, GO_ON_EVERY)
        outcome = ", ".join(sorted(told)) or "the caller need not care"
        fault_log.record("local disk", f"{call.removeprefix('p')} fails: {errno.errorcode[code]}", outcome)
        fault_log.record("local disk", "power cut after a failed call", "nothing acknowledged lost", len(disk.crashes))
    assert met
