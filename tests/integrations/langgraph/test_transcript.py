"""Threads are sessions: pages, branches, search and erasure work on what graphs said."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from tests.integrations.langgraph.graphs import chat, config, say
from tests.session.at_rest import holding
from tests.session.backends import Backend

from treering import NotFoundError
from treering.integrations.langgraph import TreeringSaver


def test_messages_are_nodes_recorded_once(backend: Backend) -> None:
    """A thread of five turns has ten nodes, however many checkpoints hold them, in whichever process."""
    for number in range(5):
        say(chat(TreeringSaver(backend.store())), f"turn {number}")
    view = backend.store().view("t")
    rows = view.history(limit=3).rows
    assert [(row.node.role, row.node.payload["content"]) for row in rows] == [
        ("assistant", "you said: turn 4"), ("user", "turn 4"), ("assistant", "you said: turn 3"),
    ]  # fmt: skip
    assert len(view.nodes()) == 10
    assert view.info.first_prompt == "turn 0"
    assert len(view.checkpoints()) >= 15


def test_calls_of_tools_are_understood(backend: Backend) -> None:
    """Messages with calls, results and instructions come back equal, and count as calls and results here."""
    given = [
        SystemMessage("be kind"),
        HumanMessage([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}], name="me"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"at": 1}, "id": "call-1"}], response_metadata={"a": [1.5]}),
        ToolMessage("seen", tool_call_id="call-1", artifact={"raw": None}),
        AIMessage("a cat", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ]
    with TreeringSaver(backend.store()) as saver:
        graph = chat(saver)
        graph.update_state(config(), {"messages": given}, as_node="model")
        kept = graph.get_state(config()).values["messages"]
    assert kept == given
    view = backend.store().view("t")
    assert [item.message["role"] for item in view.context] == ["system", "user", "assistant", "tool", "assistant"]


def test_a_fork_is_a_branch(backend: Backend) -> None:
    """Going on from an old checkpoint is a branch beside what was said after it; both can be shown and continued."""
    graph = chat(TreeringSaver(backend.store()))
    say(graph, "one")
    say(graph, "two")
    past = next(s for s in graph.get_state_history(config()) if s.next == () and len(s.values["messages"]) == 2)
    changed = graph.update_state(past.config, {"messages": [HumanMessage("other")]}, as_node="__start__")
    assert [m.content for m in graph.invoke(None, changed)["messages"]] == [
        "one", "you said: one", "other", "you said: other",
    ]  # fmt: skip
    view = backend.store().view("t")
    row = view.history(limit=2).rows[1]
    assert (row.node.payload["content"], row.sibling, row.siblings) == ("other", 1, 2)
    assert view.get(view.newest_leaf(row.sibling_ids[0])).payload["content"] == "you said: two"
    assert len(view.nodes()) == 6
    again = chat(TreeringSaver(backend.store()))
    assert len(say(again, "on")) == 6
    old = again.get_state(past.config)
    assert [message.content for message in old.values["messages"]] == ["one", "you said: one"]


def test_what_is_erased_is_gone_from_every_checkpoint(backend: Backend) -> None:
    """A graph goes on with stubs in the place of erased messages, and so does each of its old checkpoints."""
    with TreeringSaver(backend.store()) as saver:
        say(chat(saver), "the password is swordfish")
        say(chat(saver), "hello")
    with backend.store().session("t", shared=True) as session:
        first, answer, *_ = session.path()
        session.erase(first, answer)
    graph = chat(TreeringSaver(backend.store()))
    assert not any("swordfish" in text for text in say(graph, "on"))
    for state in graph.get_state_history(config()):
        assert "swordfish" not in str(state.values)


SECRET = "the password is swordfish"


def told(backend: Backend, text: str = SECRET) -> TreeringSaver:
    """A saver whose thread was told something, and then something else."""
    saver = TreeringSaver(backend.store())
    for each in (text, "hello"):
        chat(saver).invoke({"messages": [each]}, config(), durability="sync")  # LangGraph makes the message
    return saver


@pytest.mark.parametrize("by", ["message", "node", "erased node"])
def test_copies_of_a_message_are_erased_with_it(backend: Backend, by: str) -> None:
    """No object holds the input of the turn or the pending writes any more, and the thread and its history go on."""
    saver = told(backend)
    first, answer, *others = chat(saver).get_state(config()).values["messages"]
    names: list[str] = [first.id, answer.id]
    if by != "message":
        names = list(backend.store().view("t").path()[:2])
    if by == "erased node":
        with backend.store().session("t", shared=True) as session:
            session.erase(*names)
    receipt = saver.erase("t", *names, reason="asked by the user")
    assert (len(receipt.ids), receipt.warnings) == (2, ())
    saver.close()
    assert holding(backend.snapshot(), SECRET) == []
    assert backend.store().verify("t") == []
    graph = chat(TreeringSaver(backend.store()))
    assert graph.get_state(config()).values["messages"][2:] == others
    assert len(list(graph.get_state_history(config()))) == 6
    assert say(graph, "on")[4:] == ["on", "you said: on"]


def test_only_copies_of_the_message_are_erased(backend: Backend) -> None:
    """Pending writes of other turns stay, and so does one that is recorded again once its task has run again."""
    saver = told(backend)
    saver.put_writes(chat(saver).get_state(config()).config, [("messages", AIMessage(SECRET))], "task")
    writes = [each.pending_writes or [] for each in saver.list(config())]
    saver.erase("t", *[message.id for message in chat(saver).get_state(config()).values["messages"][:2]])
    left = [each.pending_writes or [] for each in TreeringSaver(backend.store()).list(config())]
    assert left == [[write for write in each if SECRET not in repr(write)] for each in writes]
    assert 0 < sum(map(len, left)) < sum(map(len, writes))
    again = [("messages", AIMessage("no secret"))]
    saver.put_writes(chat(saver).get_state(config()).config, again, "task")
    found = TreeringSaver(backend.store()).get_tuple(config())
    assert found is not None
    assert found.pending_writes == [("task", *again[0])]


def test_a_call_without_a_message_erases_no_more(backend: Backend) -> None:
    """It finishes interrupted erasures, as `Session.erase` does; a long write that was replaced stays, too."""
    saver = told(backend)
    there = chat(saver).get_state(config()).config
    for count in (2000, 2100):
        saver.put_writes(there, [("__interrupt__", [f"question {number}" for number in range(count)])], "task")
    before = list(saver.list(config()))
    assert saver.erase("t").state == ()
    assert list(TreeringSaver(backend.store()).list(config())) == before


async def test_other_values_that_repeat_a_message_are_named(backend: Backend) -> None:
    """A value that holds more than a copy stays until its owner erases it; a message that is not there is an error."""
    async with told(backend) as saver:
        inner = config(checkpoint_ns="inner|a")
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"notes": ["a note", {"of": SECRET}]}
        saver.put(inner, checkpoint, {"source": "loop", "step": 0}, {})
        first = chat(saver).get_state(config()).values["messages"][0]
        receipt = await saver.aerase("t", first.id)
        assert [warning.partition("key=")[2] for warning in receipt.warnings] == ["'inner|a/channel/notes'"]
        for thread, message in (("t", "unknown"), ("none", first.id)):
            with pytest.raises(NotFoundError):
                saver.erase(thread, message)


def test_an_amended_message_is_what_the_graph_goes_on_with(backend: Backend) -> None:
    """An edit made past LangGraph is seen by the next turn, and is recorded once."""
    with TreeringSaver(backend.store()) as saver:
        say(chat(saver), "one")
    with backend.store().session("t", shared=True) as session:
        node = session.path()[0]
        payload = {**session.get(node).payload, "content": "eins"}
        session.amend(node, payload)
    assert say(chat(TreeringSaver(backend.store())), "two")[0] == "eins"
    assert len(backend.store().view("t").nodes()) == 4


@pytest.mark.parametrize("opened", ["before", "after"])
def test_edits_hold_in_old_checkpoints_and_forks(backend: Backend, opened: str) -> None:
    """A retracted message is left out, and an amended one shown anew, wherever the thread is read or gone on with."""
    saver = TreeringSaver(backend.store())
    for text in ("one", "two"):
        say(chat(saver), text)
    old = next(s for s in chat(saver).get_state_history(config()) if s.next == () and len(s.values["messages"]) == 2)
    with backend.store().session("t", shared=True) as session:
        first, answer, *_ = session.path()
        session.amend(first, {**session.get(first).payload, "content": "eins"})
        session.retract(answer)
    graph = chat(saver if opened == "before" else TreeringSaver(backend.store()))
    newest = graph.get_state(config())
    assert contents(graph.get_state(newest.config)) == contents(newest) == ["eins", "two", "you said: two"]
    assert contents(graph.get_state(old.config)) == ["eins"]
    assert [contents(each) for each in graph.get_state_history(config())] == [
        ["eins", "two", "you said: two"], ["eins", "two"], ["eins"], ["eins"], ["eins"], [],
    ]  # fmt: skip
    graph.update_state(old.config, {"messages": [HumanMessage("other")]})
    for each in (graph, chat(TreeringSaver(backend.store()))):
        assert contents(each.get_state(config())) == ["eins", "other"]
        assert contents(next(iter(each.get_state_history(config())))) == ["eins", "other"]
    assert say(graph, "on") == ["eins", "other", "on", "you said: on"]


def contents(state: Any) -> list[str]:
    """The texts of the messages of a state."""
    return [message.content for message in state.values.get("messages", [])]


def test_an_erased_checkpoint_is_left_out_of_lists(backend: Backend) -> None:
    """The others of its thread, and of other threads, are there."""
    with TreeringSaver(backend.store()) as saver:
        say(chat(saver), "one")
    with backend.store().session("t", shared=True) as session:
        session.erase(state=["/checkpoint"])
    again = TreeringSaver(backend.store())
    assert again.get_tuple(config()) is None
    assert list(again.list(config())) == []
    say(chat(again), "two")
    assert list(again.list(config()))
    assert list(again.list(None))
