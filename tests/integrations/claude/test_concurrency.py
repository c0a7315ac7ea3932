"""Many calls at a time: for many sessions, for one, from several processes, by callers who give up."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.drivers import PassingDriver
from tests.integrations.claude.conftest import S3, opened
from tests.integrations.claude.scribe import PROJECT, Scribe, key_of
from tests.sampling import few
from tests.session.backends import Backend, memory_backend
from tests.storage.processes import finish, start

from treering.api.store import Store
from treering.errors import UsageError
from treering.integrations.claude import TreeringSessionStore
from treering.storage.requests import Answer, Batch
from treering.store.place import Place

WRITER = """
import asyncio, json
import treering
from treering.integrations.claude import TreeringSessionStore

async def main(folder, who):
    key = {"project_key": "-home-ada-clock", "session_id": "s"}
    store = TreeringSessionStore(treering.open(folder))
    for number in range(20):
        shared = {"type": "user", "uuid": f"all-{number}", "parentUuid": None, "message": {"content": "x"}}
        await store.append(key, [{"type": "mode", "by": who, "n": number}, shared])

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""
WRITERS = "abc"[: few(2, whole=3)]


async def test_a_hundred_sessions_at_once(backend: Backend) -> None:
    """Appends to sessions at the same time are all recorded, each in its session; so are those of subagents.

    To 40 here, to 100 with `make whole`.
    """
    store = opened(backend)
    scribes = [Scribe() for _ in range(few(30, whole=90))]
    scribes += [Scribe(scribe.session, agent="a") for scribe in scribes[:10]]
    for text in ("one", "two"):
        await asyncio.gather(*(store.append(scribe.key, scribe.turn(text)) for scribe in scribes))
    reading = opened(backend)
    loaded = await asyncio.gather(*(reading.load(scribe.key) for scribe in scribes))
    assert loaded == [scribe.entries for scribe in scribes]


async def test_one_session_keeps_the_order_of_calls(near: Backend) -> None:
    """Appends to one session that are called one after the other without waiting are recorded in that order."""
    store = opened(near)
    entries: list[Any] = [{"type": "mode", "n": number} for number in range(100)]
    await asyncio.gather(*(store.append(key_of("s"), [entry]) for entry in entries))
    assert await store.load(key_of("s")) == entries


@pytest.mark.parametrize("kind", ["memory", S3])
async def test_two_hosts_append_to_one_session(kind: str, make_backend: Any) -> None:
    """Two hosts append to one session at the same time: nothing is lost, and each finds its own in order."""
    backend: Backend = make_backend(kind)
    hosts = [opened(backend), opened(backend)]
    count = few(6, whole=15)
    mine: list[list[Any]] = [[{"type": "mode", "host": host, "n": n} for n in range(count)] for host in range(2)]

    async def send(host: int) -> None:
        for entry in mine[host]:
            await hosts[host].append(key_of("s"), [entry])

    await asyncio.gather(send(0), send(1))
    loaded: Any = await opened(backend).load(key_of("s"))
    assert [[entry for entry in loaded if entry["host"] == host] for host in range(2)] == mine


@pytest.mark.tools
async def test_several_processes(tmp_path: Any) -> None:
    """Processes that write one session at once lose nothing, and what all of them send is there once."""
    processes = [start(WRITER, tmp_path, who) for who in WRITERS]
    for process in processes:
        finish(process)
    loaded: Any = await opened_on(tmp_path).load(key_of("s"))
    for who in WRITERS:
        assert [entry["n"] for entry in loaded if entry.get("by") == who] == list(range(20))
    assert sorted(entry["uuid"] for entry in loaded if "uuid" in entry) == sorted(f"all-{n}" for n in range(20))


def opened_on(folder: Any) -> TreeringSessionStore:
    """A store of transcripts in a folder."""
    import treering

    return TreeringSessionStore(treering.open(folder))


async def test_a_store_is_closed_whatever_others_deleted(tmp_path: Path) -> None:
    """Every append is durable, so there is nothing to tell, and the other transcripts are closed, too."""
    keys: list[Any] = [{"project_key": "p", "session_id": name} for name in "ab"]
    entries: list[Any] = [{"type": "user", "uuid": "u", "message": {"role": "user", "content": "x"}}]
    async with opened_on(str(tmp_path)) as store:
        for key in keys:
            await store.append(key, entries)
        await opened_on(str(tmp_path)).delete(keys[0])
    assert await opened_on(str(tmp_path)).load(keys[1])


class _Stuck(PassingDriver):
    """Answers nothing until it is let go."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.free = threading.Event()
        self.free.set()

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        self.free.wait()
        return self.inner.execute(batch)


async def test_a_caller_who_gives_up() -> None:
    """A store that does not answer holds nobody up for longer than they want; what was sent is recorded once."""
    driver = _Stuck(memory_backend().driver())
    store, scribe = TreeringSessionStore(Store(Place(driver))), Scribe()
    await store.append(scribe.key, scribe.turn("one"))
    driver.free.clear()
    late = scribe.turn("two")
    with pytest.raises(TimeoutError), anyio.fail_after(0.05):
        await store.append(scribe.key, late)
    driver.free.set()
    await store.append(scribe.key, late)
    await store.append(scribe.key, scribe.turn("three"))
    assert await store.load(scribe.key) == scribe.entries


async def test_few_transcripts_stay_open(near: Backend) -> None:
    """More sessions than may be open take turns; those that were given up have a card that tells all of them."""
    store = TreeringSessionStore(near.store(), open_max=3)
    scribes = [Scribe() for _ in range(9)]
    for text in ("one", "two"):
        for scribe in scribes:
            await store.append(scribe.key, scribe.turn(text))
            assert len(store._open) <= 3
    reading = opened(near)
    cards = {info.id: info for info in near.store().namespace(PROJECT).each_session()}
    assert sum(cards[scribe.session].messages == 4 for scribe in scribes) == 6
    assert [await reading.load(scribe.key) for scribe in scribes] == [scribe.entries for scribe in scribes]


def test_one_transcript_stays_open_at_least() -> None:
    """No room at all is refused."""
    with pytest.raises(UsageError, match="open_max=0"):
        TreeringSessionStore(memory_backend().store(), open_max=0)


async def test_closed_on_exit(near: Backend) -> None:
    """When the store is closed, cards tell what was appended, and the next process has nothing to replay."""
    scribe = Scribe()
    async with opened(near) as store:
        await store.append(scribe.key, scribe.turn("one"))
        scribe.note("custom-title", customTitle="Clock")
        await store.append(scribe.key, scribe.entries[-1:])
    (info,) = near.store().namespace(PROJECT).sessions().rows
    assert (info.title, info.first_prompt, info.messages, info.cwd) == ("Clock", "one", 2, "/home/ada/clock")
    await store.append(scribe.key, scribe.turn("two"))
    assert await store.load(scribe.key) == scribe.entries


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
async def test_after_a_fork(tmp_path: Any) -> None:
    """A forked child uses the store it was given: it opens what it needs anew."""
    store, scribe = opened_on(tmp_path), Scribe()
    await store.append(scribe.key, scribe.turn("one"))
    assert await asyncio.to_thread(_in_a_child, lambda: store.append(scribe.key, scribe.turn("by the child"))) == 0
    await store.append(scribe.key, scribe.turn("two"))
    loaded: Any = await opened_on(tmp_path).load(scribe.key)
    assert [entry["message"]["content"] for entry in loaded if entry["type"] == "user"] == [
        "one",
        "by the child",
        "two",
    ]


def _in_a_child(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Do something in a forked process; return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(work())
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]
