"""`TreeringStorage`: what Strands keeps under keys is durable, whole and found again, beside the sessions."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fsspec.implementations.local import LocalFileSystem
from strands import Agent
from strands.session import SnapshotSessionManager
from strands.storage import Storage
from strands.types.exceptions import StorageError
from strands.vended_memory_stores.file_memory_store import FileMemoryStore
from tests.integrations.strands.fake_model import FakeModel, Redacted
from tests.servers import S3Server
from tests.session.at_rest import MAGIC, holding
from tests.session.backends import Backend, backend_of, files_below, local_backend
from tests.session.faults import Unreliable
from tests.storage.processes import finish, start

import treering
from treering.api.store import Store
from treering.errors import ConflictError, CorruptError, UnavailableError, UsageError
from treering.integrations.strands import TreeringStorage
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver, scripted_plan
from treering.storage.generic import GenericDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Driver, Put, Request
from treering.storage.retrying import RetryingDriver
from treering.storage.s3 import S3Driver
from treering.store.place import Place
from treering.testing.conformance import at_once

SECRET = "the launch code is 0000"
KEYS = ["a", "a/b", "a/b.json", "A", "ab", "é ü/\U0001f600", ".hidden", "con", "a=2fb", "x" * 500, "long/" + "y" * 300]


S3 = pytest.param("s3", marks=[pytest.mark.s3, pytest.mark.thinned(3)])


def storage_of(backend: Backend, **options: Any) -> TreeringStorage:
    """A storage in a store, made by a new process."""
    return TreeringStorage(backend.store(), **options)


def s3_backend(server: S3Server) -> Backend:
    """A store on a server."""
    prefix = f"parcels-{os.urandom(6).hex()}"
    url, options = f"{server.bucket}/{prefix}", server.storage_options
    return Backend("s3", lambda: RetryingDriver(S3Driver(url, storage_options=options)), lambda: server.objects(prefix))


@pytest.fixture(params=["memory", "local", "fsspec", S3])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind; on a server one test in three here, all with `make whole`."""
    folder = tmp_path / "store"
    if request.param == "s3":
        return s3_backend(request.getfixturevalue("seaweedfs"))
    if request.param == "fsspec":
        return Backend("fsspec", lambda: GenericDriver(LocalFileSystem(), str(folder)), lambda: files_below(folder))
    return backend_of(request.param, folder)


async def test_what_is_written_is_read_by_others(place: Backend) -> None:
    """Any bytes come back under any key, also keys that disks would confuse, and to whoever opens the store later."""
    assert isinstance(storage_of(place), Storage)
    values = {key: os.urandom(40) * at for at, key in enumerate(KEYS)}
    storage = storage_of(place)
    await asyncio.gather(*(storage.write(key, value) for key, value in values.items()))
    other = storage_of(place)
    assert {key: await other.read(key) for key in KEYS} == values
    assert await other.list() == sorted(KEYS)
    await other.write("a", b"new")
    assert await storage.read("a") == b"new"
    await other.delete("a")
    await other.delete("a")
    assert await storage.read("a") is None
    assert await storage.list("a") == ["a/b", "a/b.json", "a=2fb", "ab"]
    assert await storage.list("a/") == ["a/b", "a/b.json"]
    assert await storage.list("long/yy") == ["long/" + "y" * 300]
    assert await storage.list("nothing/here") == []


async def test_a_large_value_is_one_object_and_smaller(place: Backend) -> None:
    """A snapshot of some megabytes comes back, and takes less room than it has bytes."""
    value = b'{"role": "user", "content": [{"text": "again"}]}' * 40_000
    await storage_of(place).write("k", value)
    assert await storage_of(place).read("k") == value
    assert sum(map(len, place.snapshot().values())) < len(value) / 100


def test_threads_with_loops_of_their_own_share_a_storage(place: Backend) -> None:
    """Strands runs some calls in threads, each with its own event loop: they all read and write through one storage."""
    storage = storage_of(place)

    def work(number: int) -> bytes | None:
        async def write_and_read() -> bytes | None:
            await storage.write(f"k/{number}", str(number).encode())
            return await storage.read(f"k/{number}")

        return asyncio.run(write_and_read())

    assert at_once(8, work) == [str(number).encode() for number in range(8)]
    assert len(asyncio.run(storage.list("k/"))) == 8


