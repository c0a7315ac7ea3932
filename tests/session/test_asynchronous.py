"""The asynchronous session does what the blocking one does, from the same protocols, without blocking the loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.budgets.texts import texts as budget_texts
from tests.drivers import PassingDriver
from tests.session.backends import Backend, kill, memory_backend, texts, tick

import treering
from treering import KeepCheckpoints, SessionHeldError, UsageError
from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.storage import threads
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Append, Batch
from treering.storage.threads import in_thread
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place

# What is done to a session: a verb and its arguments; texts in braces name nodes and checkpoints recorded before.
SCRIPT: list[tuple[str, tuple[object, ...], dict[str, Any]]] = [
    ("append", ("one",), {}),
    ("append", ("two", {"role": "assistant", "content": "three"}), {}),
    ("commit", (["four"],), {"state": {"n": 1}, "label": "first"}),
    ("set_model", ("m",), {"provider": "p"}),
    ("set_thinking", ("high",), {}),
    ("set_mode", ("plan",), {}),
    ("set_title", ("T",), {}),
    ("set_status", ("done",), {}),
    ("move", (), {"project": "p"}),
    ("label", (0, "L"), {}),
    ("note", ("exit", {"code": 0}), {}),
    ("record_usage", (), {"input": 3}),
    ("record_system", ("be nice",), {}),
    ("record_extension", ("todo", [1]), {}),
    ("compact", ("gist",), {"kept": 1}),
    ("amend", (1, {"role": "user", "content": "TWO"}), {}),
    ("retract", (0,), {}),
    ("unretract", (0,), {}),
    ("seal", (), {}),
    ("branch", ("idea",), {"node": 1, "summary": "s"}),
    ("append", ("five",), {}),
    ("switch", ("main",), {}),
    ("drop_head", ("idea",), {}),
    ("checkout", (None,), {}),
    ("append", ("another root",), {}),
    ("rewind", ("first",), {}),
    ("flush", (), {}),
    ("discard", (), {}),
    ("optimize", (), {"everything": True}),
    ("fork", ("copy",), {}),
    ("prune", (KeepCheckpoints(last=2),), {}),
    ("refresh", (), {}),
]


def arguments(state: Any, ids: list[str], checkpoints: dict[str, str], values: Any) -> Any:
    """Put ids in the place of numbers, and checkpoints in the place of their labels."""
    if isinstance(values, dict):
        return {name: ids[value] if name in ("kept", "node") else value for name, value in values.items()}
    return tuple(
        ids[value] if isinstance(value, int) else checkpoints.get(value, value) if isinstance(value, str) else value
        for value in values
    )


async def play(session: Any, call: Callable[[Any], Any]) -> tuple[object, ...]:
    """Do all of the script; return what the session is like afterwards, without ids."""
    labels: dict[str, str] = {}
    for verb, positional, named in SCRIPT:
        ids = [row.id for row in await call(session.nodes())] if session.node else []
        done = await call(
            getattr(session, verb)(
                *arguments(session, ids, labels, positional), **arguments(session, ids, labels, named)
            )
        )
        if verb == "commit":
            labels["first"] = done.checkpoint
    rows = await call(session.nodes())
    places = {row.id: number for number, row in enumerate(rows)}
    return (
        [(row.kind, row.role, places.get(row.parent), row.at) for row in rows],
        texts(session.context),
        session.state,
        dict(session.settings),
        {name: places.get(node) for name, node in session.heads.items()},
        (session.head, places[session.node]),
        (session.info.title, session.info.status, session.info.project, session.info.nodes),
        dict(session.usage),
        [places[item.node] for item in session.context],
        [row.node.kind for row in (await call(session.history(retracted=True))).rows],
        [(row.first in places, row.count, row.level) for row in await call(session.tree())],
        [(entry.full, entry.label) for entry in await call(session.checkpoints())],
        [note.kind for note in await call(session.notes())],
        len(await call(session.leaves())),
        places[await call(session.newest_leaf(rows[0].id))],
        (await call(session.diff(labels["first"]))).state,
        (await call(session.diff(rows[0].id, session.node))).context.kept,
        (await call(session.stored())).records,
        places[await call(session.last_compaction())] if await call(session.last_compaction()) else None,
    )


async def test_both_kinds_of_session_do_the_same(backend: Backend) -> None:
    """The same verbs leave the same session, blocking or awaited."""

    async def at_once(value: Any) -> Any:
        return value

    async def awaiting(value: Any) -> Any:
        return await value

    other = memory_backend(appends=backend.driver().appends)
    with other.store().session("s") as session:
        blocking = await play(session, at_once)
    async with await backend.async_store().session("s") as asynchronous:
        assert await play(asynchronous, awaiting) == blocking
    assert texts(backend.store().view("copy").context) == texts(other.store().view("copy").context)


async def test_an_asynchronous_session_survives_a_kill(backend: Backend) -> None:
    """What was awaited is there in the next process."""
    session = await backend.async_store().session("s")
    await session.append("a")
    await session.commit(["b"], state={"n": 1}, manager=[1])
    kill(session)
    store = backend.async_store()
    async with await store.session("s", create=False) as session:
        assert (texts(session.context), session.state, session.manager) == (["a", "b"], {"n": 1}, [1])
    view = await store.view("s")
    assert (await view.get(view.node or "")).payload == {"role": "user", "content": "b"}
    assert [row.id for row in (await store.sessions()).rows] == ["s"]
    recent = await store.recent()
    assert recent is not None
    assert recent.id == "s"
    with pytest.raises(treering.NotFoundError):
        await store.view("nothere")


async def test_the_rest_of_an_asynchronous_store(backend: Backend) -> None:
    """Namespaces, spawn, copy, load, verify and delete work as in the blocking store."""
    store = backend.async_store()
    tenant = store.namespace("t")
    async with await tenant.session("s") as session:
        await session.append("a")
        async with await tenant.spawn(session, "child", task="look") as child:
            await child.append("x")
    await tenant.copy("s", store, name="copied")
    assert texts((await store.view("copied")).context) == ["a"]
    await store.load("loaded", [treering.user("m")], leaf=lambda: None)
    assert {row.id for row in (await store.sessions()).rows} == {"copied", "loaded"}
    assert await store.verify("copied") == []
    await store.delete("copied")
    assert {row.id for row in (await store.sessions()).rows} == {"loaded"}
    assert {row.id for row in (await tenant.sessions()).rows} == {"s", "child"}
    await store.close()


async def test_a_load_reads_its_file_in_a_thread(backend: Backend) -> None:
    """While an importer waits for a file, other tasks go on: here, for something that only another task will do."""
    there = threading.Event()

    def drafts() -> Iterator[treering.Draft]:
        assert there.wait(60)
        yield treering.user("m", id="00000001")

    loading = asyncio.ensure_future(backend.async_store().load("s", drafts(), leaf=lambda: "00000001"))
    await asyncio.sleep(0)
    there.set()
    await loading
    assert texts((await backend.async_store().view("s")).context) == ["m"]


SEGMENTS, SEGMENT_TEXTS = 5, 30
LONG_VERBS = ("verify", "load", "copy", "repair", "backup", "retain")


async def long_work(store: AsyncStore, target: AsyncStore, verb: str, told: Callable[[object], None]) -> None:
    """Work on a session of so many segments that takes a while; `told` is given to who reports."""
    if verb == "verify":
        assert await store.verify("s") == []
    elif verb == "load":
        drafts = [treering.user(text, id=f"{at:08}") for at, text in enumerate(budget_texts(1000, 5000))]
        await target.load("new", drafts, leaf=lambda: None, progress=told)
    elif verb == "copy":
        await store.copy("s", target, name="new", progress=told)
    elif verb == "repair":
        await store.repair("s", into="new", target=target, progress=told)
    elif verb == "backup":
        await store.backup(target, progress=told, on_result=told)
    else:
        policy = treering.Retention(checkpoints=KeepCheckpoints(last=1, labelled=False), min_idle_hours=0)
        await store.retain(policy, on_result=told)


@pytest.mark.parametrize("verb", LONG_VERBS)
async def test_long_work_lets_other_tasks_have_their_turns(verb: str) -> None:
    """One for each segment, though the store answers at once; what reports on it is called on the event loop."""
    driver = MemoryDriver()
    with Store(Place(driver)).session("s") as session:
        for number in range(SEGMENTS):
            session.commit(budget_texts(SEGMENT_TEXTS, 10_000, seed=number), context=[], state={"n": number})
            session.seal()
    store, target = AsyncStore(Place(driver)), AsyncStore(Place(MemoryDriver()))
    threads, turns = set(), 0

    def told(_: object) -> None:
        threads.add(threading.get_ident())

    work = asyncio.ensure_future(long_work(store, target, verb, told))
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    await work
    assert turns > SEGMENTS
    assert threads <= {threading.get_ident()}
    assert threads or verb == "verify"


@pytest.mark.parametrize("verb", ["load", "copy", "repair", "backup"])
async def test_long_work_can_be_cancelled(tmp_path: Path, verb: str) -> None:
    """What was not done yet is not done then; the new session does not exist, and can be made again."""
    store, target = treering.aopen(tmp_path / "store"), treering.aopen(tmp_path / "target")
    async with store.session("s") as session:
        await session.append("m")

    def cancel(_: int) -> None:
        task.cancel()

    def job() -> Coroutine[Any, Any, object]:
        if verb == "load":
            return target.load("new", [treering.user("m")], leaf=lambda: None, progress=cancel)
        if verb == "copy":
            return store.copy("s", target, name="new", progress=cancel)
        if verb == "repair":
            return store.repair("s", into="new", target=target, progress=cancel)
        return store.backup(target, progress=cancel)

    task = asyncio.ensure_future(job())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await target.sessions()).rows == ()
    task = asyncio.ensure_future(asyncio.sleep(60))  # which is cancelled in place of what is done now
    await job()
    task.cancel()
    assert len((await target.sessions()).rows) == 1


async def test_retain_and_erase_finish_what_blocks_in_a_thread(backend: Backend) -> None:
    """Deleting, pruning and erasing also remove what the driver keeps beside the objects, and tell it as elsewhere."""
    store = backend.async_store()
    for name in "ab":
        async with store.session(name) as session:
            for step in range(3):
                await session.commit(["x"], state={"n": step}, label=str(step))
        tick()
    async with store.session("b") as session:
        erased = await session.erase(session.node or "")
    with backend.store().session("b") as blocking:
        assert blocking.erase(blocking.node or "").warnings == erased.warnings
    told: list[str] = []
    policy = treering.Retention(sessions_max=1, checkpoints=KeepCheckpoints(last=1, labelled=False), min_idle_hours=0)
    done = await store.retain(policy, on_result=lambda row: told.append(row.action))
    assert sorted(told) == sorted(row.action for row in done.rows) == ["delete", "prune"]
    assert [row.id for row in (await store.sessions()).rows] == ["b"]
    assert len(await (await store.view("b")).checkpoints()) == 1


async def test_an_asynchronous_feed(backend: Backend) -> None:
    """A feed waits without blocking the loop and yields what another task adds."""
    async with await backend.async_store().session("s", shared=True) as session:
        await session.append("a")
        view = await backend.async_store().view("s")

        async def collect() -> list[object]:
            found = []
            async for node in view.follow(poll_seconds=0):
                found.append(node.payload["content"])
                if len(found) == 3:
                    return found
            return []

        task = asyncio.create_task(collect())
        for text in "bcd":
            await asyncio.sleep(0)
            await session.append(text)
        assert await task == ["b", "c", "d"]


async def test_tasks_may_share_a_session(backend: Backend) -> None:
    """Appends of several tasks on one handle come one after the other; all are there, in one chain."""
    async with await backend.async_store().session("s") as session:
        await asyncio.gather(*(session.append(f"m{number}") for number in range(20)))
        assert len(await session.path()) == 20
        assert sorted(texts(session.context)) == sorted(f"m{number}" for number in range(20))


class Slow(DriverWrapper):
    """Lets every other task run before it answers, and counts batches under way."""

    most = under_way = 0

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Answer after others ran."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return await self.inner.aexecute(batch)

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Never: it would block the loop."""
        raise AssertionError("blocking call")


