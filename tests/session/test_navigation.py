"""Checkout, branches, rewind: context, state and head move together, durably, and nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.session.backends import Backend, kill, texts

import treering
from treering import ContextItem, user
from treering.api.session import Session
from treering.api.store import Store
from treering.format.record import decode_record

REPLY = {"role": "assistant", "content": "reply"}


def stands(session: Session) -> tuple[object, ...]:
    """All that navigation moves."""
    return session.head, session.node, texts(session.context), session.state, session.settings, session.manager


def turns(session: Session, count: int, *, first: int = 0) -> list[str]:
    """Record turns of a question and a state; return their checkpoints."""
    made = []
    for turn in range(first, first + count):
        session.append(f"q{turn}")
        done = session.commit([{"role": "assistant", "content": f"a{turn}"}], state={"turn": turn}, manager={"m": turn})
        made.append(done.checkpoint or "")
    return made


def test_checkout_goes_back_to_a_node_with_its_context_and_state(backend: Backend) -> None:
    """What is appended after a checkout continues from that node; the nodes behind it stay."""
    session = backend.store().session("s")
    turns(session, 3)
    path = session.path()
    session.checkout(path[1])
    assert texts(session.context) == ["q0", "a0"]
    assert session.state == {"turn": 0}
    assert session.manager == {"m": 0}
    there = stands(session)
    kill(session)
    session = backend.store().session("s")
    assert stands(session) == there
    new = session.append("instead").node
    assert session.path() == (*path[:2], new)
    assert session.children(path[1]) == (path[2], new)
    assert set(session.leaves()) == {path[-1], new}
    assert session.siblings(new) == treering.Siblings(nodes=(path[2], new), index=1)


def test_the_newest_leaf_is_down_the_newest_children(backend: Backend) -> None:
    """A version of a message leads to the end of its branch, past what was retracted, from rows and from the index."""
    with backend.store().session("s") as session:
        above = session.append("above").node
        old = session.append("old", "old answer").nodes
        session.checkout(above)
        new = session.append("new").node
        session.seal()
        answers = [session.append(user("answer", parent=new)).node for _ in range(3)]
        session.seal()
        session.append(user("later, on the old branch", parent=old[0]))
        later = session.append(user("more", parent=old[1])).node
        session.retract(answers[2])
        last = session.append(user("below", parent=answers[1])).node
        expected = {above: last, old[0]: session.children(old[0])[1], old[1]: later, new: last, last: last}
        expected[answers[2]] = answers[2]
        assert {node: session.newest_leaf(node) for node in expected} == expected
    for everything in (False, True):
        view = backend.store().view("s")
        if everything:
            assert view.leaves()  # reads the index
        assert {node: view.newest_leaf(node) for node in expected} == expected
        with pytest.raises(treering.NotFoundError, match="nobody"):
            view.newest_leaf("nobody")
    with backend.store().session("s") as session:
        session.retract(answers[0])
        session.retract(answers[1])
        assert session.newest_leaf(new) == answers[2]  # none of them is shown: down the newest


def test_checkout_between_checkpoints_takes_the_state_above(store: Store) -> None:
    """At a node without a checkpoint the state is that of the nearest one above; the context is the node's own."""
    with store.session("s") as session:
        session.commit(["a"], state={"n": 1})
        middle = session.append("b").node
        session.commit(["c"], state={"n": 2})
        session.checkout(middle)
        assert texts(session.context) == ["a", "b"]
        assert session.state == {"n": 1}


def test_checkout_can_keep_the_state(store: Store) -> None:
    """With keep_state the agent knows after a checkout what it knew before."""
    with store.session("s") as session:
        turns(session, 3)
        session.checkout(session.path()[1], keep_state=True)
        assert texts(session.context) == ["q0", "a0"]
        assert session.state == {"turn": 2}


def test_checkout_of_none_starts_a_second_root(backend: Backend) -> None:
    """Before the first node another first message can be recorded; both roots stay."""
    session = backend.store().session("s")
    turns(session, 2)
    first = session.path()
    session.checkout(None)
    assert (session.node, texts(session.context), session.state) == (None, [], {})
    kill(session)
    session = backend.store().session("s")
    assert (session.node, texts(session.context), session.state) == (None, [], {})
    root = session.append("another first message").node
    assert session.path() == (root,)
    assert session.children(None) == (first[0], root)
    assert session.get(root).parent is None
    assert [row.node.id for row in session.history().rows] == [root]
    assert session.history().rows[0].siblings == 2
    kill(session)
    with backend.store().session("s") as session:
        assert texts(session.context) == ["another first message"]
        session.checkout(first[-1])
        assert texts(session.context) == ["q0", "a0", "q1", "a1"]
        assert session.state == {"turn": 1}


