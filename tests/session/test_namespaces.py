"""Which namespaces a store holds, and lists that look into them."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.servers import S3Server, moto, seaweedfs
from tests.session.backends import Backend, local_backend, memory_backend

import treering
from treering.api.store import Store
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Driver, Put
from treering.storage.run import list_folders, run
from treering.store.place import Place

__all__ = ["moto", "seaweedfs"]

LONG = "-home-" + "/a/long/path" * 20
"""Stored as a hash."""
TRICKY = ["ann", "ann-b", "ann.b", "ann0", "ann/b", "Ann", "latest", "sessions", "ns", "~", "=h", "ü", "a b", LONG]


def say(store: Store, session: str, text: str = "hello") -> None:
    """Record a message."""
    with store.session(session, create=True) as opened:
        opened.append(text)


def test_every_namespace_is_found_under_its_name(backend: Backend) -> None:
    """Whatever it is called; a long one by what it is stored as."""
    store = backend.store()
    assert store.namespaces() == {}
    for name in TRICKY:
        say(store.namespace(name), "s", f"of {name}")
    found = store.namespaces()
    hashed = next(name for name in found if name.startswith("=h") and len(name) > 2)
    assert found.keys() == {*TRICKY, hashed} - {LONG}
    assert list(found) == sorted(found)
    for name, part in found.items():
        assert part.view("s").info.first_prompt == f"of {LONG if name == hashed else name}"[:200]


def test_one_that_was_only_named_is_not_there(backend: Backend) -> None:
    """Nothing is stored in it; of a deleted session a tombstone is, until it is purged."""
    store = backend.store()
    store.namespace("named").session("s").close()
    say(store.namespace("gone"), "s")
    assert list(store.namespaces()) == ["gone"]
    store.namespace("gone").delete("s")
    assert list(store.namespaces()) == ["gone"]
    store.namespace("gone").purge()
    assert list(store.namespaces()) in ([], ["gone"])  # a disk keeps the lock file of the name


def filled(store: Store) -> None:
    """Sessions in the store, in two namespaces, and in one inside one of these."""
    for part in (store, store.namespace("ann"), store.namespace("bob"), store.namespace("ann").namespace("-work")):
        say(part, "s")
    say(store.namespace("bob"), "t")


PLACES = [((), "s"), (("ann",), "s"), (("ann", "-work"), "s"), (("bob",), "s"), (("bob",), "t")]


def test_lists_look_into_namespaces_if_asked(backend: Backend) -> None:
    """In one order of activity, page by page; a row says where it is."""
    store = backend.store()
    filled(store)
    assert [(row.namespace, row.id) for row in store.sessions().rows] == [((), "s")]
    page = store.sessions(below=True)
    assert sorted((row.namespace, row.id) for row in page.rows) == PLACES
    assert {row.id for row in store.namespace("bob").sessions(below=True).rows} == {"s", "t"}
    shown: list[treering.SessionInfo] = []
    after = None
    while True:
        part = store.sessions(limit=2, after=after, below=True)
        shown += part.rows
        if (after := part.after) is None:
            break
    assert shown == [*page.rows]
    assert sorted((row.namespace, row.id) for row in store.each_session(below=True)) == PLACES
    recent = store.recent(below=True)
    assert recent is not None
    assert recent.updated_ms == max(row.updated_ms for row in page.rows)


def test_a_row_and_a_handle_say_the_same_namespace(backend: Backend) -> None:
    """From the root of the store on, wherever it was opened."""
    store = backend.store()
    filled(store)
    inner = store.namespace("ann").namespace("-work")
    assert inner.sessions().rows[0].namespace == ("ann", "-work")
    assert inner.view("s").info.namespace == ("ann", "-work")
    row = inner.retain(treering.Retention(sessions_max=1, min_idle_hours=0), dry_run=True).rows[0]
    assert row.namespace == ("ann", "-work")


def test_asynchronous_stores_list_alike() -> None:
    """Both run one body."""
    backend = memory_backend()
    filled(backend.store())

    async def look() -> None:
        store = backend.async_store()
        found = await store.namespaces()
        assert list(found) == ["ann", "bob"]
        assert [row.id async for row in found["bob"].each_session()] in (["s", "t"], ["t", "s"])
        page = await store.sessions(below=True)
        assert sorted((row.namespace, row.id) for row in page.rows) == PLACES
        assert len([row async for row in store.each_session(below=True)]) == len(PLACES)
        recent = await store.recent(below=True)
        assert recent is not None

    asyncio.run(look())


FOLDERS = ["a", "a-b", "a.b", "a0", "a=2f", "b", "z"]


def folders_of(driver: Driver) -> None:
    """Folders whose names a server may sort in one way or another are each found once."""
    for name in FOLDERS:
        for key in ("latest/s.jsonl.zst", "ns/q/latest/t.jsonl.zst", *(f"sessions/{n}/tail" for n in range(3))):
            driver.execute((Put(f"ns/{name}/{key}", b"x"),))
    driver.execute((Put("ns/file", b"x"),))
    for on_disk in (True, False):
        (found, inner, none) = run(list_folders(["ns/", "ns/a/ns/", "none/"], on_disk=on_disk), driver)
        assert (sorted(found), inner, none) == (FOLDERS, ["q"], [])


def test_folders_are_named_once_each(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few keys a LIST brings."""
    for keys in (1, 2, 5, 50):
        monkeypatch.setattr("treering.storage.run._DISK_KEYS", keys)
        folders_of(backend.driver())


