"""A wrapper that fails on purpose, as networks do: for tests of code that uses a store.

A request can fail in three ways: it does not arrive, its reply does not arrive, or it arrives late, perhaps after its
sender sent it again. A list may also see each of its keys at another time. A plan decides all faults, so a run can be
repeated exactly.
"""

from __future__ import annotations

import enum
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from treering.errors import UnavailableError
from treering.storage.requests import Answer, Batch, Driver, List, Listed, Request, Steps
from treering.storage.run import arun, run
from treering.storage.wrapper import DriverWrapper


class Fault(enum.Enum):
    """What happens to one request."""

    NONE = "none"
    BEFORE = "before"
    """The request is lost: no effect, no answer."""
    AFTER = "after"
    """The reply is lost: the request takes effect, but there is no answer."""
    LATE = "late"
    """No answer, and the request takes effect before one of the next requests, or never."""


Plan: TypeAlias = Callable[[Request], Fault]


def seeded_plan(rng: random.Random, rate: float) -> Plan:
    """Return a plan that fails the given share of requests, half of them after their effect.

    Args:
        rng: The only source of chance.
        rate: From 0 to 1.
    """
    kinds = (Fault.AFTER, Fault.AFTER, Fault.AFTER, Fault.BEFORE, Fault.BEFORE, Fault.LATE)
    return lambda _: rng.choice(kinds) if rng.random() < rate else Fault.NONE


def scripted_plan(faults: Iterable[Fault]) -> Plan:
    """Return a plan that uses `faults` in turn, and no fault after them."""
    left = iter(faults)
    return lambda _: next(left, Fault.NONE)


class FaultyDriver(DriverWrapper):
    """Runs each request separately, with the fault that the plan chooses for it.

    Args:
        inner: The driver that does the work.
        plan: Called once for each request, in the order of the batch.
        lands: Called before each request; returns whether the oldest late request takes effect now.
        between: Called in the middle of every list: the first half of the keys is listed before it, the rest after it.

    Attributes:
        late: Requests that may still take effect, oldest first.
    """

    def __init__(
        self,
        inner: Driver,
        plan: Plan,
        *,
        lands: Callable[[], bool] = lambda: True,
        between: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(inner)
        self.late: deque[Request] = deque()
        self._plan = plan
        self._lands = lands
        self._between = between
        self._mutex = threading.RLock()  # `between` may use this driver

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the requests one after the other, with their faults."""
        return run(self._all(batch), self.inner)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Like `execute`."""
        return await arun(self._all(batch), self.inner)

    def settle(self) -> None:
        """Let all late requests take effect now."""
        while self.late:
            self.inner.execute((self.late.popleft(),))

    def _all(self, batch: Batch) -> Steps[tuple[Answer, ...]]:
        answers: list[Answer] = []
        for request in batch:
            answer = yield from self._one(request)
            answers += (answer,)
        return tuple(answers)

    def _one(self, request: Request) -> Steps[Answer]:
        with self._mutex:
            landing = self.late.popleft() if self.late and self._lands() else None
            fault = self._plan(request)
            if fault is Fault.LATE:
                self.late.append(request)
        if landing is not None:
            yield (landing,)
        if fault in (Fault.BEFORE, Fault.LATE):
            return UnavailableError("lost on purpose", kind=fault.value)
        if isinstance(request, List) and self._between is not None:
            answer = yield from self._torn_list(request, self._between)
        else:
            (answer,) = yield (request,)
        return UnavailableError("lost on purpose", kind=fault.value) if fault is Fault.AFTER else answer

    def _torn_list(self, request: List, between: Callable[[], None]) -> Steps[Answer]:
        """List in two halves, so that only the second one shows what `between` does."""
        (first,) = yield (request,)
        between()
        if not isinstance(first, Listed) or not first.entries:
            (second,) = yield (request,)
            return second
        middle = first.entries[len(first.entries) // 2].key
        seen = tuple(entry for entry in first.entries if entry.key <= middle)
        rest = msgspec.structs.replace(request, after=middle, limit=max(1, request.limit - len(seen)))
        (second,) = yield (rest,)
        if isinstance(second, Listed) and request.limit > len(seen):
            return Listed(seen + second.entries, more=second.more)
        return second if not isinstance(second, Listed) else Listed(seen, more=bool(second.entries))
