from __future__ import annotations

import pytest

from tests.model.journal_model import MUTANTS, broken, noticed

SCHEDULES = 3_000
AROUND = 40  # schedules beside the one that is known to notice a mutant


def test_no_schedule_breaks_a_promise() -> None:
    """Whatever is interleaved, lost, late or killed, the protocol keeps what it promises."""
    failed = {seed: problems for seed in range(SCHEDULES) if (problems := broken(seed))}
    assert not failed


@pytest.mark.parametrize("mutant", MUTANTS)
def test_each_rule_is_needed(mutant: str) -> None:
    """Without any one rule some schedule breaks a promise."""
    known, rule = MUTANTS[mutant]
    seed = noticed(mutant, range(known, known + AROUND))
    assert seed is not None, f"run `python -m tests.model.journal_model mutants` for where it is noticed now. {rule=}"