def test_navigation_to_what_does_not_exist_is_refused(backend: Backend) -> None:
    """Unknown nodes, heads and checkpoints are named in the error, and nothing is recorded."""
    with backend.store().session("s") as session:
        turns(session, 1)
        before = backend.snapshot()
        for call in (
            lambda: session.checkout("nobody"),
            lambda: session.switch("nobody"),
            lambda: session.rewind("nobody"),
            lambda: session.drop_head("nobody"),
            lambda: session.branch("x", node="nobody"),
            lambda: session.fork("copy", node="nobody"),
            lambda: session.get("nobody"),
            lambda: session.history(head="nobody"),
            lambda: session.checkpoint("nobody"),
        ):
            with pytest.raises(treering.NotFoundError, match="nobody"):
                call()
        for name in ("main", ""):
            with pytest.raises(treering.UsageError):
                session.branch(name)
        with pytest.raises(treering.UsageError):
            session.drop_head("main")
        assert backend.snapshot() == before


def test_a_branch_has_a_head_of_its_own(backend: Backend) -> None:
    """A branch goes on beside the old head, which stays where it was; both can be switched to."""
    session = backend.store().session("s")
    turns(session, 2)
    main = session.path()
    session.branch("idea")
    assert (session.head, session.node, session.state) == ("idea", main[-1], {"turn": 1})
    turns(session, 1, first=10)
    idea = session.path()
    assert session.heads == {"main": main[-1], "idea": idea[-1]}
    session.switch("main")
    assert stands(session)[:4] == ("main", main[-1], ["q0", "a0", "q1", "a1"], {"turn": 1})
    kill(session)
    session = backend.store().session("s")
    assert session.head == "main"
    turns(session, 1, first=2)
    session.switch("idea")
    assert texts(session.context) == ["q0", "a0", "q1", "a1", "q10", "a10"]
    assert session.state == {"turn": 10}
    assert texts(item for item in session.context_at(main[0])) == ["q0"]


def test_a_head_keeps_its_state_where_two_stand_on_one_node(backend: Backend) -> None:
    """Two heads on the same node have states of their own; switching tells them apart, also after a kill."""
    session = backend.store().session("s")
    session.commit(["a"], state={"who": "main"})
    session.branch("other")
    session.commit(state={"who": "other"})
    session.switch("main")
    assert session.state == {"who": "main"}
    session.switch("other")
    assert session.state == {"who": "other"}
    session.switch("main")
    kill(session)
    with backend.store().session("s") as session:
        assert session.state == {"who": "main"}


def test_a_head_keeps_its_state_below_another_heads_checkpoint(backend: Backend) -> None:
    """The state of a head is that of its own newest checkpoint, also if another head made one further down."""
    session = backend.store().session("s")
    session.commit(["a"], state={"who": "main"})
    session.append("b")
    session.branch("other")
    session.commit(state={"who": "other"})
    session.switch("main")
    assert session.state == {"who": "main"}
    assert texts(session.context) == ["a", "b"]
    kill(session)
    with backend.store().session("s") as session:
        assert session.state == {"who": "main"}


def test_a_head_has_nothing_of_what_others_made_where_it_stands(backend: Backend) -> None:
    """A head without a checkpoint of its own has the state it came with, whatever another one keeps there later."""
    session = backend.store().session("s")
    first = session.append("a").node
    session.append("b")
    session.branch("other")
    session.commit(state={"who": "other"})
    session.branch("early", node=first, keep_state=True)
    session.switch("main")
    assert session.state == {}
    kill(session)
    with backend.store().session("s") as session:
        assert session.state == {}
        session.switch("other")
        assert session.state == {"who": "other"}


def test_a_head_before_the_first_node_keeps_its_state(backend: Backend) -> None:
    """Somebody who comes back to a head without nodes finds the state that was kept there; a new start has none."""
    session = backend.store().session("s")
    session.append("a")
    session.branch("other")
    session.checkout(None)
    session.commit(state={"who": "other"})
    session.switch("main")
    assert session.state == {}
    session.switch("other")
    assert (session.state, session.node, session.context) == ({"who": "other"}, None, ())
    session.checkout(session.leaves()[0])
    session.checkout(None)
    assert (session.state, session.context) == ({}, ())


def test_branch_from_an_earlier_node(store: Store) -> None:
    """A branch can begin anywhere, with the state of that place, or the present one if it is asked for."""
    with store.session("s") as session:
        turns(session, 3)
        path = session.path()
        session.branch("kept", node=path[1], keep_state=True)
        assert (texts(session.context), session.state) == (["q0", "a0"], {"turn": 2})
        session.branch("early", node=path[3])
        assert (texts(session.context), session.state) == (["q0", "a0", "q1", "a1"], {"turn": 1})
        session.branch("earlier", node=path[0])
        assert (texts(session.context), session.state) == (["q0"], {})


