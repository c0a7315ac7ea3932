"""The file: damaged ones are made anew, processes share one, and what must go is gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.search.conftest import everything, found
from tests.storage.processes import finish, start

import treering
from treering.api.store import Store
from treering.errors import UnavailableError, UsageError
from treering.format.register import Card, Tail, decode_tail, encode_tail
from treering.journal.view import View as JournalView
from treering.search import Index, database, forget, open_index


@pytest.fixture
def local(tmp_path: Path, cache: Path) -> Store:
    """A store on disk with three sessions, whose index is in a cache folder of the test's own."""
    store = treering.open(tmp_path / "store")
    for name in ("one", "two", "three"):
        with store.session(name) as session:
            session.append(treering.user(f"common {name}"))
            session.append(treering.assistant("common answer"))
    return store


def indexed(store: Store) -> tuple[Path, object]:
    """Make the index of a store; its file, and what it says."""
    with open_index(store) as index:
        index.update()
        assert index.path is not None
        return Path(index.path), everything(index)


def test_a_damaged_file_is_made_anew(local: Store) -> None:
    """A file that is no database is made anew when it is opened, with a notice."""
    path, before = indexed(local)
    path.write_bytes(b"nonsense" * 1000)
    with open_index(local) as index:
        done = index.update()
        assert ["damaged" in notice for notice in done.notices] == [True]
        assert everything(index) == before
        assert index.update().notices == ()


def test_damage_inside_is_found_while_searching(local: Store) -> None:
    """Pages that turn out to be damaged are noticed, and the search is answered from an index made anew."""
    path, before = indexed(local)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with open_index(local) as index:
        assert everything(index) == before
        assert index.update().notices


def test_an_older_schema_is_made_anew(local: Store, tmp_path: Path) -> None:
    """An index of another version is rebuilt, with a notice; also one in a file that the user named."""
    path = tmp_path / "index"
    connection = sqlite3.connect(path)
    connection.executescript(f"CREATE TABLE old (x); PRAGMA application_id = {database.APPLICATION_ID};")
    connection.close()
    with open_index(local, path) as index:
        (notice,) = index.update().notices
        assert "version 0" in notice
        assert found(index, "one") == ["common one"]


def test_a_file_of_the_users_is_refused(local: Store, tmp_path: Path) -> None:
    """A file that was named and never was an index is left alone."""
    notes, other = tmp_path / "notes.txt", tmp_path / "other.db"
    notes.write_text("my notes\n" * 100)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    for path in (notes, other):
        before = path.read_bytes()
        with pytest.raises(UsageError, match="not a search index"):
            open_index(local, path)
        assert path.read_bytes() == before


def test_a_place_that_cannot_be_used(local: Store, tmp_path: Path) -> None:
    """A place where no file can be made is an error that says so."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="search index cannot be used"):
        open_index(local, tmp_path / "file" / "index")


WORKER = """
import sys
import treering
from treering.search import open_index
store = treering.open(sys.argv[1])
for _ in range(int(sys.argv[3])):
    with open_index(store, sys.argv[2]) as index:
        assert not index.update().problems
        hits = index.search("common", kinds=["prompt", "text"], order="newest", limit=10_000)
