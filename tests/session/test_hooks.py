"""Hooks: called before and after with the facts; one that raises before refuses, and nothing is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from tests.session.backends import Backend

from treering import Hooks
from treering.api.session import Session

Verb = Callable[[Session, list[str], str], object]
"""Does something to a session with these nodes and this checkpoint."""

CASES: list[tuple[Verb, str, set[str], set[str]]] = [
    (lambda session, nodes, _: session.compact("gist", kept=nodes[1]), "compaction", {"summary", "kept"}, {"node"}),
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
        assert calls[1][1].keys() >= before | after
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


def test_automatic_checkpoints_call_no_hooks(backend: Backend) -> None:
    """Hooks of checkpoints are for those that were asked for."""
    calls: list[object] = []
    with backend.store().session("s", hooks=Hooks(before_checkpoint=calls.append)) as session:
        session.commit(["a"], state={"n": 1})
        assert calls == []
