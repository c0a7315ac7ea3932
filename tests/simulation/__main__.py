"""Run random schedules against the real journal: `python -m tests.simulation 20000`.

One of them, every request told: `python -m tests.simulation --kind disk --seed 4711`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import treering
from tests.simulation.schedule import KINDS, run_schedule


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run what the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("schedules", type=int, nargs="?", default=3000)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only schedules of this kind")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="run this one, and tell every step; needs a kind")
    parser.add_argument("--package", type=Path, help="make sure that the package is the one in this folder")
    options = parser.parse_args()
    if options.package and options.package not in Path(treering.__file__).parents:
        parser.error(f"this is another package: {treering.__file__}")
    kinds = options.kind or list(KINDS)
    if options.seed is not None:
        problems = run_schedule(options.seed, kinds[0], say)
        say("\n".join(problems) or "no promise broken")
        return bool(problems)
    began = time.perf_counter()
    for seed in range(options.first, options.first + options.schedules):
        kind = kinds[seed % len(kinds)]
        if problems := run_schedule(seed, kind):
            say(f"schedule {seed}: {problems[0]}")
            say(f"see every step: python -m tests.simulation --kind {kind} --seed {seed}")
            return 1
    seconds = time.perf_counter() - began
    say(f"{options.schedules} schedules, no promise broken, {options.schedules / seconds:.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
