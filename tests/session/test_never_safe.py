"""A record is shown before it is safe and then gone, since a sync failed: who stood on it goes on where the head is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.session.at_rest import put_back
from tests.session.backends import kill, memory_backend, texts
from tests.session.faults import Unreliable, says

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import ConflictError, NotFoundError
from treering.format.record import decode_record
from treering.storage.faulty import Fault
from treering.storage.requests import Driver, Found, Get, List
from treering.store.place import Place
from treering.testing.conformance import ask
from treering.transcript.node import compaction, user

Verb = Callable[[Session, str], object]

VERBS: dict[str, Verb] = {
    "append": lambda session, _: session.append("mine"),
    "commit": lambda session, _: session.commit(["mine"], state={"step": 1}),
    "context": lambda session, one: session.commit(["mine"], context=[one]),
    "compact": lambda session, one: session.compact("mine", kept=one),
    "compact to nothing": lambda session, _: session.compact("mine"),
    "note": lambda session, one: session.label(one, "mine"),
    "extension": lambda session, _: session.record_extension("mine", {}),
    "retract": lambda session, one: session.retract(one),
    "amend": lambda session, one: session.amend(one, {"role": "user", "content": "mine"}),
    "branch": lambda session, _: session.branch("mine"),
    "branch elsewhere": lambda session, one: session.branch("mine", node=one),
    "checkout": lambda session, one: session.checkout(one),
    "checkout of the root": lambda session, _: session.checkout(None),
    "seal": lambda session, _: session.seal(),
}
LOOKS: dict[str, Verb] = {"looks": lambda session, _: session.nodes(), "does not look": lambda _, one: one}


class Scene:
    """A log that lost its end, and a handle that stands there."""

    def __init__(self, *, theirs: int, shared: bool, side: bool) -> None:
        backend = memory_backend(appends=True)
        driver = backend.driver()
        self.store = Store(Place(driver))
        with self.store.session("s") as session:
            self.one = session.append("one").node
            session.compact("gist")  # so that only the graph tells what a compaction that keeps `one` shows
        before = ask(driver, Get("sessions/s/tail.jsonl"), Found).data
        dying = self.store.session("s")
        if side:
            dying.branch("side", node=None)
        dying.append("never safe")
        kill(dying)
        self.handle = self.store.session("s", shared=shared)
        assert texts(self.handle.context)[-1] == "never safe"
        kill(self.handle)
        put_back(driver, "s", before)
        with self.store.session("s") as other:
            for number in range(theirs):
                other.append(f"theirs {number}")


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("theirs", range(3))
@pytest.mark.parametrize("side", [False, True], ids=["main", "side"])
@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_who_stood_on_what_was_never_safe_goes_on(
    *, look: str, verb: str, theirs: int, side: bool, shared: bool
) -> None:
    """Nothing hangs below what is gone. An exclusive handle is told of others, and of nothing if there are none."""
    scene = Scene(theirs=theirs, shared=shared, side=side)
    handle, view = scene.handle, scene.store.view("s")
    LOOKS[look](handle, scene.one)
    if theirs and not shared:
        if verb != "seal":
            with pytest.raises(ConflictError, match="another writer is writing"):
                VERBS[verb](handle, scene.one)
        with pytest.raises(ConflictError, match="another writer is writing"):
            handle.append("lost")
        assert "lost" not in texts(scene.store.view("s").context)
    else:
        VERBS[verb](handle, scene.one)
        handle.append("more")
        view.refresh()
        assert handle.node == view.heads[handle.head]
        assert handle.context == view.context_at(handle.node)
    view.refresh()
    assert not view.problems()
    assert scene.store.verify("s") == []


def log_of(driver: Driver) -> bytes:
    """The tail, as it is."""
    return ask(driver, Get("sessions/s/tail.jsonl"), Found).data


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("whose", ["another's", "its own"])
def test_others_are_seen_below_an_append_in_doubt(whose: str, look: str) -> None:
    """What took the place of a note that was lost is not taken for what was in doubt, though it was sealed."""
    place = Unreliable(appends=True)
    with place.sound.session("s") as session:
        one = session.append("one").node
    before = log_of(place.memory)
    if whose == "its own":
        session = place.store.session("s")
        place.fails(Fault.AFTER, lambda: session.note("lost"))
        session.refresh()
    else:
        dying = place.sound.session("s")
        dying.note("lost")
        kill(dying)
        session = place.store.session("s")
        place.fails(Fault.BEFORE, lambda: session.append("in doubt"))
    kill(session)
    put_back(place.memory, "s", before)
    with place.sound.session("s", shared=True) as other:
        other.append("theirs")
        other.seal()
        other.erase(one)
    LOOKS[look](session, one)
    with pytest.raises(ConflictError, match="another writer is writing"):
        session.append("not told")
    assert "not told" not in says(place.sound.view("s"))


@pytest.mark.parametrize("erases", [False, True])
def test_nobody_is_told_of_others_who_only_seal_and_erase(*, erases: bool) -> None:
    """Neither is a write by others, nor is it one that the handle itself writes the log anew to settle a doubt."""
    place = Unreliable(appends=True)
    other = place.sound.session("s", shared=True)
    one = other.append("one").node
    other.append("two")
    kill(other)
    session = place.store.session("s")
    kill(session)
    place.fails(Fault.BEFORE, lambda: session.append("in doubt"))
    other.seal()
    if erases:
        other.erase(one)
    session.append("three")
    assert says(session)[1:] == says(place.sound.view("s"))[1:] == ["two", "three"]


class Lost(NamedTuple):
    """A handle that was shown what is gone since."""

    store: Store
    handle: Session
    kept: list[str]
    gone: str | None
    """Where the handle stands."""


def lose(
    does: Callable[[Session], object] = lambda session: session.append("gone"), *, theirs: int = 0, shared: bool = False
) -> Lost:
    """Let a handle see what another did, and others write in place of it."""
    driver = memory_backend(appends=True).driver()
    store = Store(Place(driver))
    with store.session("s") as session:
        kept = [session.append(text).node for text in ("one", "two")]
    before = log_of(driver)
    dying = store.session("s")
    does(dying)
    kill(dying)
    handle = store.session("s", shared=shared)
    kill(handle)
    put_back(driver, "s", before)
    if theirs:
        with store.session("s", shared=True) as other:
            for number in range(theirs):
                other.append(f"theirs {number}")
    return Lost(store, handle, kept, handle.node)


NAMES: dict[str, Callable[[Session, str], object]] = {
    "parent": lambda session, gone: session.append(user("mine", parent=gone)),
    "label": lambda session, gone: session.label(gone, "mine"),
    "retract": lambda session, gone: session.retract(gone),
    "amend": lambda session, gone: session.amend(gone, {"role": "user", "content": "mine"}),
    "compact": lambda session, gone: session.compact("mine", kept=gone),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_who_names_what_is_gone_is_told(*, name: str, shared: bool) -> None:
    """Also if it was there when the call began."""
    lost = lose(shared=shared)
    with pytest.raises(NotFoundError, match="no such node"):
        NAMES[name](lost.handle, lost.gone or "")
    view = lost.store.view("s")
    assert [row.id for row in view.nodes()] == lost.kept
    assert (lost.gone or "").encode() not in b"".join(view.lines())


@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_what_is_said_here_is_said_where_the_handle_stands_then(*, shared: bool) -> None:
    """Of a node that is there, though another one was in hand when the call began."""
    lost = lose(shared=shared)
    lost.handle.record_extension("mine", {"n": 1})
    lost.handle.record_system("be kind")
    targets = {record.target for record in map(decode_record, lost.store.view("s").lines()) if record.type == "note"}
    assert targets == {lost.kept[-1]}


def test_a_fork_from_here_is_one_from_where_the_handle_stands_then() -> None:
    """At the first try."""
    lost = lose()
    lost.handle.fork("copy")
    assert texts(lost.store.view("copy").context) == ["one", "two"]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("does", ["branch", "checkout"])
def test_a_move_that_is_gone_leaves_an_exclusive_handle_where_the_session_stands(does: str, look: str) -> None:
    """Whether it looked or not, it goes on at the end of what everybody sees."""
    moves: dict[str, Callable[[Session], object]] = {
        "branch": lambda session: session.branch("side"),
        "checkout": lambda session: session.checkout(session.path()[0]),
    }
    lost = lose(moves[does])
    LOOKS[look](lost.handle, lost.kept[0])
    lost.handle.append("mine")
    view = lost.store.view("s")
    assert (view.head, texts(view.context)) == ("main", ["one", "two", "mine"])
    assert lost.handle.context == view.context


@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_a_refresh_tells_of_what_stands_in_place_of_what_is_gone(*, shared: bool) -> None:
    """The session is as long as it was, and another one."""
    lost = lose(theirs=1, shared=shared)
    view = lost.store.view("s")
    assert lost.handle.refresh()
    assert not lost.handle.refresh()
    assert not view.refresh()
    assert texts(lost.handle.context) == texts(view.context) == ["one", "two", "theirs 0"]


def test_a_head_that_moved_in_place_of_what_is_gone_is_where_it_is_expected() -> None:
    """What the caller expects is looked for again before it is refused."""
    lost = lose(theirs=1, shared=True)
    tip = lost.store.view("s").node
    lost.handle.append("mine", expect=tip)
    assert texts(lost.store.view("s").context) == ["one", "two", "theirs 0", "mine"]


def test_an_erasure_is_not_begun_beside_others() -> None:
    """A handle that has to stop could not finish it."""
    lost = lose(theirs=1)
    with pytest.raises(ConflictError, match="another writer is writing"):
        lost.handle.erase(lost.kept[0])
    assert lost.store.view("s").get(lost.kept[0]).payload == {"role": "user", "content": "one"}


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("vanishes", [False, True])
def test_a_message_that_was_only_seen_is_recorded_before_that_is_said(*, vanishes: bool, more: bool) -> None:
    """Who sends it again, under its id, is told that it is safe when it is."""
    driver = memory_backend(appends=True).driver()
    store = Store(Place(driver))
    with store.session("s") as session:
        session.append("one")
    before = log_of(driver)
    dying = store.session("s")
    dying.append(user("again", id="again"))
    kill(dying)
    session = store.session("s")
    if vanishes:
        session.nodes()
        put_back(driver, "s", before)
    seen = log_of(driver)
    session.append(user("again", id="again"), *([user("more", id="more")] if more else []))
    assert log_of(driver) != seen
    assert texts(store.view("s").context) == ["one", "again", *(["more"] if more else [])]
    assert session._reader.replica.view.durable


def test_others_are_seen_though_they_said_the_same_again() -> None:
    """A message under an id that was shown, behind one that was not."""
    lost = lose(lambda session: session.append(user("a", id="a"), user("b", id="b")))
    with lost.store.session("s", shared=True) as other:
        other.append("theirs")
        other.seal()
        other.append(user("b", id="b"))
    with pytest.raises(ConflictError, match="another writer is writing"):
        lost.handle.append("not told")


def test_a_message_that_was_only_seen_is_safe_when_the_turn_is_told_to_be() -> None:
    """It was put off, and is recorded already; the end of the turn makes it last."""
    driver = memory_backend(appends=True).driver()
    store = Store(Place(driver))
    with store.session("s") as session:
        session.commit(["one"])
    dying = store.session("s")
    dying.commit([user("again", id="again")])
    kill(dying)
    session = store.session("s", durability="turn")
    session.append(user("again", id="again"))
    seen = log_of(driver)
    session.commit()
    assert log_of(driver) != seen
    assert session._reader.replica.view.durable


def test_nothing_is_written_where_nothing_is_asked() -> None:
    """An end of a turn that said nothing, and a message again that is known to be safe."""
    store, counting = memory_backend(appends=True).counted()
    with store.session("s") as session:
        session.commit([user("one", id="one")])
    session = store.session("s")
    counting.reset()
    session.commit()
    session.append(user("one", id="one"))
    assert not [request for request in counting.requests if not isinstance(request, (Get, List))]


@pytest.mark.parametrize("new_ids", [False, True])
def test_a_compaction_may_keep_what_is_said_with_it(*, new_ids: bool) -> None:
    """Or what was put off; no index is read to find out that it exists."""
    store, counting = memory_backend().counted()
    session = store.session("s", durability="turn")
    session.commit(["one"])
    session.append(user("put off", id="p"))
    counting.reset()
    session.commit([compaction("gist", kept="p")], new_ids=new_ids)
    session.commit([user("now", id="n"), compaction("gist", kept="n")], new_ids=new_ids)
    assert set(counting.counts) == {"Put"}
    assert texts(session.context)[1:] == ["now"]
