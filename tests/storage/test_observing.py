"""An observer sees what is sent to a store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import treering
from treering.api.store import Store
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver, scripted_plan
from treering.storage.memory import MemoryDriver
from treering.storage.observing import ObservedDriver, RequestBatch, RequestInfo, observed
from treering.storage.requests import Append, Batch, Delete, Get, List, Put
from treering.storage.retrying import RetryingDriver
from treering.storage.s3 import S3Driver
from treering.store.place import Place


def test_each_request_is_told_with_its_answer() -> None:
    """Its type, what it is about, its bytes, and the kind of an error; blocking or not, one batch after the other."""
    seen: list[RequestBatch] = []
    times = iter(range(100))
    driver = ObservedDriver(MemoryDriver(appends=True), seen.append, clock=lambda: next(times))
    batch: Batch = (Put("a", b"12345"), Get("a", 1, 3), Get("no"), List("x/"), Delete(("a", "b")))
    driver.execute(batch)
    asyncio.run(driver.aexecute((Append("no.jsonl", b"1\n", driver.execute((Put("l", b""),))[0].version),)))  # type: ignore[union-attr]
    assert [(each.type, each.key, each.bytes_up, each.bytes_down, each.error) for each in seen[0].requests] == [
        ("Put", "a", 5, 0, ""),
        ("Get", "a", 0, 2, ""),
        ("Get", "no", 0, 0, "notfound"),
        ("List", "x/", 0, 0, ""),
        ("Delete", "a", 0, 0, ""),
    ]
    assert [batch.seconds for batch in seen] == [1, 1, 1]
    assert seen[-1].requests[0].type == "Append"


def test_what_is_sent_again_is_seen_again() -> None:
    """The observer is told of each attempt, with what came of it."""
    seen: list[RequestInfo] = []
    faulty = FaultyDriver(MemoryDriver(), scripted_plan([Fault.BEFORE, Fault.NONE]))
    driver = RetryingDriver(faulty, sleep=lambda _: None)
    assert observed(driver, lambda batch: seen.extend(batch.requests)) is driver
    driver.execute((Put("a", b"1"),))
    assert [(each.type, each.error == "") for each in seen] == [("Put", False), ("Put", True)]


def test_on_s3_the_observer_is_below_what_sends_again() -> None:
    """So it counts what is charged for."""
    driver = treering.open("s3://bucket/agents", observer=lambda _: None).place.driver
    assert isinstance(driver, RetryingDriver)
    assert isinstance(driver.inner, ObservedDriver)
    assert isinstance(treering.open("s3://bucket/agents").place.driver.inner, S3Driver)  # type: ignore[attr-defined]


def counts(do: Callable[[Store], object], driver: MemoryDriver) -> tuple[Counter[str], Counter[str]]:
    """Requests by type, as an observer and as a driver below it see them."""
    below, seen = CountingDriver(driver), Counter[str]()
    store = Store(Place(ObservedDriver(below, lambda batch: seen.update(each.type for each in batch.requests))))
    do(store)
    return seen, below.counts


def test_nothing_is_left_out() -> None:
    """What the store is asked for and what the observer is told of are the same, over the life of a session."""

    def live(store: Store) -> None:
        with store.session("one") as session:
            session.commit(["hello"], state={"step": 1})
            session.seal()
        store.copy("one", name="two")
        store.sessions()
        store.delete("one")

    seen, below = counts(live, MemoryDriver())
    assert seen == below
    assert seen.total() > 20


@pytest.mark.parametrize("place", ["memory://observed", "disk"])
def test_a_store_is_opened_with_an_observer(place: str, tmp_path: Path) -> None:
    """Blocking or not, in memory or on a disk; a resume is two reads, and an append is one write."""
    seen: list[str] = []
    target = place if "://" in place else tmp_path / place

    def observe(batch: RequestBatch) -> None:
        seen.extend(each.type for each in batch.requests)

    with treering.open(target, observer=observe).session("chat") as session:
        session.append("hello")

    async def resume() -> None:
        async with treering.aopen(target, observer=observe) as store, store.session("chat") as session:
            assert seen == ["Get", "Get"]
            await session.append("and again")
            await session.append("once more")

    seen.clear()
    asyncio.run(resume())
    assert seen[:2] == ["Get", "Get"]
    assert len(treering.open(target).view("chat").context) == 3


def test_what_an_observer_raises_ends_the_call_and_loses_nothing() -> None:
    """As after an interrupt: the next call finds out whether the records are there, and each is there once."""
    failing = False

    def observe(batch: RequestBatch) -> None:
        if failing and any(each.type in ("Put", "Append") for each in batch.requests):
            raise RuntimeError("no metrics")

    with treering.open("memory://raising", observer=observe).session("chat") as session:
        session.append("one")
        failing = True
        with pytest.raises(RuntimeError, match="no metrics"):
            session.append("two")
        failing = False
        session.append("three")
    context = treering.open("memory://raising").view("chat").context
    assert [item.message["content"] for item in context] == ["one", "two", "three"]


def test_an_observed_store_is_still_the_same_store() -> None:
    """A copy of a session upon itself, and a backup of a store into itself, are refused as without an observer."""
    store = treering.open("memory://same", observer=lambda _: None)
    with store.session("chat") as session:
        session.append("hello")
    with pytest.raises(treering.UsageError, match="another name"):
        store.copy("chat", treering.open("memory://same"))
    with pytest.raises(treering.UsageError):
        store.backup(treering.open("memory://same", namespace="backup", observer=lambda _: None))
