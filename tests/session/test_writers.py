"""Several handles on one session: exclusive ones get an error, shared ones continue in parallel, nothing is lost."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.drivers import Unheld
from tests.session.backends import Backend, kill, memory_backend, texts
from tests.session.faults import Meeting, Unreliable

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import (
    ConflictError,
    CorruptError,
    HeadMovedError,
    SessionDeletedError,
    SessionHeldError,
    UnavailableError,
)
from treering.session.recording import Recording
from treering.session.writer import Writer
from treering.storage.faulty import Fault
from treering.storage.requests import Answer, Batch, Found, Get, Put, Request, Steps, Written
from treering.store.place import Place
from treering.testing.conformance import ask


class Shaky(Unheld):
    """One that for some time reads registers, and nothing else."""

    fails = False

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        if self.fails and not all(isinstance(request, Get) and request.register for request in batch):
            return tuple(UnavailableError("no answer", key="") for _ in batch)
        return self.inner.execute(batch)


def unheld(backend: Backend) -> Store:
    """The store, on a driver that cannot hold."""
    return Store(Place(Unheld(backend.driver())))


def moved(writer: Writer, node: str) -> Steps[Recording]:
    """Move the head without a checkpoint, as other programs may: only the graph tells the context then."""

    def plan() -> Steps[Recording]:
        yield from ()
        recording = Recording(writer)
        recording.move("checkout", "main", node)
        return recording

    return (yield from writer.appender.write(plan))


def contents(session: Session) -> list[str]:
    """What all nodes say, in the order they were recorded."""
    return [session.get(row.id).payload["content"] for row in session.nodes()]


def test_the_second_is_told_who_holds_the_session(backend: Backend) -> None:
    """An exclusive session cannot be opened a second time, shared or not; the message names the holder."""
    with backend.store().session("s") as session:
        session.append("a")
        for shared in (False, True):
            with pytest.raises(SessionHeldError, match=f"pid {os.getpid()}"):
                backend.store().session("s", shared=shared)
        with pytest.raises(SessionHeldError):
            backend.store().delete("s")
        session.append("b")
    with backend.store().session("s") as session:
        assert texts(session.context) == ["a", "b"]


def test_a_session_may_be_held_only_while_it_is_needed(tmp_path: Path) -> None:
    """A session opened without a hold is locked only from `claim` to `release`; a stale handle gets an error."""
    store = treering.open(tmp_path)
    first = store.session("s", hold=False)
    first.append("a")
    second = store.session("s", hold=False)
    first.claim()
    with pytest.raises(SessionHeldError):
        second.claim()
    first.append("b")
    first.release()
    second.claim()
    with pytest.raises(ConflictError):
        second.append("never")
    second.close()
    first.append("c")
    first.close()
    assert texts(store.view("s").context) == ["a", "b", "c"]


@pytest.mark.parametrize("begins", ["creates", "finds", "released"])
def test_a_session_without_a_hold_is_not_locked_when_it_begins_to_exist(begins: str, tmp_path: Path) -> None:
    """Whether the handle creates it, finds it when it looks again, or was released before; `claim` locks it."""
    store = treering.open(tmp_path)
    first = store.session("s", hold=begins == "released")
    if begins == "released":
        first.release()
    elif begins == "finds":
        with store.session("s") as other:
            other.append("a")
        assert first.refresh()
    first.append("b")
    store.session("s").close()
    first.claim()
    with pytest.raises(SessionHeldError):
        store.session("s")
    first.append("c")
    first.close()


@pytest.mark.parametrize("finds", [False, True])
def test_a_session_claimed_before_it_exists_is_locked_when_it_does(tmp_path: Path, *, finds: bool) -> None:
    """Until it is released; so nobody comes between the claim and the first record and is stopped by it."""
    store = treering.open(tmp_path)
    first = store.session("s", hold=False)
    first.claim()
    if finds:
        with store.session("s") as other:
            other.append("a")
        assert first.refresh()
    first.append("b")
    with pytest.raises(SessionHeldError):
        store.session("s")
    first.release()
    store.session("s").close()
    first.close()


def test_a_session_is_held_from_its_first_record_on(tmp_path: Path) -> None:
    """On disk two handles may wait for a session that is not there yet; the one that records first holds it."""
    store = treering.open(tmp_path)
    first, second = store.session("s"), store.session("s")
    first.append("a")
    with pytest.raises(SessionHeldError):
        second.append("b")
    first.append("c")
    second.close()
    first.close()
    assert texts(store.view("s").context) == ["a", "c"]


def test_who_waited_for_a_session_does_not_take_it_from_its_holder(tmp_path: Path) -> None:
    """A handle that finds a session which another one created and holds is told so, also when it looks again."""
    store = treering.open(tmp_path)
    first, second = store.session("s"), store.session("s")
    assert not second.refresh()
    first.append("a")
    for call in (second.refresh, lambda: second.append("b")):
        with pytest.raises(SessionHeldError):
            call()
    first.append("c")
    first.close()
    assert second.refresh()
    second.append("d")
    with pytest.raises(SessionHeldError):
        store.session("s")
    second.close()
    assert texts(store.view("s").context) == ["a", "c", "d"]


def test_a_failed_open_gives_the_hold_back(backend: Backend) -> None:
    """A session that could not be opened is not held."""
    for _ in range(2):
        with pytest.raises(treering.NotFoundError):
            backend.store().session("s", create=False)
    with backend.store().session("s") as session:
        session.append("a")


def test_without_holds_the_second_gets_a_conflict_and_nothing_is_lost(backend: Backend) -> None:
    """Without locks, the second exclusive writer gets an error at its first append, and at each call after it."""
    first, second = unheld(backend).session("s"), unheld(backend).session("s")
    first.append("a")
    second_open = unheld(backend).session("s")
    first.append("b")
    for late in (second, second_open):
        for _ in range(2):
            with pytest.raises(ConflictError, match="open") as caught:
                late.append("never")
            assert not isinstance(caught.value, SessionHeldError)
            assert caught.value.kind in ("overtaken", "exists")
        late.close()
    first.append("c")
    first.close()
    with backend.store().session("s") as session:
        assert contents(session) == ["a", "b", "c"]
        assert texts(session.context) == ["a", "b", "c"]


def test_a_conflict_keeps_messages_that_were_put_off(backend: Backend) -> None:
    """A turn that could not be recorded is not dropped from memory."""
    unheld(backend).session("s").append("a")
    late = unheld(backend).session("s", durability="turn")
    unheld(backend).session("s").append("b")
    late.append("mine")
    with pytest.raises(ConflictError):
        late.commit([])
    assert texts(late.context)[-1] == "mine"


def test_shared_writers_become_siblings(backend: Backend) -> None:
    """Of two shared handles that append below the same node, the second gets a head of its own beside the first."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    root = first.append("root").node
    second.refresh()
    one = first.append("one").node
    two = second.append("two").node
    assert first.refresh()
    assert first.children(root) == (one, two)
    assert first.heads == {"main": one, "main-2": two}
    assert texts(first.context) == ["root", "one"]
    assert texts(second.context) == ["root", "two"]
    assert second.head == "main-2"
    three, four = first.append("three").node, second.append("four").node
    second.refresh()
    assert second.path() == (root, two, four)
    assert second.path(three) == (root, one, three)
    for session in (first, second):
        session.close()
    with backend.store().session("s") as session:
        assert contents(session) == ["root", "one", "two", "three", "four"]
        assert texts(session.context) == ["root", "one", "three"]
        session.switch("main-2")
        assert texts(session.context) == ["root", "two", "four"]


