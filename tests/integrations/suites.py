"""Frameworks' own tests, run with classes of ours, and the pages that say how many of them pass.

A page has two tables: the suites that are run, with the numbers of tests that pass, and the tests that cannot pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.docs.pages import table
from tests.servers import S3Server

import treering

RUN_SECONDS_MAX = 500
ELSEWHERE = "not run"
STAND_INS = Path(__file__).parent / "stand_ins"


class Suite(NamedTuple):
    """A row of the first table of a page."""

    path: str
    disk: int
    s3: int | None
    """None: not run there."""


class Framework(NamedTuple):
    """Whose tests they are."""

    page: Path
    plugin: Path
    """The folder of `substitute.py`, which puts our classes in place."""
    folder: str
    """In which all tests are, in the sources."""
    options: Sequence[str] = ()
    """Of pytest."""

    def suites(self) -> list[Suite]:
        """What is run, and how many tests of it pass that use a store of ours."""
        rows = table(self.page, "Suite")
        return [Suite(path.strip("`"), int(disk), None if s3 == ELSEWHERE else int(s3)) for path, _, disk, s3 in rows]

    def skipped(self) -> dict[str, str]:
        """Why a test cannot pass, by its name."""
        return {name.strip("`"): reason for name, reason in table(self.page, "Test")}

    def run(
        self, sources: Path, paths: list[str], folder: Path, s3: dict[str, Any] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Run some of the tests in a process of its own; results by test."""
        reasons, report = folder / "skipped.json", folder / "report.json"
        reasons.write_text(json.dumps(self.skipped()))
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(sources)]
        command += ["-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider", "-p", "stand_ins", "-p", "substitute"]
        command += ["--assert=plain", "--tb=native"]  # taking their sources apart takes a third of the time
        command += ["-o", "asyncio_default_fixture_loop_scope=function", f"--basetemp={folder / 'their'}"]
        command += [f"--treering-skipped={reasons}", f"--treering-report={report}"]
        command += [f"--treering-folder={self.folder}", *self.options]
        command += [f"--treering-s3={json.dumps(s3)}"] if s3 else []
        command += [f"--ignore={sources}/{self.folder}{name}" for name in self.skipped() if "::" not in name]
        paths_of_python = map(str, (self.plugin, STAND_INS, Path(treering.__file__).parents[1]))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AWS_"))}
        environment |= {"PYTHONPATH": os.pathsep.join(paths_of_python), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment |= {"HOME": str(folder), "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
        done = subprocess.run(
            [*command, *(f"{self.folder}{path}" for path in paths)],
            cwd=sources,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
        results: dict[str, dict[str, Any]] = json.loads(report.read_text())
        wrong = [name for name, result in results.items() if result["outcome"] not in ("passed", "refused")]
        assert not wrong, f"{wrong}\n{done.stdout[-6000:]}"
        return results

    def hold(self, sources: Path, folder: Path, server: S3Server | None = None) -> int:
        """Hold the page to a run, on a local disk or on this server; return how many tests of ours passed.

        What did not pass is in the second table, and what is there did not pass.
        """
        on = {suite.path: suite.disk if server is None else suite.s3 for suite in self.suites()}
        wanted = {path: count for path, count in on.items() if count is not None}
        s3 = server and server.storage_options | {"bucket": server.bucket}
        results = self.run(sources, list(wanted), folder, s3).values()
        refused = {result["test"] for result in results if result["outcome"] == "refused"}
        assert refused == {name for name in self.skipped() if "::" in name and name.startswith(tuple(wanted))}
        names = [result["test"] for result in results if result["ours"] and result["outcome"] == "passed"]
        assert Counter(path for name in names for path in wanted if name.startswith(path)) == wanted
        return len(names)
