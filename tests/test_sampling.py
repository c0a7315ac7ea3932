"""What is left out of a test with many items."""

from __future__ import annotations

from itertools import product

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
