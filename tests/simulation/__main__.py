"""Run random schedules against the real journal.

    python -m tests.simulation 20000                    run 20,000 schedules
    python -m tests.simulation --kind disk --seed 4711   run one and print every request
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.schedule import KINDS, run_schedule


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("schedules", type=int, nargs="?", default=3000)
    parser.add_argument("--kind", choices=KINDS, action="append", help="only schedules of this kind")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="run this one, and tell every step; needs a kind")
    options = parser.parse_args()
    kinds = options.kind or list(KINDS)
    if options.seed is not None:
        problems = run_schedule(options.seed, kinds[0], print)
        print("\n".join(problems) or "no promise broken")
        return bool(problems)
    began = time.perf_counter()
    for seed in range(options.first, options.first + options.schedules):
        kind = kinds[seed % len(kinds)]
        if problems := run_schedule(seed, kind):
            print(f"schedule {seed}: {problems[0]}")
            print(f"see every step: python -m tests.simulation --kind {kind} --seed {seed}")
            return 1
    seconds = time.perf_counter() - began
    print(f"{options.schedules} schedules, no promise broken, {options.schedules / seconds:.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
