"""Ratios, growth and goals are computed from rounds as they say."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from benchmarks.goals import GOALS, judge
from benchmarks.measure import Cell, Results, Spread, alternate, exponent, number, spread
from benchmarks.report import report, summary
from benchmarks.table import BARE, OURS
from benchmarks.tasks import TASKS

ABOUT = {"system": "Linux", "processors": 2, "python": "3.11", "load": 0.1, "versions": {"treering": "0"}}
APPEND = {name: Cell("append, closely", name, "disk", 1_000) for name in (OURS, BARE)}


def results(ours: list[float], bare: list[float]) -> Results:
    """A run of two contestants at one task."""
    found = Results(ABOUT)
    found.add({APPEND[OURS]: {"seconds": a}, APPEND[BARE]: {"seconds": b}} for a, b in zip(ours, bare, strict=True))
    return found


def test_ratios_are_taken_within_rounds() -> None:
    """A machine that is ten times slower in one round changes no ratio, though it changes the medians."""
    found = results([2.0, 20.0, 200.0], [1.0, 10.0, 100.0])
    assert found.ratio(APPEND[OURS], APPEND[BARE]) == Spread(2, 2, 2)
    assert found.spread(APPEND[OURS], "seconds").median == 20


def test_contestants_take_turns() -> None:
    """Each is called once a round, not always in the same place, and three rounds are made though time is up."""
    order: list[str] = []

    def turn(name: str) -> dict[str, float]:
        order.append(name)
        return {"seconds": 1.0}

    cells = {Cell("t", name): partial(turn, name) for name in "abc"}
    assert len(alternate(cells, rounds=100, seconds=0)) == 3
    order.clear()
    assert len(alternate(cells, rounds=20, seconds=3600)) == 20
    turns = [order[at : at + 3] for at in range(0, 60, 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    assert {turn[0] for turn in turns} == {turn[2] for turn in turns} == {"a", "b", "c"}


@pytest.mark.parametrize("power", [0, 1, 2])
def test_growth_is_fitted(power: int) -> None:
    """The exponent of a power law is found."""
    sizes = [10, 100, 1_000]
    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.01234, "0.0123"), (1.5, "1.50"), (123456.7, "123,457"), (40.0, "40")]
)
def test_numbers_have_three_digits(value: float, shown: str) -> None:
    """Numbers are shown with the digits that count, whole ones in full."""
    assert number(value) == shown


def test_quartiles_stand_beside_a_median() -> None:
    """A single value has no spread to show."""
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]).text() == "3 (2 to 4)"
    assert spread([7.0]).text() == "7"


@pytest.mark.parametrize(("ours", "word"), [(1.6, "met"), (1.7, "**missed**")])
def test_a_goal_is_held_against_its_limit(ours: float, word: str) -> None:
    """Six tenths of the rate of the bare loop are met up to 1.67 times its time, and missed from there on."""
    verdicts = {verdict.goal.name: verdict for verdict in judge(results([ours], [1.0]))}
    assert verdicts["A durable append costs little besides its sync"].word == word
    assert verdicts["Resuming is flat on disk"].word == "not measured"
    assert len(verdicts) == len(GOALS)


def test_a_near_miss_is_shown_with_the_digits_that_tell() -> None:
    """Next to a limit a figure is not rounded onto it."""
    (verdict,) = [each for each in judge(results([1.67], [1.0])) if each.word == "**missed**"]
    assert verdict.row[3] == "0.5988"


def test_results_survive_a_file(tmp_path: Path) -> None:
    """What was stored is what was measured, so a report of it says the same."""
    found = results([2.0, 3.0], [1.0, 1.0])
    found.store(tmp_path / "results.json")
    again = Results.load(tmp_path / "results.json")
    assert again.figures == found.figures
    assert report(again) == report(found)
    assert "| treering | 2,500 (2,250 to 2,750) |" in report(again)
    assert summary(again) == summary(found)


def test_every_goal_names_what_some_task_measures() -> None:
    """No goal asks for a task that does not exist."""
    asked: set[str] = set()

    class Asked(Results):
        def values(self, cell: Cell, metric: str) -> list[float]:
            asked.add(cell.task)
            return [1.0]

        def sizes(self, task: str, contestant: str, place: str = "disk") -> list[int]:
            return [10, 1_000]

    assert all(verdict.value for verdict in judge(Asked(ABOUT)))
    assert asked <= TASKS.keys()
