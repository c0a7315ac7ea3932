"""Make a schedule that breaks a promise short enough to read.

A schedule is nothing but its random choices: who takes part, whose turn it is, what goes wrong. They are written down,
parts of them are left out, and what is left is played again, as Hypothesis does with its examples. Each line of the
program has a list of choices of its own, so that leaving one out does not give its place to a choice of another sort.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tests.simulation.schedule import run_schedule

TRIES_MAX = 3000  # some ten seconds
QUIET = 1 - 2**-53  # nothing happens whose share is less than one
WORDS_MAX = 4

Choice: TypeAlias = tuple[str, float | None]
"""Where it was made, and a number from 0 to 1; None: the first of several, or that nothing happens."""


class Recorder(random.Random):
    """Chance that writes down what it gave."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.made: list[Choice] = []

    def random(self) -> float:
        value = super().random()
        self.made.append((_place(), value))
        return value

    def getrandbits(self, bits: int, /) -> int:
        value = super().getrandbits(bits)
        self.made.append((_place(), value / 2**bits))
        return value


class Player(random.Random):
    """Chance that was written down before; at the end of it nothing happens any more."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        super().__init__(0)
        self.made: list[Choice] = []
        self._waiting: defaultdict[str, deque[float | None]] = defaultdict(deque)
        for place, value in choices:
            self._waiting[place].append(value)

    def random(self) -> float:
        value = self._next()
        return QUIET if value is None else value

    def getrandbits(self, bits: int, /) -> int:
        return int((self._next() or 0.0) * 2**bits)

    def _next(self) -> float | None:
        place = _place()
        waiting = self._waiting[place]
        value = waiting.popleft() if waiting else None
        self.made.append((place, value))
        return value


class Played(NamedTuple):
    """What became of some choices."""

    made: list[Choice]
    steps: list[str]
    problems: list[str]

    @property
    def size(self) -> tuple[int, int]:
        """Fewer steps are better, then fewer things that happen."""
        return len(self.steps), sum(value is not None for _, value in self.made)

    @property
    def promise(self) -> list[str]:
        """The first words of the problem, without names and numbers."""
        words = (word.strip(":,") for problem in self.problems[:1] for word in problem.split())
        return [word for word in words if word.isalpha()][:WORDS_MAX]


def shrink(seed: int, kind: str, *, tries_max: int = TRIES_MAX) -> tuple[Played, Played]:
    """Leave out what a broken promise does not need; return the schedule as it was and as it is now."""
    whole = best = _play(seed, kind, Recorder(seed))
    tries, size = 0, len(best.made)
    while whole.problems and size and tries < tries_max:
        start = len(best.made)
        before = best.size
        while start > 0 and tries < tries_max:  # what comes late is most likely not needed
            start = max(0, min(start, len(best.made)) - size)
            for quiet in (False, True):
                tries += 1
                best = _shorter(seed, kind, best, slice(start, start + size), quiet=quiet)
        size = size if size == 1 and best.size < before else size // 2
    return whole, best


def _shorter(seed: int, kind: str, best: Played, part: slice, *, quiet: bool) -> Played:
    """Play it without a part of the choices, or with nothing happening there; keep what is better."""
    left = list(best.made)
    left[part] = [(place, None) for place, _ in left[part]] if quiet else []
    played = _play(seed, kind, Player(left))
    return played if played.promise == best.promise and played.size < best.size else best


def _play(seed: int, kind: str, rng: Recorder | Player) -> Played:
    steps: list[str] = []
    problems = run_schedule(seed, kind, steps.append, rng)
    return Played(rng.made, steps, problems)


def _place() -> str:
    """The line of the program that asks for chance."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, random.__file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
