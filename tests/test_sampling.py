"""What is left out of a test with many items."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.sampling import chosen

VERBS, FAULTS = [f"verb {number}" for number in range(20)], ["before", "after", "late"]
ITEMS = [(f"test[{verb}-{fault}]", {"verb": verb, "fault": fault}) for verb, fault in product(VERBS, FAULTS)]


def test_one_in_so_many_is_run() -> None:
    """As many as asked for, the same each time, and not at regular distances: the last argument would not change."""
    kept = chosen(ITEMS, 6)
    assert len(kept) == 10
    assert kept == chosen(ITEMS, 6)
    assert {ITEMS[place][1]["fault"] for place in kept} == {*FAULTS}


def test_every_value_of_an_argument_is_tried() -> None:
    """With as few items more as that takes."""
    kept = chosen(ITEMS, 6, ["verb", "fault"])
    assert {ITEMS[place][1]["verb"] for place in kept} == {*VERBS}
    assert {*chosen(ITEMS, 6)} < {*kept}
    assert len(kept) <= 10 + len(VERBS)


def test_a_small_test_keeps_an_item() -> None:
    """However few it has."""
    assert chosen(ITEMS[:3], 100) != []
    assert chosen([], 100) == []


SHARED = """
import pytest

@pytest.fixture(params=["near", pytest.param("far", marks=pytest.mark.thinned(3))])
def place(request): pass

def test_a(place): pass
def test_b(place): pass
def test_c(place): pass
def test_d(place): pass
"""


@pytest.mark.parametrize(("whole", "far"), [(False, 2), (True, 4)])
def test_a_parameter_that_tests_share_is_kept_for_some_of_them(tmp_path: Path, *, whole: bool, far: int) -> None:
    """All tests run with the other one; with `TREERING_WHOLE` they all run with both."""
    (tmp_path / "test_it.py").write_text(SHARED)
    options = ["-c/dev/null", "--rootdir=.", "-ptests.sampling", "-pno:cacheprovider", "-Wignore"]
    command = [sys.executable, "-m", "pytest", *options, "--collect-only", "-q"]
    surroundings = {"PYTHONPATH": str(Path(__file__).parents[1]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    surroundings |= {"TREERING_WHOLE": "1"} if whole else {}
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
    ran = [line for line in done.stdout.splitlines() if "::" in line]
    assert sum("near" in each for each in ran) == 4
    assert sum("far" in each for each in ran) == far
