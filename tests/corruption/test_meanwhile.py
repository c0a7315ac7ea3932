"""A check while other processes merge or erase: it reports nothing of a sound session, and ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from tests.session.faults import Meeting

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import NotFoundError
from treering.format.paths import SessionKeys, parse_segment
from treering.kinds import Kind
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Get, Put, Request
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place


class NoSegments(DriverWrapper):
    """A store that lists segments and does not have them."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        return tuple(self._answer(request) for request in batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)

    def _answer(self, request: Request) -> Answer:
        if isinstance(request, Get) and parse_segment(request.key) is not None:
            return NotFoundError("gone", key=request.key)
        return self.inner.execute((request,))[0]


class Counting(DriverWrapper):
    """Counts requests."""

    made = 0

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        self.made += len(batch)
        return self.inner.execute(batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)


def filled(memory: MemoryDriver) -> str:
    """A session with some segments; return a node."""
    with Store(Place(memory)).session("s") as session:
        node = session.append("the password is swordfish").node
        for step in range(3):
            session.commit([f"message {step}"], state={"step": step})
            session.seal()
        session.commit(["not sealed"], state={"step": 3})
    return node


def merge(session: Session, node: str) -> None:
    """Merge all segments."""
    del node
    session.optimize(everything=True)


def erase(session: Session, node: str) -> None:
    """Erase a payload."""
    session.erase(node)


def erase_state(session: Session, node: str) -> None:
    """Erase values of the state, which are in segments, the tail and `latest`."""
    del node
    session.erase(state=["step"])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("act", [merge, erase, erase_state])
def test_another_process_before_any_request_of_a_check(*, log: bool, act: Callable[[Session, str], None]) -> None:
    """Whenever it comes, nothing is found."""
    for request in count():
        memory = MemoryDriver(appends=log)
        node, meeting = filled(memory), Meeting(memory)
        seen = count()
        met = list[int]()

        def there(asked: Request, seen: count[int] = seen, place: int = request) -> bool:
            del asked
            return next(seen) == place

        with Store(Place(memory)).session("s", shared=True) as other:

            def meet(other: Session = other, node: str = node, met: list[int] = met) -> None:
                met.append(1)
                act(other, node)

            meeting.before(there, meet)
            assert Store(Place(meeting)).verify("s") == [], request
        if not met:
            return


def test_a_segment_that_is_listed_and_gone_is_damage() -> None:
    """No merge explains it, so the check does not wait for one."""
    memory = MemoryDriver()
    filled(memory)
    found = Store(Place(NoSegments(memory))).verify("s")
    assert {finding.kind for finding in found if finding.severity == "damage"} >= {Kind.MISSING_SEGMENT}


def test_what_it_costs_to_know_that_nothing_moved() -> None:
    """Nothing in a sound session, and one request where something was found."""
    memory = MemoryDriver()
    filled(memory)
    counting = Counting(memory)
    assert Store(Place(counting)).verify("s") == []
    assert counting.made == 9  # two registers, a marker, two lists of segments, three segments, a list of everything
    memory.execute((Put(f"{SessionKeys('', 's', appends=False).home}notes.txt", b""),))
    assert len(Store(Place(counting)).verify("s")) == 1
    assert counting.made == 9 + 9 + 1