print(sum(1 + hit.folded for hit in hits))
"""


def test_processes_share_an_index(local: Store, tmp_path: Path) -> None:
    """Processes that index one store into one file at the same time index everything once, while a session grows."""
    path = str(tmp_path / "shared")
    with local.session("growing") as session:
        for place in range(150):
            session.append(treering.user(f"common {place}"))
            if place % 40 == 0:
                session.seal()
        processes = [start(WORKER, str(tmp_path / "store"), path, 5, prelude="") for _ in range(3)]
        for place in range(150, 200):
            session.append(treering.user(f"common {place}"))
        for process in processes:
            assert 156 <= int(finish(process)) <= 206
    assert finish(start(WORKER, str(tmp_path / "store"), path, 1, prelude="")) == "206\n"
    with open_index(local, path) as one, open_index(local, tmp_path / "fresh") as fresh:
        one.update()
        fresh.update()
        assert everything(one) == everything(fresh)


def test_processes_that_find_damage_at_once(local: Store, tmp_path: Path) -> None:
    """Several processes that find a damaged index at the same time all get an answer, and leave a good one."""
    path, before = indexed(local)
    path.write_bytes(b"nonsense" * 1000)
    code = WORKER.replace("open_index(store, sys.argv[2])", "open_index(store)")
    processes = [start(code, str(tmp_path / "store"), "-", 3, prelude="") for _ in range(3)]
    assert [finish(process) for process in processes] == ["6\n"] * 3
    with open_index(local) as index:
        index.update()
        assert everything(index) == before


def bytes_near(path: Path) -> bytes:
    """Everything in the files of an index."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def test_what_is_forgotten_leaves_the_file(local: Store) -> None:
    """No byte of a forgotten node is left, also while another handle is open; the others are found."""
    with local.session("secrets") as session:
        node = session.append(treering.user("common xylophonequartz")).node
        session.append(treering.user("common rest"))
    with open_index(local) as index:
        index.update()
        path = Path(index.path or "")
        assert b"xylophonequartz" in bytes_near(path)
        assert forget(local, "secrets", node)
        assert b"ylophonequart" not in bytes_near(path)
        assert [hit.snippet for hit in index.search("rest")] == ["common rest"]
        index.forget("secrets")
        assert index.search("common", session="secrets") == []
        assert len(found(index, "common", session="secrets")) == 2


def test_forgetting_what_is_not_there(local: Store, tmp_path: Path) -> None:
    """Forgetting makes no index, and an unknown session is no error."""
    assert not forget(local, "one")
    assert not (tmp_path / "cache").exists()
    indexed(local)
    assert forget(local, "never was", "x")


def test_deleted_bytes_leave_the_file(local: Store) -> None:
    """What was deleted in the store leaves the file with the next update."""
    with local.session("secrets") as session:
        session.append(treering.user("common xylophonequartz"))
    path, _ = indexed(local)
    assert b"xylophonequartz" in bytes_near(path)
    local.delete("secrets")
    indexed(local)
    assert b"ylophonequart" not in bytes_near(path)


def test_erased_positions_leave_the_file(local: Store, tmp_path: Path) -> None:
    """After a higher epoch a session is read again; erased positions are skipped."""
    with local.session("secrets") as session:
        session.append(treering.user("common xylophonequartz"))
        session.append(treering.user("common rest"))
        at = session.nodes()[0].at
    path, _ = indexed(local)
    (tail,) = (tmp_path / "store").rglob("secrets/tail.jsonl")
    seen = decode_tail(tail.read_bytes(), key="tail", compressed=False)
    header = replace(seen.header, epoch=1, erased=((at, 1),), nonce="other")
    tail.write_bytes(encode_tail(Tail(header=header, lines=seen.lines), compressed=False))
    with open_index(local) as index:
        assert found(index, "common", session="secrets") == ["common rest"]
    assert b"ylophonequart" not in bytes_near(path)


@pytest.fixture
def both(local: Store, tmp_path: Path) -> Iterator[tuple[Index, Index]]:
    """Two handles on one index."""
    with open_index(local, tmp_path / "index") as one, open_index(local, tmp_path / "index") as two:
        yield one, two


def test_a_session_that_another_process_indexes(both: tuple[Index, Index], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second with what another process wrote meanwhile looks again, and nothing is there twice."""
    from treering.search import walk

    one, two = both
    real, calls = walk.card_of, list[JournalView]()

    def overtake(view: JournalView) -> Card:
        calls.append(view)
        if len(calls) == 1:
            two.update()
        return real(view)

    monkeypatch.setattr(walk, "card_of", overtake)
    one.update()
    assert len(calls) > 3
    assert sum(1 + hit.folded for hit in one.search("common")) == 6


def test_an_index_that_another_process_removed(both: tuple[Index, Index]) -> None:
    """A handle whose file was removed goes on with what it has, and leaves the new file alone."""
    one, two = both
    one.update()
    two.rebuild()
    two.update()
    one.update()
    with two:
        assert sum(1 + hit.folded for hit in two.search("common")) == 6
    assert sum(1 + hit.folded for hit in one.search("common")) == 6
