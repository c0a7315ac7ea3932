"""Append and commit: what is durable when, and what a session leaves behind before its first record."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import pytest
from tests.session.backends import Backend, kill, memory_backend, texts
from tests.session.faults import recorded

import treering
from treering import ContextItem, NotFoundError, Schedule, UsageError
from treering.api.session import Session
from treering.api.store import Store
from treering.session.recording import Message
from treering.storage.requests import Get, List
from treering.transcript.node import Draft, user

REPLY = {"role": "assistant", "content": "reply"}


def test_what_append_returned_for_survives_a_kill(backend: Backend) -> None:
    """Every message whose append returned is there after a kill, in order, with its id."""
    session = backend.store().session("s")
    nodes = [session.append(f"m{number}").node for number in range(5)]
    kill(session)
    with backend.store().session("s", create=False) as again:
        assert again.path() == tuple(nodes)
        assert texts(again.context) == [f"m{number}" for number in range(5)]
        assert again.node == nodes[-1]


def test_messages_of_one_append_follow_each_other(store: Store) -> None:
    """Several messages in one append become a chain, and the last id is returned."""
    with store.session("s") as session:
        last = session.append("a", treering.assistant("b"), {"role": "tool", "content": "c"}).node
        assert session.path()[-1] == last
        assert [session.get(node).role for node in session.path()] == ["user", "assistant", "tool"]


def test_branches_in_the_first_append_have_heads_of_their_own(store: Store) -> None:
    """A draft with a parent of its own in the append that creates a session takes no head from the others."""
    with store.session("s") as session:
        drafts = [user("a", id="a"), user("b", id="b", parent="a"), user("c", id="c", parent="a")]
        done = session.append(*drafts, new_ids=True)
        assert dict(session.heads) == {"main": "b", done.head: "c"}


def test_commit_keeps_messages_and_state_together(backend: Backend) -> None:
    """A commit records nodes, state and checkpoint in one append; all of it is there after a kill."""
    session = backend.store().session("s")
    done = session.commit(["question", REPLY], state={"step": 3, "plan": ["a"]}, label="first", step=3)
    kill(session)
    with backend.store().session("s") as again:
        assert again.path() == done.nodes
        assert again.state == {"step": 3, "plan": ["a"]}
        assert again.checkpoint_id == done.checkpoint
        (entry,) = again.checkpoints()
        assert (entry.id, entry.label, entry.step, entry.node) == (done.checkpoint, "first", 3, done.nodes[-1])


def test_commit_is_one_append(backend: Backend) -> None:
    """A commit of messages and state is one request, also if it drops and sets keys."""
    store, counts = backend.counted()
    with store.session("s") as session:
        session.commit(["a"], state={"x": 1})
        counts.reset()
        session.commit(["b", REPLY], state={"y": 2}, drop=["x"])
        assert counts.total == 1
        assert session.state == {"y": 2}


@pytest.mark.parametrize("message", ["question", {"role": "user", "content": "question"}, user("question")])
def test_a_commit_takes_one_message_as_an_append_does(store: Store, message: Message) -> None:
    """Neither the characters of a text nor the names of fields are messages."""
    with store.session("s") as session:
        session.commit(message, state={"n": 1})
        assert [item.message for item in session.context] == [{"role": "user", "content": "question"}]
        assert session.state == {"n": 1}


def test_keys_to_drop_are_a_list(store: Store) -> None:
    """The characters of a text could be keys, too; nothing is recorded."""
    with store.session("s") as session:
        session.commit(state={"a": 1, "b": 2, "ab": 3})
        with pytest.raises(UsageError, match=r"pass \['ab'\]") as caught:
            session.commit(["never"], drop="ab")
        assert caught.value.kind == "state_key"
        assert (session.state, session.context) == ({"a": 1, "b": 2, "ab": 3}, ())
        session.commit(drop=["ab"])
        assert session.state == {"a": 1, "b": 2}


def test_a_commit_ends_a_turn_that_was_appended(backend: Backend) -> None:
    """A commit without messages makes the checkpoint of those appended before, once."""
    with backend.store().session("s") as session:
        session.append("a")
        node = session.append(REPLY).node
        made = session.commit().checkpoint
        assert made is not None
        assert session.commit().checkpoint is None
        assert [(entry.id, entry.node) for entry in session.checkpoints()] == [(made, node)]


def test_a_commit_changes_only_the_keys_it_names(backend: Backend) -> None:
    """Keys of the state that a commit does not name keep their values; dropped ones are gone, also after a resume."""
    with backend.store().session("s") as session:
        session.commit(state={"a": 1, "b": 2, "c": 3})
        session.commit(["x"], state={"b": 20}, drop=["c", "never"])
        assert session.state == {"a": 1, "b": 20}
    assert backend.store().view("s").state == {"a": 1, "b": 20}


def test_state_handed_out_is_a_copy(store: Store) -> None:
    """Changing the returned state changes nothing; only a commit does."""
    with store.session("s") as session:
        session.commit(state={"list": [1]})
        session.state["list"].append(2)
        assert session.state == {"list": [1]}


def test_settings_and_facts_handed_out_are_copies(backend: Backend) -> None:
    """Changing what a session or a view tells reaches neither the session nor what it stores later."""
    expected = ({"thinking": {"tags": ["a"]}}, {"k": [1]})
    with backend.store().session("s", extra={"k": [1]}) as session:
        first = session.append("q").node
        session.set_thinking({"tags": ["a"]})
        made = session.commit(["x"], label="l").checkpoint or ""
        for handle in (session, backend.store().view("s")):
            handle.settings["thinking"]["tags"].append("b")
            handle.checkpoint(made).settings["thinking"]["tags"].append("b")
            handle.diff(first).settings.added["thinking"]["tags"].append("b")
            cast("list[int]", handle.info.extra["k"]).append(2)
            assert (handle.settings, handle.info.extra) == expected
        session.commit(["y"], label="m")
    view = backend.store().view("s")
    assert (view.settings, view.info.extra) == expected
    assert view.checkpoint(made).settings == expected[0]


def test_facts_of_a_card_are_those_that_were_given(backend: Backend) -> None:
    """The caller may change its objects after it opened the session, also before the first record."""
    extra: dict[str, list[int]] = {"k": [1]}
    with backend.store().session("s", extra=extra) as session:
        extra["k"].append(2)
        session.append("x")
        extra["k"].append(3)
        session.set_title("T")
        assert session.info.extra == {"k": [1]}
    assert backend.store().view("s").info.extra == {"k": [1]}


def test_what_a_session_tells_cannot_be_changed_in_place(store: Store) -> None:
    """An assignment that would be lost is an error."""
    with store.session("s") as session:
        made = session.commit(["x"], state={"n": 1}, label="l").checkpoint or ""
        told = (session.state, session.heads, session.settings, session.usage, session.last_usage, session.erased_state)
        whole = session.checkpoint(made)
        for mapping in (*told, session.labels(), whole.state, whole.settings, whole.erased_state):
            with pytest.raises(TypeError):
                mapping["n"] = None  # type: ignore[index]
        assert session.state == {"n": 1}


def test_manager_state_is_replaced_and_cleared(backend: Backend) -> None:
    """The conversation manager's state survives until replaced; None clears it."""
    with backend.store().session("s") as session:
        session.commit(["a"], manager={"window": 3})
        session.commit(["b"])
        assert session.manager == {"window": 3}
    with backend.store().session("s") as session:
        assert session.manager == {"window": 3}
        session.commit(["c"], manager=None)
        assert not session.manager
    assert backend.store().view("s").manager is None