async def test_sessions_of_one_store_run_beside_each_other() -> None:
    """Different sessions wait for the store at the same time, and nothing blocks the loop."""
    from treering.api.async_store import AsyncStore

    driver = Slow(MemoryDriver())
    store = AsyncStore(Place(driver))

    async def work(name: str) -> None:
        async with await store.session(name) as session:
            for number in range(5):
                await session.append(f"m{number}")

    await asyncio.gather(*(work(f"s{number}") for number in range(8)))
    assert driver.most > 4
    assert len((await store.sessions()).rows) == 8


async def test_a_cancelled_append_is_settled_by_the_next(backend: Backend) -> None:
    """A task cancelled in the middle of an append leaves a session that goes on; the message is there once or never."""

    class Hanging(PassingDriver):
        hang = asyncio.Event()
        hanging = False

        async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
            answers = await self.inner.aexecute(batch)
            if self.hanging:
                self.hang.set()
                await asyncio.Event().wait()
            return answers

    driver = Hanging(backend.driver())
    session = await AsyncStore(Place(driver)).session("s")
    await session.append("a")
    driver.hanging = True
    task = asyncio.create_task(session.append("cut"))
    await driver.hang.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    driver.hanging = False
    await session.append("b")
    said = texts(session.context)
    assert said in (["a", "b"], ["a", "cut", "b"])
    kill(session)
    view = backend.store().view("s")
    assert texts(view.context) == said
    assert [view.get(row.id).payload["content"] for row in view.nodes()] == said


