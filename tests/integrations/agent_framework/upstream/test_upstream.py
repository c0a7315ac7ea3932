"""The own tests of Microsoft Agent Framework pass with our classes in place of its own.

Which they are, how many pass and which cannot is in `docs/reference/agent-framework-tests.md`; this holds the page to
it. They need the framework's repository in the folder that the environment variable TREERING_AGENT_FRAMEWORK names, and
are skipped without it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.docs.pages import ROOT
from tests.integrations.suites import Framework
from tests.servers import S3Server

PAGE = ROOT / "docs/reference/agent-framework-tests.md"
OPTIONS = ("-o", "asyncio_mode=auto")
AGENT_FRAMEWORK = Framework(PAGE, Path(__file__).parent, "tests/", OPTIONS)

pytestmark = [pytest.mark.slow, pytest.mark.whole]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The framework's tests alone: beside its sources they would import these, and not what is installed."""
    named = os.environ.get("TREERING_AGENT_FRAMEWORK", "")
    tests = Path(named, "python/packages/core/tests")
    if not named or not tests.is_dir():
        pytest.skip(
            "no sources of Microsoft Agent Framework: set TREERING_AGENT_FRAMEWORK to a clone of its repository"
        )
    shutil.copytree(tests, tmp_path / "theirs/tests")
    return tmp_path / "theirs"


def test_on_disk(sources: Path, tmp_path: Path) -> None:
    """On a local disk all pass but those in the table, as many as the page says."""
    AGENT_FRAMEWORK.hold(sources, tmp_path)


@pytest.mark.s3
def test_on_s3(sources: Path, tmp_path: Path, seaweedfs: S3Server) -> None:
    """So they do on a real S3 server."""
    AGENT_FRAMEWORK.hold(sources, tmp_path, seaweedfs)