def test_an_append_of_nothing_is_refused(store: Store) -> None:
    """An append without messages is a mistake, not a record."""
    with store.session("s") as session, pytest.raises(UsageError):
        session.append()


def test_an_empty_commit_records_nothing(backend: Backend) -> None:
    """A commit that says nothing makes neither node nor checkpoint, nor a session."""
    with backend.store().session("s") as session:
        assert session.commit() == treering.Appended(nodes=(), head="main")
    assert backend.snapshot() == {}


def test_what_cannot_be_stored_is_refused_and_nothing_is_recorded(store: Store) -> None:
    """A value that would not come back as it is is refused with its path, and the whole append with it."""
    with store.session("s") as session:
        session.append("first")
        with pytest.raises(UsageError, match=r"\$\['deep'\]\[1\]|\$\.deep\[1\]") as caught:
            session.append("ok", {"role": "user", "deep": [1, object()]})
        assert caught.value.kind == "value"
        with pytest.raises(UsageError, match="state\\['tool'\\]"):
            session.commit(["never"], state={"tool": print})
        with pytest.raises(UsageError):
            session.append(42)  # type: ignore[arg-type]
        assert texts(session.context) == ["first"]
        session.append("second")
        assert texts(session.context) == ["first", "second"]


def test_ids_chosen_by_the_caller_are_kept_and_unique(store: Store) -> None:
    """A draft may bring its own id; another message under the same id is refused."""
    with store.session("s") as session:
        assert session.append(treering.Draft(role="user", payload={"content": "a"}, id="mine")).node == "mine"
        with pytest.raises(UsageError, match="mine") as caught:
            session.append(treering.Draft(role="user", payload={"content": "b"}, id="mine"))
        assert caught.value.kind == "duplicate_id"
        with pytest.raises(UsageError):
            session.append(*[treering.Draft(role="user", payload={}, id="twice")] * 2)
        assert session.path() == ("mine",)


