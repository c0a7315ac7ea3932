"""Processes that make calls are killed with SIGKILL at random instants: none is made twice, and none is forgotten.

`make kill` kills 512.
"""

from __future__ import annotations

import random
from pathlib import Path

from tests.durability.caller import Caller, Outside, find_out
from tests.faultlog import rounds
from tests.sampling import few

import treering

KILLS = few(24, 64)
INSTANTS = ("any", "begun", "made")
CALLS_MAX = 6
"""Of one life, before the instant at which it is killed."""
SPIN_MAX = 30_000  # steps of an empty loop: a few milliseconds, as long as a call takes


def test_killed_around_calls(tmp_path: Path) -> None:
    """After each kill, every call that the world saw is known to be done, or told as unresolved."""
    rng = random.Random(83)
    outside, store = Outside(tmp_path / "outside"), treering.open(tmp_path / "store")
    unresolved, known = 0, 0
    for _ in range(rounds(KILLS)):
        first, calls = max(0, len(outside.made) - 2), rng.randrange(CALLS_MAX)  # the last ones once more
        instant = rng.choice(INSTANTS)
        caller = Caller(tmp_path, first, (instant, first + calls))
        assert caller.hear() == "open"
        for _ in range(calls):
            caller.hear()
        for _ in range(rng.randrange(SPIN_MAX) if instant == "any" else 0):
            pass
        caller.kill(waits=instant != "any")
        made = outside.made
        assert [key for key, times in made.items() if times > 1] == []
        view = store.view("s")
        told = {effect.key for effect in view.unresolved_effects()}
        for key in list(made)[known:]:
            found = view.find_effect(key)
            assert found is not None, f"forgotten: {key}"
            assert (found.outcome, found.result) == ("done", f"result of {key}") or key in told
        known = max(0, len(made) - 1)
        unresolved += len(told)
    assert unresolved > rounds(KILLS) // 4
    with store.session("s") as session:
        find_out(session, outside)
        for number in range(len(outside.made)):
            found = session.find_effect(f"call-{number}")
            assert found is not None
            assert found.result == f"result of call-{number}"
    assert store.verify("s") == []
