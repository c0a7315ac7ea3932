"""What hangs beside the conversation: labels, titles, usage, extension data, prompts for audit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.session.backends import Backend, kill, memory_backend

import treering
from treering.api.store import Store
from treering.transcript.node import Draft


def test_labels_are_set_changed_and_cleared(backend: Backend) -> None:
    """A label names a node or a checkpoint until it is taken off."""
    session = backend.store().session("s")
    node = session.append("a").node
    made = session.commit(["b"]).checkpoint or ""
    session.label(node, "start")
    session.label(made, "good")
    session.label(node, "begin")
    kill(session)
    with backend.store().session("s") as session:
        assert session.labels() == {node: "begin", made: "good"}
        assert session.get(node).label == "begin"
        assert [entry.label for entry in session.checkpoints()] == ["good"]
        session.label(node, None)
        session.label(made, None)
        assert session.labels() == {}
        with pytest.raises(treering.NotFoundError, match="nobody"):
            session.label("nobody", "x")


def test_notes_never_move_a_head(backend: Backend) -> None:
    """Title, status, place, usage, labels and notes leave head, node and context alone."""
    session = backend.store().session("s")
    node = session.append("a").node
    session.set_title("T")
    session.set_status("waiting")
    session.move(project="p", cwd="/x")
    session.label(node, "l")
    session.record_usage(input=3)
    session.record_system("be nice", [{"name": "bash"}])
    session.record_extension("todo", {"items": []})
    session.note("exit", {"code": 1})
    assert (session.node, len(session.context)) == (node, 1)
    assert session.get(session.append("b").node).parent == node
    kill(session)
    view = backend.store().view("s")
    assert (view.info.title, view.info.status, view.info.project, view.info.cwd) == ("T", "waiting", "p", "/x")
    assert view.info.messages == 2


def test_a_session_can_be_renamed_and_moved(backend: Backend) -> None:
    """Title, project and folder change in lists; the session is the same."""
    with backend.store().session("s", title="old", project="p1", cwd="/one") as session:
        session.append("a")
        session.set_title("new")
        session.move(project="p2")
    store = backend.store()
    assert [row.title for row in store.sessions(project="p2").rows] == ["new"]
    assert store.sessions(project="p1").rows == ()
    assert [row.id for row in store.sessions(cwd="/one").rows] == ["s"]
    with store.session("s") as session:
        session.move(cwd="/two")
        session.set_title("")
    (row,) = store.sessions().rows
    assert (row.title, row.project, row.cwd) == ("", "p2", "/two")


async def test_sessions_are_listed_by_how_they_stand(backend: Backend) -> None:
    """A list of those with one status, or with none; pages are full although others are passed over."""
    for number in range(6):
        with backend.store().session(f"s{number}", project="p") as session:
            session.append("x")
            if number % 2:
                session.set_status("done")
    store = backend.store()
    page = store.sessions(status="done", project="p", limit=2)
    rest = store.sessions(status="done", project="p", limit=2, after=page.after)
    assert sorted(row.id for row in (*page.rows, *rest.rows)) == ["s1", "s3", "s5"]
    assert sorted(row.id for row in (await backend.async_store().sessions(status="")).rows) == ["s0", "s2", "s4"]
    assert store.sessions(status="waiting").rows == ()


def test_usage_adds_up_and_is_not_undone(backend: Backend) -> None:
    """Usage is summed over all branches; going back does not lower it, since it was spent."""
    session = backend.store().session("s")
    node = session.append("a").node
    made = session.commit(["b"]).checkpoint or ""
    session.record_usage(input=10, output=5, cost=0.25)
    session.append("c")
    session.record_usage(input=1, output=2, target=node)
    session.rewind(made)
    assert session.usage == {"input": 11, "output": 7, "cost": 0.25}
    assert session.last_usage == {"input": 1, "output": 2}
    kill(session)
    with backend.store().session("s") as session:
        assert session.usage == {"input": 11, "output": 7, "cost": 0.25}
        assert session.last_usage == {"input": 1, "output": 2}
        session.record_usage(input=9)
        assert session.usage["input"] == 20
    assert len(backend.store().view("s").notes("usage")) == 3


def test_an_amount_has_any_name(store: Store) -> None:
    """Also the names that the parameters of the library have on the way to the record."""
    numbers = dict.fromkeys(("self", "verb", "writer", "kind", "brief"), 2)
    with store.session("s") as session:
        session.record_usage(**numbers)  # type: ignore[arg-type]  # mypy: one is the node that it belongs to
        assert session.usage == numbers


def test_a_call_beside_the_turns_is_added_and_is_not_the_last_turn(backend: Backend) -> None:
    """What a summary cost is money, and does not tell the size of the context; sums can begin anew."""
    session = backend.store().session("s")
    session.append("a")
    session.record_usage(input=900, output=20)
    session.record_usage(input=850, output=90, cost=0.5, turn=False)
    assert session.usage == {"input": 1750, "output": 110, "cost": 0.5}
    assert session.last_usage == {"input": 900, "output": 20}
    kill(session)
    with backend.store().session("s") as session:
        assert session.last_usage == {"input": 900, "output": 20}
        session.record_usage(input=40, reset=True)
        assert session.usage == session.last_usage == {"input": 40}
        session.record_usage(input=2, turn=False)
        assert (session.usage, session.last_usage) == ({"input": 42}, {"input": 40})


def test_extension_data_is_found_along_the_branch(backend: Backend) -> None:
    """An extension finds what it recorded on the path of the head, oldest first; other branches on request."""
    session = backend.store().session("s")
    session.record_extension("todo", {"n": -1})
    first = session.append("a").node
    session.record_extension("todo", {"n": 0})
    session.record_extension("other", {"x": 1})
    session.append("b")
    session.record_extension("todo", {"n": 1})
    session.checkout(first)
    session.append("c")
    session.record_extension("todo", {"n": 2, "bytes": b"\0"})
    kill(session)
    view = backend.store().view("s")
    assert [note.payload for note in view.extensions("todo")] == [{"n": -1}, {"n": 0}, {"n": 2, "bytes": b"\0"}]
    assert len(view.extensions("todo", on_path=False)) == 4
    assert [note.payload for note in view.extensions("other")] == [{"x": 1}]
    assert view.extensions("none") == ()


def test_all_extensions_are_found_at_once(backend: Backend) -> None:
    """Without a name all are meant, along the branch or everywhere; each note says whose it is."""
    with backend.store().session("s") as session:
        first = session.append("a").node
        session.record_extension("todo", {"n": 1})
        session.record_extension("other", {"x": 1})
        session.append("b")
        session.record_extension("todo", {"n": 2})
        session.checkout(first)
    view = backend.store().view("s")
    assert [(note.brief["extension"], note.payload) for note in view.extensions()] == [
        ("todo", {"n": 1}),
        ("other", {"x": 1}),
    ]
    assert len(view.extensions(on_path=False)) == 3


def test_prompts_and_tools_are_kept_for_audit(store: Store) -> None:
    """The system prompt and tools in force are found with the node they were in force at."""
    with store.session("s") as session:
        node = session.append("a").node
        session.record_system("be nice", [{"name": "bash", "parameters": {"type": "object"}}])
        (note,) = session.notes("system", on_path=True)
        assert note.target == node
        assert note.payload == {"prompt": "be nice", "tools": [{"name": "bash", "parameters": {"type": "object"}}]}


def test_notes_are_listed_by_kind(store: Store) -> None:
    """Notes of one kind, or all, in the order they were recorded."""
    with store.session("s") as session:
        session.append("a")
        session.note("x", {"n": 1})
        session.note("y", payload=[1, 2])
        session.note("x", {"n": 2})
        assert [note.brief for note in session.notes("x")] == [{"n": 1}, {"n": 2}]
        assert [note.kind for note in session.notes()] == ["x", "y", "x"]
        assert session.notes("y")[0].payload == [1, 2]
        with pytest.raises(treering.UsageError):
            session.note("x", {"large": "x" * 600})


def test_a_note_is_the_first_record(backend: Backend) -> None:
    """A session may begin with a note; its first message is still a root."""
    session = backend.store().session("s")
    session.set_title("T")
    kill(session)
    with backend.store().session("s") as session:
        assert session.info.title == "T"
        assert session.get(session.append("a").node).parent is None


def test_facts_join_the_card(backend: Backend) -> None:
    """A note puts facts of an integration on the card, field by field; null takes one off, and so does erasing it."""
    session = backend.store().session("s", extra={"kept": 1})
    session.note("card", {"fields": ["mine/a", "mine/b"]}, payload={"mine": {"a": 1, "b": "x"}})
    named = session.note("card", {"fields": ["mine/a", "mine/c"]}, payload={"mine": {"a": None, "c": "secret"}})
    kill(session)
    with backend.store().session("s") as session:
        assert session.info.extra == {"kept": 1, "mine": {"b": "x", "c": "secret"}}
    with backend.store().session("s") as session:
        session.erase(named)
        assert session.info.extra == {"kept": 1, "mine": {"b": "x"}}
        session.append("a")
    (row,) = backend.store().sessions().rows
    assert row.extra == {"kept": 1, "mine": {"b": "x"}}
    assert not any(b"secret" in data for data in backend.snapshot().values())


def test_notes_that_repeat_a_node_are_erased_with_it(backend: Backend) -> None:
    """A note with the link `copy_of` loses its payload together with the original; other notes keep theirs."""
    with backend.store().session("s") as session:
        node = session.append("secret").node
        copy = Draft(type="note", kind="x", payload={"text": "secret"}, links={"copy_of": node})
        session.append(copy, Draft(type="note", kind="y", payload={"text": "other"}))
        session.erase(node)
        (erased,), (other,) = session.notes("x"), session.notes("y")
        assert isinstance(erased.payload, treering.Erased)
        assert other.payload == {"text": "other"}
    assert not any(b"secret" in data for data in backend.snapshot().values())


@pytest.mark.parametrize("options", [{}, {"durability": "turn"}, {"first_write": "assistant"}])
def test_what_an_extension_records_is_about_the_message_before(options: Any) -> None:
    """Also if that message is not recorded yet."""
    store = memory_backend().store()
    session = store.session("s", **options)
    session.append("one")
    session.record_extension("e", {"at": "one"})
    session.append({"role": "assistant", "content": "yes"})
    session.flush()
    (note,) = session.extensions("e")
    assert note.target == session.path()[0]
    session.checkout(None)
    assert session.extensions("e") == ()
