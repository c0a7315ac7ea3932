"""Remove each rule of the journal in turn. The simulation must detect that, or a test of a rare case.

`python -m tests.simulation.mutants` tries all rules; names after it select rules.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.simulation.changes import in_other_order
from tests.simulation.marks import Mark, find_marks, place_of
from tests.simulation.rules import RULES, Rule, stated_rules

SCHEDULES_MAX = 20_000
SECONDS_MAX = 180
ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "treering"
# A mutant must break a promise; a mutant that is not a valid program proves nothing.
_BROKEN = re.compile(r"\b(NameError|AttributeError|SyntaxError|TypeError|UnboundLocalError|ImportError)\b")


class Verdict(NamedTuple):
    """The result for one mutant."""

    rule: Rule
    caught: bool
    report: str
    seconds: float


def mutate(rule: Rule, package: Path, marks: Sequence[Mark]) -> ast.Module:
    """Return the syntax tree of the file that keeps a rule, changed so that the rule is broken.

    Args:
        rule: The rule.
        package: The folder of the package.
        marks: All marks in the package.

    Raises:
        ValueError: The code has no mark of the rule, or not the marks that the mutant needs.
    """
    mine = sorted((mark for mark in marks if mark.rule == rule.name), key=lambda mark: mark.second)
    if [mark.second for mark in mine] != ([False, True] if rule.change is in_other_order else [False]):
        raise ValueError(f"not marked once in the code, but here: {[f'{mark.path.name}:{mark.line}' for mark in mine]}")
    source = (package / mine[0].path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    rule.change([place_of(tree, mark.line) for mark in mine])
    ast.fix_missing_locations(tree)
    if ast.dump(tree) == _dumped(source):
        raise ValueError("the mutant changes nothing")
    return tree


@cache
def _dumped(source: str) -> str:
    """The syntax of a file as text; several rules are kept in one file."""
    return ast.dump(ast.parse(source))


@contextmanager
def mutant(rule: Rule) -> Iterator[str]:
    """Make a folder with a copy of the package that breaks a rule; see `mutate`."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "treering"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        marks = find_marks(copy)
        tree = mutate(rule, copy, marks)
        path = next(mark.path for mark in marks if mark.rule == rule.name)
        (copy / path).write_text(ast.unparse(tree), encoding="utf-8")
        yield folder


def simulate(folder: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the simulation on the package in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--package", folder, *arguments],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip


def hunt(rule: Rule, *, schedules: int = SCHEDULES_MAX) -> Verdict:
    """Run schedules against a mutant until one detects it, or until this number of schedules has not."""
    began = time.perf_counter()
    try:
        with mutant(rule) as folder:
            if rule.test:
                report, found = _test(rule, folder)
            else:
                report, found = _run(rule, folder, "1", "--first", str(rule.seed)) if rule.seed else ("", False)
            if not found:
                report, found = _run(rule, folder, str(schedules))
                if found and rule.seed:  # a search among all seeds takes a hundred times as long
                    report = f"not at seed {rule.seed} any more, {report}"
    except ValueError as error:
        return Verdict(rule, caught=False, report=str(error), seconds=0.0)
    return Verdict(rule, found, report, time.perf_counter() - began)


def _test(rule: Rule, folder: str) -> tuple[str, bool]:
    options = ("-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-o", f"pythonpath={folder} {ROOT}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, rule.test],
        cwd=ROOT, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "TREERING_WHOLE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    report = failed[0] if failed else "not caught: no test failed"
    return report, bool(failed) and not _BROKEN.search(report)


def _run(rule: Rule, folder: str, *arguments: str) -> tuple[str, bool]:
    kinds = [argument for kind in rule.kinds for argument in ("--kind", kind)]
    try:
        done = simulate(folder, *arguments, "--processes", "1", "--no-shrink", *kinds)
    except subprocess.TimeoutExpired:
        return f"not caught in {SECONDS_MAX} seconds", False
    lines = done.stdout.splitlines()
    report = lines[0] if lines else done.stderr.strip().splitlines()[-1]
    if done.returncode == 1 and report.startswith("schedule ") and not _BROKEN.search(report):
        return report, True
    return f"not caught: {report}", False


def main() -> int:
    """Try all mutants, or the named ones; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these rules")
    names = parser.parse_args().names
    unknown = set(names) - {rule.name for rule in RULES}
    if unknown:
        parser.error(f"no such rule: {', '.join(sorted(unknown))}")
    if without := {name for _, _, name in stated_rules()} - {rule.name for rule in RULES}:
        parser.error(f"these rules of the page have no mutant: {', '.join(sorted(without))}")
    chosen = [rule for rule in RULES if not names or rule.name in names]
    began, missed = time.perf_counter(), 0
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for verdict in pool.map(hunt, chosen):
            missed += not verdict.caught
            mark = "caught" if verdict.caught else "MISSED"
            print(f"{mark} {verdict.rule.name:24} {verdict.seconds:5.1f} s  {verdict.report[:150]}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutants caught in {time.perf_counter() - began:.0f} seconds")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