@pytest.mark.parametrize("seals", [0, 1])
def test_a_node_does_not_get_the_id_of_a_checkpoint(backend: Backend, seals: int) -> None:
    """Labels and edits name their targets by their ids; the checkpoint is still found."""
    with backend.store().session("s") as session:
        checkpoint = session.commit("a", state={"k": 1}).checkpoint or ""
        session.label(checkpoint, "good")
        for _ in range(seals):
            session.seal()
        with pytest.raises(UsageError, match="that of a checkpoint") as caught:
            session.append(user("b", id=checkpoint))
        assert caught.value.kind == "duplicate_id"
        assert session.checkpoint(checkpoint).info.label == "good"


def test_the_same_message_again_is_recorded_once(backend: Backend) -> None:
    """A draft with an id can be sent again after a call that had no answer: it is there once."""
    draft = treering.Draft(role="user", payload={"content": "a"}, id="mine")
    session = backend.store().session("s")
    session.append("before")
    assert session.append(draft).node == "mine"
    kill(session)
    with backend.store().session("s") as session:
        assert session.append(draft).node == "mine"
        node = session.append("after").node
        assert texts(session.context) == ["before", "a", "after"]
        assert session.append(draft, "more").node == session.node
        assert session.get(session.node or "").parent == node


def test_a_parent_must_exist(store: Store) -> None:
    """A draft with an unknown parent is refused before anything is written, also in a session not yet there."""
    orphan = treering.Draft(role="user", payload={"content": "x"}, parent="nobody")
    with store.session("new") as session, pytest.raises(treering.NotFoundError, match="nobody"):
        session.append(orphan)
    with store.session("s") as session:
        session.append("a")
        with pytest.raises(treering.NotFoundError, match="nobody"):
            session.append(orphan)
        assert len(session.nodes()) == 1


NAMING: dict[str, Callable[[Session, str], object]] = {
    "parent": lambda session, name: session.append(user("x", parent=name)),
    "kept": lambda session, name: session.compact("summary", kept=name),
    "amend": lambda session, name: session.amend(name, "x"),
    "retract": lambda session, name: session.retract(name),
}


@pytest.mark.parametrize("durability", ["sync", "turn"])
@pytest.mark.parametrize("seals", [False, True])
@pytest.mark.parametrize("verb", NAMING)
def test_a_checkpoint_is_no_node(
    backend: Backend, verb: str, durability: Literal["sync", "turn"], *, seals: bool
) -> None:
    """Where a node is named, the id of a checkpoint is that of no node; a note may be about either."""
    with backend.store().session("s", durability=durability) as session:
        session.append("a")
        name = session.commit([REPLY], state={"n": 1}).checkpoint or ""
        if seals:
            session.seal()
    with backend.store().session("s", durability=durability) as session:
        with pytest.raises(NotFoundError, match=name):
            NAMING[verb](session, name)
        session.label(name, "here")
        session.note("reviewed", target=name)
        assert texts(session.context) == ["a", "reply"]
    view = backend.store().view("s")
    assert (len(view.nodes()), [note.target for note in view.notes("reviewed")]) == (2, [name])
    assert backend.store().verify("s") == []


def test_a_draft_with_a_parent_of_its_own_starts_a_side_branch(store: Store) -> None:
    """A draft below an earlier node gets a head of its own and does not move the session."""
    with store.session("s") as session:
        first = session.append("a").node
        second = session.append("b").node
        aside = session.append(treering.Draft(role="user", payload={"content": "aside"}, parent=first)).node
        assert session.node == second
        assert session.children(first) == (second, aside)
        assert session.heads == {"main": second, "main-2": aside}
        assert texts(session.context) == ["a", "b"]


# before the first record


def test_a_session_without_a_record_leaves_nothing_behind(backend: Backend, tmp_path: Path) -> None:
    """Opening, looking and closing a session that never got a record writes nothing at all."""
    store = backend.store()
    with store.session("s", title="T", cwd="."):
        pass
    session = store.session("other")
    assert session.context == ()
    assert session.state == {}
    assert session.node is None
    session.flush()
    session.close()
    assert store.sessions().rows == ()
    assert store.recent() is None
    assert backend.snapshot() == {}
    assert not (tmp_path / "store").exists()


