"""Checkpoints of another program: they come with the session, or with what it has gained, and can be gone back to."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.session.at_rest import restored_at

import treering
from treering import ContextItem, Draft, Store
from treering.session.foreign import checkpoint_draft
from treering.session.redaction import Redaction, redact_patterns
from treering.session.verbs.extending import record_foreign
from treering.session.verbs.navigation import _ahead
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

OLD_MS = 1_700_000_000_000


def said(name: str, parent: str | None) -> Draft:
    """A message with an id of its own."""
    return Draft(id=name, parent=parent, role="user", payload={"role": "user", "content": name}, time_ms=OLD_MS)


def kept(name: str, node: str, context: list[Any], **state: object) -> Draft:
    """A checkpoint of the other program."""
    return checkpoint_draft(node, id=name, context=context, state=state, manager={"m": name}, time_ms=OLD_MS)


DRAFTS = [
    said("a", None),
    said("b", "a"),
    kept("first", "b", ["a", "b"], mood="calm", big="x" * 1000),
    said("c", "b"),
    kept(
        "second", "c", [ContextItem(node="b", message={"role": "user", "content": "b, shortened"}), "c"], big="x" * 1000
    ),
]


def shown(session: Any) -> list[object]:
    """What the model sees."""
    return [item.message["content"] for item in session.context]


def load(store: Store, drafts: list[Draft], leaf: str = "c") -> None:
    """Make the session."""
    store.load("s", drafts, leaf=lambda: leaf)


def test_a_session_stands_with_the_last_checkpoint(store: Store) -> None:
    """Context, edits and state are as the program had them, under its own ids and times; nothing is there twice."""
    load(store, DRAFTS)
    with store.session("s") as session:
        assert shown(session) == ["b, shortened", "c"]
        assert (session.state, session.manager) == ({"big": "x" * 1000}, {"m": "second"})
        assert [(entry.id, entry.time_ms) for entry in session.checkpoints()] == [("first", OLD_MS), ("second", OLD_MS)]
        assert session.info.checkpoints == 2
    assert store.verify("s") == []


def test_going_back_to_one_of_its_checkpoints(store: Store) -> None:
    """State, context and place come back as they were then, and a new message goes on from there."""
    load(store, DRAFTS)
    with store.session("s") as session:
        session.rewind("first")
        assert (shown(session), session.node) == (["a", "b"], "b")
        assert (session.state["mood"], session.manager) == ("calm", {"m": "first"})
        session.append(treering.user("again"))
    assert shown(store.view("s")) == ["a", "b", "again"]
    assert store.verify("s") == []


def test_a_session_that_stands_elsewhere_than_its_last_checkpoint(store: Store) -> None:
    """The checkpoint is there all the same, and the place has the context that the policy gives it."""
    load(store, [*DRAFTS, said("d", "c")], leaf="d")
    view = store.view("s")
    assert [entry.id for entry in view.checkpoints()][:2] == ["first", "second"]
    assert shown(view) == ["a", "b", "c", "d"]


def test_checkpoints_that_came_later(store: Store) -> None:
    """What a program gained is recorded with its checkpoints, which move nothing until somebody goes there."""
    load(store, DRAFTS)
    with store.session("s") as session:
        later = [said("d", "c"), kept("third", "d", ["d"], mood="brisk")]
        session.perform(record_foreign, later)
        assert (session.node, session.state) == ("c", {"big": "x" * 1000})
        session.rewind("third")
        assert (shown(session), session.state) == (["d"], {"mood": "brisk"})
    view = store.view("s")
    assert (shown(view), view.state) == (["d"], {"mood": "brisk"})
    assert store.verify("s") == []


@pytest.mark.parametrize("later", [False, True])
def test_a_redactor_sees_what_they_hold(*, later: bool) -> None:
    """State, manager, edits and labels pass it, whichever way a checkpoint comes; the nodes named are no texts."""
    redaction = Redaction(redact_patterns(["secret", "node"], keys=False))
    place = Place(MemoryDriver(), redaction=redaction)
    store = Store(place)
    drafts = [
        said("node-1", None),
        checkpoint_draft(
            "node-1",
            id="one",
            context=["node-1", ContextItem(node="node-1", message={"role": "user", "content": "a secret"})],
            state={"s": "secret"},
            manager={"m": ["secret"]},
            time_ms=OLD_MS,
            label="secret",
            metadata={"secret": "secret"},
        ),
    ]
    first = drafts[:1] if later else drafts
    store.load("s", first, leaf=lambda: "node-1")
    with store.session("s") as session:
        if later:
            session.perform(record_foreign, drafts[1:])
            session.rewind("one")
        assert shown(session) == ["[redacted]-1", "a [redacted]"]
        assert (session.state, session.manager) == ({"s": "[redacted]"}, {"m": ["[redacted]"]})
        made = next(entry for entry in session.checkpoints() if entry.id == "one")
        assert (made.label, made.metadata) == ("[redacted]", {"secret": "[redacted]"})


def gain(session: Any, random: Random, number: int) -> None:
    """Do any operation at or after the session's node."""
    nodes = list(session.path())
    kind = random.choice(["said", "said", "said", "kept", "state", "append", "retract", "amend", "branch", "commit"])
    if kind in ("said", "kept"):
        chain = [said(f"{number}-{place}", f"{number}-{place - 1}" if place else session.node) for place in range(3)]
        session.perform(record_foreign, [*chain, *([kept(f"{number}-k", f"{number}-1", [])] if kind == "kept" else [])])
    elif kind == "state":
        session.commit([], state={"n": number})
    elif kind == "append":
        session.append(str(number))
    elif kind == "commit":
        session.commit([str(number)], state={"m": number})
    elif kind == "branch" and nodes:
        session.branch(f"b{number}", node=random.choice(nodes))
    elif nodes:
        node = random.choice([node.id for node in session.nodes()] or nodes)
        session.retract(node) if kind == "retract" else session.amend(node, f"{number} instead")


def test_where_a_session_goes_on_is_told_by_what_is_new() -> None:
    """Facts known without the index of a session agree with the index."""
    told = 0
    for seed in range(60):
        random = Random(seed)
        with Store(Place(MemoryDriver())).session("s") as session:
            for number in range(random.randrange(2, 9)):
                gain(session, random, number)
                for node in [node.id for node in session.nodes()]:
                    found = session.perform(_ahead, node)
                    if found is None:
                        continue
                    told += node != session.node
                    whole = session.perform(restored_at, node, head=session.head)
                    assert (found.node, found.context, found.checkpoint) == (node, whole.context, whole.checkpoint)
                    assert whole.lines.items() <= found.lines.items()
                if (leaves := session.leaves()) and random.random() < 0.5:
                    session.checkout(random.choice(leaves))
    assert told > 20


def test_a_loaded_edit_is_in_the_context(store: Store) -> None:
    """A draft that amends a node is seen by the model at once, and in the checkpoints that follow."""
    message = {"role": "user", "content": "A"}
    drafts = [said("a", None), said("b", "a"), Draft(id="e", type="edit", kind="amend", target="a", payload=message)]
    load(store, drafts, leaf="b")
    assert shown(store.view("s")) == ["A", "b"]
    with store.session("s") as session:
        session.commit(["c"], state={"n": 1})
        session.checkout("b")
        assert shown(session) == ["A", "b"]
        session.checkout("a")
        assert shown(session) == ["A"]
    assert store.verify("s") == []
