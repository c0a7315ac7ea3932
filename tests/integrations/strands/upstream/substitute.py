"""A pytest plugin for Strands' own tests: they get our classes under the names of theirs.

It runs in a process of its own, where `tests` is Strands' folder. So it imports nothing of our tests.

A test that cannot pass, because it looks at the layout or the insides of Strands' own class, is in the table given by
`--treering-skipped`. It runs all the same, and must fail: the table names none too many.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import s3fs
from strands.session import RepositorySessionManager
from strands.storage.storage import _EPHEMERAL

import treering
from treering.integrations.strands.repository import TreeringSessionRepository
from treering.integrations.strands.storage import TreeringStorage


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


class InMemoryStorage(TreeringStorage):
    """Ours in place of the one in memory: a store that nobody else has, and that is said not to last."""

    _ephemeral = _EPHEMERAL

    def __init__(self, *, search_strategy: Any = None) -> None:
        super().__init__(GROUND.store(), search_strategy=search_strategy)


class LocalFileStorage(TreeringStorage):
    """Ours in place of the one in files: the store is named by the folder."""

    def __init__(self, base_dir: str = "./.strands/", *, search_strategy: Any = None) -> None:
        super().__init__(GROUND.store(str(Path(base_dir).resolve())), search_strategy=search_strategy)


class S3Storage(TreeringStorage):
    """Ours in place of the one on S3: the store is named by bucket and prefix."""

    def __init__(self, bucket: str, *, prefix: str = "", search_strategy: Any = None, **_: Any) -> None:
        super().__init__(GROUND.store(f"{bucket}/{prefix.strip('/')}"), search_strategy=search_strategy)


class MockedSessionRepository(TreeringSessionRepository):
    """Ours in place of the repository in dicts that Strands tests its manager with."""

    def __init__(self) -> None:
        super().__init__(GROUND.store())


class FileSessionManager(RepositorySessionManager, TreeringSessionRepository):
    """Ours in place of manager and repository in files."""

    def __init__(self, session_id: str, storage_dir: str | None = None, **_: Any) -> None:
        TreeringSessionRepository.__init__(self, GROUND.store(storage_dir or "default"))
        RepositorySessionManager.__init__(self, session_id=session_id, session_repository=self)


class S3SessionManager(RepositorySessionManager, TreeringSessionRepository):
    """Ours in place of manager and repository on S3."""

    def __init__(self, session_id: str, bucket: str, prefix: str = "", **_: Any) -> None:
        TreeringSessionRepository.__init__(self, GROUND.store(f"{bucket}/{prefix}"))
        RepositorySessionManager.__init__(self, session_id=session_id, session_repository=self)


OURS = {
    "strands.storage.in_memory_storage": InMemoryStorage,
    "strands.storage.local_file_storage": LocalFileStorage,
    "strands.storage.s3_storage": S3Storage,
    "strands.session.file_session_manager": FileSessionManager,
    "strands.session.s3_session_manager": S3SessionManager,
    "tests.fixtures.mock_session_repository": MockedSessionRepository,
}
# These start a simulated AWS in the process, which ours do without.
FIXTURES = {"s3_bucket": "a-bucket", "mocked_aws": None}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where stores are, what cannot pass, and where to say what happened."""
    parser.addoption("--treering-s3", help="JSON: what s3fs needs, and a bucket; else stores are on disk")
    parser.addoption("--treering-skipped", required=True, help="JSON: reasons by test")
    parser.addoption("--treering-report", required=True, help="file to write results to")


def pytest_configure(config: pytest.Config) -> None:
    """Put our classes in place of theirs, wherever Strands has them."""
    if given := config.getoption("--treering-s3"):
        GROUND.s3 = json.loads(given)
        GROUND.bucket = GROUND.s3.pop("bucket")
    for name, ours in OURS.items():
        theirs = getattr(importlib.import_module(name), ours.__name__)
        for module in [*sys.modules.values()]:
            if getattr(module, ours.__name__, None) is theirs:
                setattr(module, ours.__name__, ours)
    config.pluginmanager.register(_Results(config), "treering-results")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Any:
    """Give fixtures that would start a simulated AWS a value instead."""
    if fixturedef.argname not in FIXTURES:
        return None
    value = FIXTURES[fixturedef.argname]
    fixturedef.cached_result = (value, fixturedef.cache_key(request), None)  # type: ignore[arg-type]
    return value or ""


class _Results:
    """Marks what cannot pass, and writes down what happened."""

    def __init__(self, config: pytest.Config) -> None:
        self._skipped: dict[str, str] = json.loads(Path(config.getoption("--treering-skipped")).read_text())
        self._report = Path(config.getoption("--treering-report"))
        self._folder = Path(tempfile.mkdtemp())
        self._results: dict[str, dict[str, Any]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for name in (_name(item.nodeid), item.nodeid):
                if name in self._skipped:
                    item.add_marker(pytest.mark.xfail(reason=self._skipped[name], strict=True))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        GROUND.renew(self._folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed or (report.when == "setup" and report.skipped):
            outcome = "refused" if hasattr(report, "wasxfail") and report.skipped else report.outcome
            result = {"test": _name(report.nodeid), "outcome": outcome, "ours": GROUND.used}
            self._results[report.nodeid] = result

    def pytest_sessionfinish(self) -> None:
        self._report.write_text(json.dumps(self._results, indent=1))


def _name(nodeid: str) -> str:
    """A test without its parameters, and without the folder that all tests are in."""
    return nodeid.partition("[")[0].removeprefix("tests/strands/")