def test_a_refused_first_record_leaves_nothing_behind(backend: Backend) -> None:
    """If the first thing to be recorded cannot be, there is no session."""
    large = {"parts": ["some text " * 20_000] * 100}
    calls: tuple[Callable[[treering.Session], object], ...] = (
        lambda session: session.note("x", {"brief": "x" * 1000}),
        lambda session: session.append(large),
        lambda session: session.commit(state={"large": large}),
        lambda session: session.commit(metadata={"m": "x" * 1000}),
        lambda session: session.append(object()),  # type: ignore[arg-type]
    )
    for refused in calls:
        with backend.store().session("s") as session, pytest.raises(UsageError):
            refused(session)
        assert backend.snapshot() == {}


def test_a_session_that_must_exist_is_not_made(backend: Backend) -> None:
    """With create=False, and for a view, a missing session is an error that writes nothing."""
    store = backend.store()
    with pytest.raises(treering.NotFoundError, match="nothere"):
        store.session("nothere", create=False)
    with pytest.raises(treering.NotFoundError, match="nothere"):
        store.view("nothere")
    with pytest.raises(treering.NotFoundError, match="nothere"):
        store.delete("nothere")
    assert backend.snapshot() == {}


def test_a_made_up_name_can_be_resumed(backend: Backend) -> None:
    """A session without a name gets one of its own, by which it is found again."""
    with backend.store().session() as session:
        session.append("a")
    with backend.store().session(session.id, create=False) as again:
        assert texts(again.context) == ["a"]


def test_first_write_waits_for_the_assistant(backend: Backend) -> None:
    """With first_write='assistant' nothing is stored before the first answer; then everything is, in order."""
    session = backend.store().session("s", first_write="assistant")
    session.append("question")
    session.set_title("T")
    assert backend.snapshot() == {}
    assert texts(session.context) == ["question"]
    session.append(REPLY)
    session.append("thanks")
    kill(session)
    view = backend.store().view("s")
    assert texts(view.context) == ["question", "reply", "thanks"]
    assert view.info.title == "T"


def test_first_write_leaves_nothing_if_no_assistant_ever_answers(backend: Backend) -> None:
    """A session whose model never answered leaves nothing behind, not even when it is closed."""
    with backend.store().session("s", first_write="assistant") as session:
        session.append("question")
    assert backend.snapshot() == {}


def test_first_write_leaves_nothing_of_a_session_that_was_rewound(backend: Backend) -> None:
    """Going back to the beginning before any answer writes nothing, and neither does a rewind to no checkpoint."""
    with backend.store().session("s", first_write="assistant") as session:
        session.checkout(None)
        session.append("question")
        session.checkout(None)
        assert texts(session.context) == []
        with pytest.raises(NotFoundError):
            session.rewind("gone")
        session.append("another")
        assert texts(session.context) == ["another"]
    assert backend.snapshot() == {}


def test_first_write_keeps_what_was_said_before_a_rewind_as_a_branch(backend: Backend) -> None:
    """Once there is an answer, the first question is another branch, and the answer belongs to the second one."""
    session = backend.store().session("s", first_write="assistant")
    first = session.append("question").node
    session.label(first, "mine")
    session.checkout(None)
    second = session.append("another").node
    session.append(REPLY)
    assert texts(session.context) == ["another", "reply"]
    kill(session)
    view = backend.store().view("s")
    assert texts(view.context) == ["another", "reply"]
    assert (view.get(first).parent, view.get(second).parent, view.get(first).label) == (None, None, "mine")
    assert view.heads == {"main": view.node}


def test_first_write_keeps_the_state_of_turns_without_an_answer(backend: Backend) -> None:
    """A commit before the first answer is shown at once, and is a checkpoint as soon as anything is written."""
    with pytest.raises(UsageError), backend.store().session("s", first_write="assistant") as session:
        session.commit(["question"], state={"a": object()})
    session = backend.store().session("s", first_write="assistant")
    session.commit(["question"], state={"a": 1, "b": 1}, manager={"m": 1}, label="asked")
    session.commit(state={"a": 2}, drop=["b"])
    assert (session.state, session.manager) == ({"a": 2}, {"m": 1})
    assert backend.snapshot() == {}
    session.append(REPLY)
    kill(session)
    with backend.store().session("s") as session:
        assert (session.state, session.manager) == ({"a": 2}, {"m": 1})
        assert [each.label for each in session.checkpoints()][:1] == ["asked"]
        session.rewind(session.checkpoints()[0].id)
        assert (session.state, texts(session.context)) == ({"a": 1, "b": 1}, ["question"])


