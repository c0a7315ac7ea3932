"""Stores that fail, or meet somebody else, at one chosen request; and what a session shows, to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.errors import UnavailableError
from treering.format.record import decode_record
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Append, Batch, Driver, Put, Request
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place

Wanted: TypeAlias = Callable[[Request], bool]


def any_request(request: Request) -> bool:
    """Every request."""
    return True


def tail_write(request: Request) -> bool:
    """A request that records."""
    return isinstance(request, Put | Append) and "/tail.jsonl" in request.key


def latest_write(request: Request) -> bool:
    """A request that creates a session, or lets `latest` account for more."""
    return isinstance(request, Put) and request.key.startswith("latest/")


class OneFault:
    """A plan that fails a single request, once it is told which."""

    def __init__(self) -> None:
        self._fault = Fault.NONE
        self._wanted: Wanted = any_request
        self._left = 0

    @property
    def pending(self) -> bool:
        """Whether the request has not come yet."""
        return self._fault is not Fault.NONE

    def arm(self, fault: Fault, wanted: Wanted = any_request, *, after: int = 0) -> None:
        """Fail the next `wanted` request, behind so many that are let through."""
        self._fault, self._wanted, self._left = fault, wanted, after

    def disarm(self) -> None:
        """Fail none."""
        self._fault = Fault.NONE

    def __call__(self, request: Request) -> Fault:
        if not self.pending or not self._wanted(request):
            return Fault.NONE
        if self._left:
            self._left -= 1
            return Fault.NONE
        fault, self._fault = self._fault, Fault.NONE
        return fault


class Outage:
    """A plan by which a store goes down at a write of records, and answers nothing until it is up again."""

    def __init__(self) -> None:
        self._fault = Fault.NONE
        self._down = False

    def begin(self, fault: Fault) -> None:
        """Fail the next write of records like this, and all requests behind it."""
        self._fault = fault

    def end(self) -> None:
        """Answer again."""
        self._down = False

    def __call__(self, request: Request) -> Fault:
        if self._fault is not Fault.NONE and tail_write(request):
            fault, self._fault, self._down = self._fault, Fault.NONE, True
            return fault
        return Fault.BEFORE if self._down else Fault.NONE


class Unreliable:
    """A store in memory, as a process with a bad network sees it and as everybody else does.

    Late requests take effect when `settle` is called, not before.
    """

    def __init__(self, *, appends: bool = False, holding: Mapping[str, bytes] | None = None) -> None:
        self.memory = MemoryDriver(appends=appends)
        self.memory.execute(tuple(Put(key, data) for key, data in (holding or {}).items()))
        self.plan = OneFault()
        self._driver = FaultyDriver(self.memory, self.plan, lands=lambda: False)
        self.store = Store(Place(self._driver))
        self.sound = Store(Place(self.memory))

    def settle(self) -> None:
        """Let late requests take effect."""
        self._driver.settle()

    def fails(self, fault: Fault, call: Callable[[], object], wanted: Wanted = tail_write) -> None:
        """Call with one request failing, of which the caller must be told."""
        self.plan.arm(fault, wanted)
        try:
            call()
        except UnavailableError:
            return
        raise AssertionError(f"nobody was told. fault={fault.value!r}, pending={self.plan.pending}")


class Meeting(DriverWrapper):
    """Calls `meet` once, right before the first wanted request is run: somebody else comes first."""

    def __init__(self, inner: Driver) -> None:
        super().__init__(inner)
        self._meet: Callable[[], object] | None = None
        self._wanted: Wanted = tail_write

    def before(self, wanted: Wanted, meet: Callable[[], object]) -> None:
        """Call `meet` before the next wanted request."""
        self._wanted, self._meet = wanted, meet

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        meet = self._meet
        if meet is not None and any(self._wanted(request) for request in batch):
            self._meet = None
            meet()
        return self.inner.execute(batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)


def seen(handle: Session | View) -> dict[str, Any]:
    """All that a handle shows of where the session stands."""
    return {
        "context": [(item.node, item.message) for item in handle.context],
        "settings": dict(handle.settings),
        "state": handle.state,
        "manager": handle.manager,
        "head": handle.head,
        "node": handle.node,
        "heads": handle.heads,
    }


def says(handle: Session | View) -> list[object]:
    """What the messages of a context say, summaries as they are."""
    return [item.message["content"] for item in handle.context]


def recorded(handle: Session | View) -> list[object]:
    """What all messages of all branches say, in the order they were recorded."""
    records = [decode_record(line) for line in handle.lines()]
    bodies = [msgspec.json.decode(record.body) for record in records if record.kind == "message"]
    return [body["content"] for body in bodies]
