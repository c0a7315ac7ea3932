"""Agents are killed at any request, and around the calls they make: no call is made twice, and none is forgotten."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from tests.sampling import few
from tests.session.backends import kill

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import ConflictError, UnavailableError
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Driver, Request
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place

KILLS, KILLS_OF_ONE = few(500, 10_000), 25
KEYS = 3
"""New calls of one life."""
T = TypeVar("T")
NEWEST = 4 * KEYS
TRIES = 4


class Killed(BaseException):
    """What ends a life."""


class Outside:
    """The world: it counts the calls that reach it, and whoever asks is told which did."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()

    def call(self, key: str) -> str:
        """Do it, whether or not it was done before."""
        self.made[key] += 1
        return f"result of {key}"


class Peril:
    """Decides by chance where a process dies, and what the network does to its requests."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.left = rng.randrange(32)
        """Instants until it dies."""

    def instant(self) -> None:
        """One of the instants at which it may die."""
        self.left -= 1
        if self.left < 0:
            raise Killed

    def fault(self, request: Request) -> Fault:
        """What happens to a request."""
        return self._rng.choice((Fault.BEFORE, Fault.AFTER, Fault.LATE)) if self._rng.random() < 0.05 else Fault.NONE


class Mortal(DriverWrapper):
    """A process may die before each request of its, and after it, when the answer is on its way."""

    def __init__(self, inner: Driver, peril: Peril) -> None:
        super().__init__(inner)
        self._peril = peril

    def hold(self, *args: Any, **options: Any) -> None:
        """The system takes back what a killed process held."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        self._peril.instant()
        answers = self.inner.execute(batch)
        self._peril.instant()
        return answers

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)


class Agent:
    """The lives of one agent on a session in memory."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.outside = Outside()
        self.memory = MemoryDriver(appends=bool(seed % 2))
        self.keys: list[str] = []
        self.unresolved = self.kills = 0
        with Store(Place(self.memory)).session("s") as session:
            session.append("go")

    def live(self) -> None:
        """One life: resume, find out about what is unresolved, make some calls; the end comes anywhere in it."""
        peril = Peril(self.rng)
        faulty = FaultyDriver(self.memory, peril.fault, lands=lambda: self.rng.random() < 0.5)
        opened: list[Session] = []
        try:
            session = Store(Place(Mortal(faulty, peril))).session("s")
            opened.append(session)
            self._work(session, peril)
        except Killed:
            self.kills += 1
        except (ConflictError, UnavailableError):
            pass  # a write of the life before came late, which stops this one; or the store never answered
        for session in opened:
            kill(session)
        if self.rng.random() < 0.5:
            faulty.settle()

    def _work(self, session: Session, peril: Peril) -> None:
        self._find_out(session)
        if self.rng.random() < 0.2:
            session.seal()
        new = [f"call-{len(self.keys) + number}" for number in range(KEYS)]
        self.keys += new
        for key in [*self.rng.sample(self.keys[:-KEYS], min(2, len(self.keys) - KEYS)), *new]:
            effect = again(partial(session.effect, key, about={"for": key}))
            peril.instant()
            if not effect.is_resolved:
                result = self.outside.call(key)
                peril.instant()
                again(partial(session.end_effect, key, result))
            session.append(f"did {key}")

    def _find_out(self, session: Session) -> None:
        """What the one that resumes does: it asks outside about each call that is unresolved."""
        for effect in session.unresolved_effects():
            self.unresolved += 1
            if self.outside.made[effect.key]:
                again(partial(session.end_effect, effect.key, f"result of {effect.key}"))
            else:
                again(partial(session.end_effect, effect.key, made=False))

    def check(self) -> None:
        """Everything that was made is recorded as done, or told as unresolved; nothing was made twice."""
        assert [key for key, times in self.outside.made.items() if times > 1] == []
        view = Store(Place(self.memory)).view("s")
        told = {effect.key for effect in view.unresolved_effects()}
        for key in filter(self.outside.made.__contains__, self.keys[-NEWEST:]):  # the others were seen before
            found = view.find_effect(key)
            assert found is not None, f"forgotten: {key}"
            assert (found.outcome, found.result) == ("done", f"result of {key}") or key in told

    def finish(self) -> None:
        """Let nothing fail any more: every call is made, once."""
        with Store(Place(self.memory)).session("s") as session:
            self._find_out(session)
            for key in self.keys:
                if not session.effect(key).is_resolved:
                    session.end_effect(key, self.outside.call(key))
            assert {session.effect(key).result for key in self.keys} == {f"result of {key}" for key in self.keys}
        assert self.outside.made == dict.fromkeys(self.keys, 1)
        assert {finding.severity for finding in Store(Place(self.memory)).verify("s")} <= {"oddity"}


def again(call: Callable[[], T]) -> T:
    """Call again while the store does not answer, as an agent does."""
    for _ in range(TRIES - 1):
        try:
            return call()
        except UnavailableError:
            pass
    return call()


@pytest.mark.parametrize("part", range(4))
def test_killed_around_calls(part: int) -> None:
    """After each kill, what the world saw is known to be done or told as unresolved; in the end all is made once."""
    unresolved = 0
    for seed in range(KILLS // KILLS_OF_ONE // 4):
        agent = Agent(10_000 * part + seed)
        while agent.kills < KILLS_OF_ONE:
            agent.live()
            agent.check()
        agent.finish()
        unresolved += agent.unresolved
    assert unresolved > KILLS // 4 // 10