@pytest.mark.parametrize("keep_state", [False, True])
def test_first_write_begins_again_with_the_state_that_was_asked_for(backend: Backend, *, keep_state: bool) -> None:
    """As after any other checkout: that of the beginning, or the current one."""
    session = backend.store().session("s", first_write="assistant")
    session.commit(["question"], state={"a": 1})
    session.checkout(None, keep_state=keep_state)
    expected = {"a": 1} if keep_state else {}
    assert session.state == expected
    session.append(REPLY)
    assert (session.state, texts(session.context)) == (expected, ["reply"])
    kill(session)
    assert (backend.store().view("s").state, texts(backend.store().view("s").context)) == (expected, ["reply"])


def test_first_write_can_be_forced(backend: Backend) -> None:
    """A flush records what waits for the assistant."""
    with backend.store().session("s", first_write="assistant") as session:
        session.append("question")
        session.flush()
    assert texts(backend.store().view("s").context) == ["question"]


@pytest.mark.parametrize("edit", ["amend", "retract", "compact"])
def test_first_write_shows_an_edit_at_once(backend: Backend, edit: str) -> None:
    """The model must not see what its user took back, so an edit before the first answer is recorded, with the rest."""
    session = backend.store().session("s", first_write="assistant")
    first, second = session.append("secret").node, session.append("question").node
    calls: dict[str, Callable[[], object]] = {
        "amend": lambda: session.amend(first, {"role": "user", "content": "harmless"}),
        "retract": lambda: session.retract(first),
        "compact": lambda: session.compact("gist", kept=second),
    }
    calls[edit]()
    assert "secret" not in str(session.context)
    assert texts(session.context)[-1] == "question"
    assert backend.store().view("s").context == session.context


@pytest.mark.parametrize("options", [{"durability": "turn"}, {"first_write": "assistant"}])
def test_settings_that_wait_are_shown(backend: Backend, options: dict[str, Any]) -> None:
    """As the context does, the settings count what is buffered; going back to the beginning takes them back."""
    session = backend.store().session("s", **options)
    session.append("question")
    session.set_model("m", provider="p")
    session.set_thinking("high")
    session.set_model("small", role="fast")
    session.set_thinking(None)
    expected = {"model": "m", "provider": "p", "models": {"fast": "small"}}
    assert backend.snapshot() == {}
    assert session.settings == expected
    session.flush()
    assert session.settings == expected == backend.store().view("s").settings
    session.set_mode("plan")
    assert session.settings == expected | {"mode": "plan"}
    session.checkout(None)
    assert session.settings == {}


TWINS: list[tuple[object, object]] = [
    (True, 1),
    (0, False),
    (1, 1.0),
    (0.0, -0.0),
    ({"budget": 1}, {"budget": True}),
    ([0], [False]),
]
"""Values that Python takes for equal, and that are stored differently."""


@pytest.mark.parametrize(("old", "new"), TWINS)
def test_settings_that_python_takes_for_equal_are_told_apart(backend: Backend, old: object, new: object) -> None:
    """A resume, a commit and a rewind show the setting that was recorded last, or that of the checkpoint."""
    with backend.store().session("s") as session:
        session.set_thinking(old)
        made = session.commit(["a"], state={"n": 1}).checkpoint or ""
        session.set_thinking(new)
    with backend.store().session("s") as session:
        assert repr(session.settings["thinking"]) == repr(new)
        session.commit(state={"n": 2})
        session.rewind(made)
        assert repr(session.settings["thinking"]) == repr(old)
    assert repr(backend.store().view("s").settings["thinking"]) == repr(old)


@pytest.mark.parametrize(("old", "new"), TWINS)
def test_an_edit_that_python_takes_for_equal_counts(backend: Backend, old: object, new: object) -> None:
    """What the model sees is stored as the caller gave it."""
    with backend.store().session("s") as session:
        node = session.append({"role": "tool", "content": "", "value": old}).node
        session.commit(context=[ContextItem(node=node, message={"role": "tool", "content": "", "value": new})])
    assert repr(backend.store().view("s").recorded_context[0].message["value"]) == repr(new)


def test_a_message_of_this_commit_may_be_shown_edited(backend: Backend) -> None:
    """A context that names it by an item shows the item's message; the node keeps its own."""
    with backend.store().session("s") as session:
        first = session.append("a").node
        shown = ContextItem(node="w", message={"role": "user", "content": "short"})
        session.commit([user("as long as it was", id="w"), "c"], context=[shown, first])
        assert texts(session.context) == ["short", "a", "c"]
    view = backend.store().view("s")
    assert texts(view.context) == ["short", "a", "c"]
    assert view.get("w").payload["content"] == "as long as it was"


