"""The power goes at any step of real session calls: nothing that was acknowledged is lost."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from tests.durability.disk import Disk, installed
from tests.durability.script import Player, check, plan
from tests.faultlog import FaultLog, rounds
from tests.sampling import few
from tests.session.backends import kill, texts

import treering

SEEDS = few(1, whole=2)
LENGTH = 26
REAL_SECTOR_BYTES = 512
GO_ON_EVERY = 7  # of the states that a power cut can leave


def run(disk: Disk, seed: int) -> list[Any]:
    """Play a script; after each call everything that counts must be on the platters."""
    operations, stages = plan(seed, LENGTH)
    with installed(disk):
        player = Player(disk)
        for before, operation in zip([("", {}), *operations], operations, strict=False):
            player.play(operation)
            disk.acknowledge()
            assert disk.unsynced() == [], operation[0]
            if (before[0], operation[0]) == ("seal", "close"):
                assert not player.session._reader.replica.view.tail.lines
        player.kill()
    return stages


@pytest.mark.parametrize("seed", range(rounds(SEEDS)))
@pytest.mark.slow
def test_nothing_acknowledged_is_lost(seed: int, tmp_path: Path, fault_log: FaultLog) -> None:
    """Whatever of the unsynced bytes and names lasts, at every call to the system of a whole script.

    A third of the cuts here, all with `make whole`.
    """
    disk = Disk(tmp_path / "disk")
    stages = run(disk, seed)
    crashes = list(disk.crashes.values())
    assert len(crashes) > 5 * LENGTH
    crashes = Random(seed).sample(crashes, few(len(crashes) // 3, whole=len(crashes)))
    check(crashes, stages, tmp_path, GO_ON_EVERY)
    fault_log.record("local disk", "power cut at a call to the system", "nothing acknowledged lost", len(crashes))


def test_a_disk_may_write_the_sectors_of_an_append_in_any_order(tmp_path: Path) -> None:
    """Whichever of them it has written when the power goes: the append is there or is not, and the session goes on."""
    session, tail = treering.open(tmp_path / "store").session("s"), "sessions/s/tail.jsonl"
    session.append("first")
    session.append("second")  # makes room
    before, mark = ((tmp_path / "store" / key).read_bytes() for key in (tail, "sessions/s/.lock"))
    session.commit(["a" * 700, "b" * 500], state={"n": 1})
    after = (tmp_path / "store" / tail).read_bytes()
    kill(session)
    places = [place for place in range(0, len(after), REAL_SECTOR_BYTES) if differ(before, after, place)]
    assert (len(before), len(places) >= 4) == (len(after), True)
    for number, written in enumerate(itertools.product([False, True], repeat=len(places))):
        torn, left = bytearray(before), tmp_path / str(number)
        for place in itertools.compress(places, written):
            torn[place : place + REAL_SECTOR_BYTES] = after[place : place + REAL_SECTOR_BYTES]
        shutil.copytree(tmp_path / "store", left)
        (left / tail).write_bytes(torn)
        (left / "sessions/s/.lock").write_bytes(mark)  # of the append before: it follows the sync
        with treering.open(left).session("s") as session:
            assert len(session.context) == (4 if all(written) else 2)
            session.append("next")
        assert texts(treering.open(left).view("s").context)[-1] == "next"


def differ(before: bytes, after: bytes, place: int) -> bool:
    """Whether a sector was to be written."""
    return before[place : place + REAL_SECTOR_BYTES] != after[place : place + REAL_SECTOR_BYTES]


class Forgetful(Disk):
    """A disk whose driver leaves out some of its syncs."""

    def __init__(self, folder: Path, forgets: str) -> None:
        super().__init__(folder)
        self.sync = msgspec.structs.replace(self.sync, **{forgets: lambda _: None})


@pytest.mark.parametrize("forgets", ["data", "whole"])
def test_a_forgotten_sync_would_be_noticed(forgets: str, tmp_path: Path) -> None:
    """Without the syncs of data, or without those of files and folders, these tests fail."""
    disk = Forgetful(tmp_path / "disk", forgets)
    with pytest.raises(AssertionError):
        run(disk, seed=0)
    crashes = [crash for crash in disk.crashes.values() if crash.how == "names written, bytes written"]
    with pytest.raises(AssertionError):
        check(crashes, plan(0, LENGTH)[1], tmp_path, GO_ON_EVERY)
