"""Run many schedules in several processes; the result is the same for any number of processes."""

from __future__ import annotations

import ast
import gc
import hashlib
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import treering
from tests.simulation.schedule import run_schedule

GARBAGE_MAX = 50_000  # objects; with a threshold seventy times smaller, the collector takes a tenth of the time
BATCH_SCHEDULES = 50  # about half a second
HEADING = """\
# Simulated schedules

`make simulate` runs 20,000 random schedules in each build; any number of them can be run, and is recorded here:
`make simulate SCHEDULES=1000000 RECORD=docs/reference/simulated.md`. What a schedule is:
[what the simulation does](journal.md#what-the-simulation-does). In brackets stands a digest of the code that schedules
run, without comments and docstrings: runs with the same digest are runs of the same code.

## The same code

All code of which 100,000 schedules were run, and the newest.

| Code | Days | Schedules | Broken promises |
|---|---|---|---|
"""
RUNS = """
## Runs

| Day | Code | Seeds | Schedules of each kind | Seconds | Broken promises |
|---|---|---|---|---|---|
"""
MANY_SCHEDULES = 100_000
_RUN = re.compile(
    r"\| (?P<day>[\d-]+) \| .*?(?P<code>\w+)\)? \| (?P<first>[\d,]+) to (?P<last>[\d,]+) \| .* \| (?P<found>.*) \|"
)

SIMULATED = (
    "", "api", "checkpoint", "erasure", "format", "journal", "maintenance", "session", "storage", "store", "transcript",
)  # fmt: skip
"""Folders of the package whose code is run by schedules; the empty name is the folder of the package itself."""


class Broken(NamedTuple):
    """A schedule that broke a promise."""

    seed: int
    kind: str
    problem: str


class Batch(NamedTuple):
    """The result of some consecutive seeds; the last one may have broken a promise."""

    counts: Counter[str]
    broken: Broken | None


def kind_of(seed: int, kinds: Sequence[str]) -> str:
    """Return the kind of schedule that a seed stands for."""
    return kinds[seed % len(kinds)]


def run_batch(seeds: range, kinds: Sequence[str]) -> Batch:
    """Run schedules until one breaks a promise."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        kind = kind_of(seed, kinds)
        counts[kind] += 1
        if problems := run_schedule(seed, kind):
            return Batch(counts, Broken(seed, kind, problems[0]))
    return Batch(counts, None)


def run_batches(seeds: range, kinds: Sequence[str], processes: int) -> Iterator[Batch]:
    """Run schedules; yield results in the order of the seeds, up to the first schedule that breaks a promise."""
    batches = [seeds[start : start + BATCH_SCHEDULES] for start in range(0, len(seeds), BATCH_SCHEDULES)]
    run = partial(run_batch, kinds=kinds)
    if processes == 1:
        yield from _until_broken(map(run, batches))
        return
    # New interpreters share no state. Only the process that collects the results handles Ctrl-C.
    with get_context("spawn").Pool(processes, _begin) as pool:
        yield from _until_broken(pool.imap(run, batches))


def _begin() -> None:
    """Prepare a process that only runs schedules."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(GARBAGE_MAX)


def _until_broken(batches: Iterator[Batch]) -> Iterator[Batch]:
    for batch in batches:
        yield batch
        if batch.broken:
            return


def record(path: Path, seeds: range, counts: Counter[str], seconds: float, broken: Broken | None) -> None:
    """Add a run to a page; create the page if it does not exist."""
    day = datetime.now(UTC).date()
    code = f"{_commit()} ({code_digest()})"
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items()))
    found = f"seed {broken.seed}: {broken.problem}" if broken else "none"
    cells = (day, code, f"{seeds.start:,} to {seeds.stop - 1:,}", kinds, f"{seconds:,.0f}", found)
    row = f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
    before = runs_in(path.read_text(encoding="utf-8")) if path.exists() else []
    path.write_text(page_of([*before, row]), encoding="utf-8")


def runs_in(page: str) -> list[str]:
    """Return the rows of a page that are runs."""
    return [line for line in page.splitlines() if _RUN.fullmatch(line)]


def page_of(runs: Sequence[str]) -> str:
    """Return the page of some runs, in the order in which they were made."""
    found = [run for run in map(_RUN.fullmatch, runs) if run is not None]
    of_code: dict[str, list[re.Match[str]]] = {}
    for run in found:
        of_code.setdefault(run["code"], []).append(run)
    totals = []
    for code, same in of_code.items():
        count = sum(_number(run["last"]) - _number(run["first"]) + 1 for run in same)
        if count >= MANY_SCHEDULES or code == found[-1]["code"]:
            days = " to ".join(dict.fromkeys([same[0]["day"], same[-1]["day"]]))
            totals.append(f"| {code} | {days} | {count:,} | {sum(run['found'] != 'none' for run in same) or 'none'} |")
    return "\n".join([HEADING.rstrip("\n"), *totals, RUNS.rstrip("\n"), *runs, ""])


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _commit() -> str:
    """Return the commit of the code that ran, with a mark if files were changed since."""
    command = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


@cache
def code_digest() -> str:
    """Return a digest of the code that schedules run, in 10 hex digits; comments and docstrings do not change it."""
    root = Path(treering.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for name in SIMULATED for path in root.glob(f"{name}/**/*.py" if name else "*.py")):
        digest.update(f"{path.relative_to(root)}\n{bare(path.read_text(encoding='utf-8'))}\n".encode())
    return digest.hexdigest()[:10]


def bare(source: str) -> str:
    """Return a dump of a module's syntax tree without strings that are statements, which are its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, [each for each in value if not _stands_alone(each)])
    return ast.dump(tree)


def _stands_alone(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
