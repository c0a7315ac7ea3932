"""ADK's own tests pass with our services in place of those in memory.

Which they are, how many pass and which cannot is in `docs/reference/adk-tests.md`; this holds the page to it. A package
index has none of them: `TREERING_ADK` names a folder with the sources that the page names.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.docs.pages import ROOT
from tests.integrations.suites import Framework
from tests.servers import S3Server

PAGE = ROOT / "docs/reference/adk-tests.md"
ADK = Framework(PAGE, Path(__file__).parent, "tests/unittests/", ("-o", "asyncio_mode=auto"))


@pytest.fixture
def sources() -> Path:
    """ADK's sources, with its tests."""
    folder = os.environ.get("TREERING_ADK")
    if not folder:
        pytest.skip("TREERING_ADK names no folder with the sources of ADK that docs/reference/adk-tests.md names")
    return Path(folder)


def test_on_disk(sources: Path, tmp_path: Path) -> None:
    """On a local disk all pass but those in the table, as many as the page says."""
    ADK.hold(sources, tmp_path)


@pytest.mark.s3
def test_on_s3(sources: Path, tmp_path: Path, seaweedfs: S3Server) -> None:
    """So they do on a real S3 server, where the page says that they are run."""
    ADK.hold(sources, tmp_path, seaweedfs)