def test_durability_turn_is_one_append_per_commit(backend: Backend) -> None:
    """With durability='turn' messages wait in memory until the commit, which records them in one request."""
    store, counts = backend.counted()
    session = store.session("s", durability="turn")
    session.append("a")
    session.append("b")
    assert backend.snapshot() == {}
    assert texts(session.context) == ["a", "b"]
    session.commit([REPLY], state={"n": 1})
    counts.reset()
    session.append("c")
    session.append("d")
    session.commit(["e"])
    assert counts.total == 1
    session.append("lost")
    kill(session)
    view = backend.store().view("s")
    assert texts(view.context) == ["a", "b", "reply", "c", "d", "e"]
    assert view.state == {"n": 1}


def test_durability_turn_flushes_on_flush_and_close(backend: Backend) -> None:
    """What waits is recorded by a flush, and by closing."""
    session = backend.store().session("s", durability="turn")
    session.append("a")
    session.flush()
    assert texts(backend.store().view("s").context) == ["a"]
    session.append("b")
    session.close()
    assert texts(backend.store().view("s").context) == ["a", "b"]


def test_what_waits_is_recorded_as_it_was_given(backend: Backend) -> None:
    """The caller may change its objects after an append, and the messages that it sees: neither is recorded."""
    message: Any = {"role": "user", "content": [{"type": "text", "text": "said"}, ("a", {"b"}, ["c"])]}
    brief: dict[str, object] = {"tags": ["t"]}
    expected = copy.deepcopy(message)
    session = backend.store().session("s", durability="turn")
    node = session.append(treering.Draft(role="user", payload=message, brief=brief)).node
    session.append(message)
    message["content"][0]["text"] = "changed"
    message["content"][1][1].add("d")
    message["content"].append(object())
    cast("list[str]", brief["tags"]).append("u")
    session.context[0].message["content"][1][2].append("seen")
    assert [item.message for item in session.context] == [expected] * 2
    session.commit([REPLY])
    kill(session)
    view = backend.store().view("s")
    assert [item.message for item in view.context] == [expected, expected, REPLY]
    assert view.get(node).brief == {"tags": ["t"]}


def test_a_commit_that_waits_is_recorded_as_it_was_given(backend: Backend) -> None:
    """The caller may change its state after a commit that waits for the first answer."""
    state, manager, metadata = {"cart": [1]}, {"window": [2]}, {"why": ["because"]}
    expected = copy.deepcopy((state, manager, metadata))
    session = backend.store().session("s", first_write="assistant")
    with pytest.raises(UsageError, match=r"\$\.metadata\.why"):
        session.commit(["refused"], metadata={"why": object()})
    session.commit(["question"], state=state, manager=manager, metadata=metadata)
    for given in (state["cart"], manager["window"], metadata["why"]):
        cast("list[object]", given).append(object())
    session.append(REPLY)
    kill(session)
    view = backend.store().view("s")
    assert (view.state, view.manager, view.checkpoints()[0].metadata) == expected
    assert texts(view.context) == ["question", "reply"]


def test_a_named_head_is_not_put_off(backend: Backend) -> None:
    """With durability='turn' a message for another head is recorded there at once, behind what was put off here."""
    session = backend.store().session("s", durability="turn")
    session.commit(["a"])
    session.branch("other")
    session.switch("main")
    session.append("put off")
    session.append("for the other", head="other")
    view = backend.store().view("s")
    assert (view.head, texts(view.context)) == ("main", ["a", "put off"])
    assert texts(view.context_at(view.heads["other"] or "")) == ["a", "for the other"]
    session.close()


def test_an_expectation_is_not_put_off(backend: Backend) -> None:
    """With durability='turn' a wrong belief about the head is refused at once, and what was put off is recorded."""
    session = backend.store().session("s", durability="turn")
    session.commit(["a"])
    session.append("put off")
    with pytest.raises(treering.HeadMovedError):
        session.append("refused", expect="somewhere else")
    session.close()
    assert texts(backend.store().view("s").context) == ["a", "put off"]


def test_what_was_put_off_is_where_it_is_expected(backend: Backend) -> None:
    """Who expects the node that `session.node` says, or the one that `context` ends with, is right with both."""
    session = backend.store().session("s", durability="turn")
    session.append("a")
    session.append("b", expect=session.node)  # before the first node
    session.append("c")
    session.append("d", expect=session.node)
    session.append("e")
    session.commit(["f"], state={"n": 1}, expect=session.context[-1].node)
    session.append("g")
    session.commit(["h"], state={"n": 2}, expect=session.node, expect_checkpoint=session.checkpoint_id)
    assert session.head == "main"
    assert texts(session.context) == ["a", "b", "c", "d", "e", "f", "g", "h"]
    session.close()


