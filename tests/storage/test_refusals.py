"""Stores that refuse conditions that hold, as proxies make them, and stores that only seem to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.session.faults import says

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.errors import ConflictError, UnavailableError, UnsafeStoreError
from treering.journal.register import ATTEMPTS_MAX, Attempts
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.refusals import REFUSALS_PROVE
from treering.storage.requests import (
    Answer,
    Append,
    Batch,
    Delete,
    Driver,
    Found,
    Get,
    Put,
    Request,
    Steps,
    Version,
    Written,
)
from treering.storage.run import ask, run
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place


class Proxy(DriverWrapper):
    """A proxy that changes requests or answers while it is `on`."""

    def __init__(self, inner: Driver) -> None:
        super().__init__(inner)
        self.on = False

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        return tuple(self.one(request) if self.on else self.inner.execute((request,))[0] for request in batch)

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)

    def one(self, request: Request) -> Answer:
        """Answer one request."""
        raise NotImplementedError


class WeakTags(Proxy):
    """Makes the versions of what is read weak, as nginx does when it compresses."""

    def one(self, request: Request) -> Answer:
        (answer,) = self.inner.execute((request,))
        if isinstance(answer, Found):
            return msgspec.structs.replace(answer, version=Version(f"W/{answer.version}"))
        return answer


class Firewall(Proxy):
    """Refuses every request with a condition."""

    def one(self, request: Request) -> Answer:
        if isinstance(request, Put | Append | Delete) and request.expect is not None:
            return ConflictError("412")
        return self.inner.execute((request,))[0]


WRITES: dict[str, Callable[[Store], object]] = {
    "append": lambda store: store.session("s", shared=True).append("three"),
    "claim": lambda store: store.session("s", claim=5),
    "create": lambda store: store.session("new").append("x"),
    "delete": lambda store: store.delete("s"),
    "erase": lambda store: store.session("s", shared=True).erase(store.view("s").context[0].node),
}


CASES = [(Firewall, verb) for verb in WRITES] + [(WeakTags, verb) for verb in WRITES if verb != "create"]
"""A creation replaces nothing that was read, so it goes through where tags of reads are weak."""


@pytest.mark.parametrize(("proxy", "verb"), CASES)
def test_a_store_that_refuses_what_holds_is_told(proxy: type[Proxy], verb: str) -> None:
    """Not as other writers who were faster: after a few requests the error says what is wrong, and with what."""
    counting = CountingDriver(MemoryDriver())
    driver = proxy(counting)
    store = Store(Place(driver))
    with store.session("s") as session:
        session.append("one")
        session.append("two")
    driver.on = True
    counting.reset()
    with pytest.raises(UnsafeStoreError, match="refuses a condition that holds") as caught:
        WRITES[verb](store)
    assert caught.value.kind == "condition_refused"
    assert caught.value.key
    assert counting.total < 25


@pytest.mark.parametrize("proxy", [WeakTags, Firewall])
async def test_asynchronous_code_is_told_as_well(proxy: type[Proxy]) -> None:
    """The same job, run on an event loop."""
    driver = proxy(MemoryDriver())
    store = AsyncStore(Place(driver))
    async with await store.session("s") as session:
        await session.append("one")
        await session.append("two")
    driver.on = True
    with pytest.raises(UnsafeStoreError):
        await store.delete("s")


def test_a_handle_goes_on_once_the_proxy_is_mended() -> None:
    """What could not be written is not recorded, and the same handle records what is sent again."""
    driver = Firewall(MemoryDriver())
    store = Store(Place(driver))
    session = store.session("s")
    session.append("one")
    driver.on = True
    for _ in range(2):
        with pytest.raises(UnsafeStoreError):
            session.append("two")
    driver.on = False
    session.append("two")
    session.close()
    assert says(store.view("s")) == ["one", "two"]


def test_faster_writers_are_none_of_this() -> None:
    """A writer that always loses to others is told so."""
    memory = MemoryDriver()

    def lose() -> Steps[None]:
        attempts = Attempts("a")
        while attempts.another():
            there = yield from ask(Get("a", register=True), Found)
            memory.execute((Put("a", there.data + b"x"),))
            yield (Put("a", b"", expect=there.version),)

    memory.execute((Put("a", b""),))
    with pytest.raises(UnavailableError, match=f"{ATTEMPTS_MAX} times"):
        run(lose(), memory)


@pytest.mark.parametrize("refused", [2, 3])
def test_a_cache_may_be_outdated_for_a_moment(refused: int) -> None:
    """Twice in a row is no proof; the third time is."""
    driver = Firewall(MemoryDriver())
    driver.execute((Put("a", b""),))

    def swap() -> Steps[int]:
        for attempt in range(5):
            there = yield from ask(Get("a", register=True), Found)
            driver.on = attempt < refused
            (answer,) = yield (Put("a", b"x", expect=there.version),)
            if isinstance(answer, Written):
                return attempt
        raise AssertionError("it was refused for ever")

    if refused < REFUSALS_PROVE:
        assert run(swap(), driver) == refused
    else:
        with pytest.raises(UnsafeStoreError):
            run(swap(), driver)
