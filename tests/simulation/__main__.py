"""Run random schedules against the real journal.

    python -m tests.simulation 20000         run 20,000 schedules
    python -m tests.simulation --seed 4711   run one and print every request
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.schedule import run_schedule


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("schedules", type=int, nargs="?", default=3000)
    parser.add_argument("--seed", type=int, help="run this one, and tell every step")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args()
    if options.seed is not None:
        problems = run_schedule(options.seed, print)
        print("\n".join(problems) or "no promise broken")
        return bool(problems)
    began = time.perf_counter()
    for seed in range(options.first, options.first + options.schedules):
        if problems := run_schedule(seed):
            print(f"schedule {seed}: {problems[0]}\nsee every step: python -m tests.simulation --seed {seed}")
            return 1
    seconds = time.perf_counter() - began
    print(f"{options.schedules} schedules, no promise broken, {options.schedules / seconds:.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
