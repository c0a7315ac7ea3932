"""What a caller passes by mistake is refused before it is acknowledged: nothing may make a session unreadable."""

# mypy: disable-error-code="arg-type,dict-item"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.session.backends import Backend

import treering
from treering import Draft, Session, UsageError
from treering.ids import new_nonce
from treering.maintenance.mirror import Mirror

PAYLOAD = {"role": "user", "content": "x"}
Verb = Callable[[Any], object]
"""What is done to a session; typed as any, since a type checker would refuse it."""

REFUSED: dict[str, Verb] = {
    "a time that is no whole number": lambda s: s.append(Draft(role="user", payload=PAYLOAD, time_ms=1.5e12)),
    "a time that is a boolean": lambda s: s.append(Draft(role="user", payload=PAYLOAD, time_ms=True)),
    "no role": lambda s: s.append(Draft(role=None, payload=PAYLOAD)),
    "no kind": lambda s: s.append(Draft(kind=None, payload=PAYLOAD)),
    "a link to a number": lambda s: s.append(Draft(role="user", payload=PAYLOAD, links={"n": 1})),
    "an id of two parts": lambda s: s.append(treering.user("x", id=("a", 1))),
    "a step that is no whole number": lambda s: s.commit(["x"], step=1.0),
    "a step that is a boolean": lambda s: s.commit(["x"], step=True),
    "a label that is a number": lambda s: s.commit(["x"], label=5),
    "a title that is a number": lambda s: s.set_title(5),
    "a status that is a number": lambda s: s.set_status(5),
    "a project that is a number": lambda s: s.move(project=5),
    "a folder that is a number": lambda s: s.move(cwd=5),
    "a kind that is a number": lambda s: s.note(5),
    "a head of one part": lambda s: s.branch(("b",)),
    "a target of one part": lambda s: s.label(("t",), "x"),
    "a node of one part": lambda s: s.retract(("t",)),
    "the name of a node that is a number": lambda s: s.label(s.node, 5),
    "a stream without a role": lambda s: s.stream(None),
    "a stream with a field that cannot be stored": lambda s: s.stream(tools=[object()]),
    "a cost that is not known": lambda s: s.record_usage(cost=float("nan")),
    "an infinite cost": lambda s: s.record_usage(cost=float("inf")),
    "a cost beyond all numbers": lambda s: s.record_usage(cost=10**400),
    "a cost in words": lambda s: s.record_usage(cost="much"),
    "a checkpoint": lambda s: s.append(Draft(type="checkpoint", id="c")),
    "a record of no type": lambda s: s.append(Draft(type="")),
    "a fork with a project that is a number": lambda s: s.fork("fork", project=-0.0),
    "lines from before the first one": lambda s: list(s.lines(-1)),
    "lines from before the first one, behind a seal": lambda s: (s.seal(), list(s.lines(-3))),
    "a fork with facts that are no JSON": lambda s: s.fork("fork", extra={"k": float("nan")}),
}


@pytest.mark.parametrize("durability", ["sync", "turn"])
@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_and_the_session_goes_on(backend: Backend, what: str, durability: Any) -> None:
    """At once, also if what is recorded waits for the end of the turn."""
    session = backend.store().session("s", durability=durability)
    session.commit(["one", "two"])
    with pytest.raises((UsageError, treering.NotFoundError)):
        REFUSED[what](session)
    session.commit(["goes on"])
    session.close()
    view = backend.store().view("s")
    assert [item.message["content"] for item in view.context] == ["one", "two", "goes on"]
    assert not view.problems()
    assert [row.id for row in backend.store().sessions().rows] == ["s"]


@pytest.mark.parametrize(
    "options",
    [{"title": None}, {"project": None}, {"cwd": 5}, {"extra": {"k": (1,)}}, {"extra": {1: 2}}, {"extra": {"k": b"x"}}],
)
def test_facts_of_a_new_session(backend: Backend, options: Any) -> None:
    """A default of a configuration that is None, and values that JSON would change without a word."""
    with pytest.raises(UsageError):
        backend.store().session("s", **options).append("hello")
    assert backend.store().sessions().rows == ()


def test_facts_of_a_loaded_session(backend: Backend) -> None:
    """Milliseconds are whole numbers here, too."""
    facts: Any = {"created_ms": 1.5e12}
    with pytest.raises(UsageError, match="created"):
        backend.store().load("s", [treering.user("hi", id="i")], leaf=lambda: "i", facts=facts)
    assert backend.store().sessions().rows == ()


def odd_notes(session: Session) -> None:
    """Notes as another program may have written them."""
    session.note("title", {"title": 5})
    session.note("place", {"project": ["a"], "cwd": 1.5})
    session.note("usage", {"cost": float("nan"), "input": True, "output": 1})


@pytest.mark.parametrize("verb", ["close", "repair", "backup"])
def test_odd_facts_in_notes_are_passed_over(backend: Backend, verb: str) -> None:
    """They may come from anywhere; the card shows nothing for them, and sums leave them out."""
    store = backend.store()
    with store.session("s", title="Old") as session:
        session.append("hello")
        odd_notes(session)
    if verb == "repair":
        store.repair("s", into="t")
    elif verb == "backup":
        target = treering.open(f"memory://{new_nonce()}")
        assert not store.backup(target).failed
        store = target
    view = store.view("t" if verb == "repair" else "s")
    assert (view.info.title, view.info.project, view.info.cwd) == ("", "", "")
    assert dict(view.usage) == {"output": 1}


