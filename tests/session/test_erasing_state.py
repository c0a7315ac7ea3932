"""Erasing state: no value that a key ever had is stored any more, and every checkpoint is whole but for it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sampling import few
from tests.session.at_rest import KilledDriver, KilledError, Paused, holding, replaces
from tests.session.backends import Backend, kill, memory_backend, texts

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.checkpoint.prune import KeepCheckpoints
from treering.erasure.erasing import erase
from treering.errors import ConflictError, NotFoundError, UsageError
from treering.session.verbs import forking
from treering.storage.run import run
from treering.store.place import Place

SECRET = "swordfish"
KILLED_EVERY = few(3, whole=1)  # a process is killed behind every third of its requests; `make whole`: behind each


def work(store: Store, turns: int = 12) -> None:
    """A session whose state holds a secret in a value that grows, in one that does not, and in the manager's."""
    with store.session("s") as session:
        for turn in range(turns):
            notes = [f"{SECRET} {number} {'.' * 40}" for number in range(turn + 1)]  # patched from the seventh on
            state = {"notes": notes, "step": turn} | ({"token": SECRET} if turn == 1 else {})
            session.commit([f"turn {turn}"], state=state, manager={"seen": [SECRET, turn]}, label=f"t{turn}")
            if turn in (3, 7):
                session.seal()
        session.rewind(session.checkpoints()[4].id)
        session.commit(["aside"], state={"step": 100, "plan": "none"}, label="aside")


def states(handle: Session | View) -> dict[str, tuple[dict[str, Any], object, list[str]]]:
    """State, manager's state and context of every checkpoint."""
    found = {entry.id: handle.checkpoint(entry.id) for entry in handle.checkpoints()}
    return {name: (dict(each.state), each.manager, texts(each.context)) for name, each in found.items()}


def without(known: dict[str, tuple[dict[str, Any], object, list[str]]], *keys: str, manager: bool) -> object:
    """The same as it should be when some keys were erased."""
    return {
        name: ({key: value for key, value in state.items() if key not in keys}, None if manager else told, said)
        for name, (state, told, said) in known.items()
    }


def test_nothing_of_it_is_stored_any_more(backend: Backend) -> None:
    """Not in the tail, in latest, in segments, nor in a fork; and all else of all checkpoints is as it was."""
    work(backend.store())
    with backend.store().session("s", shared=True) as session:
        session.fork("fork", node=session.path()[2])
    with backend.store().session("fork") as fork:
        fork.commit(["on"], state={"notes": [SECRET, "and more"], "step": 7})
    before = {name: states(backend.store().view(name)) for name in ("s", "fork")}
    assert len(holding(backend.snapshot(), SECRET)) >= 4
    with backend.store().session("s") as session:
        receipt = session.erase(state=["notes", "token"], manager=True, reason="leaked")
        assert session.state == {"step": 100, "plan": "none"}
        assert session.manager is None
    assert holding(backend.snapshot(), SECRET) == []
    assert (receipt.ids, receipt.state, receipt.reason) == ((), ("notes", "token", None), "leaked")
    assert [(each.session, each.state) for each in receipt.forks] == [("fork", ("notes", "token", None))]
    for name in ("s", "fork"):
        view = backend.store().view(name)
        assert states(view) == without(before[name], "notes", "token", manager=True)
        assert [found for found in backend.store().verify(name) if found.severity == "damage"] == []
    left = backend.store().view("s").erased_state
    assert left.keys() == {"notes", "token", None}
    assert all(each.reason == "leaked" and len(each.sha256) == 64 for each in left.values())


