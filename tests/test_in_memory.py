"""Where the folders of tests are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import in_memory

ROOT = Path(__file__).parents[1]
TESTS = """
def test_it(tmp_path):
    print("in", tmp_path)
    assert {passes}
"""
# Importing the plugins of everything that is installed takes most of the time.
ALONE = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
in_memory_only = pytest.mark.skipif(not in_memory.has_room(), reason="no file system in memory")


def run(folder: Path, *options: str, passes: bool = True, whole: bool = False) -> Path:
    """Run a test in a pytest of its own; return where its folder was."""
    (folder / "test_it.py").write_text(TESTS.format(passes=passes))
    plugins = ["-p", "tests.sampling", "-p", "tests.in_memory", "-c", os.devnull]
    command = [sys.executable, "-m", "pytest", "-qs", "-o", "tmp_path_retention_policy=failed", *plugins, *options]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TREERING", "PYTEST"))}
    done = subprocess.run(
        [*command, "--rootdir", str(folder), str(folder)],
        env={**inherited, **ALONE} | ({"TREERING_WHOLE": "1"} if whole else {}),
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == (0 if passes else 1), done.stdout + done.stderr
    (place,) = (line.removeprefix("in ") for line in done.stdout.splitlines() if line.startswith("in "))
    return Path(place)


@in_memory_only
def test_folders_are_in_memory(tmp_path: Path) -> None:
    """Those of each process apart, and nothing stays of a run that passed."""
    place = run(tmp_path)
    assert str(place).startswith(f"/dev/shm/{in_memory.PREFIX}")
    assert not place.parent.exists()


@in_memory_only
def test_of_a_test_that_failed_the_folder_stays_until_the_next_run(tmp_path: Path) -> None:
    """So that it can be looked at."""
    place = run(tmp_path, passes=False)
    assert place.exists()
    run(tmp_path)
    assert not place.exists()


def test_a_place_that_was_chosen_stays(tmp_path: Path) -> None:
    """So that anybody can run them on a certain disk."""
    place = run(tmp_path, f"--basetemp={tmp_path / 'chosen'}")
    assert place.parent == tmp_path / "chosen"


def test_with_make_whole_they_are_on_the_disk(tmp_path: Path) -> None:
    """Where pytest has them."""
    assert run(tmp_path, whole=True).parent.parent.name.startswith("pytest-of-")


@pytest.mark.parametrize(("name", "value"), [("FREE_BYTES_MIN", 1 << 62), ("IN_MEMORY", Path("/not/there"))])
def test_without_room_they_are_on_the_disk(name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is little room, and where the system keeps nothing in memory."""
    monkeypatch.setattr(in_memory, name, value)
    assert not in_memory.has_room()
