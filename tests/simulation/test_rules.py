"""The rules of the journal: the page and the table of mutants agree, and random schedules break no promise."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.sampling import few
from tests.simulation.changes import first
from tests.simulation.marks import find_marks
from tests.simulation.mutants import PACKAGE, hunt, mutate
from tests.simulation.rules import PAGE, RULES, Rule, stated_rules
from tests.simulation.schedule import KINDS, run_schedule

MARKS = find_marks(PACKAGE)
SCHEDULES = few(10, whole=60)  # schedules of each kind; `make simulate` runs 20,000 and more


@cache
def mutated(rule: Rule) -> ast.Module:
    """The file that keeps a rule, without it."""
    return mutate(rule, PACKAGE, MARKS)


def test_every_rule_has_a_mutant_and_stands_on_the_page() -> None:
    """A rule without a mutant, or a mutant without a rule, fails the build."""
    stated = [name for _, _, name in stated_rules()]
    assert sorted(stated) == sorted(rule.name for rule in RULES)


def test_the_rules_are_numbered_without_gaps() -> None:
    """Each section counts its rules from 1."""
    expected = 0
    for letter, number, name in stated_rules():
        expected = 1 if number == "1" else expected + 1
        assert number == str(expected), f"{letter}{number} {name}"


def test_the_page_tells_what_every_kind_of_schedule_is_about() -> None:
    """The table of schedules and the program name the same kinds."""
    table = PAGE.read_text(encoding="utf-8").partition("| Schedules of |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE) == list(KINDS)


def test_every_mark_in_the_code_names_a_rule() -> None:
    """If a rule is removed from the table, its mark has to be removed from the code."""
    assert {mark.rule for mark in MARKS} <= {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_mutant_fits_the_code(rule: Rule) -> None:
    """The code has one mark for the rule, and the mutant changes the marked statement into a valid program."""
    compile(mutated(rule), rule.name, "exec")


def test_no_mutant_names_what_is_not_there(tmp_path: Path) -> None:
    """A mutant that fails only because it uses a name that no longer exists proves nothing."""
    for rule in RULES:
        source = ast.unparse(mutated(rule))
        (tmp_path / f"{rule.name}.py").write_text(source, encoding="utf-8")
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select=F821",
        "--output-format=concise",
        str(tmp_path),
    ]
    done = subprocess.run(ruff, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_no_schedule_breaks_a_promise(kind: str) -> None:
    """Writers, readers, mergers, deleters and creators run at once, with lost requests, kills and power cuts."""
    for seed in range(SCHEDULES):
        assert run_schedule(seed, kind) == [], f"python -m tests.simulation --kind {kind} --seed {seed}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_schedule_can_be_repeated(kind: str) -> None:
    """A seed determines everything: the same requests in the same order, with the same answers."""
    first: list[str] = []
    again: list[str] = []
    run_schedule(7, kind, first.append)
    run_schedule(7, kind, again.append)
    assert first == again
    assert len(first) > 10


def test_a_rule_that_is_removed_is_missed() -> None:
    """`hunt` distinguishes a broken promise from a mutant that changes nothing."""
    swap = next(rule for rule in RULES if rule.name == "swap-tail")
    assert hunt(swap).caught
    assert not hunt(swap._replace(change=first("pass")), schedules=20).caught