async def test_a_key_that_is_none_is_refused(place: Backend) -> None:
    """Nothing is written for a key that is empty, too long, or looks like a path to elsewhere."""
    storage = storage_of(place)
    for key in ("", "/", "..", "a/../b", "a\\b", "z" * 5000, "/".join("x" * 119 for _ in range(30))):
        writing = storage.write(key, b"x")
        acts: tuple[Awaitable[object], ...] = (writing, storage.read(key), storage.delete(key))
        for act in acts:
            if key == "z" * 5000 and act is not writing:  # it has a key, only no room for its name
                await act
                continue
            with pytest.raises(StorageError):
                await act
    with pytest.raises(StorageError):
        await storage.list("../")
    assert [key for key in place.snapshot() if "parcels/" in key] == []


async def test_a_namespace_sees_its_own_keys(place: Backend) -> None:
    """What `namespace` returns adds and takes off a prefix, finds nothing outside it, and can be made again."""
    storage = storage_of(place)
    inner = storage.namespace("team//a/").namespace("b")
    await inner.write("k", b"deploy on friday")
    await storage.write("team/other", b"deploy on monday")
    assert await storage.list() == ["team/a/b/k", "team/other"]
    assert await storage_of(place).namespace("team/a/b").list() == ["k"]
    assert [hit.key for hit in await inner.search("deploy")] == ["k"]
    assert [hit.key for hit in await storage.search("deploy monday")] == ["team/other", "team/a/b/k"]
    assert await storage.namespace("").list("team/o") == ["team/other"]


async def test_tenants_of_a_store_are_apart(place: Backend) -> None:
    """A namespace of the store is a storage of its own."""
    one, other = (TreeringStorage(place.store().namespace(name)) for name in ("one", "other"))
    await one.write("k", b"1")
    assert (await other.read("k"), await other.list(), await one.list()) == (None, [], ["k"])
    assert await storage_of(place).list() == []


def test_sessions_and_values_do_not_see_each_other(place: Backend) -> None:
    """Lists, checks and purges of sessions pass over values, also with names like those of a session's objects."""
    store = place.store()
    keys = ["latest/s.jsonl.zst", "sessions/s/tail.jsonl", "s", "ns/x/latest/y.jsonl.zst", "treering.json"]
    with store.session("s") as session:
        session.append("hello")
    with store.session("gone") as session:
        session.append("bye")
    storage = TreeringStorage(store)
    for key in keys:
        asyncio.run(storage.write(key, b"{}"))
    store.delete("gone")
    assert store.purge() == ("gone",)
    assert [(name, found) for name, found in store.verify_all()] == [("s", [])]
    assert [row.id for row in store.sessions().rows] == ["s"]
    assert [row.id for row in store.each_session()] == ["s"]
    assert store.view("s").context[0].message == {"role": "user", "content": "hello"}
    store.delete("s")
    store.purge()
    assert asyncio.run(TreeringStorage(store).list()) == sorted(keys)


def test_the_command_line_is_not_confused(tmp_path: Path) -> None:
    """`ls`, `verify`, `purge` and `stat` speak of sessions only, beside values."""
    store = treering.open(tmp_path)
    with store.session("s") as session:
        session.append("hello")
    asyncio.run(TreeringStorage(store).write("session/x/snapshot_latest.json", b"{}"))
    code = "import sys; from treering.cli import main; sys.argv = ['treering', *sys.argv[1:]]; main()"
    for command in (["ls"], ["verify"], ["purge", "--yes"]):
        shown = finish(start(code, "--store", tmp_path, *command, prelude=""))
        assert "parcel" not in shown
        assert "snapshot" not in shown
    assert asyncio.run(TreeringStorage(store).read("session/x/snapshot_latest.json")) == b"{}"