def test_a_shared_writer_that_refreshed_continues_the_same_branch(backend: Backend) -> None:
    """A writer that refreshes before an append continues after the other's records."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    ids = []
    for number in range(6):
        session = (first, second)[number % 2]
        session.refresh()
        ids.append(session.append(str(number)).node)
    assert first.refresh()
    assert first.path() == tuple(ids)
    assert list(first.heads) == ["main"]


def test_shared_commits_keep_their_own_state(backend: Backend) -> None:
    """The state of each shared branch is its own."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    first.commit(["root"], state={"who": "both"})
    second.refresh()
    first.commit(["a"], state={"who": "first"})
    second.commit(["b"], state={"who": "second"})
    first.commit(["c"], state={"n": 1})
    assert first.state == {"who": "first", "n": 1}
    assert second.state == {"who": "second"}
    first.close()
    second.close()
    with backend.store().session("s") as session:
        assert session.state == {"who": "first", "n": 1}
        session.switch("main-2")
        assert session.state == {"who": "second"}


def test_both_shared_writers_may_create_the_session(backend: Backend) -> None:
    """Two shared handles on a session that is not there yet both get their first message in."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    first.append("a")
    second.append("b")
    first.refresh()
    assert sorted(contents(first)) == ["a", "b"]


def test_an_expected_head_that_moved_is_refused(backend: Backend) -> None:
    """Who names the node it believes in gets HeadMovedError when another wrote, and nothing is recorded."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    root = first.append("root", expect=None).node
    second.refresh()
    one = first.append("one", expect=root).node
    with pytest.raises(HeadMovedError, match=one):
        second.append("two", expect=root)
    with pytest.raises(HeadMovedError):
        second.commit(["two"], expect=root)
    assert len(second.nodes()) == 2
    second.refresh()
    assert second.append("two", expect=one).node
    with pytest.raises(HeadMovedError):
        second.append("x", expect=None)


