"""Strands' own tests of its repositories, storages and snapshots pass with our classes in place of its own.

Which they are, how many pass and which cannot is in `docs/reference/strands-tests.md`; this holds the page to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT
from tests.integrations.strands.upstream import sdist
from tests.integrations.suites import Framework
from tests.servers import S3Server

STRANDS = Framework(ROOT / "docs/reference/strands-tests.md", Path(__file__).parent, "tests/strands/")
PASSED_MIN = 200


@pytest.fixture
def sources(request: pytest.FixtureRequest) -> Path:
    """Strands' sources, with its tests."""
    cache: Any = request.config.cache
    return sdist.unpacked(cache.mkdir("strands-sdist"))


@pytest.mark.slow
def test_on_disk(sources: Path, tmp_path: Path) -> None:
    """On a local disk all pass but those in the table, as many as the page says, and at least 200."""
    assert STRANDS.hold(sources, tmp_path) >= PASSED_MIN


@pytest.mark.whole
@pytest.mark.s3
def test_on_s3(sources: Path, tmp_path: Path, seaweedfs: S3Server) -> None:
    """So they do on a real S3 server, where the page says that they are run."""
    STRANDS.hold(sources, tmp_path, seaweedfs)


def test_the_page_is_about_the_installed_version() -> None:
    """Another version of Strands has other tests: the page is to be looked at when it comes."""
    assert f"strands-agents {sdist.installed()}" in STRANDS.page.read_text()
