"""Killed at any instant, a local session is what was acknowledged, plus at most the one operation under way."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.sampling import few
from tests.session.backends import local_backend
from tests.session.oracle import Operation, Oracle, draw, go_on, stage_of
from tests.storage.processes import start

CODE = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import treering
from tests.session.oracle import names_of, play
session = treering.open(sys.argv[1]).session("s")
names = names_of(session)
print("ready", flush=True)
for line in sys.stdin:
    play(session, names, json.loads(line))
    print("done", flush=True)
"""
ROUNDS = few(10, whole=40)
OPERATIONS = 12  # given to a process that lives for a few of them
POINTS = few(8, whole=30)
CALLS = "write,pwrite64,fdatasync,fsync,rename,renameat,link,linkat,unlink,unlinkat,ftruncate,openat,mkdirat"


def plan(rng: random.Random, oracle: Oracle, name: str) -> tuple[list[Operation], list[Oracle]]:
    """Operations for one life, and what the session is like before the first and after each."""
    operations, stages = [], [oracle]
    for number in range(OPERATIONS):
        operation = draw(rng, stages[-1], f"{name}.{number}")
        after = stages[-1].copy()
        getattr(after, operation[0])(**operation[1])
        operations.append(operation)
        stages.append(after)
    return operations, stages


def work(process: subprocess.Popen[str], operations: list[Operation], acks: int | None = None, spin: int = 0) -> int:
    """Have a process do operations, kill it after so many acknowledgements and a moment; return how many it gave."""
    assert process.stdin
    assert process.stdout
    with process, contextlib.suppress(BrokenPipeError):
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("".join(json.dumps(operation) + "\n" for operation in operations))
            process.stdin.close()
        said: list[str] = []
        while (acks is None or len(said) <= acks) and (line := process.stdout.readline()):
            said.append(line)
        for _ in range(spin):  # some instant between two acknowledgements
            pass
        process.kill()
        said += process.stdout
    return said.count("done\n")


def later_writer(folder: Path, oracle: Oracle) -> Oracle:
    """Go on in the session; not even waste may be left."""
    oracle = go_on(local_backend(folder), oracle)
    assert local_backend(folder).store().verify("s") == []
    return oracle


def found_stage(folder: Path, stages: list[Oracle], acks: int) -> Oracle:
    """What the session is like: everything acknowledged, and perhaps what was under way."""
    return stage_of(local_backend(folder), stages[max(0, acks) : max(0, acks) + 2])


def test_killed_at_random_instants(tmp_path: Path) -> None:
    """One after the other, each process is killed in its work on the same session: ten, and forty with `make whole`."""
    rng = random.Random(11)
    oracle = Oracle()
    cut = 0
    for life in range(ROUNDS):
        operations, stages = plan(rng, oracle, f"{life}")
        process = start(CODE, tmp_path, prelude="")
        acks = work(process, operations, acks=rng.randrange(OPERATIONS), spin=rng.randrange(100_000))
        oracle = found_stage(tmp_path, stages, acks)
        cut += acks < len(operations)
        if life % 5 == 4:
            oracle = later_writer(tmp_path, oracle)
    assert cut > ROUNDS / 2


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_killed_between_any_two_writes(tmp_path: Path) -> None:
    """Killed at the entry of eight of the calls that change the disk, thirty with `make whole`, from creation on."""
    operations, stages = plan(random.Random(4), Oracle(), "a")
    trace = tmp_path / "trace"
    strace = ("strace", "-f", "-o", str(trace), "-e", f"trace={CALLS}")
    assert work(start(CODE, tmp_path / "whole", prelude="", before=strace), operations) == len(operations)
    lines = trace.read_text().splitlines()
    called = [line.split(maxsplit=1)[1].partition("(")[0] for line in lines]
    first = next(at for at, line in enumerate(lines) if "ready" in line)
    cut = 0
    for place in range(first + 1, len(called) - 1, (len(called) - first) // POINTS):
        folder = tmp_path / f"{place}"
        at = f"inject={called[place]}:signal=SIGKILL:when={called[: place + 1].count(called[place])}"
        acks = work(start(CODE, folder, prelude="", before=(*strace, "-e", at)), operations)
        cut += acks < len(operations)
        later_writer(folder, found_stage(folder, stages, acks))
    assert cut > 0.8 * POINTS
