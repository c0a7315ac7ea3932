"""What every test may rely on: markers, the folder of shared test data, and how hypothesis searches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.faultlog", "tests.sampling", "tests.in_memory", "tests.workers"]
pytest.register_assert_rewrite("treering.testing.conformance")  # before any test imports it

MARKERS = {
    "s3": "talks to an S3 server that a fixture starts (moto or SeaweedFS)",
    "slow": "takes more than a few seconds; `-m 'not slow'` leaves it out while editing",
    "tools": "runs programs that do not come with Python (zstd, jq, strace)",
}

# Speed is for benchmarks: on a busy machine a deadline fails tests that are right.
settings.register_profile(
    "explore",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if os.environ.get("TREERING_WHOLE") else 40,
)
# The same examples on every run, so that a build tells about the change and not about its luck.
settings.register_profile("ci", settings.get_profile("explore"), derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the golden test run over another folder."""
    parser.addoption("--golden", metavar="DIR", help="golden folder of session files  [default: golden in shared data]")


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers known; any other name is an error."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def find_shared() -> Path | None:
    """Return the folder of shared test data, or None if this machine has none.

    It is named by the environment variable TREERING_SHARED, or lies beside the repository.
    """
    named = os.environ.get("TREERING_SHARED")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared test data; a test that needs it is skipped where it is missing."""
    folder = find_shared()
    if folder is None:
        pytest.skip("no shared test data: set TREERING_SHARED to its folder")
    return folder
