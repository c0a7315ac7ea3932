"""The rules of the journal: the page and the table of mutants say the same, and random schedules break no promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.simulation.rules import RULES
from tests.simulation.schedule import KINDS, run_schedule

PAGE = Path(__file__).parents[2] / "docs/reference/journal.md"
SCHEDULES = 300  # of each kind; `python -m tests.simulation 20000` runs more


def test_every_rule_has_a_mutant_and_stands_on_the_page() -> None:
    """A rule without a mutant, or a mutant without a rule, fails the build."""
    stated = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(stated) == sorted(rule.name for rule in RULES)


@pytest.mark.parametrize("kind", KINDS)
def test_no_schedule_breaks_a_promise(kind: str) -> None:
    """Writers, readers, mergers, deleters and creators at once, with lost requests, kills and power cuts."""
    for seed in range(SCHEDULES):
        assert run_schedule(seed, kind) == [], f"python -m tests.simulation --kind {kind} --seed {seed}"
