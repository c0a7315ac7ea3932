"""The oldest release of the SDK that is supported: tests of this folder, run with its sources from the package index.

Its wheel brings Claude Code along and has 160 MB; the sources have half a megabyte, and are all that is needed here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT
from tests.integrations import sdist

SUITES = ("test_contract.py", "test_lists.py", "test_sdk.py", "test_edits.py")
RUN_SECONDS_MAX = 600


def oldest() -> str:
    """The release that the extra names as the oldest one."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (found,) = re.findall(r"claude-agent-sdk>=([\d.]+)", " ".join(extras["claude"]))
    return str(found)


@pytest.fixture
def sources(request: pytest.FixtureRequest) -> Path:
    """What `import claude_agent_sdk` is to find."""
    cache: Any = request.config.cache
    return sdist.unpacked(cache.mkdir("claude-sdist"), "claude-agent-sdk", oldest()) / "src"


@pytest.mark.whole
@pytest.mark.tools
def test_the_oldest_release(sources: Path) -> None:
    """The SDK's suite, its mirror, resume, forks and lists work with the oldest release, too."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = f"{sources}{os.pathsep}{ROOT / 'src'}"
    asked = [sys.executable, "-c", "import claude_agent_sdk as sdk; print(sdk.__version__, sdk.__file__)"]
    found = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.startswith(f"{oldest()} {sources}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not s3 and not slow"]
    command += [str(Path(__file__).parent / suite) for suite in SUITES]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
