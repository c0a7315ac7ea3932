"""What a package index shows of this package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    """What the build backend writes into a distribution."""
    command = [sys.executable, "-m", "hatchling", "metadata"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_no_link_of_its_page_leads_into_a_repository_that_is_not_there(metadata: dict[str, Any]) -> None:
    """Links are to public addresses or to headings of the page itself; everything else became text, word for word."""
    shown = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)]*)\)", shown)
    assert [link for link in links if not re.match(r"https?:|#", link)] == []
    plain = re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", (ROOT / "README.md").read_text())
    assert shown.split() == re.sub(r"\[([^\]]*)\]\((?!https?:|#)[^)]*\)", r"\1", plain).split()
    assert "](docs/" in (ROOT / "README.md").read_text()


def test_it_names_no_address_that_does_not_exist(metadata: dict[str, Any]) -> None:
    """There is no public one yet."""
    assert "urls" not in metadata


def test_classifiers_name_the_oldest_python(metadata: dict[str, Any]) -> None:
    """The oldest minor version that is classified is the one that is required."""
    found = re.findall(r":: 3\.(\d+)", "\n".join(metadata["classifiers"]))
    assert metadata["requires-python"] == f">=3.{min(map(int, found))}"
    assert metadata["classifiers"] == sorted(metadata["classifiers"])
