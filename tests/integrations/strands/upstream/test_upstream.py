"""Strands' own tests of its repositories, storages and snapshots pass with our classes in place of its own.

Which they are, how many pass and which cannot is in `docs/reference/strands-tests.md`; this holds the page to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.docs.pages import ROOT, table
from tests.integrations.strands.upstream import sdist
from tests.servers import S3Server

import treering

PAGE = ROOT / "docs/reference/strands-tests.md"
PASSED_MIN = 200
RUN_SECONDS_MAX = 500
ELSEWHERE = "not run"


class Suite(NamedTuple):
    """A row of the first table of the page."""

    path: str
    disk: int
    s3: int | None
    """None: not run there."""


def suites() -> list[Suite]:
    """What is run, and how many tests of it pass that use a store of ours."""
    rows = table(PAGE, "Suite")
    return [Suite(path.strip("`"), int(disk), None if s3 == ELSEWHERE else int(s3)) for path, _, disk, s3 in rows]


def skipped() -> dict[str, str]:
    """Why a test cannot pass, by its name."""
    return {name.strip("`"): reason for name, reason in table(PAGE, "Test")}


@pytest.fixture
def sources(request: pytest.FixtureRequest) -> Path:
    """Strands' sources, with its tests."""
    cache: Any = request.config.cache
    return sdist.unpacked(cache.mkdir("strands-sdist"))


def run(sources: Path, paths: list[str], folder: Path, s3: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Run some of Strands' tests in a process of its own; results by test."""
    reasons, report = folder / "skipped.json", folder / "report.json"
    reasons.write_text(json.dumps(skipped()))
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(sources)]
    command += ["-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider", "-p", "substitute"]
    command += ["-o", "asyncio_default_fixture_loop_scope=function", f"--basetemp={folder / 'their'}"]
    command += [f"--treering-skipped={reasons}", f"--treering-report={report}"]
    command += [f"--treering-s3={json.dumps(s3)}"] if s3 else []
    command += [f"--ignore={sources}/tests/strands/{name}" for name in skipped() if "::" not in name]
    here, ours = Path(__file__).parent, Path(treering.__file__).parents[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "AWS_"))}
    environment |= {"PYTHONPATH": f"{here}{os.pathsep}{ours}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= {"HOME": str(folder), "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    done = subprocess.run(
        [*command, *(f"tests/strands/{path}" for path in paths)],
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


def passed(results: dict[str, dict[str, Any]], paths: list[str]) -> Counter[str]:
    """How many tests passed that made a store of ours, by suite."""
    names = [result["test"] for result in results.values() if result["ours"] and result["outcome"] == "passed"]
    return Counter(path for name in names for path in paths if name.startswith(path))


def check_table(results: dict[str, dict[str, Any]], paths: list[str]) -> None:
    """What did not pass is in the table, and what is in the table did not pass."""
    refused = {result["test"] for result in results.values() if result["outcome"] == "refused"}
    assert refused == {name for name in skipped() if "::" in name and name.startswith(tuple(paths))}


def test_on_disk(sources: Path, tmp_path: Path) -> None:
    """On a local disk all pass but those in the table, as many as the page says, and at least 200."""
    wanted = suites()
    paths = [suite.path for suite in wanted]
    results = run(sources, paths, tmp_path, None)
    check_table(results, paths)
    counts = passed(results, paths)
    assert counts.total() >= PASSED_MIN
    assert counts == {suite.path: suite.disk for suite in wanted}


@pytest.mark.whole
@pytest.mark.s3
@pytest.mark.xdist_group("seaweedfs")
def test_on_s3(sources: Path, tmp_path: Path, seaweedfs: S3Server) -> None:
    """So they do on a real S3 server, where the page says that they are run."""
    wanted = [suite for suite in suites() if suite.s3 is not None]
    paths = [suite.path for suite in wanted]
    results = run(sources, paths, tmp_path, seaweedfs.storage_options | {"bucket": seaweedfs.bucket})
    check_table(results, paths)
    assert passed(results, paths) == {suite.path: suite.s3 for suite in wanted}


def test_the_page_is_about_the_installed_version() -> None:
    """Another version of Strands has other tests: the page is to be looked at when it comes."""
    assert f"strands-agents {sdist.installed()}" in PAGE.read_text()
