"""Runs of many schedules in several processes, the report of a broken promise, and the record of runs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.simulation.mutants import mutant, simulate
from tests.simulation.rules import RULES
from tests.simulation.runs import SIMULATED, Broken, bare, code_digest, page_of, record, run_batches, runs_in
from tests.simulation.schedule import KINDS, run_schedule
from tests.simulation.shrink import Player, Recorder

SEED_OFF_CODERS = 3  # a seed whose schedules do not use the real coders
IMPORTED = """\
import sys
from tests.simulation.runs import run_batch
from tests.simulation.schedule import KINDS

run_batch(range(4 * len(KINDS)), list(KINDS))
print(*(name for name in sys.modules if name.startswith("treering.") and name.count(".") > 1))
"""
"""Runs some schedules of each kind, and prints the imported modules in folders of the package."""

ARGUMENTS = ("2000", "--kind", "store", "--first", "700")  # the mutant is detected after some batches


def test_a_broken_promise_is_told_in_fewer_steps_by_any_number_of_processes() -> None:
    """Runs with one and two processes stop at the same seed; at most two thirds of its steps break the same promise."""
    rule = next(rule for rule in RULES if rule.name == "bury-own")
    with mutant(rule) as folder:
        alone = simulate(folder, *ARGUMENTS, "--processes", "1")
        together = simulate(folder, *ARGUMENTS, "--processes", "2", "--no-shrink")
    assert alone.returncode == together.returncode == 1
    assert alone.stdout.startswith(together.stdout)
    told = re.match(r"schedule \d+: (\w+).*\n.*\nshrunk from (\d+) steps to (\d+)", alone.stdout)
    assert told is not None
    promise, steps, left = told.groups()
    assert int(left) * 3 <= int(steps) * 2
    assert promise in alone.stdout.splitlines()[3 + int(left)]


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_choices_play_the_same_schedule(kind: str) -> None:
    """Recording choices changes nothing, and playing all of them repeats every request."""
    plain: list[str] = []
    recorded: list[str] = []
    played: list[str] = []
    recorder = Recorder(SEED_OFF_CODERS)
    run_schedule(SEED_OFF_CODERS, kind, plain.append)
    run_schedule(SEED_OFF_CODERS, kind, recorded.append, recorder)
    player = Player(recorder.made)
    run_schedule(SEED_OFF_CODERS, kind, played.append, player)
    assert plain == recorded == played
    assert player.made == recorder.made


def test_every_seed_is_run_once() -> None:
    """Batches cover all seeds, also if the last batch is not full, and each kind has its share."""
    counts = sum((batch.counts for batch in run_batches(range(5, 126), list(KINDS), 1)), Counter[str]())
    assert counts.total() == 121
    assert max(counts.values()) - min(counts.values()) <= 1


def test_runs_are_recorded_one_below_the_other(tmp_path: Path) -> None:
    """The first run creates the page; later runs are added to it."""
    page = tmp_path / "page.md"
    record(page, range(8), Counter(store=5, disk=3), 2.4, None)
    record(page, range(1000, 3000), Counter(disk=1200), 61.0, Broken(2199, "disk", "a|b lost"))
    first, second = page.read_text(encoding="utf-8").splitlines()[-2:]
    assert first.endswith("| 0 to 7 | disk 3, store 5 | 2 | none |")
    assert second.endswith("| 1,000 to 2,999 | disk 1,200 | 61 | seed 2199: a/b lost |")
    assert f"({code_digest()})" in first


def test_the_schedules_of_the_same_code_are_added_up(tmp_path: Path) -> None:
    """The newest code is in the table however few its schedules are, and older code if there were many of them."""
    old = ["| 2026-01-01 | 0a1b2c3d4e (aaaaaaaaaa) | 0 to 59,999 | disk 60,000 | 9 | none |"]
    old += ["| 2026-01-02 | 0a1b2c3d4e (bbbbbbbbbb) | 60,000 to 60,009 | disk 10 | 1 | none |"]
    old += ["| 2026-01-03 | 1a1b2c3d4e (aaaaaaaaaa) | 70,000 to 109,999 | disk 40,000 | 9 | seed 109999: it is lost |"]
    page = tmp_path / "page.md"
    page.write_text(page_of(old), encoding="utf-8")
    assert runs_in(page_of(old)) == old
    record(page, range(8), Counter(store=8), 2.4, None)
    totals = [line for line in page.read_text(encoding="utf-8").split("## Runs")[0].splitlines() if "| 202" in line]
    assert totals[0] == "| aaaaaaaaaa | 2026-01-01 to 2026-01-03 | 100,000 | 1 |"
    assert [totals[1].split(" | ")[index] for index in (0, 2, 3)] == [f"| {code_digest()}", "8", "none |"]
    assert len(totals) == 2


def test_the_page_of_runs_adds_up() -> None:
    """Nobody changed the table by hand."""
    page = (ROOT / "docs" / "reference" / "simulated.md").read_text(encoding="utf-8")
    assert page == page_of(runs_in(page))


def test_the_digest_is_of_all_that_schedules_run() -> None:
    """Schedules import no module outside these folders: a change to such a module would not change the digest."""
    done = subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, capture_output=True, text=True, check=True)
    packages = {module.split(".")[1] for module in done.stdout.split()}
    assert {"journal", "session", "erasure"} <= packages <= set(SIMULATED)


def test_comments_and_docstrings_are_not_of_the_digest() -> None:
    """A change to the code of a function changes the digest; a change to its comments or docstring does not."""
    told = 'def act():\n    """Do it."""\n    return 1  # one\n'
    assert bare(told) == bare("def act():\n    return 1\n")
    assert bare(told) != bare("def act():\n    return 2\n")
