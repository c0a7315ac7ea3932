"""Amend, retract, restore: how a node is seen changes; what was recorded stays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Literal

import pytest
from tests.session.backends import Backend, kill, texts

import treering
from treering.api.session import Session
from treering.api.store import Store


def said(text: str) -> dict[str, str]:
    """A message from the user."""
    return {"role": "user", "content": text}


def page(session: Session) -> list[str]:
    """What a page of history shows, oldest first."""
    return [row.node.payload["content"] for row in reversed(session.history().rows)]


def test_an_amended_node_is_seen_as_amended(backend: Backend) -> None:
    """Context, pages and single nodes show the new payload, also in the next process; the original stays readable."""
    session = backend.store().session("s")
    nodes = [session.append(text).node for text in "abc"]
    session.amend(nodes[1], said("B"))
    assert texts(session.context) == ["a", "B", "c"]
    kill(session)
    with backend.store().session("s") as session:
        assert texts(session.context) == ["a", "B", "c"]
        assert page(session) == ["a", "B", "c"]
        assert session.get(nodes[1]).amended
        assert session.original(nodes[1]) == said("b")
        session.amend(nodes[1], said("beta"))
        assert texts(session.context) == ["a", "beta", "c"]


def test_an_amendment_reaches_contexts_built_later(backend: Backend) -> None:
    """Navigation, a fork and another branch see the amended payload; old checkpoints what the model saw then."""
    session = backend.store().session("s")
    nodes = [session.append(text).node for text in "abc"]
    made = session.commit(label="before").checkpoint or ""
    session.amend(nodes[0], said("A"))
    session.seal()
    session.checkout(nodes[1])
    assert texts(session.context) == ["A", "b"]
    session.branch("other", node=nodes[2])
    assert texts(session.context) == ["A", "b", "c"]
    session.fork("copy")
    assert texts(session.checkpoint(made).context) == ["a", "b", "c"]
    session.close()
    assert texts(backend.store().view("copy").context) == ["A", "b", "c"]


def test_an_amended_node_outside_the_context_changes_pages_only(store: Store) -> None:
    """A node that the model does not see can be amended as well."""
    with store.session("s") as session:
        first = session.append("a").node
        session.commit(["b"], context=[])
        session.amend(first, said("A"))
        assert texts(session.context) == ["b"]
        assert page(session) == ["A", "b"]


def test_a_retracted_node_is_hidden(backend: Backend) -> None:
    """Context and pages leave a retracted node out; it is there when asked for, and its children stay."""
    session = backend.store().session("s")
    nodes = [session.append(text).node for text in "abc"]
    session.retract(nodes[1])
    assert texts(session.context) == ["a", "c"]
    kill(session)
    with backend.store().session("s") as session:
        assert texts(session.context) == ["a", "c"]
        assert page(session) == ["a", "c"]
        assert [row.node.id for row in session.history(retracted=True).rows] == nodes[::-1]
        assert session.get(nodes[1]).retracted
        assert session.path() == tuple(nodes)
        session.append("d")
        assert texts(session.context) == ["a", "c", "d"]
        session.checkout(nodes[2])
        assert texts(session.context) == ["a", "c"]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_restored_node_is_back_where_it_stood(backend: Backend, *, sealed: bool) -> None:
    """Taking a retraction back shows the node at its old place, in two reads after a kill."""
    session = backend.store().session("s")
    nodes = [session.append(text).node for text in "abc"]
    session.commit(state={"n": 1})
    session.retract(nodes[1])
    session.append("d")
    if sealed:
        session.seal()
        session.append("e")
    session.unretract(nodes[1])
    expected = ["a", "b", "c", "d", "e"][: 5 if sealed else 4]
    assert texts(session.context) == expected
    assert page(session) == expected
    kill(session)
    store, counts = backend.counted()
    with store.session("s") as session:
        assert counts.counts == {"Get": 2}
        assert texts(session.context) == expected
        assert session.state == {"n": 1}
        with pytest.raises(treering.UsageError):
            session.unretract(nodes[1])


def test_restoring_one_of_two_retracted_nodes(store: Store) -> None:
    """A restored node comes back alone; what was retracted besides stays hidden, and amendments stay."""
    with store.session("s") as session:
        nodes = [session.append(text).node for text in "abcd"]
        session.amend(nodes[0], said("A"))
        session.retract(nodes[1])
        session.retract(nodes[2])
        session.amend(nodes[3], said("D"))
        session.unretract(nodes[1])
        assert texts(session.context) == ["A", "b", "D"]
        assert page(session) == ["A", "b", "D"]
        session.unretract(nodes[2])
        assert texts(session.context) == ["A", "b", "c", "D"]


def test_nodes_that_were_hidden_together_are_all_shown_again(store: Store) -> None:
    """Hidden and shown again in any order, each node is in the context where it was, or it is not retracted."""
    for number, sequence in enumerate(product("ab", repeat=6)):
        with store.session(f"s{number}") as session:
            session.append(*[treering.user(name, id=name) for name in "ab"])
            hidden: set[str] = set()
            for name in sequence:
                (session.unretract if name in hidden else session.retract)(name)
                hidden ^= {name}
            assert texts(session.context) == [name for name in "ab" if name not in hidden], sequence


def test_a_first_message_is_shown_again_before_what_followed_it(store: Store) -> None:
    """What was said after it was hidden does not keep it out, and a compaction that left it out does."""
    with store.session("s") as session:
        first = session.append("a").node
        session.retract(first)
        second = session.append("b").node
        session.unretract(first)
        assert texts(session.context) == ["a", "b"]
        session.retract(first)
        session.retract(second)
        third = session.append("c").node
        session.compact("gist", kept=third)
        session.unretract(second)
        session.unretract(first)
        assert [item.node for item in session.context][1:] == [third]
        session.checkout(second)
        assert texts(session.context) == ["a", "b"]


@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_edits_count_in_the_checkpoint_of_their_own_append(
    backend: Backend, durability: Literal["sync", "turn"]
) -> None:
    """Edits recorded in one append with a checkpoint, put off or not, are in its context."""
    session = backend.store().session("s", durability=durability)
    nodes = session.commit(["a", "b", "c"]).nodes
    if durability == "turn":
        session.amend(nodes[0], said("A"))
        session.retract(nodes[1])
        session.commit(["d"])
    else:
        amend = treering.Draft(type="edit", kind="amend", target=nodes[0], payload=said("A"))
        retract = treering.Draft(type="edit", kind="retract", target=nodes[1])
        session.commit([amend, retract, "d"], state={"n": 1})
    assert texts(session.context) == ["A", "c", "d"]
    kill(session)
    view = backend.store().view("s")
    assert texts(view.context) == ["A", "c", "d"]
    assert view.get(nodes[1]).retracted


def test_a_retraction_that_was_put_off_can_be_taken_back(backend: Backend) -> None:
    """With durability='turn' a node retracted in this turn can be shown again in the same turn."""
    with backend.store().session("s", durability="turn") as session:
        nodes = session.commit(["a", "b"]).nodes
        session.retract(nodes[0])
        session.unretract(nodes[0])
        session.commit(["c"])
        assert texts(session.context) == ["a", "b", "c"]
    assert texts(backend.store().view("s").context) == ["a", "b", "c"]


def test_an_amendment_older_than_the_checkpoint_reaches_what_that_did_not_show(store: Store) -> None:
    """Back at an amended node it is amended, although the nearest checkpoint was made after that, at a node above."""
    with store.session("s") as session:
        nodes = [session.append(text).node for text in "abcd"]
        session.amend(nodes[2], said("C"))
        session.checkout(nodes[1])
        assert texts(session.context) == ["a", "b"]
        session.checkout(nodes[3])
        assert texts(session.context) == ["a", "b", "C", "d"]


def test_edits_of_what_does_not_exist_are_refused(store: Store) -> None:
    """An edit must name a node."""
    with store.session("s") as session:
        session.append("a")
        calls: tuple[Callable[[], object], ...] = (
            lambda: session.amend("nobody", said("x")),
            lambda: session.retract("nobody"),
            lambda: session.unretract("nobody"),
        )
        for call in calls:
            with pytest.raises(treering.TreeringError, match="nobody"):
                call()


def test_edits_do_not_move_the_head(store: Store) -> None:
    """After an edit of an old node the session's head has not moved."""
    with store.session("s") as session:
        first, last = session.append("a").node, session.append("b").node
        session.amend(first, said("A"))
        session.retract(first)
        assert session.node == last
        assert session.get(session.append("c").node).parent == last
