"""The part of a pytest plugin that runs a framework's own tests on stores of ours; `substitute` is the other one.

Both run in a process of their own, where `tests` is the framework's folder. So they import nothing of our tests.

A test that cannot pass, because it looks at the layout or the insides of the framework's own class, is in the table
given by `--treering-skipped`. It runs all the same, and must fail: the table names none too many.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import s3fs

import treering


class Ground:
    """Where the stores of the running test are, and whether it made one."""

    s3: dict[str, Any] | None = None
    """What s3fs needs; None: a local disk."""
    bucket = ""
    root = ""
    """Renewed for every test, so that none finds what another left."""
    used = False
    _count = 0
    _filesystem: Any = None

    def renew(self, folder: Path) -> None:
        """Begin a test."""
        self.root = tempfile.mkdtemp(dir=folder)
        self.used = False

    def store(self, name: str | None = None) -> treering.Store:
        """A store of the test: one of that name, or a new one."""
        self.used = True
        self._count += 1
        part = f"new-{self._count}" if name is None else hashlib.sha256(name.encode()).hexdigest()[:16]
        if self.s3 is None:
            return treering.open(f"{self.root}/{part}")
        if self._filesystem is None:
            self._filesystem = s3fs.S3FileSystem(**self.s3, use_listings_cache=False, skip_instance_cache=True)
        return treering.open(self._filesystem, path=f"{self.bucket}/{Path(self.root).name}/{part}")


GROUND = Ground()


def put_in_place(ours: Mapping[str, type], *, spare: str = "") -> None:
    """Put our classes in place of those of the same names, wherever they were imported.

    Args:
        ours: By the module that has theirs.
        spare: A module that keeps theirs.
    """
    if spare:
        importlib.import_module(spare)
    for name, own in ours.items():
        theirs = getattr(importlib.import_module(name), own.__name__)
        for module in [*sys.modules.values()]:
            if getattr(module, own.__name__, None) is theirs and module.__name__ != spare:
                setattr(module, own.__name__, own)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where stores are, what cannot pass, and where to say what happened."""
    parser.addoption("--treering-s3", help="JSON: what s3fs needs, and a bucket; else stores are on disk")
    parser.addoption("--treering-folder", required=True, help="the folder that all tests are in")
    parser.addoption("--treering-skipped", required=True, help="JSON: reasons by test")
    parser.addoption("--treering-report", required=True, help="file to write results to")


def pytest_configure(config: pytest.Config) -> None:
    """Say where stores are."""
    if given := config.getoption("--treering-s3"):
        GROUND.s3 = json.loads(given)
        GROUND.bucket = GROUND.s3.pop("bucket")
    config.pluginmanager.register(_Results(config), "treering-results")


class _Results:
    """Marks what cannot pass, and writes down what happened."""

    def __init__(self, config: pytest.Config) -> None:
        self._skipped: dict[str, str] = json.loads(Path(config.getoption("--treering-skipped")).read_text())
        self._report = Path(config.getoption("--treering-report"))
        self._tests: str = config.getoption("--treering-folder")
        self._folder = Path(tempfile.mkdtemp(dir=self._report.parent))
        self._results: dict[str, dict[str, Any]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for name in (self._name(item.nodeid), item.nodeid.removeprefix(self._tests)):
                if name in self._skipped:
                    item.add_marker(pytest.mark.xfail(reason=self._skipped[name], strict=True))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        GROUND.renew(self._folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed or (report.when == "setup" and report.skipped):
            outcome = "refused" if hasattr(report, "wasxfail") and report.skipped else report.outcome
            result = {"test": self._name(report.nodeid), "outcome": outcome, "ours": GROUND.used}
            self._results[report.nodeid] = result

    def pytest_sessionfinish(self) -> None:
        self._report.write_text(json.dumps(self._results, indent=1))

    def _name(self, nodeid: str) -> str:
        """A test without its parameters, and without the folder that all tests are in."""
        return nodeid.partition("[")[0].removeprefix(self._tests)
