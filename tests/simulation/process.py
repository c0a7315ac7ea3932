"""A process that runs one protocol: it sends requests one at a time, in any order, and may be killed before each."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

from tests.simulation.world import World, describe, describe_answer, name_of
from treering.errors import PoisonedError, UnavailableError
from treering.storage.requests import Answer, Request, Steps

Tell = Callable[[str], None]


class Process:
    """Runs real protocol code against a world, step by step.

    Args:
        name: Its name in traces and problems.
        world: The store.
        steps: The protocol.
        tell: Takes one line for each request; None if no trace is wanted.
    """

    def __init__(self, name: str, world: World, steps: Steps[Any], tell: Tell | None = None) -> None:
        self.name = name
        self.world = world
        self.failure: Exception | None = None
        self.requests = 0
        self._tell = tell
        self._run = self._drive(steps)

    def step(self) -> bool:
        """Do one atomic step; return false when the process has ended."""
        try:
            next(self._run)
        except StopIteration:
            return False
        except Exception as error:  # noqa: BLE001  # any error is a finding of this schedule
            self.failure = error
            self.world.ghost.problems.append(f"{self.name}: {type(error).__name__}: {error}")
            return False
        return True

    def kill(self) -> None:
        """End the process at once; its locks are released, as by an operating system."""
        self._run.close()

    def _drive(self, steps: Steps[Any]) -> Generator[None, None, None]:
        shuffle = self.world.rng.shuffle
        try:
            batch = next(steps)
            while True:
                answers: list[Any] = [None] * len(batch)
                order = [0]
                if len(batch) > 1:
                    # The order of keys in a set must not influence the schedule.
                    order = sorted(range(len(batch)), key=lambda place: name_of(batch[place]))
                    shuffle(order)
                for place in order:
                    answers[place] = yield from self._ask(batch[place])
                batch = steps.send(tuple(answers))
        except StopIteration:
            return

    def _ask(self, request: Request) -> Generator[None, None, Answer]:
        """Send a request as a retrying driver does: if there is no answer, repeat it a bounded number of times."""
        world = self.world
        sends = 0
        while True:
            yield
            sends += 1
            self.requests += 1
            sent: Any = world.send(request)
            answer: Answer = (yield from sent) if isinstance(sent, GeneratorType) else sent
            if self._tell is not None:
                self._tell(f"{self.name}: {describe(request)} -> {describe_answer(answer)}")
            unanswered = isinstance(answer, UnavailableError) and not isinstance(answer, PoisonedError)
            if not unanswered or sends == world.sends_max:
                return answer