def test_going_back_says_what_was_erased_and_what_is_set_anew_counts(backend: Backend) -> None:
    """Before and after every checkpoint, also after a new full one, and after a kill."""
    work(backend.store())
    with backend.store().session("s") as session:
        session.erase(state="notes")
        for entry in session.checkpoints():
            session.rewind(entry.id)
            assert session.erased_state.keys() == {"notes"}
            assert session.checkpoint(entry.id).erased_state.keys() == {"notes"}
            assert backend.store().view("s").erased_state.keys() == {"notes"}
        session.commit(["new"], state={"notes": ["clean"]})
        assert (session.state["notes"], session.erased_state) == (["clean"], {})
        session.commit(["newer"], drop=["notes"])
        assert ("notes" in session.state, session.erased_state) == (False, {})
        first = session.checkpoints()[0].id
        session.rewind(first)
        session.commit(["without"], drop=["notes"])
        assert session.erased_state == {}
        last = session.checkpoint_id
        kill(session)
    view = backend.store().view("s")
    assert (view.checkpoint_id, view.erased_state, view.state) == (last, {}, {"step": 0})
    assert view.checkpoint(first).erased_state.keys() == {"notes"}


def test_checkpoints_that_stand_on_it_outlive_sealing_and_pruning(backend: Backend) -> None:
    """What refers to an erased value finds what is left of it, in whichever object that is by then."""
    work(backend.store(), turns=40)
    with backend.store().session("s") as session:
        session.erase(state=["notes"], manager=True)
        for turn in range(60):
            session.commit([f"more {turn}"], state={"step": turn})
        session.seal()
        session.optimize(everything=True)
        known = states(session)
        session.prune(KeepCheckpoints(last=3))
    view = backend.store().view("s")
    kept = states(view)
    assert kept == {name: each for name, each in known.items() if name in kept}
    assert [state["token"] for state, _, _ in kept.values() if state["step"]] == [SECRET] * (len(kept) - 1)
    assert not any("notes" in state for state, _, _ in kept.values())
    assert holding(backend.snapshot(), f"{SECRET} ") == []
    assert backend.store().verify("s") == []


def test_what_an_agent_stores_afterwards_is_not_taken_when_erasing_is_finished(backend: Backend) -> None:
    """Neither here, nor in a fork from before, with the key or without, nor in one from after."""
    with backend.store().session("s", shared=True) as session:
        session.commit(["one"], state={"step": 1})
        session.fork("early")
        session.commit(["two"], state={"token": SECRET})
        session.fork("before")
        session.erase(state=["token"])
        session.fork("after")
    for name in ("s", "early", "before", "after"):
        with backend.store().session(name, shared=True) as session:
            assert "token" not in session.state
            session.commit(["three"], state={"token": f"a new one for {name}"})
    with backend.store().session("s", shared=True) as session:
        receipt = session.erase()
        assert receipt.state == ("token",)
        assert {each.session for each in receipt.forks} >= {"early", "before"}
    for name in ("s", "early", "before", "after"):
        assert backend.store().view(name).state["token"] == f"a new one for {name}"
    assert holding(backend.snapshot(), SECRET) == []
    with backend.store().session("s", shared=True) as session:
        session.erase(state=["token"])
    for name in ("s", "early", "before", "after"):
        assert "token" not in backend.store().view(name).state


def test_a_fork_of_a_deleted_fork_is_found_by_what_it_holds(backend: Backend) -> None:
    """Sessions that only seem to descend from here keep what they have under that key."""
    with backend.store().session("s", shared=True) as session:
        session.commit(["one"], state={"token": SECRET})
        session.fork("child")
    with backend.store().session("child", shared=True) as child:
        child.fork("grandchild")
        child.fork("another")
    with backend.store().session("grandchild") as grandchild:
        grandchild.commit(["two"], state={"token": f"{SECRET} 2"})
    backend.store().delete("child")
    with backend.store().session("another") as other:
        other.erase(state=["token"])
        other.commit(["two"], state={"token": "its own"})
    with backend.store().session("s", shared=True) as session:
        receipt = session.erase(state=["token"])
    assert receipt.missing == ("child",)
    assert [each.session for each in receipt.forks] == ["grandchild"]
    assert holding(backend.snapshot(), SECRET) == []
    assert backend.store().view("another").state == {"token": "its own"}


