"""Measure, print, and write what was measured to `benchmarks/results/`; `python -m benchmarks --help` says how."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from types import ModuleType

from benchmarks import append, report, resume, skeleton, storage
from benchmarks.measure import Table

BENCHMARKS: dict[str, ModuleType] = {"append": append, "resume": resume, "storage": storage, "skeleton": skeleton}
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run the benchmarks that are named, by default all."""
    options = _options()
    RESULTS.mkdir(exist_ok=True)
    results: dict[str, list[Table]] = {}
    for name in options.names or BENCHMARKS:
        # On the disk of the results: a system's folder for temporary files may lie in memory.
        with tempfile.TemporaryDirectory(dir=options.folder or RESULTS, prefix=f"{name}-") as folder:
            results[name] = BENCHMARKS[name].run(Path(folder), quick=options.quick)
        report.store(RESULTS / f"{name}.json", results[name])
        print(report.markdown(name, BENCHMARKS[name].__doc__ or "", results[name]))
    if options.readme:
        report.renew(Path(__file__).parent / "README.md", BENCHMARKS, results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what Treering costs here.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(BENCHMARKS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and shorter sessions")
    parser.add_argument("--folder", type=Path, help="where to write sessions, on the disk that is meant")
    parser.add_argument("--readme", action="store_true", help="renew the tables in benchmarks/README.md")
    options = parser.parse_args()
    if unknown := set(options.names) - BENCHMARKS.keys():
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    if options.readme and (options.names or options.quick):
        parser.error("--readme goes with a full run only")
    return options


if __name__ == "__main__":
    main()
