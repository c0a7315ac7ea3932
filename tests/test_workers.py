"""How tests are shared out between processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = """
pytest_plugins = ["tests.workers"]
def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long")
"""
TESTS = """
import pytest
def test_one(): pass
%s
def test_two(): pass
"""


def test_slow_files_are_run_first_and_each_by_one_process(tmp_path: Path) -> None:
    """The second of two files is run whole before the first, since one of its tests is slow."""
    (tmp_path / "conftest.py").write_text(SETTINGS)
    (tmp_path / "test_a.py").write_text(TESTS % "")
    (tmp_path / "test_b.py").write_text(TESTS % "@pytest.mark.slow")
    options = ["-c/dev/null", "--rootdir=.", "-pno:cacheprovider", "-Wignore", "-pno:langsmith_plugin", "-v"]
    share = ["-n1", "--dist=loadfile", "--no-loadscope-reorder"]
    command = [sys.executable, "-m", "pytest", *options, *share, "."]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=False)
    ran = [line.split()[-1] for line in done.stdout.decode().splitlines() if "PASSED" in line]
    assert ran == ["test_b.py::test_one", "test_b.py::test_two", "test_a.py::test_one", "test_a.py::test_two"]
