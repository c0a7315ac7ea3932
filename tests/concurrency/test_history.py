"""The checker of histories: it passes what could have happened in some order, and refuses everything else."""

from __future__ import annotations

import random

import pytest
from tests.concurrency.history import Call, Outcome, violations


def append(texts: str, began: int, ended: int | None, outcome: Outcome = "done") -> Call:
    """An append of one-letter texts."""
    return Call(worker="w", verb="append", texts=tuple(texts), began=began, ended=ended, outcome=outcome)


def read(texts: str, began: int, ended: int) -> Call:
    """A read that saw these texts."""
    return Call(worker="r", verb="read", texts=tuple(texts), began=began, ended=ended, outcome="done")


GOOD: dict[str, tuple[list[Call], str]] = {
    "nothing": ([], ""),
    "one after the other": ([append("a", 0, 1), read("a", 2, 3), append("b", 4, 5), read("ab", 6, 7)], "ab"),
    "at once, either order": ([append("a", 0, 9), append("b", 1, 8)], "ba"),
    "a read beside an append sees it": ([append("a", 0, 9), read("a", 1, 2)], "a"),
    "a read beside an append does not see it": ([append("a", 0, 9), read("", 1, 2)], "a"),
    "without an answer, landed late": ([append("a", 0, 1, "unknown"), append("b", 2, 3), read("b", 4, 5)], "ba"),
    "without an answer, never landed": ([append("a", 0, None, "unknown"), append("b", 2, 3)], "b"),
    "refused": ([append("a", 0, 1, "refused"), append("b", 2, 3)], "b"),
    "several texts in one piece": ([append("ab", 0, 5), append("cd", 1, 4)], "cdab"),
}

BAD: dict[str, tuple[list[Call], str, str]] = {
    "lost": ([append("a", 0, 1)], "", "lost"),
    "doubled": ([append("a", 0, 1)], "aa", "stored 2 times"),
    "from nowhere": ([append("a", 0, 1)], "ab", "nobody"),
    "refused and stored": ([append("a", 0, 1, "refused")], "a", "refused, and stored"),
    "half": ([append("ab", 0, 1)], "a", "torn"),
    "in two pieces": ([append("ab", 0, 5), append("c", 0, 5)], "acb", "torn"),
    "turned round": ([append("ab", 0, 1)], "ba", "torn"),
    "the later one first": ([append("a", 0, 1), append("b", 2, 3)], "ba", "order"),
    "a lost one that landed before it began": ([append("a", 0, 1), append("b", 2, 3, "unknown")], "ba", "order"),
    "a read of something else": ([append("a", 0, 1), read("b", 2, 3)], "a", "prefix"),
    "a read with a hole": ([append("ab", 0, 1), read("b", 2, 3)], "ab", "prefix"),
    "a read that misses an acknowledged append": ([append("a", 0, 1), read("", 2, 3)], "a", "order"),
    "a read of the future": ([read("a", 0, 1), append("a", 2, 3)], "a", "order"),
    "a read that goes back": ([append("a", 0, 9), read("a", 1, 2), read("", 3, 4)], "a", "order"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_could_have_happened_passes(name: str) -> None:
    """A history that some order explains is not refused."""
    assert violations(*GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_have_happened_is_refused(name: str) -> None:
    """Every kind of lie is named."""
    calls, journal, what = BAD[name]
    assert any(what in each for each in violations(calls, journal))


def test_any_history_of_one_place_passes_and_one_swap_does_not() -> None:
    """Calls that take effect at one instant between their ends pass; two acknowledged ones exchanged do not."""
    rng = random.Random(3)
    for _ in range(200):
        calls, journal = [], ""
        for instant in range(0, 400, 10):  # takes effect at `instant`
            began, ended = instant - rng.randrange(60), instant + rng.randrange(1, 60)
            if rng.random() < 0.3:
                calls.append(read(journal, began, ended))
            else:
                journal += chr(500 + instant)
                calls.append(append(journal[-1], began, ended, rng.choice(["done", "done", "unknown"])))
        assert violations(calls, journal) == []
        after = [(a, b) for a in calls for b in calls if a.ended is not None and a.ended < b.began]
        acknowledged = [(a, b) for a, b in after if a.verb == b.verb == "append" and a.outcome == "done"]
        first, second = rng.choice(acknowledged)
        swapped = journal.translate({ord(first.texts[0]): second.texts[0], ord(second.texts[0]): first.texts[0]})
        assert violations(calls, swapped)
