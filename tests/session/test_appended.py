"""A call that adds to the conversation returns the new nodes and their head."""

from __future__ import annotations

import pytest
from tests.session.backends import Backend

import treering
from treering import Appended, Store


def test_each_call_names_its_nodes_its_head_and_its_checkpoint(store: Store) -> None:
    """All verbs that add nodes return the same; what `heads` says of the head is the last of the nodes."""
    with store.session("s") as session:
        added = [
            session.append("a", "b"),
            session.commit(["c"], state={"step": 1}),
            session.compact("gist"),
            session.set_model("m"),
            session.set_thinking("high"),
            session.set_mode("plan"),
        ]
        assert [node for each in added for node in each.nodes] == [*session.path()]
        assert {each.head for each in added} == {session.head}
        assert added[-1].node == session.heads[session.head]
        made = [each.checkpoint for each in added if each.checkpoint is not None]
        assert made == [entry.id for entry in session.checkpoints()]
        assert added[0].checkpoint is None
        assert session.checkpoint_id == made[-1]


def test_what_adds_nothing_names_no_node(store: Store) -> None:
    """A commit without messages, or the closing of no call, has a head and no node."""
    with store.session("s") as session:
        session.append("a")
        done = session.commit(state={"step": 1})
        assert done == Appended(nodes=(), head="main", checkpoint=session.checkpoint_id)
        assert session.close_open_calls("it was stopped") == Appended(nodes=(), head="main")
        with pytest.raises(IndexError):
            done.node  # noqa: B018


def test_a_shared_writer_is_told_the_head_it_came_to(backend: Backend) -> None:
    """Whoever comes second is on a head of its own, and need not look for it in `heads`."""
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    first.append("a")
    second.refresh()
    assert first.append("b").head == "main"
    done = second.append("c")
    assert done.head == second.head == "main-2"
    assert second.heads[done.head] == done.node
    assert second.commit(["d"]).head == "main-2"
    first.close()
    second.close()


def test_a_node_beside_the_path_is_told_with_its_head(store: Store) -> None:
    """A draft with a parent of its own, and an append to a named head, do not say the current head."""
    with store.session("s") as session:
        first = session.append("a").node
        session.append("b")
        aside = session.append(treering.user("c", parent=first))
        assert aside.head != session.head == "main"
        assert session.heads[aside.head] == aside.node
        named = session.append("d", head=aside.head)
        assert named.head == aside.head
        assert session.path(named.node)[-2] == aside.node


def test_a_message_that_comes_again_is_told_with_the_head_it_is_on(backend: Backend) -> None:
    """Also after the session went to another head; one that waits still is on the current one."""
    with backend.store().session("s", durability="turn") as session:
        message = treering.user("a", id="a")
        assert session.append(message) == session.append(message) == Appended(nodes=("a",), head="main")
        session.commit()
        session.branch("other")
        session.commit(["b"])
        assert session.append(message) == Appended(nodes=("a",), head="main")
    with backend.store().session("s") as session:
        session.switch("other")
        assert session.append("c", message).head == "main"
        assert session.append(message, "d").head == "other"
