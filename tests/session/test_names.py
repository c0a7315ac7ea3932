"""Names: whether a session is new, where it lies, and sessions that are not there."""

from __future__ import annotations

from pathlib import Path

import fsspec
import msgspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from tests.session.backends import Backend, kill, memory_backend

import treering
from treering.errors import NotFoundError
from treering.storage.requests import Answer, Batch, Get, List
from treering.storage.wrapper import DriverWrapper


def test_a_handle_says_whether_its_session_is_new(backend: Backend) -> None:
    """New is what was not there when it was opened, before and after its first record; what was resumed is not."""
    session = backend.store().session("s")
    assert session.is_new
    session.append("x")
    assert session.is_new
    kill(session)
    with backend.store().session("s") as session:
        assert not session.is_new
    backend.store().delete("s")
    with backend.store().session("s") as session:
        assert session.is_new


def test_what_others_begin_meanwhile_is_not_new(backend: Backend) -> None:
    """Two open a name that is free: the one whose record comes first has made the session, the other learns of it."""
    first, second, third = (backend.store().session("s", shared=True) for _ in range(3))
    first.append("x")
    second.append("y")
    third.refresh()
    assert (first.is_new, second.is_new, third.is_new) == (True, False, False)
    for session in (first, second, third):
        session.close()


async def test_an_asynchronous_handle_says_so_too(backend: Backend) -> None:
    """The same properties, not awaited."""
    store = backend.async_store()
    async with await store.session("s") as session:
        assert session.is_new
        await session.append("x")
        assert session.location.endswith("/sessions/s")
    async with await store.session("s") as session:
        assert not session.is_new


def test_a_location_on_disk_is_a_folder(tmp_path: Path) -> None:
    """Whatever way a store on disk is named, handle and view tell the folder that holds the session."""
    home = tmp_path / "store"
    filesystem = DirFileSystem(str(tmp_path), fsspec.filesystem("file"))
    stores = [
        treering.open(home),
        treering.open(f"{home}/"),
        treering.open(f"file://{home}"),
        treering.open(filesystem, path="store"),
        treering.open(fsspec.filesystem("file"), path=f"{home}/ns/generic", single_writer=True),
    ]
    for number, store in enumerate(stores):
        with store.namespace("n").session(f"s {number}") as session:
            session.append("x")
            assert any(each.name.startswith("tail") for each in Path(session.location).iterdir())
        assert store.namespace("n").view(f"s {number}").location == session.location
        assert Path(session.location).parts[-4:] == ("ns", "n", "sessions", f"s=20{number}")
        assert Path(session.location).is_relative_to(home)


def test_other_locations_are_urls() -> None:
    """Of memory and of buckets: what the store was opened by, and the key of the folder."""
    with treering.open("memory://names/").session("s") as session:
        assert session.location == "memory://names/sessions/s"
    store = treering.open("s3://bucket/agents/", storage_options={"key": "k", "secret": "s"}, namespace="a/b")
    assert store.place.location_of("s") == "s3://bucket/agents/ns/a=2fb/sessions/s"
    memory = fsspec.filesystem("memory")
    with treering.open(memory, path="/x", single_writer=True).session("s") as session:
        assert session.location == "memory:///x/sessions/s"


def test_what_never_was_can_be_deleted_if_that_is_allowed(backend: Backend) -> None:
    """A deletion of what never was, or was purged, is an error unless it says otherwise; a second one does nothing."""
    store = backend.store()
    with store.session("s") as session:
        session.append("x")
    for missing_ok in (True, True, False):
        store.delete("s", missing_ok=missing_ok)
    store.purge()
    for name in ("s", "never"):
        with pytest.raises(NotFoundError):
            store.delete(name)
        store.delete(name, missing_ok=True)
    assert backend.store().sessions().rows == ()


async def test_an_asynchronous_store_deletes_alike(backend: Backend) -> None:
    """What never was is passed over only if that is allowed."""
    with pytest.raises(NotFoundError):
        await backend.async_store().delete("never")
    await backend.async_store().delete("never", missing_ok=True)


NAMES = (
    "mine",
    "mine/agent",
    "mine-too",
    "min",
    "minf",
    "Mine",
    ".mine",
    "con",
    "con/x",
    "m.",
    "m.x",
    "mine/" + "x" * 200,
)


@pytest.mark.parametrize("begins", ["", "mine", "mine/", ".", "con", "m.", "M", "mine/xxx", "nobody"])
def test_sessions_whose_names_begin_alike(begins: str, backend: Backend) -> None:
    """Only sessions whose names begin so, whatever they are in keys; of others with short names nothing is read."""
    for name in NAMES:
        with backend.store().session(name) as session:
            session.append("x")
    store, counts = backend.counted()
    wanted = {name for name in NAMES if name.startswith(begins)}
    assert {row.id for row in store.each_session(begins=begins)} == wanted
    assert {row.id for row in store.each_session(begins=begins, below=True)} == wanted
    counts.reset()
    list(store.each_session(begins=begins))
    cards = [request for request in counts.requests if isinstance(request, Get) and "latest/" in request.key]
    assert len(cards) <= len(wanted | {NAMES[-1]})


def test_a_list_of_names_reads_on() -> None:
    """More names than one LIST tells are listed by several, which end behind the last one that begins so."""
    backend = memory_backend()
    for number in range(7):
        for name in (f"a-{number}", f"b-{number}", f"c-{number}"):
            backend.store().session(name).append("x")
    store, counts = backend.counted()
    store.place.driver = Paged(counts)
    assert sorted(row.id for row in store.each_session(begins="b-")) == [f"b-{number}" for number in range(7)]
    listed = [request.after for request in counts.requests if isinstance(request, List)]
    assert sum("latest/b-" in after for after in listed) == 2
    assert not [after for after in listed if "latest/c-" in after]


class Paged(DriverWrapper):
    """Tells at most three keys at once."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Run the batch with shorter lists."""
        return self.inner.execute(self._shorter(batch))

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        """Likewise."""
        return await self.inner.aexecute(self._shorter(batch))

    def _shorter(self, batch: Batch) -> Batch:
        return tuple(msgspec.structs.replace(each, limit=3) if isinstance(each, List) else each for each in batch)
