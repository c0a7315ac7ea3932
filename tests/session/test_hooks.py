"""Hooks: called before and after with the facts; one that raises before refuses, and nothing is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.session.backends import Backend

import treering
from treering import Hooks, UsageError
from treering.api.session import Session

Verb = Callable[[Session, list[str], str], object]
"""Does something to a session with these nodes and this checkpoint."""

ASKED = {"summary", "kept", "tokens_before", "tokens_after", "details"}
CASES: list[tuple[Verb, str, set[str], set[str]]] = [
    (
        lambda session, nodes, _: session.compact("gist", kept=nodes[1]),
        "compaction",
        ASKED,
        {"summary", "kept", "node"},
    ),
    (lambda session, nodes, _: session.checkout(nodes[0]), "navigation", {"kind", "head", "node"}, {"checkpoint"}),
    (lambda session, *_: session.switch("main"), "navigation", {"kind", "head", "node"}, {"checkpoint"}),
    (lambda session, *_: session.branch("b", summary="x"), "navigation", {"kind", "head", "node"}, {"checkpoint"}),
    (lambda session, _, made: session.rewind(made), "navigation", {"kind", "head", "node"}, {"checkpoint"}),
    (lambda session, *_: session.fork("copy"), "fork", {"session", "node"}, set()),
    (lambda session, *_: session.commit(["m"], label="l"), "checkpoint", {"label", "step"}, {"checkpoint", "node"}),
]
NAMES = ["compact", "checkout", "switch", "branch", "rewind", "fork", "commit"]


@pytest.mark.parametrize(("verb", "event", "before", "after"), CASES, ids=NAMES)
def test_hooks_are_told_the_facts(backend: Backend, verb: Verb, event: str, before: set[str], after: set[str]) -> None:
    """Each event calls its two hooks once, in order, with the facts that `Hooks` names."""
    calls: list[tuple[str, Mapping[str, object]]] = []
    hooks = {
        f"{when}_{event}": lambda facts, when=when: calls.append((when, dict(facts))) for when in ("before", "after")
    }
    with backend.store().session("s", hooks=Hooks(**hooks)) as session:
        nodes = [session.append(text).node for text in "abc"]
        made = session.commit(["d"]).checkpoint or ""
        calls.clear()
        verb(session, nodes, made)
        assert [when for when, _ in calls] == ["before", "after"]
        assert calls[0][1].keys() == before
        assert calls[1][1].keys() >= (after if event == "compaction" else before | after)
        if "checkpoint" in after:
            assert calls[1][1]["checkpoint"] == session.checkpoint_id


@pytest.mark.parametrize(("verb", "event", "before", "after"), CASES, ids=NAMES)
def test_a_raising_hook_refuses(backend: Backend, verb: Verb, event: str, before: set[str], after: set[str]) -> None:
    """If the hook before an event raises, the error arrives, nothing is recorded and the session goes on."""

    def refuse(_: Mapping[str, object]) -> None:
        raise PermissionError("not now")

    with backend.store().session("s", hooks=Hooks(**{f"before_{event}": refuse})) as session:
        nodes = [session.append(text).node for text in "abc"]
        made = session.commit(["d"]).checkpoint or ""
        stood = (session.node, session.head, session.context, session.state, session.heads)
        stored = backend.snapshot()
        with pytest.raises(PermissionError, match="not now"):
            verb(session, nodes, made)
        assert backend.snapshot() == stored
        assert (session.node, session.head, session.context, session.state, session.heads) == stood
        session.append("on")
        assert len(session.context) == 5


def lasting(payload: dict[str, object]) -> dict[str, object]:
    """Return a message without the fields that only a running program needs."""
    return {name: value for name, value in payload.items() if not name.startswith("_")}


def test_a_hook_drops_transient_fields(backend: Backend) -> None:
    """What is stored, shown and compared is what the hook returns; the caller's message stays as it is."""
    hooks = Hooks(before_append=lasting)
    message = {"role": "user", "content": "a", "_partial": "b"}
    with backend.store().session("s", hooks=hooks) as session:
        first = session.append(message).node
        again = treering.user("c", id="mine", _spinner=1)
        session.commit([again, treering.compaction("gist", _note="kept")])
        assert session.commit([again]).nodes == ("mine",)
        assert message["_partial"] == "b"
    view = backend.store().view("s")
    assert view.get(first).payload == {"role": "user", "content": "a"}
    assert view.get("mine").payload == {"role": "user", "content": "c"}
    gist = next(node.id for node in view.nodes() if node.kind == "compaction")
    assert view.get(gist).payload["_note"] == "kept"


def test_a_hook_is_called_before_anything_waits(backend: Backend) -> None:
    """A message that is buffered is stored as the hook returned it, too; one that the hook refuses is not."""

    def refuse(payload: dict[str, object]) -> dict[str, object]:
        if "secret" in payload:
            raise PermissionError("not that")
        return lasting(payload)

    with backend.store().session("s", durability="turn", hooks=Hooks(before_append=refuse)) as session:
        session.append({"role": "user", "content": "a", "_x": 1})
        with pytest.raises(PermissionError):
            session.append({"role": "user", "content": "b", "secret": 1})
    assert [item.message for item in backend.store().view("s").context] == [{"role": "user", "content": "a"}]


def test_a_hook_gives_another_compaction(backend: Backend) -> None:
    """It is recorded in place of what was asked for, and the hook afterwards is told of it."""
    told: list[Mapping[str, object]] = []

    def better(facts: Mapping[str, object]) -> treering.Draft:
        told.append(facts)
        return treering.compaction(f"not {facts['summary']}", tokens_after=3, by="another model")

    hooks = Hooks(before_compaction=better, after_compaction=told.append)
    with backend.store().session("s", hooks=hooks) as session:
        nodes = [session.append(text).node for text in "abc"]
        made = session.compact("gist", kept=nodes[1], tokens_before=9, files_read=["a"], state={"n": 1})
        assert session.get(made.node).payload == {"summary": "not gist", "by": "another model"}
        assert len(session.context) == 1
        assert session.state == {"n": 1}
    facts = {"kept": nodes[1], "tokens_before": 9, "tokens_after": None, "details": {"files_read": ["a"]}}
    assert told == [{"summary": "gist", **facts}, {"summary": "not gist", "kept": None, "node": made.node}]


def test_a_hook_cancels_a_compaction_quietly(backend: Backend) -> None:
    """Nothing is recorded, no other hook is called, and the caller goes on."""
    told: list[Mapping[str, object]] = []
    hooks = Hooks(before_compaction=lambda _: False, after_compaction=told.append)
    with backend.store().session("s", hooks=hooks) as session:
        session.append("a")
        stored = backend.snapshot()
        assert session.compact("gist", state={"n": 1}).nodes == ()
        assert (backend.snapshot(), told, session.state) == (stored, [], {})
        session.append("on")
        assert len(session.context) == 2


def test_a_hook_that_returns_anything_else_is_refused(backend: Backend) -> None:
    """A text is no compaction: the call says so, and records nothing."""
    hooks = Hooks(before_compaction=lambda _: "another summary")  # type: ignore[arg-type]
    with backend.store().session("s", hooks=hooks) as session:
        session.append("a")
        with pytest.raises(UsageError, match="str"):
            session.compact("gist")
        assert len(session.context) == 1


def test_automatic_checkpoints_call_no_hooks(backend: Backend) -> None:
    """Hooks of checkpoints are for those that were asked for."""
    calls: list[object] = []
    with backend.store().session("s", hooks=Hooks(before_checkpoint=calls.append)) as session:
        session.commit(["a"], state={"n": 1})
        assert calls == []
