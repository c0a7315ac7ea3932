"""A session goes on with the policy it was written with, unless another one is asked for."""

from __future__ import annotations

import pytest

import treering
from treering.errors import UsageError
from treering.ids import new_nonce
from treering.transcript.node import Draft

DRAFTS = [
    Draft(id="a", parent=None, role="user", payload={"role": "user", "content": "hello"}),
    Draft(id="c", parent="a", kind="compaction", payload={"summary": "S"}, brief={"tokens_before": 7}, time_ms=5),
]
SUMMARY = {"role": "compactionSummary", "summary": "S", "tokensBefore": 7, "timestamp": 5}


@pytest.fixture
def store() -> treering.Store:
    """A store with a session that was loaded under another program's policy."""
    store = treering.open(f"memory://policy-{new_nonce()}")
    store.load("s", iter(DRAFTS), leaf=lambda: "c", policy="pi-1.5")
    return store


def _roles(session: treering.Session | treering.View) -> list[object]:
    return [item.message["role"] for item in session.context]


def test_a_loaded_session_goes_on_with_its_policy(store: treering.Store) -> None:
    """What was appended later is folded and stored by the same rules, also by a third process."""
    with store.session("s") as session:
        assert [item.message for item in session.context] == [SUMMARY]
        session.append("go on")
        session.compact("T")
        session.commit()
    with store.session("s") as session:
        assert _roles(session) == ["compactionSummary"]
        assert session.checkpoint(session.checkpoints()[-1].id).policy == "pi-1.5"


def test_a_policy_that_is_asked_for_counts(store: treering.Store) -> None:
    """Naming a policy changes it from there on; what the model saw before stays as it was stored."""
    with store.session("s", policy="default@1") as session:
        assert _roles(session) == ["compactionSummary"]
        session.compact("T")
        session.commit()
    with store.session("s") as session:
        session.compact("U")
        assert _roles(session) == ["user"]


def test_forks_copies_and_repaired_sessions_go_on_with_the_policy_too(store: treering.Store) -> None:
    """The rules belong to the conversation and follow it."""
    with store.session("s") as session:
        session.fork("f")
    store.copy("s", name="t")
    store.repair("s", into="r")
    for name in ("f", "t", "r"):
        with store.session(name) as session:
            session.compact("T")
            assert _roles(session) == ["compactionSummary"]


def test_an_unknown_policy_is_refused_before_anything_is_read(store: treering.Store) -> None:
    """A name that nobody registered is an error of the caller."""
    with pytest.raises(UsageError, match="mine@1"):
        store.session("s", policy="mine@1")
    with pytest.raises(UsageError, match="mine@1"):
        store.load("t", iter(DRAFTS), leaf=lambda: "c", policy="mine@1")
