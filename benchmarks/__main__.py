"""Measure everybody at everything, and write what came out; `python -m benchmarks --help` says how."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks import machine, plots, report
from benchmarks.measure import Results
from benchmarks.stage import Stage
from benchmarks.tasks import FULL, QUICK, TASKS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"


def main() -> None:
    """Run the tasks that are named, by default all, and write what came out."""
    options = _options()
    folder = options.out or (RESULTS / "quick" if options.quick else RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.json"
    results = Results.load(file) if options.render else _measure(options, file)
    pictures = plots.draw(results, folder)
    (folder / "report.md").write_text(report.report(results) + "".join(f"\n![]({name})\n" for name in pictures))
    if folder == RESULTS and not options.names:
        for page, tables in report.PAGES.items():
            report.renew(ROOT / page, tables(results))
    print(report.goals(results))
    print(folder / "report.md")


def _measure(options: argparse.Namespace, file: Path) -> Results:
    """Run tasks, and write down what each gave as soon as it is done."""
    results, begun = Results(machine.about()), time.monotonic()
    if options.names and file.exists():  # measured again: the other tasks keep their figures
        results = Results.load(file).without(options.names)
    # On the disk of the results: a system's folder for temporary files may lie in memory.
    disk = tempfile.TemporaryDirectory(dir=options.disk or file.parent, prefix="stage-")
    with disk, Stage(Path(disk.name)) as stage:
        for name in options.names or TASKS:
            print(f"{time.monotonic() - begun:6.0f} s  {name}", flush=True)
            results.add(TASKS[name].run(stage, QUICK if options.quick else FULL, name))
            results.store(file)
    return results


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Treering beside others.")
    parser.add_argument("names", nargs="*", metavar="TASK", help=f"any of: {'; '.join(TASKS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, shorter sessions")
    parser.add_argument("--disk", type=Path, help="a folder on the disk to measure on; by default that of the results")
    parser.add_argument("--out", type=Path, help="where to write results")
    parser.add_argument("--render", action="store_true", help="measure nothing; write report and pages anew")
    options = parser.parse_args()
    if unknown := set(options.names) - TASKS.keys():
        parser.error(f"no such task: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    main()
