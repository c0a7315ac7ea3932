"""Killed at any call that changes the disk, a session is what was acknowledged, plus at most one operation more."""

from __future__ import annotations

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
from treering.session import upkeep
upkeep.SEALED_BYTES_DROP = 1
session = treering.open(sys.argv[1]).session("s")
names = names_of(session)
print("ready", flush=True)
for line in sys.stdin:
    play(session, names, json.loads(line))
    print("done", flush=True)
session.close()
print("closed", flush=True)
"""
OPERATIONS = 12  # given to each process
POINTS = few(5, whole=30)
TAIL_BYTES_MAX = 400  # of one without records
CALLS = "write,pwrite64,fdatasync,fsync,rename,renameat,link,linkat,unlink,unlinkat,ftruncate,openat,mkdirat"


def plan() -> tuple[list[Operation], list[Oracle]]:
    """Operations, and what the session is like before the first and after each."""
    rng, operations, stages = random.Random(4), [], [Oracle()]
    for number in range(OPERATIONS):
        operation = draw(rng, stages[-1], f"{number}")
        after = stages[-1].copy()
        getattr(after, operation[0])(**operation[1])
        operations.append(operation)
        stages.append(after)
    return operations, stages


def work(process: subprocess.Popen[str], operations: list[Operation]) -> int:
    """Have a process do operations until it ends or is killed; return how many it acknowledged."""
    given = "".join(json.dumps(operation) + "\n" for operation in operations)
    said, _ = process.communicate(given)
    return said.split().count("done")


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_killed_between_any_two_writes(tmp_path: Path) -> None:
    """Killed at the entry of five of the calls that change the disk, thirty with `make whole`, from creation on."""
    operations, stages = plan()
    trace = tmp_path / "trace"
    strace = ("strace", "-f", "-o", str(trace), "-e", f"trace={CALLS}")
    assert work(start(CODE, tmp_path / "whole", prelude="", before=strace), operations) == len(operations)
    lines = trace.read_text().splitlines()
    called = [line.split(maxsplit=1)[1].partition("(")[0] for line in lines]
    first = next(at for at, line in enumerate(lines) if "ready" in line)
    last = max(at for at, line in enumerate(lines) if "done" in line)
    cut = 0
    for place in range(first + 1, last, (last - first) // POINTS):
        folder = tmp_path / f"{place}"
        at = f"inject={called[place]}:signal=SIGKILL:when={called[: place + 1].count(called[place])}"
        acks = work(start(CODE, folder, prelude="", before=(*strace, "-e", at)), operations)
        cut += acks < len(operations)
        backend = local_backend(folder)
        go_on(backend, stage_of(backend, stages[acks : acks + 2]))
        assert backend.store().verify("s") == []  # not even waste is left
    assert cut > 0.8 * POINTS


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_killed_at_any_call_of_a_close(tmp_path: Path) -> None:
    """What was sealed is there once or twice, and never less, wherever the close that drops it from the tail ends.

    A fourth of its calls here, all with `make whole`.
    """
    operations, stages = plan()
    given = [*operations, ("seal", {})]
    trace = tmp_path / "trace"
    strace = ("strace", "-f", "-o", str(trace), "-e", f"trace={CALLS}")
    assert work(start(CODE, tmp_path / "whole", prelude="", before=strace), given) == len(given)
    assert (tmp_path / "whole/sessions/s/tail.jsonl").stat().st_size < TAIL_BYTES_MAX
    lines = trace.read_text().splitlines()
    called = [line.split(maxsplit=1)[1].partition("(")[0] for line in lines]
    first = max(at for at, line in enumerate(lines) if "done" in line)
    last = max(at for at, line in enumerate(lines) if "closed" in line)
    sizes = set()
    places = range(first + 1, last)
    for place in sorted({*places[:: few(4, whole=1)], places[-1]}):
        folder = tmp_path / f"{place}"
        at = f"inject={called[place]}:signal=SIGKILL:when={called[: place + 1].count(called[place])}"
        assert work(start(CODE, folder, prelude="", before=(*strace, "-e", at)), given) == len(given)
        sizes.add((folder / "sessions/s/tail.jsonl").stat().st_size < TAIL_BYTES_MAX)
        backend = local_backend(folder)
        go_on(backend, stage_of(backend, stages[-1:]))
        assert backend.store().verify("s") == []
    assert sizes == {False, True}