def test_a_commit_that_was_put_off_is_the_checkpoint_that_is_expected(backend: Backend) -> None:
    """With first_write='assistant' there is none yet when the caller looks."""
    session = backend.store().session("s", first_write="assistant")
    session.commit(["a"], state={"n": 1})
    assert session.checkpoint_id is None
    session.commit([REPLY], state={"n": 2}, expect_checkpoint=session.checkpoint_id)
    assert (session.state, texts(session.context)) == ({"n": 2}, ["a", "reply"])
    session.close()


@pytest.mark.parametrize("moves", ["message", "state"])
def test_an_expectation_behind_what_was_put_off_is_about_other_writers(moves: str) -> None:
    """What another writer did since the caller looked is refused as ever; what was put off is recorded."""
    store = memory_backend().store()
    session, other = (store.session("s", shared=True, durability="turn") for _ in range(2))
    session.commit(["a"], state={"n": 0})
    node, checkpoint = session.node, session.checkpoint_id
    other.refresh()
    session.append("put off")
    if moves == "message":
        other.commit(["other"])
        with pytest.raises(treering.HeadMovedError):
            session.append("refused", expect=node)
    else:
        other.commit(state={"n": 1})
        with pytest.raises(treering.HeadMovedError):
            session.commit(["refused"], state={"n": 2}, expect=node, expect_checkpoint=checkpoint)
    assert texts(session.context) == ["a", "put off"]
    assert "refused" not in recorded(store.view("s"))


def test_unknown_options_are_refused(store: Store) -> None:
    """An option that does not exist, or has no such value, is refused before anything is read."""
    for options in ({"durabilty": "turn"}, {"durability": "sometimes"}, {"first_write": "never"}, {"policy": "x@9"}):
        with pytest.raises(UsageError):
            store.session("s", **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        store.session("")


# schedules


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule(), 0),
        (Schedule(every_turn=True), 3),
        (Schedule(every_nodes=4), 2),
        (Schedule(every_seconds=3600), 1),  # the first is long ago
    ],
)
def test_automatic_checkpoints_follow_the_schedule(store: Store, schedule: Schedule, expected: int) -> None:
    """Three turns of an append and a commit of two messages make as many checkpoints as the schedule says."""
    with store.session("s", checkpoints=schedule) as session:
        for turn in range(3):
            session.append(f"q{turn}")
            session.commit([{"role": "tool", "content": "t"}, REPLY])
        assert len(session.checkpoints()) == expected


def test_explicit_checkpoints_come_besides_the_schedule(store: Store) -> None:
    """A label, a step, state or metadata makes a checkpoint whatever the schedule says."""
    with store.session("s", checkpoints=Schedule()) as session:
        assert session.commit(["a"]).checkpoint is None
        assert session.commit(["b"], label="x").checkpoint
        assert session.commit([], step=4).checkpoint
        assert session.commit([], state={"k": 1}).checkpoint
        assert session.commit([], metadata={"why": "because"}).checkpoint
        assert [(entry.label, entry.step, entry.metadata) for entry in session.checkpoints()] == [
            ("x", None, {}),
            (None, 4, {}),
            (None, None, {}),
            (None, None, {"why": "because"}),
        ]


def test_nodes_since_the_last_checkpoint_count_across_a_kill(backend: Backend) -> None:
    """The schedule by nodes goes on counting in the next process."""
    session = backend.store().session("s", checkpoints=Schedule(every_nodes=3))
    session.append("a")
    session.append("b")
    kill(session)
    with backend.store().session("s", checkpoints=Schedule(every_nodes=3)) as again:
        again.append("c")
        assert len(again.checkpoints()) == 1


# the card


def test_the_card_tells_what_lists_show(backend: Backend) -> None:
    """Title, folder, counts, first prompt, model and head are on the card of a closed session."""
    with backend.store().session("s", title="T", project="p", cwd="/some/where", extra={"k": [1]}) as session:
        session.append("first\nprompt")
        session.set_model("m-1", provider="acme")
        session.commit([REPLY], state={"a": 1})
    (row,) = backend.store().sessions().rows
    assert (row.id, row.title, row.project, row.cwd, row.extra) == ("s", "T", "p", "/some/where", {"k": [1]})
    assert (row.nodes, row.messages, row.checkpoints, row.first_prompt) == (3, 2, 1, "first prompt")
    assert (row.model, row.provider, row.head, row.node) == ("m-1", "acme", "main", session.node)
    assert row.updated_ms >= row.created_ms > 0


def test_the_first_prompt_is_cut_at_a_character() -> None:
    """A long first prompt is cut to 200 bytes between characters."""
    store = treering.open("memory://first-prompt")
    with store.session("s") as session:
        session.append("€" * 300)
    prompt = store.sessions().rows[0].first_prompt
    assert set(prompt) == {"€"}
    assert 190 < len(prompt.encode()) <= 200


