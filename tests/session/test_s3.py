"""Sessions on a real S3 server: what differs is that nobody can hold one, so conflicts are found by swapping."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers import S3Server
from tests.session.backends import kill, texts

import treering
from treering.api.store import Store
from treering.errors import ConflictError, SessionDeletedError, SessionHeldError

pytestmark = pytest.mark.s3


@pytest.fixture
def reopen(seaweedfs: S3Server) -> Iterator[Callable[[], Store]]:
    """Opens one and the same store as often as a test likes, as new processes would."""
    url = f"s3://{seaweedfs.bucket}/sessions-{os.urandom(6).hex()}"
    opened: list[Store] = []

    def reopen() -> Store:
        opened.append(treering.open(url, storage_options=seaweedfs.storage_options))
        return opened[-1]

    yield reopen
    for store in opened:
        store.close()


def test_a_session_lives_on_s3(reopen: Callable[[], Store]) -> None:
    """Append, commit, kill, resume, seal, merge, branch, rewind, fork, list and copy work as on disk."""
    session = reopen().session("s", title="T")
    made = []
    for turn in range(4):
        session.append(f"q{turn}")
        done = session.commit([{"role": "assistant", "content": f"a{turn}"}], state={"turn": turn})
        made.append(done.checkpoint or "")
        session.seal()
    session.optimize(everything=True)
    kill(session)
    session = reopen().session("s", create=False)
    assert session.state == {"turn": 3}
    session.rewind(made[1])
    kill(session)
    session = reopen().session("s")
    assert (texts(session.context), session.state) == (["q0", "a0", "q1", "a1"], {"turn": 1})
    session.branch("idea")
    session.append("x" * 400_000)
    session.fork("copy")
    session.close()
    store = reopen()
    assert [row.id for row in store.sessions().rows].count("copy") == 1
    view = store.view("copy")
    assert texts(view.context)[-1] == "x" * 400_000
    other = treering.open(f"memory://{os.urandom(6).hex()}")
    store.copy("s", other)
    assert list(other.view("s").lines()) == list(store.view("s").lines())


def test_a_backup_goes_to_a_bucket_and_back(reopen: Callable[[], Store], tmp_path: Path) -> None:
    """From a folder to S3 while it grows, from there to a folder, and on from it: nothing differs, erasures travel."""
    store, there = treering.open(tmp_path / "store"), reopen()
    with store.namespace("ann").session("s") as session:
        said = []
        for turn in range(3):
            said.append(session.append(f"q{turn}").node)
            session.commit(["x" * 300_000], state={"turn": turn})
            session.seal()
            assert not store.backup(there).failed
        session.erase(said[-1])
    for _ in range(2):
        assert not store.backup(there).failed
    restored = treering.open(tmp_path / "restored")
    assert [row.action for row in reopen().backup(restored).rows] == ["copied"]
    for each in (there, restored):
        assert list(each.namespace("ann").view("s").lines()) == list(store.namespace("ann").view("s").lines())
        assert each.namespace("ann").verify("s") == []
    with restored.namespace("ann").session("s") as session:
        session.append("goes on")
    (row,) = restored.backup(there).rows
    assert (row.action, row.objects) == ("copied", 2)
    assert list(there.namespace("ann").view("s").lines()) == list(restored.namespace("ann").view("s").lines())


def test_the_second_writer_is_told_at_its_first_append(reopen: Callable[[], Store]) -> None:
    """Of two exclusive handles the second gets a typed error, and what the first wrote is all there."""
    first = reopen().session("s")
    first.append("a")
    second = reopen().session("s")
    first.append("b")
    with pytest.raises(ConflictError) as caught:
        second.append("never")
    assert not isinstance(caught.value, SessionHeldError)
    assert "shared=True" in str(caught.value)
    first.append("c")
    first.close()
    second.close()
    assert texts(reopen().view("s").context) == ["a", "b", "c"]


def test_two_processes_that_create_one_session(reopen: Callable[[], Store]) -> None:
    """Of two exclusive handles that create a session, one does and the other is told."""
    first, second = reopen().session("s"), reopen().session("s")
    first.append("a")
    with pytest.raises(ConflictError):
        second.append("b")
    assert texts(reopen().view("s").context) == ["a"]


def test_shared_writers_become_siblings_on_s3(reopen: Callable[[], Store]) -> None:
    """Two shared handles lose nothing and branch where they meet."""
    first, second = (reopen().session("s", shared=True) for _ in range(2))
    root = first.append("root").node
    second.refresh()
    ids = {first.append("one").node, second.append("two").node}
    first.refresh()
    assert set(first.children(root)) == ids
    for session in (first, second):
        session.commit(["on"], state={"head": session.head})
        session.close()
    view = reopen().view("s")
    assert sorted(view.heads) == ["main", "main-2"]


def test_delete_and_create_again_on_s3(reopen: Callable[[], Store]) -> None:
    """A handle of the old life neither writes into nor reads the new one."""
    old = reopen().session("s")
    old.append("old")
    reopen().delete("s")
    assert reopen().sessions().rows == ()
    with pytest.raises(SessionDeletedError):
        old.append("ghost")
    with reopen().session("s") as session:
        session.append("new")
    with pytest.raises(SessionDeletedError):
        old.append("ghost")
    assert texts(reopen().view("s").context) == ["new"]


def test_a_feed_on_s3(reopen: Callable[[], Store]) -> None:
    """A feed on S3 yields what another handle adds."""
    session = reopen().session("s")
    session.append("a")
    feed = reopen().view("s").follow(poll_seconds=0)
    expected = [session.append(f"m{number}").node for number in range(3)]
    session.seal()
    expected.append(session.append("after").node)
    assert [next(feed).id for _ in range(4)] == expected
    session.close()


async def test_an_asynchronous_session_on_s3(seaweedfs: S3Server) -> None:
    """The asynchronous session works on S3 from inside an event loop."""
    url = f"s3://{seaweedfs.bucket}/async-{os.urandom(6).hex()}"
    store = treering.aopen(url, storage_options=seaweedfs.storage_options)
    async with await store.session("s") as session:
        await session.commit(["a"], state={"n": 1})
    view = await store.view("s")
    assert (texts(view.context), view.state) == (["a"], {"n": 1})
    await store.close()