def test_branch_with_a_summary(backend: Backend) -> None:
    """The summary of what was left is the first node of the branch, says where from, and is in the context."""
    session = backend.store().session("s")
    turns(session, 2)
    path = session.path()
    session.branch("again", node=path[1], summary="tried it, failed")
    kill(session)
    with backend.store().session("s") as session:
        assert len(session.context) == 3
        assert "tried it, failed" in texts(session.context)[-1]
        node = session.get(session.node or "")
        assert (node.kind, node.parent, node.links["source"]) == ("branch_summary", path[1], path[-1])


@pytest.mark.parametrize("sealed", [False, True])
def test_a_summary_stands_behind_what_the_branch_shows(backend: Backend, *, sealed: bool) -> None:
    """A branch from an old node shows the path and the summary at once, and in two reads after a kill."""
    session = backend.store().session("s")
    first = session.append("a").node
    session.append("b")
    if sealed:
        session.compact("gist")
        session.seal()
    session.append("c")
    session.branch("again", node=first, summary="tried it, failed")
    shown = session.context
    assert texts(shown)[0] == "a"
    assert "tried it, failed" in texts(shown)[1]
    store, counts = backend.counted()
    assert store.view("s").context == shown
    assert counts.total == 2
    session.append("d")
    assert session.context[:2] == shown
    assert texts(session.context)[2:] == ["d"]
    session.close()


def test_dropping_a_head_keeps_its_nodes(backend: Backend) -> None:
    """A dropped head is no longer listed; its nodes are."""
    with backend.store().session("s") as session:
        turns(session, 1)
        session.branch("idea")
        node = session.append("x").node
        session.switch("main")
        session.drop_head("idea")
        assert session.heads.keys() == {"main"}
        assert session.get(node).payload == {"role": "user", "content": "x"}
    view = backend.store().view("s")
    assert view.heads.keys() == {"main"}
    assert node in view.leaves()


# rewind


def test_rewind_restores_state_context_and_head_together(backend: Backend) -> None:
    """Back at a checkpoint everything is as it was; what came after stays as a branch."""
    session = backend.store().session("s")
    made = turns(session, 5)
    path = session.path()
    session.rewind(made[1])
    assert stands(session) == ("main", path[3], ["q0", "a0", "q1", "a1"], {"turn": 1}, {}, {"m": 1})
    there = stands(session)
    kill(session)
    session = backend.store().session("s")
    assert stands(session) == there
    turns(session, 1, first=7)
    assert texts(session.context) == ["q0", "a0", "q1", "a1", "q7", "a7"]
    assert set(session.leaves()) == {path[-1], session.node}
    session.rewind(made[4])
    assert (session.state, session.path()) == ({"turn": 4}, path)


def test_rewind_after_seals_and_merges(backend: Backend) -> None:
    """A checkpoint whose records lie in segments is restored the same, and resumed in two reads."""
    session = backend.store().session("s")
    made = []
    for turn in range(6):
        made += turns(session, 1, first=turn)
        session.seal()
    session.optimize(everything=True)
    session.rewind(made[2])
    there = stands(session)
    kill(session)
    store, counts = backend.counted()
    session = store.session("s")
    assert counts.counts == {"Get": 2}
    assert stands(session) == there
    assert session.state == {"turn": 2}


def test_rewind_to_an_edited_context(backend: Backend) -> None:
    """A context that was edited in a commit comes back edited."""
    session = backend.store().session("s")
    turns(session, 2)
    nodes = session.path()
    edited: list[treering.ContextItem | str] = [
        treering.ContextItem(node=nodes[0], message={"role": "user", "content": "short"}),
        nodes[3],
    ]
    done = session.commit(["next"], context=edited, label="edited")
    turns(session, 2, first=5)
    session.rewind(done.checkpoint or "")
    kill(session)
    with backend.store().session("s") as session:
        assert texts(session.context) == ["short", "a1", "next"]
        assert [item.node for item in session.context] == [nodes[0], nodes[3], done.nodes[0]]


def test_a_checkpoint_without_nodes_can_be_rewound_to(backend: Backend) -> None:
    """State recorded before the first message is a checkpoint like any other."""
    session = backend.store().session("s")
    empty = session.commit(state={"n": 0}).checkpoint or ""
    turns(session, 1)
    session.rewind(empty)
    assert (session.node, texts(session.context), session.state) == (None, [], {"n": 0})
    kill(session)
    with backend.store().session("s") as session:
        assert (session.node, texts(session.context), session.state) == (None, [], {"n": 0})