def test_another_session_that_has_the_name_of_a_fork_keeps_its_state(backend: Backend) -> None:
    """The fork was deleted; what was created under its name since has nothing to do with it."""
    with backend.store().session("s", shared=True) as session:
        session.commit(["one"], state={"token": SECRET})
        session.fork("fork")
    store = backend.store()
    store.delete("fork")
    with store.session("fork") as other:
        other.commit(["another"], state={"token": "its own"})
    with store.session("s", shared=True) as session:
        assert session.erase(state=["token"]).missing == ("fork",)
    assert store.view("fork").state == {"token": "its own"}


@pytest.mark.parametrize("appends", [False, True])
def test_killed_at_every_request_it_can_be_finished(*, appends: bool) -> None:
    """Whatever was sent last, nothing else is lost, and erasing again takes it out of everything."""
    for requests in range(0, 200, KILLED_EVERY):
        backend = memory_backend(appends=appends)
        work(backend.store(), turns=5)
        with backend.store().session("s", shared=True) as session:
            session.fork("fork")
        known = {name: states(backend.store().view(name)) for name in ("s", "fork")}
        killed = Store(Place(KilledDriver(backend.driver(), requests)))
        finished = False
        try:
            with killed.session("s", shared=True) as opened:
                opened.erase(state=["notes", "token"], manager=True)
            finished = True
        except KilledError:
            pass
        with backend.store().session("s", shared=True) as opened:
            opened.append("life goes on")
            opened.seal()
            opened.erase(state=["notes", "token"], manager=True)
        assert holding(backend.snapshot(), SECRET) == [], f"killed after {requests} requests"
        for name in ("s", "fork"):
            assert states(backend.store().view(name)) == without(known[name], "notes", "token", manager=True)
            assert {found.kind for found in backend.store().verify(name)} <= {"waste"}
        if finished:
            return
    pytest.fail("it never came to its end")


def test_what_stalled_processes_write_later_is_found_by_the_next_who_tidies(backend: Backend) -> None:
    """A sealer, a merger, one that goes back to an old checkpoint, and a fork."""
    work(backend.store())
    driver = backend.driver()
    place = Place(driver)

    def pause(steps: Any, part: str) -> Paused[object]:
        return Paused(steps, driver, before=replaces(part))

    with Store(place).session("s", shared=True) as session:
        session.commit(["unsealed"], state={"notes": [SECRET, "last"]})
    writers = [Store(place).session("s", shared=True)._reader for _ in range(3)]
    paused = [
        pause(writers[0].upkeep.seal(), "/segments/"),
        pause(writers[1].upkeep.optimize(everything=True), "/segments/"),
        pause(forking.fork(writers[2], "fork"), "/segments/"),
    ]
    with backend.store().session("s", shared=True) as session:
        session.erase(state=["notes", "token"], manager=True)
    for each in paused:
        try:
            each.go_on()
        except ConflictError:  # the fork, whose folder was taken away
            continue
    with backend.store().session("s", shared=True) as session:
        session.erase()
        session.optimize(everything=True)
    assert holding(backend.snapshot(), SECRET) == []


def test_an_erasure_that_got_no_further_than_the_tail_takes_only_what_it_is_about(backend: Backend) -> None:
    """What was set since an earlier one is in `latest`, and stays while that has yet to follow."""
    work(backend.store())
    with backend.store().session("s", shared=True) as session:
        session.erase(state=["notes"], manager=True)
        session.commit(["new"], state={"notes": ["clean"]}, manager="clean", label="new")
        session.optimize()
        session.seal()
        node = session.path()[0]
    driver = backend.driver()
    writer = Store(Place(driver)).session("s", shared=True)._reader
    Paused(erase(writer, node, state=["token"]), driver, before=replaces("latest/"))
    view = backend.store().view("s")
    assert (view.state["notes"], view.manager) == (["clean"], "clean")
    assert view.erased_state.keys() == {"token"}
    there = backend.store().view("s").checkpoint(next(each.id for each in view.checkpoints() if each.label == "t2"))
    assert there.erased_state.keys() == {"notes", "token", None}