def test_a_head_that_is_where_it_is_expected_again_is_no_reason_to_refuse(backend: Backend) -> None:
    """What counts is where the head is now, not where this handle saw it last."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    root = first.append("root").node
    second.refresh()
    one = first.append("one").node
    with pytest.raises(HeadMovedError):
        second.append("two", expect=root)  # now this handle knows of `one`
    first.checkout(root)
    two = second.append("two", expect=root).node
    first.refresh()
    assert [row.id for row in first.nodes() if row.parent == root] == [one, two]
    assert first.head == second.head


def test_an_append_to_another_head_does_not_move_this_one(store: Store) -> None:
    """Naming a head appends there and leaves the session where it stands."""
    with store.session("s") as session:
        root = session.append("root").node
        session.branch("side")
        node = session.append("on side").node
        moved = session.append("on main", head="main").node
        assert (session.head, session.node) == ("side", node)
        assert session.heads["main"] == moved
        assert session.path(moved) == (root, moved)
        assert texts(session.context) == ["root", "on side"]


# delete, and create again


def test_delete_takes_everything_but_two_tombstones(backend: Backend) -> None:
    """A deleted session is gone from lists and its bytes from the store."""
    with backend.store().session("s", title="secret title") as session:
        session.append("secret text")
        session.commit([{"role": "user", "content": "x" * 300_000}], state={"secret": 1})
        session.seal()
    assert any("segments/" in key for key in backend.snapshot())
    assert any("blobs/" in key for key in backend.snapshot())
    backend.store().delete("s")
    left = backend.snapshot()
    assert not any("segments/" in key or "blobs/" in key for key in left)
    assert sum(len(data) for key, data in left.items() if key.startswith(("latest/", "sessions/"))) < 1000
    assert not any(b"secret" in data for data in left.values())
    assert backend.store().sessions().rows == ()
    with pytest.raises(SessionDeletedError):
        backend.store().view("s")
    with pytest.raises(SessionDeletedError):
        backend.store().session("s", create=False)


def test_handles_of_a_deleted_life_are_told(backend: Backend) -> None:
    """After delete, and after the name was used again, an old handle neither writes nor reads the new life."""
    shared = backend.store().session("s", shared=True)
    shared.append("old")
    view = backend.store().view("s")
    feed = view.follow(poll_seconds=0)
    shared.append("old too")
    assert next(feed).payload == {"role": "user", "content": "old too"}
    kill(shared)
    backend.store().delete("s")
    with pytest.raises(SessionDeletedError):
        shared.append("ghost")
    with backend.store().session("s") as session:
        session.append("new")
        for call in (
            lambda: shared.append("ghost"),
            lambda: shared.commit(state={"a": 1}),
            shared.refresh,
            shared.seal,
        ):
            with pytest.raises(SessionDeletedError):
                call()
        with pytest.raises(SessionDeletedError):
            view.refresh()
        with pytest.raises(SessionDeletedError):
            next(feed)
        session.append("newer")
        assert contents(session) == ["new", "newer"]
    shared.close()
    assert texts(backend.store().view("s").context) == ["new", "newer"]


PURGED: dict[str, Callable[[Session], object]] = {
    "append": lambda session: session.append("ghost"),
    "commit": lambda session: session.commit(state={"a": 1}),
    "branch": lambda session: session.branch("side", node=None),
    "refresh": lambda session: session.refresh(),
    "claim": lambda session: session.claim(ttl=5),
    "optimize": lambda session: session.optimize(),
    "erase": lambda session: session.erase(session.path()[0]),
    "fork": lambda session: session.fork("copy"),
    "lines": lambda session: list(session.lines()),
}


@pytest.mark.parametrize("settles", [False, True])
@pytest.mark.parametrize("verb", PURGED)
def test_handles_of_a_purged_session_are_told_that_it_was_deleted(verb: str, *, settles: bool) -> None:
    """Nothing in the store says so any more, but a handle knows that there was a session."""
    place = Unreliable()
    others = Store(Place(Unheld(place.memory)))
    session = place.store.session("s")
    session.append("one")
    view = others.view("s")
    if settles:
        place.fails(Fault.BEFORE, lambda: session.append("two"))
    others.delete("s")
    others.purge("s")
    with pytest.raises(SessionDeletedError):
        PURGED[verb](session)
    with pytest.raises(SessionDeletedError):
        view.refresh()
    session.close()
    assert not [key for key in place.memory.snapshot() if key.startswith(("latest/", "sessions/"))]


def test_a_name_can_be_used_again_and_again(backend: Backend) -> None:
    """Each life begins empty, whatever the last one held."""
    for number in range(4):
        with backend.store().session("s", title=f"life {number}") as session:
            assert session.context == ()
            assert session.info.title == f"life {number}"
            session.commit([f"life {number}"], state={"n": number})
            if number % 2:
                session.seal()
        (row,) = backend.store().sessions().rows
        assert (row.title, row.messages) == (f"life {number}", 1)
        backend.store().delete("s")


def test_a_handle_from_before_a_fork_is_refused(store: Store) -> None:
    """A session opened before a fork may not be used by the child: two processes would be one writer."""
    with store.session("s") as session:
        session.append("a")
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                session.append("from the child")
            except treering.UsageError as error:
                os.write(write, error.kind.encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        assert os.read(read, 100) == b"forked"
        os.close(read)
        assert len(session.nodes()) == 1


@pytest.mark.parametrize("options", [{}, {"ttl": 5}])
def test_a_handle_of_another_process_or_a_closed_one_is_not_claimed(tmp_path: Path, options: dict[str, float]) -> None:
    """It would hold a session that nobody can record in, and keep out all who could."""
    store = treering.open(tmp_path)
    session = store.session("s")
    session.append("a")
    session._pid += 1  # as in a child, which would have the lock of its parent
    with pytest.raises(treering.UsageError) as caught:
        session.claim(**options)
    assert caught.value.kind == "forked"
    session._pid -= 1
    session.close()
    with pytest.raises(treering.UsageError) as caught:
        session.claim(**options)
    assert caught.value.kind == "closed"
    store.session("s").close()


def test_a_shared_writer_keeps_its_head_when_another_navigates(backend: Backend) -> None:
    """Where one shared handle goes does not move the other, nor mix their states."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    first.commit(["root"], state={"who": "first"})
    second.refresh()
    second.branch("other")
    second.commit(["b"], state={"who": "second"})
    first.append("a")
    first.commit(["c"], state={"n": 1})
    assert (first.head, second.head) == ("main", "other")
    assert first.state == {"who": "first", "n": 1}
    assert texts(first.context) == ["root", "a", "c"]
    first.refresh()
    assert first.head == "main"
    first.seal()
    second.append("d")
    assert second.state == {"who": "second"}
    assert texts(second.context) == ["root", "b", "d"]
    first.close()
    second.close()
    with backend.store().session("s") as session:
        assert (session.head, session.state) == ("other", {"who": "second"})
        assert texts(session.context) == ["root", "b", "d"]
        session.switch("main")
        assert session.state == {"who": "first", "n": 1}


