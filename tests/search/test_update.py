"""The index follows the store, reads no more than it must, and is never wrong for long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.search.conftest import everything, found
from tests.session.backends import Backend, files_below, memory_backend

import treering
from treering.api.store import Store
from treering.ids import new_nonce
from treering.search import Index, open_index
from treering.storage.requests import Get, List


def _fill(store: Store, sessions: int) -> None:
    for place in range(sessions):
        with store.session(f"s{place:04d}") as session:
            session.append(treering.user(f"common {place}"))


@pytest.mark.parametrize("appends", [False, True], ids=["register", "log"])
def test_an_unchanged_store_costs_a_list_and_a_conditional_get_a_session(*, appends: bool) -> None:
    """1,000 sessions in which nothing changed: one LIST, 1,000 conditional GETs in 16 batches, and no body."""
    store, driver = memory_backend(appends=appends).counted()
    _fill(store, 1000)
    with open_index(store) as index:
        index.update()
        driver.reset()
        assert index.update().read == 0
    assert driver.counts == {"List": 1, "Get": 1000}
    assert driver.batches == 1 + 16
    assert driver.bytes_down == 0
    assert all(isinstance(each, List) or (isinstance(each, Get) and each.unless) for each in driver.requests)


def test_new_sessions_are_looked_at_together(backend: Backend) -> None:
    """A new session costs two requests while it is not sealed, and 16 of them one wait."""
    store, driver = backend.counted()
    _fill(store, 40)
    driver.reset()
    with open_index(store) as index:
        assert index.update().read == 40
    assert driver.counts == {"List": 1, "Get": 80}
    assert driver.batches == 1 + 3


def test_a_changed_session_costs_two_requests_more(backend: Backend) -> None:
    """What was added is in the tail: both registers are read, and no segment."""
    store, driver = backend.counted()
    _fill(store, 5)
    with store.session("s0002") as session:
        session.seal()
        session.append(treering.user("something"))
        with open_index(store) as index:
            index.update()
            session.append(treering.user("something new"))
            driver.reset()
            assert index.update().read == 1
            assert driver.counts == {"List": 1, "Get": 5 + 2}
            assert len(index.search("new")) == 1


def test_what_is_durable_is_not_read_twice() -> None:
    """Behind a seal nothing sealed is read again where records cannot vanish."""
    store, driver = memory_backend().counted()
    with store.session("a") as session, open_index(store) as index:
        session.append(treering.user("something"))
        session.seal()
        index.update()
        session.append(treering.user("something new"))
        driver.reset()
        assert len(found(index, "new")) == 1
        assert driver.counts == {"List": 1, "Get": 1 + 2}


def test_reading_goes_on_where_it_stopped(backend: Backend) -> None:
    """Of sealed records only those segments are read that hold something new."""
    store, driver = backend.counted()
    with store.session("a") as session, open_index(store) as index:
        for place in range(5):
            session.append(treering.user(f"common {place}"))
            session.seal()
        index.update()
        session.append(treering.user("common 5"))
        session.append(treering.user("common 6"))
        session.seal()
        session.append(treering.user("common 7"))
        driver.reset()
        assert len(found(index, "common")) == 8
        segments = {each.key for each in driver.requests if isinstance(each, Get) and "segments/" in each.key}
        assert len(segments) <= 2


def test_a_seal_adds_nothing(store: Store, index: Index) -> None:
    """Records that move from the tail to a segment, or from segment to segment, are indexed once."""
    with store.session("a") as session:
        session.append(treering.user("common 1"))
        index.update()
        session.seal()
        index.update()
        session.append(treering.user("common 2"))
        session.seal()
        session.optimize(everything=True)
        assert found(index) == ["common 1", "common 2"]
    assert found(index) == ["common 1", "common 2"]


def test_a_title_given_later(store: Store, index: Index) -> None:
    """Title, project and folder are those of now, though the card may lag behind."""
    with store.session("a", title="old") as session:
        session.append(treering.user("common"))
        index.update()
        session.set_title("new")
        session.move(project="p", cwd="/x")
        index.update()
        (hit,) = index.search("common", project="p")
        assert (hit.title, hit.cwd) == ("new", "/x")


def test_edits(store: Store, index: Index) -> None:
    """Of an amended node the new payload is found, a retracted one is not, and both can be taken back."""
    with store.session("a") as session:
        node = session.append(treering.user("common first")).node
        other = session.append(treering.user("common other")).node
        index.update()
        session.amend(node, {"role": "user", "content": "common second"})
        assert found(index) == ["common other", "common second"]
        assert {hit.node for hit in index.search("second")} == {node}
        session.retract(other)
        assert found(index) == ["common second"]
        session.append(treering.user("common third"))
        assert found(index) == ["common second", "common third"]
        session.unretract(other)
        session.amend(node, {"role": "user", "content": "common fourth"})
        assert found(index) == ["common fourth", "common other", "common third"]


def test_deleted_sessions_leave(store: Store, index: Index) -> None:
    """A deleted session is not found any more; one created again under its name is."""
    _fill(store, 3)
    assert len(found(index, "common")) == 3
    store.delete("s0001")
    assert found(index, "common") == ["common 0", "common 2"]
    assert index.update().read == 0
    with store.session("s0001") as session:
        session.append(treering.user("common again"))
    assert found(index, "common") == ["common 0", "common 2", "common again"]


def test_a_session_born_with_its_records(store: Store, index: Index) -> None:
    """A session that was loaded or copied, and has no tail yet, is read once; so is its next life."""
    drafts = [treering.user("common one", id="x")]
    store.load("a", drafts, leaf=lambda: "x")
    assert found(index) == ["common one"]
    assert index.update().read == 0
    store.delete("a")
    assert found(index) == []  # from here on the tail stays as it is
    store.load("a", [treering.user("common two", id="x")], leaf=lambda: "x")
    assert found(index) == ["common two"]
    assert index.update().read == 0


def test_damage_hides_nothing_else(tmp_path: Path) -> None:
    """A session that cannot be read is reported by each update; other sessions are found."""
    store = treering.open(tmp_path / "store")
    _fill(store, 3)
    (tail,) = (tmp_path / "store").rglob("s0001/tail.jsonl")
    tail.write_bytes(b"nonsense\n" + tail.read_bytes())
    with open_index(store, tmp_path / "index") as index:
        for _ in range(2):
            ((name, error),) = index.update().problems
            assert name == "s0001"
            assert isinstance(error, treering.CorruptError)
        assert found(index, "common") == ["common 0", "common 2"]


def test_an_update_that_was_cut_short_goes_on(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before an update was interrupted is kept, and the rest is read by the next one."""
    _fill(store, 5)

    def interrupt(done: int, total: int) -> None:
        assert total == 5
        if done == 3:
            raise KeyboardInterrupt

    with open_index(store, tmp_path / "index") as index:
        with pytest.raises(KeyboardInterrupt):
            index.update(interrupt)
        assert len(index.search("common")) == 3
        assert index.update().read == 2
        assert len(index.search("common")) == 5