async def test_damage_is_told_and_not_passed_on(tmp_path: Path) -> None:
    """A value that was changed, cut or moved at rest is an error with its place; the others stay readable."""
    storage = TreeringStorage(treering.open(tmp_path))
    await storage.write("a", b"the first value")
    await storage.write("b", b"the second one")
    file = tmp_path / "parcels/a=.zst"
    whole = file.read_bytes()
    changes = [whole[:-1], b"", whole[:20], whole.replace(whole[30:31], bytes([whole[30] ^ 1]), 1)]
    for damaged in [*changes, (tmp_path / "parcels/b=.zst").read_bytes()]:
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match="Failed to read 'a'") as caught:
            await storage.read("a")
        assert isinstance(caught.value.__cause__, CorruptError)
        assert caught.value.__cause__.key == "parcels/a=.zst"
    assert await storage.read("b") == b"the second one"
    assert await storage.list() == ["a", "b"]
    await storage.write("a", b"new")
    assert await storage.read("a") == b"new"


async def test_a_store_that_does_not_answer_is_told() -> None:
    """Each call raises Strands' own error, whose cause says what happened."""
    driver = FaultyDriver(MemoryDriver(), lambda _: Fault.BEFORE)
    storage = TreeringStorage(Store(Place(driver)))
    for act in (storage.write("k", b"x"), storage.read("k"), storage.delete("k"), storage.list()):
        with pytest.raises(StorageError, match="Failed to") as caught:
            await act
        assert isinstance(caught.value.__cause__, UnavailableError)


async def test_a_store_is_not_made_by_reading(tmp_path: Path) -> None:
    """Reading, listing and deleting in a store that does not exist create nothing."""
    storage = TreeringStorage(treering.open(tmp_path / "store"))
    assert (await storage.read("k"), await storage.list(), await storage.search("k")) == (None, [], [])
    await storage.delete("k")
    assert not (tmp_path / "store").exists()


async def test_what_else_lies_there_is_left_alone(tmp_path: Path) -> None:
    """Files of others among the values are neither listed nor read."""
    storage = TreeringStorage(treering.open(tmp_path))
    await storage.write("k", b"x")
    (tmp_path / "parcels/notes.txt").write_text("mine")
    assert await storage.list() == ["k"]
    assert await storage.read("notes.txt") is None


async def test_who_did_not_look_is_told(place: Backend) -> None:
    """With `overwrite=False` only what this storage has seen is replaced, and nobody's write is lost silently."""
    one, other = storage_of(place, overwrite=False), storage_of(place, overwrite=False).namespace("")
    await one.write("k", b"1")
    with pytest.raises(StorageError) as caught:
        await other.write("k", b"2")
    assert isinstance(caught.value.__cause__, ConflictError)
    assert await other.read("k") == b"1"
    await other.namespace("").write("k", b"2")
    with pytest.raises(StorageError):
        await one.write("k", b"3")
    await other.delete("k")
    with pytest.raises(StorageError):
        await one.write("k", b"3")
    assert await one.read("k") is None
    await one.write("k", b"4")
    await one.write("k", b"5")
    assert await storage_of(place).read("k") == b"5"


async def test_a_lost_reply_is_no_conflict() -> None:
    """A write that took effect although nobody said so is recognised when it is sent again."""
    inner = MemoryDriver()
    await TreeringStorage(Store(Place(inner))).write("k", b"0")
    faults = [Fault.NONE, Fault.NONE, Fault.AFTER]  # the read, treering.json, and the reply to the write
    driver = RetryingDriver(FaultyDriver(inner, scripted_plan(faults)), sleep=lambda _: None, asleep=_at_once)
    storage = TreeringStorage(Store(Place(driver)), overwrite=False)
    assert await storage.read("k") == b"0"
    await storage.write("k", b"1")
    await storage.write("k", b"2")
    assert await storage.read("k") == b"2"


