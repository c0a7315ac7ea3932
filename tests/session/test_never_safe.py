"""A record is shown before it is safe and then gone, since a sync failed: who stood on it goes on where the head is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.session.at_rest import put_back
from tests.session.backends import kill, memory_backend, texts
from tests.session.faults import Unreliable, says

from treering.errors import ConflictError
from treering.session.blocking import Session
from treering.session.store import Place, Store
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Found, Get
from treering.testing.conformance import ask

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
    "branch elsewhere": lambda session, one: session.branch("mine", at=one),
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
            self.one = session.append("one")
            session.compact("gist")  # so that only the graph tells what a compaction that keeps `one` shows
        before = ask(driver, Get("sessions/s/tail.jsonl"), Found).data
        dying = self.store.session("s")
        if side:
            dying.branch("side", at=None)
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
            with pytest.raises(ConflictError, match="somebody else writes"):
                VERBS[verb](handle, scene.one)
        with pytest.raises(ConflictError, match="somebody else writes"):
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


def log_of(driver: MemoryDriver) -> bytes:
    """The tail, as it is."""
    return ask(driver, Get("sessions/s/tail.jsonl"), Found).data


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("whose", ["another's", "its own"])
def test_others_are_seen_below_an_append_in_doubt(whose: str, look: str) -> None:
    """What took the place of a note that was lost is not taken for what was in doubt, though it was sealed."""
    place = Unreliable(appends=True)
    with place.sound.session("s") as session:
        one = session.append("one")
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
    with pytest.raises(ConflictError, match="somebody else writes"):
        session.append("not told")
    assert "not told" not in says(place.sound.view("s"))


@pytest.mark.parametrize("erases", [False, True])
def test_nobody_is_told_of_others_who_only_seal_and_erase(*, erases: bool) -> None:
    """Neither is a write by others, nor is it one that the handle itself writes the log anew to settle a doubt."""
    place = Unreliable(appends=True)
    other = place.sound.session("s", shared=True)
    one = other.append("one")
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
