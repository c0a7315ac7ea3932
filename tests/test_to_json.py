"""Whatever the package returns becomes JSON that other programs read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import treering
from treering.format import values
from treering.ids import new_nonce

ODD = {"bytes": b"\x00\x01", "when": datetime(2026, 1, 31, tzinfo=UTC), "pair": (1, 2), "nan": float("nan"), "$x": 1}


def shown(value: object) -> Any:
    """What another program reads."""
    return json.loads(treering.to_json(value))


@pytest.fixture
def store() -> treering.Store:
    """A session with everything in it that JSON has no words for."""
    store = treering.open(f"memory://{new_nonce()}")
    with store.session("s", title="\ud800", extra={"odd": [None, {"$x": 1}]}) as session:
        first = session.append(treering.user("hello")).node
        session.commit([treering.assistant([ODD])], state={"odd": ODD}, metadata={"odd": ODD}, label="here")
        session.amend(first, {"role": "user", "content": ODD})
        session.note("mine", ODD)
        session.branch("other", node=first)
        session.append({"role": "user", "content": "\ud800"})
        session.commit(state={"secret": ODD})
        session.erase(state=["secret"])
    return store


def test_an_erased_payload_is_its_tombstone(store: treering.Store) -> None:
    """A page with an erased message says what remains of that, as the store keeps it."""
    with store.session("s") as session:
        gone = session.append(treering.user("hello")).node
        session.erase(gone, reason="asked to")
    left = shown(store.view("s").get(gone))["payload"]["$erased"]
    assert (left["reason"], left["message"]) == ("asked to", {"role": "user", "content": "[erased]"})


def results(store: treering.Store) -> dict[str, object]:
    """Results of all kinds."""
    view = store.view("s")
    (checkpoint, *_) = view.checkpoints()
    return {
        "page": view.history(limit=10),
        "node": view.get(view.node or ""),
        "context": view.context,
        "old context": view.context_at(view.path()[0]),
        "state": view.state,
        "erased": view.erased_state,
        "settings": view.settings,
        "heads": view.heads,
        "labels": view.labels(),
        "checkpoints": view.checkpoints(),
        "checkpoint": view.checkpoint(checkpoint.id),
        "tree": view.tree(),
        "nodes": view.nodes(),
        "notes": view.notes(),
        "siblings": view.siblings(view.node or ""),
        "sizes": view.stored(),
        "info": view.info,
        "sessions": store.sessions(),
        "findings": store.verify("s"),
        "open calls": view.open_calls(),
        "diff": view.diff(checkpoint.id, view.path()[0]),
    }


def test_every_result_is_json(store: treering.Store) -> None:
    """With the names of its attributes, and as many items as it has."""
    for name, value in results(store).items():
        found = shown(value)
        if isinstance(value, msgspec.Struct):
            assert [*found] == [*value.__struct_fields__], name
        elif isinstance(value, dict):
            assert "$map" in found or [*found] == [*value], name
        elif not hasattr(value, "keys"):
            assert len(found) == len(value), name  # type: ignore[arg-type]


def test_what_was_recorded_comes_back(store: treering.Store) -> None:
    """A reader that knows the tags gets what the agent had recorded."""
    view = store.view("s")
    page = view.history(head="main", limit=10)
    messages = [values.decode(json.dumps(row["node"]["payload"]).encode()) for row in shown(page)["rows"]]
    assert [repr(each) for each in messages] == [repr(row.node.payload) for row in page.rows]
    labelled = next(each.id for each in view.checkpoints() if each.label == "here")
    state = values.decode(treering.to_json(view.checkpoint(labelled).state))
    assert repr(state) == repr({"odd": {**ODD, "pair": [1, 2]}})


def test_results_among_plain_values(store: treering.Store) -> None:
    """As a program puts them together for its own page."""
    page = store.view("s").history(limit=1)
    found = shown({"rows": page.rows, "none": (), "more": page.before is not None, "kind": treering.Kind.SESSION})
    assert found["rows"][0]["node"]["id"] == page.rows[0].node.id
    assert (found["none"], found["more"], found["kind"]) == ([], True, "session")


@pytest.mark.parametrize("name", ["half \ud83d", "$x"])
def test_a_head_of_any_name(store: treering.Store, name: str) -> None:
    """What cannot name a field of JSON comes as a pair, and a reader that knows the tags gets it back."""
    with store.session("s") as session:
        session.branch(name)
    heads = dict(store.view("s").heads)
    assert [*shown(heads)] == ["$map"]
    assert values.decode(treering.to_json(heads)) == heads
    assert values.decode(values.encode(heads)) == heads


def test_what_nobody_returned_is_refused() -> None:
    """By its type, as when it is recorded."""
    with pytest.raises(treering.UsageError, match="object"):
        treering.to_json({"a": object()})


def test_what_is_nested_too_deep_is_refused() -> None:
    """A value as deep as Python can hold is an error of ours, and not one of the stack."""
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(treering.UsageError, match="nested"):
        treering.to_json(deep)