@pytest.mark.parametrize("took_effect", [Fault.AFTER, Fault.BEFORE])
async def test_an_own_write_without_an_answer_is_no_conflict(took_effect: Fault) -> None:
    """The value may be written again, and again; once another writer has replaced it, it has to be read."""
    inner = MemoryDriver()
    failing = {"now": False}

    def plan(request: Request) -> Fault:
        return took_effect if failing["now"] and isinstance(request, Put) else Fault.NONE

    storage = TreeringStorage(Store(Place(FaultyDriver(inner, plan))), overwrite=False)
    other = TreeringStorage(Store(Place(inner)))
    await storage.write("k", b"0")
    for fails, value in ((True, b"1"), (True, b"2"), (False, b"3")):
        failing["now"] = fails
        if fails:
            with pytest.raises(StorageError, match="Failed to write"):
                await storage.write("k", value)
        else:
            await storage.write("k", value)
    assert await other.read("k") == b"3"
    failing["now"] = True
    with pytest.raises(StorageError):
        await storage.write("k", b"4")
    failing["now"] = False
    await other.write("k", b"4")
    with pytest.raises(StorageError) as caught:
        await storage.write("k", b"5")
    assert isinstance(caught.value.__cause__, ConflictError)
    assert await storage.read("k") == b"4"


async def test_a_late_write_is_known_behind_a_read() -> None:
    """It takes effect when the value was read again, as it was before."""
    bucket = Unreliable()
    storage = TreeringStorage(bucket.store, overwrite=False)
    await storage.write("k", b"1")
    bucket.plan.arm(Fault.LATE, lambda request: isinstance(request, Put))
    with pytest.raises(StorageError):
        await storage.write("k", b"2")
    assert await storage.read("k") == b"1"
    bucket.settle()
    await storage.write("k", b"3")
    assert await storage.read("k") == b"3"


async def test_answers_may_come_in_another_order() -> None:
    """Of two writes of one storage, the one that was sent first is answered last."""
    first_may_end = asyncio.Event()

    class Slow(MemoryDriver):
        writes = 0

        async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
            answers = self.execute(batch)
            if any(isinstance(request, Put) and "parcels/" in request.key for request in batch):
                self.writes += 1
                if self.writes == 1:
                    await first_may_end.wait()
            return answers

    storage = TreeringStorage(Store(Place(Slow())), overwrite=False)
    first = asyncio.create_task(storage.write("k", b"1"))
    await asyncio.sleep(0)
    await storage.write("k", b"2")
    first_may_end.set()
    await first
    await storage.write("k", b"3")
    assert await storage.read("k") == b"3"


async def _at_once(_: float) -> None:
    """Wait for nothing."""


async def test_what_was_forgotten_must_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of what was seen is bounded; who fell out of it is refused until it was read again."""
    monkeypatch.setattr("treering.integrations.strands.storage.SEEN_MAX", 2)
    storage = TreeringStorage(Store(Place(MemoryDriver())), overwrite=False)
    for key in ("a", "b", "c"):
        await storage.write(key, b"1")
    with pytest.raises(StorageError):
        await storage.write("a", b"2")
    await storage.write("c", b"2")
    await storage.read("a")
    await storage.write("a", b"2")


PROCESS = """
import asyncio, sys, treering
from treering.integrations.strands import TreeringStorage
async def main():
    storage = TreeringStorage(treering.open(sys.argv[1]), overwrite=False)
    for turn in range(20):
        while True:
            count = int(await storage.read("count") or b"0")
            try:
                await storage.write("count", str(count + 1).encode())
                break
            except Exception as error:
                assert type(error).__name__ == "StorageError", error