def test_a_shared_writer_far_behind_finds_its_own_head_again(backend: Backend) -> None:
    """After others sealed everything a handle knew, its context and state are still those of its own head."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    first.commit(["root"], state={"who": "first"})
    second.refresh()
    second.branch("other")
    second.commit(state={"who": "second"})
    for number in range(3):
        second.append(f"b{number}")
        second.seal()
        second.append("after")
    first.commit(["a"], state={"n": 1})
    assert first.state == {"who": "first", "n": 1}
    assert texts(first.context) == ["root", "a"]


def test_reading_does_not_let_an_exclusive_writer_go_on_behind_others(backend: Backend) -> None:
    """Its own look at the graph may see first what another wrote; the next append is refused all the same."""
    first, second = (unheld(backend).session("s") for _ in range(2))
    first.append("one")
    second.refresh()
    first.append("two")
    first.seal()
    first.append("three")
    second.nodes()
    with pytest.raises(ConflictError, match="another writer is writing"):
        second.append("lost")
    assert texts(backend.store().view("s").context) == ["one", "two", "three"]


@pytest.mark.parametrize("sealed", ["state", "checkpoint"])
def test_an_exclusive_writer_that_meets_a_pruning_while_it_plans_records_nothing(backend: Backend, sealed: str) -> None:
    """It looks again where the checkpoint that it took for the nearest is gone, and sees that another one was there."""
    session = unheld(backend).session("s", shared=True)
    node = session.commit(["a"], state={"x": 1}).nodes[-1]
    if sealed == "state":
        session.seal()
    session.checkout(node)  # a whole checkpoint, whose state is in the first one
    session.commit(["b"], state={"x": 2})
    if sealed == "checkpoint":
        session.seal()
        session.append("c")  # the tail holds nothing older any more
    exclusive = unheld(backend).session("s")
    exclusive.nodes()
    session.checkout(None)
    session.prune(KeepCheckpoints(last=1))
    with pytest.raises(ConflictError, match="another writer is writing"):
        exclusive.checkout(node)
    assert backend.store().view("s").node is None


def test_erasing_and_sealing_does_not_hide_from_an_exclusive_writer_who_wrote() -> None:
    """Who reads folds from `latest` then; what it covers by now is looked through all the same."""
    store = unheld(memory_backend(appends=True))
    with store.session("s") as session:
        first = session.append("one").node
    session = store.session("s")
    with store.session("s", shared=True) as other:
        other.append("two")
        other.erase(first)
        other.seal()
    session.nodes()
    with pytest.raises(ConflictError, match="another writer is writing"):
        session.append("lost")


def test_a_refresh_that_fails_half_way_is_no_leave_to_go_on(backend: Backend) -> None:
    """Its caller did not see the other's records, so an append is refused until a refresh succeeds."""
    first = unheld(backend).session("s")
    first.append("one")
    shaky = [Shaky(backend.driver()) for _ in range(2)]
    handles = [Store(Place(driver)).session("s") for driver in shaky]
    first.append({"role": "user", "content": [{"type": "file", "data": "AAAA" * 10_000}]})  # a part to be fetched
    for driver, handle, again in zip(shaky, handles, (False, True), strict=True):
        driver.fails = True
        with pytest.raises(UnavailableError):
            handle.refresh()
        driver.fails = False
        if again:
            assert handle.refresh()
            handle.append("told")
        else:
            with pytest.raises(ConflictError, match="another writer is writing"):
                handle.append("lost")
    assert contents(unheld(backend).session("s"))[-1] == "told"


