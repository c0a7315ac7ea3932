"""LangGraph's own tests pass with our saver and our store in place of its own; so does the newest conformance suite.

How many tests of each file pass is in `docs/reference/langgraph-tests.md`, and a run must give the same counts. The
tests need LangGraph's repository in the folder that the environment variable TREERING_LANGGRAPH names, and what they
import in the folder `site` of it; without these they are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, table
from tests.servers import S3Server

import treering

PAGE = ROOT / "docs/reference/langgraph-tests.md"
RUN_SECONDS_MAX = 1200
LIBRARIES = ("langgraph", "checkpoint", "prebuilt", "checkpoint-sqlite", "checkpoint-postgres", "sdk-py")
"""Those of the repository that its tests import, as they are there."""

STORES = {
    "checkpoint": ["tests/test_store.py"],
    "checkpoint-sqlite": ["tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"],
    "checkpoint-postgres": ["tests/test_store.py", "tests/test_async_store.py"],
}
"""The tests of LangGraph's own stores, by library."""

pytestmark = [pytest.mark.slow, pytest.mark.whole]


@pytest.fixture(scope="module")
def sources() -> Path:
    """LangGraph's repository."""
    named = os.environ.get("TREERING_LANGGRAPH")
    if not named or not Path(named, "libs").is_dir():
        pytest.skip("no sources of LangGraph: set TREERING_LANGGRAPH to a clone of its repository")
    return Path(named).resolve()


def run(command: list[str], where: Path, paths: list[Path], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with some folders in front of what is installed."""
    ours = Path(treering.__file__).parents[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": os.pathsep.join(map(str, [*paths, ours])), **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *command]
    return subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False
    )


@pytest.mark.parametrize("strict", ["false", "true"])
def test_their_own_tests_pass(sources: Path, tmp_path: Path, strict: str) -> None:
    """Every test that takes a saver or a store passes with one of ours: in memory, on disk, encrypted, awaited."""
    passed = run_theirs(sources, tmp_path, "langgraph", "substitute", ["tests"], LANGGRAPH_STRICT_MSGPACK=strict)
    if strict == "false":
        assert passed == {suite: count for suite, count, _ in table(PAGE, "Suite")}


@pytest.mark.s3
@pytest.mark.xdist_group("seaweedfs")
def test_they_pass_on_s3(sources: Path, tmp_path: Path, seaweedfs: S3Server) -> None:
    """Every test that takes a saver in memory passes with one on a real S3 server, each with a store of its own."""
    bucket = json.dumps({**seaweedfs.storage_options, "bucket": seaweedfs.bucket})
    passed = run_theirs(sources, tmp_path, "langgraph", "substitute", [f"--treering-s3={bucket}", "tests"])
    assert passed == {suite: count for suite, _, count in table(PAGE, "Suite")}


@pytest.mark.parametrize("library", STORES)
def test_the_tests_of_their_stores_pass(sources: Path, tmp_path: Path, library: str) -> None:
    """With ours in place of those in memory, in SQLite and in Postgres, blocking and awaited."""
    passed = run_theirs(sources, tmp_path, library, "substitute_stores", ["-o", "anyio_mode=auto", *STORES[library]])
    recorded = {name: count for name, count in table(PAGE, "Stores") if name.startswith(f"`{library}/")}
    assert {f"`{library}/{name.strip('`')}`": count for name, count in passed.items()} == recorded


def run_theirs(
    sources: Path, folder: Path, library: str, plugin: str, tests: list[str], **variables: str
) -> dict[str, str]:
    """Run tests of a library; return how many passed in each file. All have to, with savers and stores of ours."""
    if not (sources / "site").is_dir():
        pytest.skip("LangGraph's tests import more: see docs/reference/langgraph-tests.md")
    report = folder / "report.json"
    libraries = [sources / "libs" / name for name in LIBRARIES]
    plugins = ("anyio.pytest_plugin", "pytest_mock", "syrupy", "pytest_repeat", plugin)
    options = ["-c", os.devnull, "--rootdir", ".", f"--treering-report={report}", f"--basetemp={folder / 'their'}"]
    done = run(
        [*options, *(word for each in plugins for word in ("-p", each)), *tests],
        sources / "libs" / library,
        [Path(__file__).parent, *libraries, sources / "site"],
        NO_DOCKER="true",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        **variables,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(report.read_text())
    wrong = [name for name, outcome in found["results"].items() if outcome == "failed"]
    assert not wrong, f"{wrong}\n{done.stdout[-6000:]}"
    passed = Counter(name.partition("::")[0] for name, outcome in found["results"].items() if outcome == "passed")
    assert 2 * found["made"] >= sum(passed.values())  # a few tests need none
    return {f"`{name}`": str(count) for name, count in passed.items()}


def test_the_newest_conformance_suite_passes(sources: Path) -> None:
    """The suite of the repository, which has more capabilities than the published one."""
    suite = sources / "libs/checkpoint-conformance"
    done = run(["tests/integrations/langgraph/test_conformance.py", "-m", "not s3"], ROOT, [suite])
    assert done.returncode == 0, done.stdout[-3000:]