asyncio.run(main())
"""


async def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    """Two processes that count up the same value together, each looking again when it is told, miss no step."""
    processes = [start(PROCESS, tmp_path, prelude="") for _ in range(2)]
    for process in processes:
        finish(process)
    assert await TreeringStorage(treering.open(tmp_path)).read("count") == b"40"


async def test_a_killed_write_leaves_the_value_before(tmp_path: Path) -> None:
    """On filesystems that empty a file before they fill it, a write that was cut short leaves the value before it."""

    class Torn(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
        cachable = False

        def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
            super().pipe_file(path, value[: len(value) // 2], **options)
            raise OSError("killed")

    await TreeringStorage(Store(Place(GenericDriver(LocalFileSystem(), str(tmp_path))))).write("k", b"before")
    with pytest.raises(StorageError):
        await TreeringStorage(Store(Place(GenericDriver(Torn(), str(tmp_path))))).write("k", b"after")
    assert await TreeringStorage(Store(Place(GenericDriver(LocalFileSystem(), str(tmp_path))))).read("k") == b"before"


async def test_nothing_is_left_of_what_was_replaced_or_deleted(place: Backend) -> None:
    """No byte of an older value stays in the store, nor of a deleted one."""
    storage = storage_of(place)
    acts: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: storage.write("k", b"harmless"),
        lambda: storage.delete("k"),
    )
    for act in acts:
        await storage.write("k", SECRET.encode())
        await storage.write("k", SECRET.encode())
        assert _holds(place, SECRET)
        await act()
        assert not _holds(place, SECRET)


def _holds(place: Backend, text: str) -> bool:
    """Whether any object holds a text; in front of a parcel may be the header of a slot."""
    return bool(holding({key: data[max(0, data.find(MAGIC)) :] for key, data in place.snapshot().items()}, text))


class Counted(NamedTuple):
    """A storage whose requests are counted, on S3 on the wire as well."""

    storage: TreeringStorage
    counts: CountingDriver
    wire: Counter[str] | None

    def reset(self) -> None:
        """Count from zero."""
        self.counts.reset()
        if self.wire is not None:
            self.wire.clear()

    def spent(self) -> dict[str, int]:
        """Requests since the last reset; the wire must agree."""
        if self.wire is not None:
            assert self.wire.total() == self.counts.total
        found = dict(self.counts.counts)
        self.reset()
        return found


@pytest.fixture(params=["memory", pytest.param("local", marks=pytest.mark.whole), S3])
def counted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Counted]:
    """A storage on each kind of store that needs no reading before it writes."""
    wire: Counter[str] | None = None
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("seaweedfs")
        inner: Driver = S3Driver(f"{server.bucket}/count-{os.urandom(6).hex()}", storage_options=server.storage_options)
        wire = Counter()
        events: Any = inner._filesystem().s3.meta.events  # type: ignore[attr-defined]
        events.register("before-send.s3", lambda event_name, **_: wire.update([event_name.split(".")[-1]]))
    else:
        inner = MemoryDriver() if request.param == "memory" else LocalDriver(tmp_path)
    counts = CountingDriver(inner)
    yield Counted(TreeringStorage(Store(Place(counts))), counts, wire)
    counts.close()


@pytest.mark.slow
async def test_requests(counted: Counted) -> None:
    """A write is one PUT, a read one GET, a deletion one DELETE, a list one LIST for each thousand below its folder."""
    storage = counted.storage
    await storage.write("first", b"proves the store")
    counted.reset()
    await storage.write("k", b"x")
    assert counted.spent() == {"Put": 1}
    await storage.write("k", b"y")
    assert counted.spent() == {"Put": 1}
    await storage.read("k")
    assert counted.spent() == {"Get": 1}
    await storage.read("not there")
    assert counted.spent() == {"Get": 1}
    await storage.delete("k")
    assert counted.spent() == {"Delete": 1}
    for first in range(0, 1004, 251):
        await asyncio.gather(*(storage.write(f"many/{n}", b"x") for n in range(first, first + 251)))
    counted.reset()
    assert len(await storage.list("many/")) == 1004
    assert counted.spent() == {"List": 2}
    assert await storage.list("fir") == ["first"]
    assert counted.spent() == {"List": 2}
    assert await storage.list("none/at/all") == []
    assert counted.spent() == {"List": 1}
    await storage.write(f"long/{'x' * 200}", b"")
    counted.reset()
    assert await storage.list("long/") == [f"long/{'x' * 200}"]
    assert counted.spent() == {"List": 1, "Get": 1}


async def test_conditions_cost_no_request_more(counted: Counted) -> None:
    """With `overwrite=False` a write is one request all the same."""
    storage = TreeringStorage(Store(Place(counted.counts)), overwrite=False)
    await storage.write("k", b"x")
    counted.reset()
    await storage.write("k", b"y")
    assert counted.spent() == {"Put": 1}


class Words:
    """A search strategy that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, str, bytes]] = []

    async def index(self, storage: TreeringStorage, key: str, data: bytes, **options: Any) -> None:
        """Remember, or refuse."""
        if data == b"poison":
            raise UsageError("cannot be indexed")
        self.told.append((storage, key, data))

    async def search(self, storage: TreeringStorage, query: str, **options: Any) -> list[Any]:
        """Whatever was told of this storage."""
        return [key for where, key, _ in self.told if where is storage]


