"""The own tests of the OpenAI Agents SDK pass with our session in place of those in SQLite.

Which they are, how many pass and which cannot is in `docs/reference/openai-tests.md`; this holds the page to it.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT
from tests.integrations import sdist
from tests.integrations.suites import Framework
from tests.servers import S3Server

PAGE = ROOT / "docs/reference/openai-tests.md"
OPENAI = Framework(PAGE, Path(__file__).parent, "tests/", ("-o", "asyncio_mode=auto"))
VERSION = importlib.metadata.version("openai-agents")


@pytest.fixture
def sources(request: pytest.FixtureRequest) -> Path:
    """The SDK's sources, with its tests."""
    cache: Any = request.config.cache
    return sdist.unpacked(cache.mkdir("openai-sdist"), "openai-agents", VERSION)


@pytest.mark.slow
def test_on_disk(sources: Path, tmp_path: Path) -> None:
    """On a local disk all pass but those in the table, as many as the page says."""
    OPENAI.hold(sources, tmp_path)


@pytest.mark.whole
@pytest.mark.s3
def test_on_s3(sources: Path, tmp_path: Path, seaweedfs: S3Server) -> None:
    """So they do on a real S3 server, where the page says that they are run."""
    OPENAI.hold(sources, tmp_path, seaweedfs)


def test_the_page_is_about_the_installed_version() -> None:
    """Another version of the SDK has other tests: the page is to be looked at when it comes."""
    assert f"openai-agents {VERSION}" in OPENAI.page.read_text()
