from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from tests.checkpoint.records import Shelf
from tests.checkpoint.test_delta import Step, play, steps, told

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context, Item
from treering.checkpoint.prune import KeepCheckpoints, plan
from treering.errors import TreeringError, UsageError

keeps = st.builds(
    KeepCheckpoints,
    last=st.integers(1, 4),
    newer_than_ms=st.none() | st.integers(0, 14),
    every_ms=st.none() | st.integers(1, 6),
    labelled=st.booleans(),
    heads=st.none() | st.sets(st.sampled_from(["main-0", "main-1"])),
    ids=st.sets(st.sampled_from(["c0", "c3", "c5"])),
)


@given(st.lists(steps, min_size=1, max_size=14), keeps)
def test_kept_checkpoints_stay_readable(steps: list[Step], keep: KeepCheckpoints) -> None:
    """What is kept is resolved, unchanged, after all droppable records are gone; no fewer could stay."""
    shelf, model = play(steps)
    found = plan(list(shelf.entries.values()), shelf.references(), keep)
    assert sorted(found.kept + found.pruned) == sorted(model)
    assert set(found.droppable) <= set(found.pruned)
    left = {name: line for name, line in shelf.lines.items() if name not in found.droppable}
    for checkpoint in found.kept:
        assert told(shelf.read(checkpoint, left)) == told(model[checkpoint])
    for needed in set(found.pruned) - set(found.droppable):
        fewer = {name: line for name, line in left.items() if name != needed}
        assert any(breaks(shelf, checkpoint, fewer) for checkpoint in found.kept)


def breaks(shelf: Shelf, checkpoint: str, lines: dict[str, bytes]) -> bool:
    """Tell whether a checkpoint cannot be read from `lines`."""
    try:
        shelf.read(checkpoint, lines)
    except (KeyError, TreeringError):
        return True
    return False


def shelf_of(*checkpoints: Checkpoint) -> Shelf:
    """Return a shelf with these on it."""
    shelf = Shelf()
    for checkpoint in checkpoints:
        shelf.put(checkpoint)
    return shelf


def line_of_six() -> Shelf:
    """Six checkpoints in a line, ten ms apart: c1 has a label, c2 is on another head, c0 alone is full."""
    context = Context(tuple(Item(f"node-{number}") for number in range(40)))
    return shelf_of(
        *(
            Checkpoint(
                id=f"c{number}",
                parent=f"c{number - 1}" if number else None,
                head="idea" if number == 2 else "main",
                node=None,
                context=context,
                label="good" if number == 1 else None,
                time_ms=number * 10,
            )
            for number in range(6)
        )
    )


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (KeepCheckpoints(labelled=False, heads=()), ["c5"]),
        (KeepCheckpoints(last=3, labelled=False, heads=()), ["c3", "c4", "c5"]),
        (KeepCheckpoints(heads=()), ["c1", "c5"]),
        (KeepCheckpoints(labelled=False), ["c2", "c5"]),
        (KeepCheckpoints(labelled=False, heads={"main"}), ["c5"]),
        (KeepCheckpoints(labelled=False, heads=(), newer_than_ms=40), ["c4", "c5"]),
        (KeepCheckpoints(labelled=False, heads=(), every_ms=20), ["c1", "c3", "c5"]),
        (KeepCheckpoints(labelled=False, heads=(), ids={"c0"}), ["c0", "c5"]),
        (KeepCheckpoints(last=99), ["c0", "c1", "c2", "c3", "c4", "c5"]),
    ],
)
def test_any_rule_keeps(keep: KeepCheckpoints, kept: list[str]) -> None:
    """A checkpoint is kept if one of the rules wants it: count, label, head, age, interval or name."""
    shelf = line_of_six()
    found = plan(list(shelf.entries.values()), shelf.references(), keep)
    assert list(found.kept) == kept
    assert list(found.pruned) == [name for name in shelf.lines if name not in kept]
    assert found.droppable == ()


def test_the_newest_is_always_kept() -> None:
    """Keeping nothing is refused: the next checkpoint is written as a change of the newest."""
    with pytest.raises(UsageError, match="at least 1"):
        KeepCheckpoints(last=0)
    with pytest.raises(UsageError, match="at least 1"):
        KeepCheckpoints(every_ms=0)
    assert plan([], {}, KeepCheckpoints()).kept == ()


def test_what_a_full_record_refers_to_must_be_given() -> None:
    """Guessing that a full record refers to nothing would drop what it needs."""
    shelf = line_of_six()
    with pytest.raises(UsageError, match="references"):
        plan(list(shelf.entries.values()), {}, KeepCheckpoints())