async def test_a_search_strategy_is_told_and_asked() -> None:
    """A strategy sees each write with the key relative to its storage, answers searches, and its failures are told."""
    words = Words()
    storage = TreeringStorage(treering.open(f"memory://{os.urandom(6).hex()}"), search_strategy=words)
    scoped = storage.namespace("team")
    await storage.write("//a/", b"1")
    await scoped.write("b", b"2")
    assert words.told == [(storage, "a", b"1"), (scoped, "b", b"2")]
    found: list[Any] = await scoped.search("anything")
    assert found == ["b"]
    with pytest.raises(StorageError, match="indexing"):
        await storage.write("c", b"poison")
    assert await storage.read("c") == b"poison"


def test_an_agent_comes_back_in_another_loop_and_process(place: Backend) -> None:
    """Strands' snapshots on a store: a new agent, in a loop of its own, goes on where the first one was."""
    manager = SnapshotSessionManager("s", storage=storage_of(place), snapshot_trigger=lambda **_: True)
    agent = Agent(model=FakeModel(["one", "two"]), session_manager=manager, agent_id="a", callback_handler=None)
    agent("first")
    agent.state.set("n", 1)
    asyncio.run(agent.invoke_async("second"))
    again = SnapshotSessionManager("s", storage=storage_of(place))
    other = Agent(model=FakeModel(["three"]), session_manager=again, agent_id="a", callback_handler=None)
    assert [message["content"][0]["text"] for message in other.messages] == ["first", "one", "second", "two"]
    assert other.state.get("n") == 1
    ids = asyncio.run(again.list_snapshot_ids(other))
    assert len(ids) == 2
    assert asyncio.run(again.restore_snapshot(other, snapshot_id=ids[0]))
    assert len(other.messages) == 2
    asyncio.run(again.delete_session())
    assert asyncio.run(storage_of(place).list()) == []


def test_an_agent_whose_session_moved_on_is_told(tmp_path: Path) -> None:
    """With `overwrite=False` the second of two agents with one session cannot undo what the first one saved."""

    def agent() -> Agent:
        storage = TreeringStorage(treering.open(tmp_path), overwrite=False)
        manager = SnapshotSessionManager("s", storage=storage)
        return Agent(model=FakeModel(), session_manager=manager, agent_id="a", callback_handler=None)

    one, other = agent(), agent()
    one("first")
    with pytest.raises(StorageError, match="another process wrote"):
        other("second")
    assert agent().messages[0]["content"] == [{"text": "first"}]


def test_a_redacted_prompt_is_gone(tmp_path: Path) -> None:
    """What a guardrail took out of the conversation is in no file of the store."""
    place = local_backend(tmp_path)
    manager = SnapshotSessionManager("s", storage=storage_of(place), save_latest_on="message")
    model = FakeModel([Redacted("[removed]")])
    Agent(model=model, session_manager=manager, agent_id="a", callback_handler=None)(SECRET)
    assert _holds(place, "[removed]")
    assert not _holds(place, SECRET)


async def test_memory_lives_in_a_store(place: Backend) -> None:
    """Strands' memory of facts stands on a store: it is added to, found and survives."""
    memory = FileMemoryStore(name="facts", storage=storage_of(place))
    await memory.add("# deploys\nblue green")
    await memory.add("# deploys\nnever on friday")
    found = await FileMemoryStore(name="facts", storage=storage_of(place)).search("friday")
    assert "blue green" in found[0].content
    assert await storage_of(place).list() == ["memory/facts/deploys.md"]


def test_only_a_store_in_memory_ends_with_its_process(tmp_path: Path) -> None:
    """Strands is told which storage it must not rely on after a restart, also through namespaces."""
    from strands.storage.storage import _EPHEMERAL

    lasting = TreeringStorage(treering.open(tmp_path)).namespace("x")
    passing = TreeringStorage(treering.open("memory://passing")).namespace("x")
    assert getattr(lasting, "_ephemeral", None) is None
    assert passing._ephemeral is _EPHEMERAL