def test_every_checkpoint_of_a_long_session_reads_as_it_was(backend: Backend) -> None:
    """All checkpoints, across branches, rewinds, seals and merges, hold what was seen when they were made."""
    session = backend.store().session("s")
    seen: dict[str, tuple[list[str], Mapping[str, object]]] = {}
    for number in range(30):
        done = session.commit([f"m{number}"], state={f"k{number % 4}": number}, drop=[f"k{(number + 2) % 4}"])
        seen[done.checkpoint or ""] = (texts(session.context), session.state)
        if number % 5 == 4:
            session.rewind(list(seen)[number - 3])
        if number % 7 == 6:
            session.seal()
    session.optimize(everything=True)
    view = backend.store().view("s")
    for checkpoint, (context, state) in seen.items():
        found = view.checkpoint(checkpoint)
        assert (texts(found.context), found.state) == (context, state)


# context edits


def test_the_context_can_be_windowed(backend: Backend) -> None:
    """A commit can leave out old messages; they stay in the history and out of the context, also after a resume."""
    session = backend.store().session("s")
    for number in range(10):
        items = session.context[-3:]
        session.commit([f"m{number}"], context=items)
    assert texts(session.context) == ["m6", "m7", "m8", "m9"]
    kill(session)
    with backend.store().session("s") as session:
        assert texts(session.context) == ["m6", "m7", "m8", "m9"]
        assert len(session.history(limit=100).rows) == 10
        session.append("m10")
        assert texts(session.context) == ["m6", "m7", "m8", "m9", "m10"]


def test_a_message_that_is_given_back_is_no_edit(backend: Backend) -> None:
    """Whatever the order of its fields, a message that says the same stays that of its node and is not stored again."""
    session = backend.store().session("s")
    first, second = session.append("one", user("two", name="n")).nodes
    mine = ContextItem(node=second, message={"name": "n", "content": "two", "role": "user"})
    session.commit(context=[session.context[0], mine])
    made = [decode_record(line) for line in session._known.replica.view.tail.lines]
    assert [b"two" in bytes(record.body) for record in made] == [False, True, False]
    session.commit(context=[first, ContextItem(node=second, message={"role": "user", "content": "2"})])
    assert texts(session.context) == ["one", "2"]


def test_the_context_can_bring_back_old_nodes(backend: Backend) -> None:
    """A commit can show nodes that were left out before, wherever their records lie, and two reads resume it."""
    session = backend.store().session("s")
    nodes = [session.append(f"m{number}").node for number in range(6)]
    session.commit(context=[])
    session.seal()
    session.append("lone")
    session.commit(["x"], context=[nodes[4], nodes[1]])
    kill(session)
    store, counts = backend.counted()
    session = store.session("s")
    assert counts.counts == {"Get": 2}
    assert texts(session.context) == ["m4", "m1", "x"]


def test_what_a_context_brings_back_is_shown_as_the_policy_shows_it(backend: Backend) -> None:
    """A compaction brought back by its id is shown as a summary, and an amended node as amended."""
    with backend.store().session("s") as session:
        first = session.append("a").node
        gist = session.compact("gist").node
        summary = session.context[0]
        session.append("b")
        session.compact("second gist")
        session.amend(first, {"role": "user", "content": "A"})
        rest = session.context
        session.commit(context=[gist, first, *[item.node for item in rest]])
        assert session.context == (summary, ContextItem(node=first, message={"role": "user", "content": "A"}), *rest)
    view = backend.store().view("s")
    assert view.context[0] == summary
    assert texts(view.context)[1] == "A"


def test_a_context_of_unknown_nodes_is_refused(store: Store) -> None:
    """Every item of a context names a node that exists."""
    with store.session("s") as session:
        session.append("a")
        with pytest.raises(treering.NotFoundError, match="nobody"):
            session.commit(context=["nobody"])
        with pytest.raises(treering.NotFoundError, match="nobody"):
            session.commit(context=[treering.ContextItem(node="nobody", message={"role": "user", "content": "x"})])
        assert texts(session.context) == ["a"]


# settings


def test_settings_follow_the_branch(backend: Backend) -> None:
    """Model, thinking level and mode are those of the node the session stands on."""
    session = backend.store().session("s")
    session.set_model("m1", provider="acme")
    first = session.append("a").node
    session.set_thinking("high")
    session.set_mode("plan")
    session.set_model("m2")
    session.append("b")
    assert session.settings == {"model": "m2", "provider": "acme", "thinking": "high", "mode": "plan"}
    session.set_mode(None)
    kill(session)
    with backend.store().session("s") as session:
        assert session.settings == {"model": "m2", "provider": "acme", "thinking": "high"}
        session.checkout(first)
        assert session.settings == {"model": "m1", "provider": "acme"}
        assert session.info.model == "m2"
