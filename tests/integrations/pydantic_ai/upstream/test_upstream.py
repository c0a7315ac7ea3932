"""The own tests of Pydantic AI's harness pass with our classes in place of its own.

Which they are, how many pass and which cannot is in `docs/reference/pydantic-ai-tests.md`; this holds the page to it.
They need the harness's repository in the folder that the environment variable TREERING_PYDANTIC_AI_HARNESS names, and
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

PAGE = ROOT / "docs/reference/pydantic-ai-tests.md"
OPTIONS = ("-p", "anyio.pytest_plugin")
HARNESS = Framework(PAGE, Path(__file__).parent, "tests/", OPTIONS)

pytestmark = [pytest.mark.slow, pytest.mark.whole]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Its tests of stores alone: beside its sources they would import these, and not what is installed."""
    named = os.environ.get("TREERING_PYDANTIC_AI_HARNESS", "")
    tests = Path(named, "tests")
    if not named or not tests.is_dir():
        pytest.skip(
            "no sources of Pydantic AI's harness: set TREERING_PYDANTIC_AI_HARNESS to a clone of its repository"
        )
    for folder in ("step_persistence", "media"):
        shutil.copytree(tests / folder, tmp_path / "theirs/tests" / folder)
    return tmp_path / "theirs"


def test_on_disk(sources: Path, tmp_path: Path) -> None:
    """On a local disk all pass but those in the table, as many as the page says."""
    HARNESS.hold(sources, tmp_path)


@pytest.mark.s3
def test_on_s3(sources: Path, tmp_path: Path, seaweedfs: S3Server) -> None:
    """So they do on a real S3 server."""
    HARNESS.hold(sources, tmp_path, seaweedfs)
