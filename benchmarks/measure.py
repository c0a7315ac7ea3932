"""Times whose contestants take turns, what is said about them, and the tables they end up in.

Other programs, a warm disk cache or a throttled processor change a machine's speed from one second to the next. So the
contestants of a benchmark take turns, and ratios are taken within a round, where both met the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles
from typing import NamedTuple

Cell = str | int | float


class Spread(NamedTuple):
    """A median, and the quartiles around it."""

    median: float
    low: float
    high: float

    def text(self, scale: float = 1, digits: int = 0) -> str:
        """Return `median (low to high)`, each times `scale`."""
        middle, low, high = (f"{value * scale:,.{digits}f}" for value in self)
        return f"{middle} ({low} to {high})"


class Table(NamedTuple):
    """Results as they are printed and stored."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    """What the table does not say by itself."""


def spread(values: Sequence[float]) -> Spread:
    """Return median and quartiles of at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(median(values), low, high)


def take_turns(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Call every contestant once a round, each round another one first; return what they returned, by name."""
    names = list(contestants)
    results: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(contestants[name]())
    return results


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the quotients within each round."""
    return [above / below for above, below in zip(numerators, denominators, strict=True)]