def test_ids_of_a_clock_far_ahead_stay_in_their_session(store: Store) -> None:
    """Later ids of that session are greater still; the time of other sessions is that of this machine."""
    ahead = "0fffffffffff" + "7" + "000" + "8" + "0" * 15  # in the year 2527
    with store.session("ahead") as session:
        session.append(msgspec.structs.replace(treering.user("hello"), id=ahead))
    with store.session("ahead") as session, store.session("other") as other:
        assert session.append("later").node > ahead
        assert session.commit(["and later"]).nodes[0] > ahead
        assert other.append("hello").node < ahead
    assert store.view("other").info.updated_ms < int(ahead[:12], 16)


def test_new_ids_are_not_looked_up(backend: Backend) -> None:
    """Ids that the caller knows to be new cost no read; a message that comes again is still recorded once."""
    with backend.store().session("s") as session:
        session.append("a")
    store, counts = backend.counted()
    with store.session("s") as session:
        counts.reset()
        first = treering.user("b", id="b")
        session.append(first, new_ids=True)
        session.commit([treering.user("c", id="c")], new_ids=True)
        assert counts.total == 3  # one of them lists the segments, before the first write
        assert session.append(first, new_ids=True).node == "b"
        assert texts(session.context) == ["a", "b", "c"]


def test_a_message_is_seen_where_the_context_of_its_commit_names_it(backend: Backend) -> None:
    """One append records a message and a context in which it stands in front; two reads resume that."""
    with backend.store().session("s") as session:
        old = [session.append(f"m{number}").node for number in range(4)]
    store, counts = backend.counted()
    session = store.session("s")
    counts.reset()
    gist, edit = (
        treering.user("gist", id="gist"),
        ContextItem(node=old[3], message={"role": "user", "content": "edited"}),
    )
    session.commit([gist, treering.user("next", id="n")], context=["gist", old[2], edit], new_ids=True)
    assert counts.total == 2  # one of them lists the segments, before the first write
    assert texts(session.context) == ["gist", "m2", "edited", "next"]
    kill(session)
    counts.reset()
    with store.session("s") as again:
        assert counts.total == 2
        assert texts(again.context) == ["gist", "m2", "edited", "next"]
        assert again.path()[-2:] == ("gist", "n")


def test_a_context_cannot_show_what_the_policy_hides(store: Store) -> None:
    """A message of the commit that is kept out of the context cannot be named in it; nothing is recorded."""
    hidden = treering.Draft(role="user", id="h", payload={"role": "user", "content": "x"}, brief={"context": False})
    with store.session("s") as session:
        session.append("a")
        with pytest.raises(UsageError, match="policy"):
            session.commit([hidden], context=["h"])
        assert len(session.path()) == 1


def test_nothing_is_written_where_nothing_is_asked() -> None:
    """An end of a turn that said nothing, and a message again that is there already."""
    store, counting = memory_backend(appends=True).counted()
    with store.session("s") as session:
        session.commit([user("one", id="one")])
    session = store.session("s")
    counting.reset()
    session.commit()
    session.append(user("one", id="one"))
    assert not [request for request in counting.requests if not isinstance(request, (Get, List))]


@pytest.mark.parametrize("durability", ["sync", "turn"])
def test_a_buffered_message_elsewhere_is_not_where_the_session_stands(
    backend: Backend, durability: Literal["sync", "turn"]
) -> None:
    """The context and what is recorded about the current node are the same, whether or not it was recorded yet."""
    session = backend.store().session("s", durability=durability)
    session.commit(["question", treering.assistant("answer")])
    session.append("next")
    session.append(Draft(role="user", payload={"role": "user", "content": "another"}, parent=session.path()[0]))
    assert texts(session.context) == ["question", "answer", "next"]
    session.record_system("prompt")
    session.record_extension("e", 1)
    session.commit([treering.assistant("done")])
    said = {node.id: node.payload["content"] for node in session.each_node()}
    assert [said[note.target or ""] for note in session.notes()] == ["next", "next"]
    assert texts(session.context) == ["question", "answer", "next", "done"]


@pytest.mark.parametrize("first_write", ["record", "assistant"])
def test_whoever_is_at_the_beginning_keeps_the_state_there(
    backend: Backend, first_write: Literal["record", "assistant"]
) -> None:
    """Going to the beginning again changes nothing, whether or not something is stored yet."""
    session = backend.store().session("s", first_write=first_write)
    session.commit(["hi"], state={"b": 1})
    session.checkout(None, keep_state=True)
    session.checkout(None)
    assert session.state == {"b": 1}
    session.append(treering.assistant("yes"))
    assert (session.state, texts(session.context)) == ({"b": 1}, ["yes"])