def test_handles_that_hold_it_in_memory_do_not_write_it_again(backend: Backend) -> None:
    """They commit, go back and seal, and find out that it was erased; what they set themselves is theirs."""
    if backend.name == "local":
        pytest.skip("another process cannot open it there")
    work(backend.store())
    for shared in (True, False):
        with Store(Place(backend.driver())).session("s", shared=shared) as session:
            session.commit(["old"], state={"notes": [SECRET], "step": 1}, manager=[SECRET])
            first = session.checkpoints()[2].id
            kill(session)
            with backend.store().session("s", shared=True) as other:
                other.erase(state=["notes", "token"], manager=True)
            session.commit(["next"], state={"step": 2})
            assert session.state == {"step": 2} | ({"plan": "none"} if shared else {})
            session.rewind(first)
            session.commit(["again"], state={"step": 3})
            session.seal()
            assert session.state == {"step": 3}
        assert holding(backend.snapshot(), SECRET) == []


def test_a_handle_that_stands_on_an_older_checkpoint_forgets_it_too(backend: Backend) -> None:
    """Another writer committed and erased, and it read that for some reason; what it was shown before is gone."""
    with backend.store().session("s") as session:
        session.commit(["begin"], state={"notes": [SECRET], "step": 1})
    with backend.store().session("s", shared=True) as slow, backend.store().session("s", shared=True) as quick:
        quick.commit([], state={"step": 2})
        quick.erase(state=["notes"])
        assert dict(slow.state) == {"notes": [SECRET], "step": 1}  # it has not looked yet
        run(slow._reader.replica.catch_up(), backend.driver())
        assert dict(slow.state) == {"step": 1}
        slow.commit(["on"], state={**slow.state, "seen": True})
    assert holding(backend.snapshot(), SECRET) == []


def test_what_cannot_be_erased_is_refused_before_anything_is_written(backend: Backend) -> None:
    """A key that no checkpoint has, beside one that is there; one that was erased before is no error."""
    work(backend.store())
    with backend.store().session("s") as session:
        before = backend.snapshot()
        with pytest.raises(NotFoundError, match="'tokem'"):
            session.erase(state=["notes", "tokem"])
        with pytest.raises(UsageError, match="cannot be erased as a whole"):
            session.erase(session.checkpoints()[0].id, state=["notes"])
        assert backend.snapshot() == before
        first = session.erase(state=["notes"])
        again = session.erase(state=["notes"])
        assert (again.epoch, again.time_ms, again.records) == (first.epoch, first.time_ms, 0)
    with backend.store().session("t") as session:
        session.commit(["hello"], state={"a": 1}, manager=None)
        with pytest.raises(NotFoundError, match="conversation manager"):
            session.erase(manager=True)


def test_a_fork_behind_an_erasure_keeps_its_values_whoever_had_its_name_before(backend: Backend) -> None:
    """The erasure is about the fork that was there then, and was deleted; one made later has nothing to repeat."""
    store = backend.store()
    with store.session("s") as session:
        session.commit(["hi"], state={"notes": SECRET})
        session.fork("copy")
        store.delete("copy")
        session.erase(state=["notes"])
        session.commit(["on"], state={"notes": "harmless"})
        other = session.append("x").node
        session.fork("copy")
        session.erase(other)
        session.erase()
        assert session.state == {"notes": "harmless"}
    view = backend.store().view("copy")
    assert (view.state, view.erased_state) == ({"notes": "harmless"}, {})
    with backend.store().session("s") as session:
        session.erase(state=["notes"])
    assert backend.store().view("copy").state == {}
