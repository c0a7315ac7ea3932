"""Run random schedules against the real journal: `python -m tests.simulation 20000`.

To run one schedule and print every request: `python -m tests.simulation --kind disk --seed 4711`. The number of
processes changes only how long a run takes. Ctrl-C ends a run early. A schedule that breaks a promise is shortened
before it is printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import treering
from tests.simulation.runs import Broken, record, run_batches
from tests.simulation.schedule import KINDS, run_schedule
from tests.simulation.shrink import shrink

PROGRESS_SECONDS = 10
INTERRUPTED = 130  # the exit code that shells use


def say(text: str) -> None:
    """Print a line without delay, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the schedules that the arguments name; return the exit code."""
    options = _options()
    kinds = options.kind or list(KINDS)
    if options.seed is None:
        return run(options, kinds)
    if options.shrink:
        return tell_shrunk(options.seed, kinds[0])
    problems = run_schedule(options.seed, kinds[0], say)
    say("\n".join(problems) or "no promise broken")
    return bool(problems)


def run(options: argparse.Namespace, kinds: list[str]) -> int:
    """Run many schedules, and print the first one that breaks a promise."""
    seeds = range(options.first, options.first + options.schedules)
    counts: Counter[str] = Counter()
    broken: Broken | None = None
    began = told = time.perf_counter()
    with suppress(KeyboardInterrupt):  # the schedules that ran until then count
        for batch in run_batches(seeds, kinds, options.processes):
            counts, broken, now = counts + batch.counts, batch.broken, time.perf_counter()
            if now - told > PROGRESS_SECONDS:
                told = now
                rate = counts.total() / (now - began)
                sys.stderr.write(f"{counts.total():,} of {len(seeds):,}, {rate:.0f} a second\n")
    seconds = time.perf_counter() - began
    if options.record and counts:
        record(options.record, seeds[: counts.total()], counts, seconds, broken)
    if broken is None:
        say(f"{counts.total():,} schedules, no promise broken, {counts.total() / seconds:.0f} a second")
        return 0 if counts.total() == len(seeds) else INTERRUPTED
    say(f"schedule {broken.seed}: {broken.problem}")
    say(f"see every step: python -m tests.simulation --kind {broken.kind} --seed {broken.seed}")
    if options.shrink:
        tell_shrunk(broken.seed, broken.kind)
    return 1


def tell_shrunk(seed: int, kind: str) -> int:
    """Shorten a schedule, and print every step that is left."""
    whole, short = shrink(seed, kind)
    if short.problems:
        say(f"shrunk from {len(whole.steps)} steps to {len(short.steps)}, which break the same promise:")
    say("\n".join([*short.steps, *(short.problems or ["no promise broken"])]))
    return bool(short.problems)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("schedules", type=int, nargs="?", default=3000)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only schedules of this kind")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--seed", type=int, help="run this one, and tell every step; needs a kind")
    parser.add_argument("--shrink", action=argparse.BooleanOptionalAction, help="make what is broken shorter")
    parser.add_argument("--record", type=Path, help="add what became of it to this page")
    parser.add_argument("--package", type=Path, help="make sure that the package is the one in this folder")
    options = parser.parse_args()
    if options.package and options.package not in Path(treering.__file__).parents:
        parser.error(f"this is another package: {treering.__file__}")
    if options.shrink is None:
        options.shrink = options.seed is None
    return options


if __name__ == "__main__":
    sys.exit(main())
