from __future__ import annotations

import pytest

from treering.errors import UsageError
from treering.session.options import EVERY_TURN, Schedule


def due(schedule: Schedule, *, now_ms: int = 0, nodes: int = 1, last_ms: int | None = 0, ended: bool = False) -> bool:
    """Ask with few words."""
    return schedule.due(now_ms=now_ms, nodes_since=nodes, last_ms=last_ms, turn_ended=ended)


def test_every_turn_is_due_when_a_turn_ends() -> None:
    """The default makes a checkpoint at the end of a turn that added something."""
    assert due(EVERY_TURN, ended=True)
    assert not due(EVERY_TURN, nodes=99, now_ms=10**9)
    assert not due(EVERY_TURN, nodes=0, ended=True)


def test_every_so_many_nodes() -> None:
    """The limit itself is due, one less is not."""
    assert due(Schedule(every_nodes=5), nodes=5)
    assert not due(Schedule(every_nodes=5), nodes=4, ended=True, now_ms=10**9)


def test_every_so_many_seconds() -> None:
    """Time counts from the last checkpoint; without one it is due at once, without new nodes never."""
    schedule = Schedule(every_seconds=1.5)
    assert due(schedule, now_ms=2500, last_ms=1000)
    assert not due(schedule, now_ms=2499, last_ms=1000)
    assert due(schedule, last_ms=None)
    assert not due(schedule, last_ms=None, nodes=0)


def test_rules_add_up_and_none_means_never() -> None:
    """Any rule that is set is enough; a schedule without rules leaves it to the caller."""
    both = Schedule(every_turn=True, every_nodes=5)
    assert due(both, nodes=5)
    assert due(both, ended=True)
    assert not due(Schedule(), nodes=99, ended=True, now_ms=10**9, last_ms=None)


@pytest.mark.parametrize("limits", [{"every_nodes": 0}, {"every_seconds": 0}, {"every_seconds": float("nan")}])
def test_limits_without_meaning_are_refused(limits: dict[str, float]) -> None:
    """A limit of zero, less, or no number is a mistake of the caller."""
    with pytest.raises(UsageError, match="positive limit"):
        Schedule(**limits)  # type: ignore[arg-type]