async def test_whoever_is_cancelled_leaves_nothing_under_way(tmp_path: Path) -> None:
    """On a disk a cancelled call ends when its write has: who holds the session next is alone with it."""
    gate, begun = threading.Event(), threading.Event()

    class Slow(LocalDriver):
        writing = 0

        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            if not any(isinstance(each, Append) for each in batch):
                return super().execute(batch)
            self.writing += 1
            begun.set()
            gate.wait()
            try:
                return super().execute(batch)
            finally:
                self.writing -= 1

    driver = Slow(tmp_path)
    gate.set()
    session = await AsyncStore(Place(driver)).session("s")
    await session.append("a")
    gate.clear()
    begun.clear()
    task = asyncio.create_task(session.append("cut"))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):  # whoever is impatient
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert driver.writing == 0
    await session.close()
    with treering.open(tmp_path).session("s") as other:
        other.append("b")
        assert texts(other.context) == ["a", "cut", "b"]


async def test_a_session_may_be_held_only_while_it_is_needed(tmp_path: Path) -> None:
    """Opened without a hold it keeps nobody out but from `claim` to `release`, as the blocking one."""
    store = treering.aopen(tmp_path)
    async with await store.session("s", hold=False) as first, await store.session("s", hold=False) as second:
        await first.append("a")
        await first.claim()
        with pytest.raises(SessionHeldError):
            await second.claim()
        await first.release()
        await second.claim()
        with pytest.raises(SessionHeldError):
            await first.claim()
    with pytest.raises(UsageError, match="closed"):
        await first.claim()
    await (await store.session("s")).close()
    await store.close()


async def test_a_lock_is_released_if_the_caller_is_cancelled_while_a_thread_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step it is: the thread cannot be stopped, and what it returns reaches nobody."""
    store = treering.aopen(tmp_path)
    async with store.session("s") as session:
        await session.append(*[treering.user("word " * 2000) for _ in range(100)])  # so much is decoded in a thread
    calls: list[int] = []

    def cancelling(number: int) -> Callable[[Callable[[Any], Any], Any], Coroutine[Any, Any, Any]]:
        async def call(function: Callable[[Any], Any], argument: Any) -> Any:
            task = asyncio.current_task()
            assert task is not None
            if len(calls) == number:
                task.cancel()
            calls.append(number)
            return await in_thread(function, argument)

        return call

    async def opened() -> None:
        async with store.session("s"):
            pass

    for number in count():
        calls.clear()
        monkeypatch.setattr(threads, "in_thread", cancelling(number))
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.create_task(opened())
        monkeypatch.setattr(threads, "in_thread", in_thread)
        async with store.session("s") as session:
            assert len(session.context) == 100
        if len(calls) <= number:
            break
    assert number > 0