@pytest.mark.parametrize("appends", [False, True])
def test_a_session_that_was_found_and_is_another_s_is_forgotten(*, appends: bool) -> None:
    """A later creation under the same name begins a new session, which detects other writers as usual."""
    place = Unreliable(appends=appends)
    session = place.store.session("s")
    kill(session)
    with place.sound.session("s") as other:
        for number in range(3):
            other.append(f"{number}")
        with pytest.raises(SessionHeldError):
            session.refresh()
        assert not session.context
    place.sound.delete("s")
    place.fails(Fault.BEFORE, lambda: session.append("in doubt"))
    kill(session)
    with place.sound.session("s", shared=True) as other:
        other.append("theirs")
    with pytest.raises(ConflictError, match="another writer is writing"):
        session.append("not told")


@pytest.mark.parametrize("shared", [False, True])
def test_a_first_refresh_that_fails_half_way_leaves_the_session_to_its_holder(*, shared: bool) -> None:
    """It is not taken for one's own: the next refresh holds it, or says who does."""
    place = Unreliable()
    session = place.store.session("s", shared=shared)
    kill(session)
    with place.sound.session("s") as other:
        other.append({"role": "user", "content": [{"type": "file", "data": "AAAA" * 10_000}]})  # a part to be fetched
        place.fails(Fault.BEFORE, session.refresh, lambda request: "/blobs/" in getattr(request, "key", ""))
        with pytest.raises(SessionHeldError):
            session.refresh()
    assert session.refresh()
    session.append("after")
    assert texts(place.sound.view("s").context)[-1] == "after"


