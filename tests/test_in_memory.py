"""Where the folders of tests are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import in_memory

NAME = "PYTEST_DEBUG_TEMPROOT"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file system in memory with room, and nobody who chose another one."""
    monkeypatch.setenv(NAME, "")  # so that it is put back in any case
    monkeypatch.delenv(NAME)
    monkeypatch.setattr(in_memory, "IN_MEMORY", tmp_path)
    monkeypatch.setattr(in_memory, "FREE_BYTES_MIN", 1)
    monkeypatch.setattr(in_memory, "WHOLE", False)
    return tmp_path


def test_folders_are_in_memory(root: Path) -> None:
    """Where the system has that."""
    in_memory.pytest_configure()
    assert os.environ[NAME] == str(root)


def test_a_place_that_was_chosen_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that anybody can run them on a certain disk."""
    monkeypatch.setenv(NAME, "elsewhere")
    in_memory.pytest_configure()
    assert os.environ[NAME] == "elsewhere"


@pytest.mark.parametrize(
    ("name", "value"), [("WHOLE", True), ("FREE_BYTES_MIN", 1 << 62), ("IN_MEMORY", Path("/not/there"))]
)
def test_else_they_are_on_the_disk(root: Path, name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `make whole`, where there is little room, and where the system keeps nothing in memory."""
    monkeypatch.setattr(in_memory, name, value)
    in_memory.pytest_configure()
    assert NAME not in os.environ
