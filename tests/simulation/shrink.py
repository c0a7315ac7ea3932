"""Make a schedule that breaks a promise short enough to read.

Random choices determine a schedule: which processes take part, which one goes next, and which requests fail. The
choices are recorded, parts of them are left out, and the rest is played again, as Hypothesis does with its examples.
Each line of the program has its own list of choices. So if one is left out, no choice of another sort takes its place.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from tests.simulation.schedule import run_schedule

TRIES_MAX = 3000  # some ten seconds
QUIET = 1 - 2**-53  # above any share less than one, so that nothing goes wrong
WORDS_MAX = 4

Choice: TypeAlias = tuple[str, float | None]
"""The line that made the choice, and a number from 0 to 1; None: the first of several, or that nothing happens."""


class Recorder(random.Random):
    """Random numbers that are recorded as choices."""

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
    """Recorded choices in place of random numbers; after the last choice nothing happens any more."""

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
    """The result of playing some choices."""

    made: list[Choice]
    steps: list[str]
    problems: list[str]

    @property
    def size(self) -> tuple[int, int]:
        """The size to be minimized: the number of steps, then the number of choices by which something happens."""
        return len(self.steps), sum(value is not None for _, value in self.made)

    @property
    def promise(self) -> list[str]:
        """The first words of the problem, without names and numbers."""
        words = (word.strip(":,") for problem in self.problems[:1] for word in problem.split())
        return [word for word in words if word.isalpha()][:WORDS_MAX]


def shrink(seed: int, kind: str, *, tries_max: int = TRIES_MAX) -> tuple[Played, Played]:
    """Leave out choices without which the promise still breaks; return the whole schedule and the shortened one."""
    whole = best = _play(seed, kind, Recorder(seed))
    tries, size = 0, len(best.made)
    while whole.problems and size and tries < tries_max:
        start = len(best.made)
        before = best.size
        while start > 0 and tries < tries_max:  # late choices are most likely not needed
            start = max(0, min(start, len(best.made)) - size)
            for quiet in (False, True):
                tries += 1
                best = _shorter(seed, kind, best, slice(start, start + size), quiet=quiet)
        size = size if size == 1 and best.size < before else size // 2
    return whole, best


def _shorter(seed: int, kind: str, best: Played, part: slice, *, quiet: bool) -> Played:
    """Play a schedule without a part of its choices, or with nothing happening there; return the better one."""
    left = list(best.made)
    left[part] = [(place, None) for place, _ in left[part]] if quiet else []
    played = _play(seed, kind, Player(left))
    return played if played.promise == best.promise and played.size < best.size else best


def _play(seed: int, kind: str, rng: Recorder | Player) -> Played:
    steps: list[str] = []
    problems = run_schedule(seed, kind, steps.append, rng)
    return Played(rng.made, steps, problems)


def _place() -> str:
    """Return the line of the program that asks for a random number."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in (__file__, random.__file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
