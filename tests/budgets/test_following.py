"""Requests of those who follow: one look for all of them, however many, and nothing else while it is quiet."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest
from tests.sampling import few
from tests.servers import S3Server
from tests.session.backends import kill
from tests.storage.processes import wait_until

import treering
from treering.api.store import Store
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Driver, Get
from treering.storage.s3 import S3Driver
from treering.store.place import Place

FOLLOWERS, POLL_SECONDS = few(10, whole=30), 0.2


class Bucket(NamedTuple):
    """An object store: one driver to write with, one to read with, whose requests are counted."""

    writes: Driver
    reads: CountingDriver


@pytest.fixture(params=["memory", pytest.param("moto", marks=pytest.mark.s3)])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """An object store in memory, and one on the wire."""
    if request.param == "memory":
        driver = MemoryDriver()
        yield Bucket(driver, CountingDriver(driver, keep=True))
        return
    server: S3Server = request.getfixturevalue("moto")
    place = f"{server.bucket}/follow-{os.urandom(6).hex()}"
    writes, reads = (S3Driver(place, storage_options=server.storage_options) for _ in range(2))
    yield Bucket(writes, CountingDriver(reads, keep=True))
    writes.close()
    reads.close()


def check_looks(bucket: Bucket, seconds: float) -> None:
    """Looks are as many as one reader would send, each a GET of the tail, conditional but for the first.

    Where records were sealed between two looks, one list, one GET of the tail and one of the segment come on top.
    """
    looks = [request for request in bucket.reads.requests if isinstance(request, Get) and "/tail" in request.key]
    assert len(looks) <= seconds / POLL_SECONDS + 3
    assert sum(request.unless is None for request in looks) <= 2
    counts = Counter(type(request).__name__ for request in bucket.reads.requests)
    assert counts.keys() <= {"Get", "List"}
    assert counts["Get"] + counts["List"] - len(looks) <= 2


def _is_longer(told: list[str], than: int) -> bool:
    return len(told) > than


def test_threads_look_together(bucket: Bucket) -> None:
    """Many threads, each with a view of its own, beside a writer that also seals; killed, and gone on with."""
    session = Store(Place(bucket.writes)).session("s", shared=True)
    session.append("first")
    store = Store(Place(bucket.reads))
    views = [store.view("s") for _ in range(FOLLOWERS)]
    told: list[list[str]] = [[] for _ in views]
    expected = 12

    def read(number: int) -> None:
        for event in views[number].events(poll_seconds=POLL_SECONDS):
            told[number].append(event.after)
            if len(told[number]) == expected:
                return

    threads = [threading.Thread(target=read, args=[number], daemon=True) for number in range(FOLLOWERS)]
    bucket.reads.reset()
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for number in range(expected):
        session.append(f"m{number}")
        if number == 5:
            session.seal()
        assert wait_until(partial(_is_longer, told[0], number))
    for thread in threads:
        thread.join(20)
    check_looks(bucket, time.monotonic() - began)
    assert {tuple(each) for each in told} == {tuple(told[0])}
    assert len(told[0]) == expected
    again = Store(Place(bucket.reads)).view("s").events(after=told[0][7], poll_seconds=0)
    assert [next(again).after for _ in range(expected - 8)] == told[0][8:]
    kill(session)


async def test_tasks_look_together(bucket: Bucket) -> None:
    """So do tasks, while nothing happens and when something does."""
    session = await treering.AsyncStore(Place(bucket.writes)).session("s", shared=True)
    await session.append("first")
    store = treering.AsyncStore(Place(bucket.reads))
    views = [await store.view("s") for _ in range(FOLLOWERS)]

    async def read(view: treering.AsyncView) -> list[str]:
        found: list[str] = []
        async for event in view.events(poll_seconds=POLL_SECONDS):
            found.append(event.after)
            if len(found) == 4:
                break
        return found

    bucket.reads.reset()
    began = time.monotonic()
    tasks = [asyncio.create_task(read(view)) for view in views]
    await asyncio.sleep(5 * POLL_SECONDS)
    await session.append("a")
    await session.seal()
    await session.append("b", "c", "d")
    told = await asyncio.wait_for(asyncio.gather(*tasks), 20)
    check_looks(bucket, time.monotonic() - began)
    assert {tuple(each) for each in told} == {tuple(told[0])}
    kill(session)