def test_removing_the_index_loses_nothing(store: Store, tmp_path: Path) -> None:
    """An index made from nothing says what the removed one said."""
    _fill(store, 3)
    with store.session("s0001") as session:
        session.append(treering.assistant("common answer"))
    path = tmp_path / "index.sqlite"
    with open_index(store, path) as index:
        index.update()
        before = everything(index)
    path.unlink()
    with open_index(store, path) as index:
        assert index.search("common") == []
        assert index.update().read == 3
        assert everything(index) == before
        index.rebuild()
        assert index.search("common") == []
        assert index.update().notices
        assert everything(index) == before


def test_an_older_copy_that_was_put_back(tmp_path: Path) -> None:
    """If it goes on with other records, the index has those."""
    store = treering.open(tmp_path / "store")
    with store.session("a") as session:
        session.append(treering.user("common first"))
    before = files_below(tmp_path / "store")
    with store.session("a") as session:
        session.append(treering.user("common lost"))
        with open_index(store, tmp_path / "index") as index:
            assert found(index) == ["common first", "common lost"]
    for name, data in before.items():
        (tmp_path / "store" / name).write_bytes(data)
    with treering.open(tmp_path / "store").session("a") as session:
        session.append(treering.user("common other"))
        session.append(treering.user("common more"))
    with open_index(store, tmp_path / "index") as index:
        assert found(index) == ["common first", "common more", "common other"]


@pytest.mark.parametrize("place", ["file", "memory"])
def test_others_search_while_the_index_is_updated(tmp_path: Path, place: str) -> None:
    """An update waits for the store; a search answers meanwhile, from what was read."""
    store = treering.open(tmp_path / "store" if place == "file" else f"memory://{new_nonce()}")
    for name in ("a", "b"):
        with store.session(name) as session:
            session.append(treering.user(f"hello {name}"))
    seen: list[tuple[int, int, int]] = []
    with open_index(store, tmp_path / "index" if place == "file" else None) as index, ThreadPoolExecutor() as others:

        def search_elsewhere(done: int, total: int) -> None:
            hits = others.submit(index.search, "hello").result(timeout=10)  # so that a failure does not hang
            seen.append((done, total, len(hits)))

        index.update(search_elsewhere)
        assert sorted(hit.session for hit in index.search("hello")) == ["a", "b"]
    assert seen == [(0, 2, 0), (1, 2, 1)]
