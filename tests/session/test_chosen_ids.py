"""Ids that callers choose, while others record the same: nobody's record is lost, and none has the id of another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Literal

import pytest
from tests.session.backends import Backend, texts
from tests.session.faults import Meeting, Unreliable, latest_write, recorded

from treering.api.async_store import AsyncStore
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import NotFoundError, UsageError
from treering.session.index_lookup import IndexLookup
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.run import run
from treering.store.place import Place
from treering.transcript.node import Draft, user

ENDS: dict[str, Callable[[Session], object]] = {
    "flush": Session.flush,
    "commit": lambda session: session.commit([user("last")]),
    "compact": lambda session: session.compact("gist"),
    "checkout": lambda session: session.checkout(None),
    "append to a head": lambda session: session.append("aside", expect=session.node),
}


def refused(call: Callable[[], object]) -> UsageError:
    """The error of a call that may not record what it was asked to, because of an id."""
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.kind == "duplicate_id"
    return caught.value


def require_one_node(backend: Backend, node: str, content: str) -> None:
    """The node exists once and says this, by rows as by the index of the whole session."""
    view = backend.store().view("s")
    assert [row.id for row in view.nodes()].count(node) == 1
    assert not view.problems()
    assert view.get(node).payload["content"] == content
    whole = run(view._reader.replica.index(), backend.driver())
    index = IndexLookup(whole, whole.heads)
    assert view.children(node) == tuple(run(index.children(node), backend.driver()))


def seal_twice(session: Session) -> None:
    """Take the records so far out of the tail."""
    session.seal()
    session.append("n")
    session.seal()
    session.append("m")


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_an_id_that_others_took_while_a_draft_waited_is_refused(backend: Backend, end: str, *, sealed: bool) -> None:
    """Nothing of the turn is recorded, all of it still waits, and the caller decides what becomes of it."""
    others = backend.store().session("s", shared=True)
    others.append("root")
    session = backend.store().session("s", shared=True, durability="turn")
    session.append("before")
    session.append(user("ours", id="given"))
    session.append("behind")
    others.append(user("theirs", id="given"))
    others.append(user("below", parent="given"))
    if sealed:
        seal_twice(others)
    said = recorded(backend.store().view("s"))
    for _ in range(2):  # whoever does not act is told again
        assert "discard" in str(refused(lambda: ENDS[end](session)))
    assert recorded(backend.store().view("s")) == said
    require_one_node(backend, "given", "theirs")
    taken = session.discard("given")
    assert [(draft.id, draft.payload["content"]) for draft in taken] == [("given", "ours")]
    session.append(user("ours", id="another"))
    session.flush()
    assert recorded(backend.store().view("s"))[len(said) :] == ["before", "behind", "ours"]
    require_one_node(backend, "another", "ours")
    require_one_node(backend, "given", "theirs")
    session.close()


@pytest.mark.parametrize("sealed", [False, True])
def test_what_others_recorded_alike_while_a_draft_waited_is_recorded_once(backend: Backend, *, sealed: bool) -> None:
    """The same record came by another handle: the rest of the turn is recorded behind where this one stood."""
    others = backend.store().session("s", shared=True)
    others.append("root")
    session = backend.store().session("s", shared=True, durability="turn")
    session.append(user("the same", id="given"))
    session.append("behind")
    others.append(user("the same", id="given"))
    if sealed:
        seal_twice(others)
    session.commit()
    assert session.discard() == ()
    said = recorded(backend.store().view("s"))
    assert (said.count("the same"), said[-1]) == (1, "behind")
    require_one_node(backend, "given", "the same")


def test_a_turn_of_nothing_but_what_others_recorded_records_nothing(backend: Backend) -> None:
    """The only record that waited is there already."""
    others = backend.store().session("s", shared=True)
    others.append("root")
    session = backend.store().session("s", shared=True, durability="turn")
    session.append(user("the same", id="given"))
    others.append(user("the same", id="given"))
    session.flush()
    assert session.discard() == ()
    assert recorded(backend.store().view("s")) == ["root", "the same"]


def test_the_id_of_a_checkpoint_that_others_made_meanwhile_is_refused(backend: Backend) -> None:
    """Labels name checkpoints and nodes alike."""
    others = backend.store().session("s", shared=True)
    others.append("root")
    session = backend.store().session("s", shared=True, durability="turn")
    checkpoint = others.commit("theirs", state={"k": 1}).checkpoint or ""
    session.append(user("ours", id=checkpoint))
    assert "checkpoint" in str(refused(session.flush))
    assert backend.store().view("s").checkpoint(checkpoint).state == {"k": 1}


def test_an_exclusive_handle_looks_again_after_a_refresh(backend: Backend) -> None:
    """What its caller took note of by a refresh may have the id of a draft that waits."""
    backend.store().session("s", hold=False).append("root")
    session = backend.store().session("s", hold=False, durability="turn")
    session.append(user("ours", id="given"))
    others = backend.store().session("s", hold=False)
    others.append(user("theirs", id="given"))
    assert session.refresh()
    refused(session.flush)
    assert [draft.id for draft in session.discard()] == ["given"]
    session.commit(["next"])
    require_one_node(backend, "given", "theirs")


def test_an_id_that_others_took_before_the_session_was_created_is_refused(backend: Backend) -> None:
    """A draft can wait while there is no session yet."""
    session = backend.store().session("s", shared=True, durability="turn")
    session.append(user("ours", id="given"))
    backend.store().session("s", shared=True).append(user("theirs", id="given"))
    refused(session.flush)
    require_one_node(backend, "given", "theirs")


@pytest.mark.parametrize("appends", [False, True])
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_of_two_that_record_an_id_at_once_the_later_one_is_told(
    *, appends: bool, exists: bool, same: bool, commits: bool
) -> None:
    """Who lost the swap, or the creation, looks again before it sends its records."""
    memory = MemoryDriver(appends=appends)
    meeting, others = Meeting(memory), Store(Place(memory))
    backend = Backend("memory", lambda: memory, memory.snapshot)
    if exists:
        others.session("s", shared=True).append("root")
    session = Store(Place(meeting)).session("s", shared=True)
    theirs = others.session("s", shared=True)
    content = "ours" if same else "theirs"

    def meet() -> None:
        theirs.append(user(content, id="given"))

    if exists:
        meeting.before(lambda request: "/tail.jsonl" in getattr(request, "key", ""), meet)
    else:
        meeting.before(latest_write, meet)

    def call() -> object:
        draft = user("ours", id="given")
        return session.commit([draft]) if commits else session.append(draft)

    if same:
        call()
    else:
        refused(call)
    require_one_node(backend, "given", content)


def test_an_awaited_session_refuses_a_taken_id_and_gives_the_draft_back(backend: Backend) -> None:
    """Both facades run the same protocol."""

    async def play(store: AsyncStore) -> None:
        others = await store.session("s", shared=True)
        await others.append("root")
        session = await store.session("s", shared=True, durability="turn")
        await session.append(user("ours", id="given"))
        await others.append(user("theirs", id="given"))
        with pytest.raises(UsageError) as caught:
            await session.flush()
        assert caught.value.kind == "duplicate_id"
        assert [draft.id for draft in await session.discard()] == ["given"]
        await session.append(user("ours", id="another"))
        await session.close()

    asyncio.run(play(backend.async_store()))
    require_one_node(backend, "given", "theirs")
    require_one_node(backend, "another", "ours")


# what is let go


def test_what_was_let_go_is_not_recorded(backend: Backend) -> None:
    """Some of what waits, or all; the caller gets it back with the ids it was to have, and may append it again."""
    session = backend.store().session("s", durability="turn")
    nodes = [session.append(text).node for text in "abcd"]
    assert [draft.id for draft in session.discard(nodes[2], nodes[0])] == [nodes[0], nodes[2]]
    assert texts(session.context) == ["b", "d"]
    left = session.discard()
    assert [draft.id for draft in left] == [nodes[1], nodes[3]]
    assert texts(session.context) == []
    session.append(*left)
    session.close()
    view = backend.store().view("s")
    assert texts(view.context) == ["b", "d"]
    assert view.path() == (nodes[1], nodes[3])


def test_only_what_waits_can_be_let_go(backend: Backend) -> None:
    """What is recorded stays; a call that names it lets nothing go."""
    session = backend.store().session("s", durability="turn")
    done = session.commit(["recorded"])
    waits = session.append("waits").node
    with pytest.raises(NotFoundError):
        session.discard(waits, done.node)
    session.flush()
    assert recorded(backend.store().view("s")) == ["recorded", "waits"]


def test_what_may_have_been_recorded_is_not_let_go() -> None:
    """The outcome of an append without an answer is found out first."""
    place = Unreliable()
    session = place.store.session("s", durability="turn")
    session.commit(["first"])
    node = session.append("waits").node
    place.fails(Fault.AFTER, session.flush)
    with pytest.raises(NotFoundError):
        session.discard(node)
    assert session.discard() == ()
    assert recorded(place.sound.view("s")) == ["first", "waits"]


# ids that the caller knows to be new


@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_an_id_twice_in_a_call_is_refused_though_it_is_new(
    backend: Backend, durability: Literal["sync", "turn"]
) -> None:
    """New in the session does not mean different from each other."""
    with backend.store().session("s", durability=durability) as session:
        refused(lambda: session.append(user("a", id="i"), user("b", id="i"), new_ids=True))


def test_a_new_id_again_while_its_draft_waits_is_buffered_once(backend: Backend) -> None:
    """The ids of what waits are at hand."""
    session = backend.store().session("s", durability="turn")
    for _ in range(2):
        assert session.append(user("a", id="i"), new_ids=True).node == "i"
    refused(lambda: session.append(user("b", id="i"), new_ids=True))
    session.commit()
    require_one_node(backend, "i", "a")


@pytest.mark.parametrize("sealed", [False, True])
def test_a_new_id_again_after_a_lost_answer_is_recorded_once(*, sealed: bool) -> None:
    """Also on a side branch, which the context in memory does not show."""
    place = Unreliable()
    backend = Backend("memory", lambda: place.memory, place.memory.snapshot)
    session = place.store.session("s")
    root = session.append("root").node
    session.append("further")
    draft: Draft = user("aside", id="i", parent=root)
    place.fails(Fault.AFTER, lambda: session.append(draft, new_ids=True))
    if sealed:
        seal_twice(session)
    assert session.append(draft, new_ids=True).node == "i"
    require_one_node(backend, "i", "aside")


# notes


def note_of(text: str = "x", *, target: str | None = None, kind: str = "remark") -> Draft:
    """A note with an id that the caller chose."""
    return Draft(type="note", kind=kind, id="mine", target=target, brief={"tone": text}, payload={"said": text})


@pytest.mark.parametrize("durability", ["sync", "turn"])
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("everything", [False, True])
def test_the_same_note_again_is_recorded_once(
    backend: Backend, durability: Literal["sync", "turn"], *, sealed: bool, everything: bool
) -> None:
    """A call that is repeated after it had no answer, by another handle or by the same one."""
    with backend.store().session("s", durability=durability) as session:
        node = session.append("a").node
        session.append(note_of(target=node))
        session.append(note_of(target=node))
        if sealed:
            session.flush()
            seal_twice(session)
    with backend.store().session("s", durability=durability) as session:
        if everything:
            assert session.leaves()  # reads the index
        session.append(note_of(target=node))
    assert [note.id for note in backend.store().view("s").notes("remark")] == ["mine"]


@pytest.mark.parametrize("durability", ["sync", "turn"])
@pytest.mark.parametrize("sealed", [False, True])
def test_another_note_of_an_id_is_refused(
    backend: Backend, durability: Literal["sync", "turn"], *, sealed: bool
) -> None:
    """Of another kind, about another node, or with other content; and so is a node, even with the same payload."""
    with backend.store().session("s", durability=durability) as session:
        node, other = session.append("a", "b").nodes
        session.append(note_of(target=node))
        if sealed:
            session.flush()
            seal_twice(session)
        same = Draft(kind="message", role="user", id="mine", payload={"said": "x"})
        for draft in (note_of("y", target=node), note_of(target=other), note_of(target=node, kind="other"), same):
            assert "note exists already" in str(refused(partial(session.append, draft)))
    assert len(backend.store().view("s").notes("remark")) == 1


def test_a_note_does_not_take_the_id_of_a_node(backend: Backend) -> None:
    """Not even with the payload of the node; a note may be erased and come again."""
    with backend.store().session("s") as session:
        session.append(Draft(kind="message", role="user", id="mine", payload={"said": "x"}))
        refused(lambda: session.append(note_of()))
    with backend.store().session("t") as session:
        node = session.append("a").node
        session.append(note_of(target=node))
        session.erase("mine")
        session.append(note_of(target=node))
        refused(lambda: session.append(note_of("y", target=node)))
        assert len(session.notes("remark")) == 1


def test_what_a_message_refers_to_is_no_note(backend: Backend) -> None:
    """A parent with the id of a note does not exist."""
    with backend.store().session("s") as session:
        session.append("a")
        session.append(note_of())
        with pytest.raises(NotFoundError):
            session.append(user("b", parent="mine"))