@pytest.mark.s3
@pytest.mark.parametrize("name", ["moto", "seaweedfs"])
def test_folders_are_named_once_each_on_s3(name: str, request: pytest.FixtureRequest) -> None:
    """Some servers sort folder by folder."""
    from treering.storage.s3 import S3Driver

    server: S3Server = request.getfixturevalue(name)
    driver = S3Driver(f"{server.bucket}/folders-{os.urandom(6).hex()}", storage_options=server.storage_options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("treering.storage.run._DISK_KEYS", 1)
        folders_of(driver)
    driver.close()


def test_what_purging_looks_for_is_found_beside_names_that_begin_alike(seaweedfs: S3Server) -> None:
    """Leftovers of `a-b` are found though `a` stands beside it."""
    place = f"s3://{seaweedfs.bucket}/purge-{os.urandom(6).hex()}"
    store = treering.open(place, storage_options=seaweedfs.storage_options)
    for name in ("a", "a-b", "a0"):
        store.place.driver.execute((Put(f"sessions/{name}/dead/segments/x", b"x"),))
    assert sorted(store.purge()) == ["a", "a-b", "a0"]
    store.close()


def test_finding_namespaces_takes_few_requests() -> None:
    """Those below a store are found a thousand keys at a time, those in them at once."""
    counting = CountingDriver(MemoryDriver())
    store = Store(Place(counting))
    for number in range(60):
        say(store.namespace(f"user-{number}"), "s")
    counting.reset()
    assert len(store.namespaces()) == 60
    assert counting.counts == {"List": 1}
    counting.reset()
    page = store.sessions(below=True)
    assert len(page.rows) == 20
    assert counting.counts == {"List": 1 + 60 + 61, "Get": 20 + 1}
    assert counting.batches == 4


def test_a_folder_that_is_no_namespace_of_ours_is_passed_over(tmp_path: object) -> None:
    """Somebody else's files."""
    backend = local_backend(tmp_path)  # type: ignore[arg-type]
    store = backend.store()
    say(store.namespace("ann"), "s")
    folder = f"{tmp_path}/ns/Not ours"
    os.makedirs(folder)
    open(f"{folder}/file", "w").close()
    assert list(store.namespaces()) == ["ann"]
    assert [row.id for row in store.sessions(below=True).rows] == ["s"]
