"""Rounds in which contestants take turns, what they gave, and what is said about it.

Other programs, a warm disk cache or a throttled processor change a machine's speed from one second to the next. So
contestants take turns, and a ratio is taken within each round, where both met the same machine.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import linear_regression, median, quantiles
from typing import Any, NamedTuple

Figures = Mapping[str, float]
ROUNDS_MIN = 3


class Cell(NamedTuple):
    """What was measured."""

    task: str
    contestant: str
    place: str = "disk"
    size: int = 0


class Spread(NamedTuple):
    """A median, and the quartiles around it."""

    median: float
    low: float
    high: float

    def text(self, scale: float = 1) -> str:
        """Return `median (low to high)`, each times `scale`, with three digits that count."""
        middle, low, high = (number(value * scale) for value in self)
        return middle if low == high else f"{middle} ({low} to {high})"

    def short(self, scale: float = 1) -> str:
        """Return the median alone."""
        return number(self.median * scale)


def number(value: float) -> str:
    """Return a number with three digits that count; a whole one with all of them."""
    if float(value).is_integer():
        return f"{value:,.0f}"
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(median(values), low, high)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return b of the curve a * size**b that fits best: 0 is flat, 1 is linear, 2 is quadratic."""
    return linear_regression([math.log(size) for size in sizes], [math.log(value) for value in values]).slope


def alternate(cells: Mapping[Cell, Callable[[], Figures]], rounds: int, seconds: float) -> list[dict[Cell, Figures]]:
    """Call every contestant once a round, each round in another order: a neighbour leaves caches and a disk behind.

    Args:
        cells: What to call.
        rounds: How often at most.
        seconds: No round begins later, but `ROUNDS_MIN` are made.
    """
    names, chance, begun = list(cells), random.Random(7), time.monotonic()
    made: list[dict[Cell, Figures]] = []
    while len(made) < ROUNDS_MIN or (len(made) < rounds and time.monotonic() - begun < seconds):
        made.append({name: cells[name]() for name in chance.sample(names, len(names))})
    return made


class Results:
    """All figures of a run, by cell and metric; a list has one value for each round."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.about = dict(about)
        self.figures: defaultdict[Cell, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, rounds: Iterable[Mapping[Cell, Figures]]) -> None:
        """Add what rounds gave."""
        for found in rounds:
            for cell, figures in found.items():
                for metric, value in figures.items():
                    self.figures[cell][metric].append(float(f"{value:.6g}"))

    def values(self, cell: Cell, metric: str) -> list[float]:
        """Return the values of all rounds.

        Raises:
            KeyError: It was not measured.
        """
        if cell not in self.figures or metric not in self.figures[cell]:
            raise KeyError(f"not measured. cell={cell!r}, metric={metric!r}")
        return self.figures[cell][metric]

    def spread(self, cell: Cell, metric: str) -> Spread:
        """Return median and quartiles over all rounds."""
        return spread(self.values(cell, metric))

    def ratio(self, above: Cell, below: Cell, metric: str = "seconds") -> Spread:
        """Return median and quartiles of the quotients within each round."""
        pairs = zip(self.values(above, metric), self.values(below, metric), strict=True)
        return spread([top / bottom for top, bottom in pairs])

    def sizes(self, task: str, contestant: str, place: str = "disk") -> list[int]:
        """Return the sizes at which a task was measured."""
        return sorted(cell.size for cell in self.figures if cell[:3] == (task, contestant, place))

    def without(self, tasks: Collection[str]) -> Results:
        """Drop what some tasks gave, and note that they were measured again."""
        for cell in [cell for cell in self.figures if cell.task in tasks]:
            del self.figures[cell]
        self.about["measured again"] = sorted({*self.about.get("measured again", ()), *tasks})
        return self

    def store(self, path: Path) -> None:
        """Write everything as JSON, a line for each cell."""
        rows = ",\n".join(json.dumps({**cell._asdict(), "figures": each}) for cell, each in self.figures.items())
        path.write_text(f'{{"about": {json.dumps(self.about)}, "results": [\n{rows}\n]}}\n')

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what `store` wrote."""
        data = json.loads(path.read_text())
        results = cls(data["about"])
        for row in data["results"]:
            figures = row.pop("figures")
            results.figures[Cell(**row)].update(figures)
        return results