@pytest.mark.parametrize("appends", [False, True])
def test_a_session_that_is_deleted_while_it_is_opened_leaves_nothing(*, appends: bool) -> None:
    """Its last records were by others; the one that is begun then has none."""
    backend = memory_backend(appends=appends)
    store = backend.store()
    with store.session("s", shared=True) as session:
        first = session.append("one").node
        session.append("two")
        session.perform(moved, first)
    meeting, tails = Meeting(backend.driver()), itertools.count()

    def reads_the_graph(request: Request) -> bool:
        return isinstance(request, Get) and "/tail.jsonl" in request.key and next(tails) == 1

    meeting.before(reads_the_graph, lambda: unheld(backend).delete("s"))
    session = Store(Place(meeting)).session("s")
    session.append("anew")
    assert texts(store.view("s").context) == ["anew"]


def test_a_log_that_lost_what_was_safe_is_damaged() -> None:
    """Somebody cut it: to go on would hang a message below one that is gone, and hide all above it."""
    backend = memory_backend(appends=True)
    driver, tail = backend.driver(), "sessions/s/tail.jsonl"
    session = backend.store().session("s")
    session.append("one")
    session.append("two")
    data = ask(driver, Get(tail), Found).data
    ask(driver, Put(tail, data[:-5]), Written)
    with pytest.raises(CorruptError) as caught:
        session.append("three")
    assert caught.value.kind == "lost"
    assert texts(session.context) == ["one", "two"]
    kill(session)
    assert texts(backend.store().view("s").context) == ["one"]