def test_sums_of_usage_stay_finite(backend: Backend) -> None:
    """Two numbers may have a sum that no number is."""
    with backend.store().session("s") as session:
        session.append("hello")
        for _ in range(3):
            session.record_usage(cost=9e299)
        session.record_usage(tokens=10**30)
        session.record_usage(tokens=0.5)
        live = dict(session.usage)
    assert dict(backend.store().view("s").usage) == live == {"cost": 1e300, "tokens": 1e30}


HALF = "\udce9"
BESIDE: dict[str, Callable[[Session], object]] = {
    "key of the call": lambda s: s.effect(f"call{HALF}", about={"q": HALF, "b": b"x"}),
    "head": lambda s: s.branch(f"head{HALF}"),
    "node": lambda s: s.append(treering.user("x", id=f"id{HALF}")),
    "state": lambda s: s.commit(state={f"key{HALF}": 1}),
    "usage": lambda s: s.record_usage(**{f"tokens{HALF}": 1}),
}


@pytest.mark.parametrize("what", BESIDE)
def test_an_unresolved_call_beside_half_of_an_emoji(backend: Backend, what: str) -> None:
    """Such names are allowed; `latest` holds both."""
    with backend.store().session("s") as session:
        session.append("hello")
        BESIDE[what](session)
        session.effect("other", about={"to": "ann é", "data": b"\xff"})
        session.effect("é", about=["é", HALF])
        unresolved = session.unresolved_effects()
    assert backend.store().view("s").unresolved_effects() == unresolved
    assert not backend.store().verify("s")
    with backend.store().session("s") as session:
        session.end_effect("other", {"ok": True})
        if what == "key of the call":
            session.end_effect(f"call{HALF}", {"ok": True})
    view = backend.store().view("s")
    assert [effect.key for effect in view.unresolved_effects()] == ["é"]
    found = view.find_effect("other")
    assert found is not None
    assert found.result == {"ok": True}


def test_an_erased_change_sets_nothing_of_its_own(backend: Backend) -> None:
    """Its mark is no setting; what it set stays, since later checkpoints have it."""
    with backend.store().session("s") as session:
        session.append("hello")
        node = session.set_mode("plan").node
        session.erase(node)
        session.checkout(node)
        assert dict(session.settings) == {"mode": "plan"}
        session.commit(["x"])
        session.seal()
        session.optimize(everything=True)
    view = backend.store().view("s")
    assert dict(view.settings) == {"mode": "plan"}
    assert list(view.get(node).brief) == ["mode", "erased"]


def test_a_session_that_fails_does_not_stop_a_backup(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its failure is."""
    store = backend.store()
    for name in "ab":
        with store.session(name) as session:
            session.append("hello")

    real = Mirror.copy

    def copy(mirror: Mirror) -> Any:
        if mirror._keys.session == "a":
            raise ZeroDivisionError("a fault of our own")
        return real(mirror)

    monkeypatch.setattr(Mirror, "copy", copy)
    target = treering.open(f"memory://{new_nonce()}")
    done = store.backup(target)
    assert {row.name: (row.action, row.error) for row in done.rows} == {
        "a": ("failed", "ZeroDivisionError: a fault of our own"),
        "b": ("copied", ""),
    }


@pytest.mark.parametrize(
    "change", [{"label": "l" * 600}, {"metadata": {"m": "x" * 600}}, {"metadata": {"m": object()}}]
)
def test_a_turn_that_waits_for_its_answer_is_refused_at_once(backend: Backend, change: Any) -> None:
    """Else every later commit would be refused for it."""
    session = backend.store().session("s", first_write="assistant")
    with pytest.raises(UsageError):
        session.commit(["one"], **change)
    session.commit(["two"], label="l")
    session.commit([treering.assistant("three")])
    session.close()
    assert [item.message["content"] for item in backend.store().view("s").context] == ["two", "three"]


def test_a_stream_has_the_fields_that_it_was_begun_with(backend: Backend) -> None:
    """Whatever the caller does to its objects before the answer ends."""
    tags = ["a"]
    with backend.store().session("s") as session:
        session.append("hello")
        stream = session.stream(tags=tags, pair=(1, b"x"))
        tags.append("b")
        stream.write("so it is")
        node = stream.finish().node
        assert session.get(node).payload["tags"] == ["a"]
    payload = backend.store().view("s").get(node).payload
    assert (payload["tags"], payload["pair"]) == (["a"], (1, b"x"))


@pytest.mark.parametrize("what", ["node", "state", "reason"])
def test_erasing_beside_half_of_an_emoji(backend: Backend, what: str) -> None:
    """Such names can be erased, and the session can be read and written afterwards."""
    with backend.store().session("s") as session:
        session.append(treering.user("secret", id=f"id{HALF}"))
        session.commit(["kept"], state={f"key{HALF}": "secret", "other": 1})
        match what:
            case "node":
                session.erase(f"id{HALF}")
            case "state":
                session.erase(state=[f"key{HALF}"])
            case "reason":
                session.erase(f"id{HALF}", reason=HALF)
    with backend.store().session("s") as session:
        session.append("goes on")
        session.seal()
        session.optimize(everything=True)
    view = backend.store().view("s")
    assert [node.erased for node in map(view.get, view.path())] == [what != "state", False, False]
    assert dict(view.state) == ({"other": 1} if what == "state" else {f"key{HALF}": "secret", "other": 1})
    assert not backend.store().verify("s")
