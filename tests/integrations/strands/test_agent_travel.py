"""Going back, branching and forking an agent: its messages and all it knew move together, durably."""

from __future__ import annotations

import asyncio

import pytest
from strands.agent.conversation_manager import SlidingWindowConversationManager
from tests.integrations.strands.agents import ADD, agent_on, managed, manager_of, said
from tests.session.backends import Backend

from treering import ConflictError, NotFoundError, UsageError
from treering.integrations.strands import TreeringSessionManager


def test_a_checkpoint_restores_messages_and_state(backend: Backend) -> None:
    """Back at a checkpoint the agent has the messages, state and manager it had there; a resume finds it there."""
    agent = agent_on(backend)
    kept = []
    for number in range(3):
        agent.state.set("n", number)
        agent(f"m{number}")
        kept.append((said(agent.messages), agent.state.get(), agent.conversation_manager.get_state()))
    manager = manager_of(agent)
    entries = manager.checkpoints(agent)
    ends = [entry.id for entry in entries if entry.node in {m["tracking_id"] for m in agent.messages[1::2]}]
    assert len(ends) == 3
    manager.restore_checkpoint(agent, ends[1])
    now = said(agent.messages), agent.state.get(), agent.conversation_manager.get_state()
    assert now == kept[1]
    again = agent_on(backend)
    assert (said(again.messages), again.state.get()) == kept[1][:2]
    again("instead")
    assert said(agent_on(backend).messages) == [*kept[1][0], "instead", "done"]
    assert said([row.node.payload for row in backend.store().view("s").history(limit=99).rows]).count("m2") == 0
    assert len(backend.store().view("s").leaves()) == 2


def test_a_checkpoint_can_be_made_and_named(backend: Backend) -> None:
    """A named checkpoint is made whether or not something changed, and is found by its name."""
    agent = agent_on(backend)
    agent("a")
    manager = manager_of(agent)
    made = manager.checkpoint(agent, label="before the refactoring")
    agent("b")
    (named,) = [entry for entry in manager.checkpoints(agent) if entry.label]
    assert (named.id, named.label) == (made, "before the refactoring")
    manager.restore_checkpoint(agent, named.id)
    assert said(agent.messages) == ["a", "done"]


def test_a_window_of_long_ago_comes_back(backend: Backend) -> None:
    """A checkpoint is the context as it was then, though all of it has slid out since."""
    agent = agent_on(backend, conversation_manager=SlidingWindowConversationManager(window_size=2))
    for number in range(5):
        agent(f"m{number}")
    manager = manager_of(agent)
    second = manager.checkpoints(agent)[2]
    manager.restore_checkpoint(agent, second.id)
    assert said(agent.messages) == ["m1", "done"]
    agent("instead")
    assert said(agent_on(backend).messages) == ["instead", "done"]


def test_an_unknown_checkpoint_changes_nothing(backend: Backend) -> None:
    """Asking for a checkpoint or a message that is not there leaves agent and session where they are."""
    agent = agent_on(backend)
    agent("a")
    manager = manager_of(agent)
    for go in (
        lambda: manager.restore_checkpoint(agent, "nothing"),
        lambda: manager.branch(agent, "x", message="nothing"),
        lambda: manager.switch(agent, "nothing"),
        lambda: manager.fork(agent, "t", message="nothing"),
    ):
        with pytest.raises(NotFoundError):
            go()
    with pytest.raises(UsageError, match="exists"):
        manager.branch(agent, "main")
    agent("b")
    assert said(agent_on(backend).messages) == ["a", "done", "b", "done"]


def test_branches_from_any_message(backend: Backend) -> None:
    """A branch goes on from a message; the other one stays, and an agent can go there and back."""
    agent = agent_on(backend, ["one", ADD, "3", "four", "other"])
    for text in "abc":
        agent(text)
    whole, manager = said(agent.messages), manager_of(agent)
    for cut in range(1, len(agent.messages) + 1):
        manager.branch(agent, f"b{cut}", message=agent.messages[cut - 1]["tracking_id"])
        assert said(agent.messages)[:cut] == whole[:cut]
        manager.switch(agent, "main")
        assert said(agent.messages) == whole
    manager.switch(agent, "b1")
    agent("instead")
    assert set(manager.heads(agent)) == {"main", *(f"b{cut}" for cut in range(1, len(whole) + 1))}
    assert said(agent_on(backend).messages) == ["a", "instead", "other"]


def test_a_branch_in_the_middle_of_a_call_closes_it(backend: Backend) -> None:
    """Branching behind a call of a tool gives the agent a result for it, so that the model takes the conversation."""
    agent = agent_on(backend, [ADD, "3", "fine"])
    agent("a")
    manager_of(agent).branch(agent, "b", message=agent.messages[1]["tracking_id"])
    assert said(agent.messages) == ["a", "call:add", "result:Tool was interrupted."]
    agent("go on")
    assert said(agent_on(backend).messages) == [*said(agent.messages)]


def test_what_was_not_recorded_yet_is_not_lost_on_the_way(backend: Backend) -> None:
    """Before an agent goes elsewhere, what it has is recorded on the branch it leaves."""
    agent = agent_on(backend)
    agent("a")
    agent.state.set("k", 1)
    agent.messages.append({"role": "user", "content": [{"text": "by hand"}]})
    manager = manager_of(agent)
    manager.branch(agent, "b", message=agent.messages[0]["tracking_id"])
    assert said(agent.messages) == ["a"]
    manager.switch(agent, "main")
    assert said(agent.messages) == ["a", "done", "by hand"]
    assert agent.state.get("k") == 1


def test_a_fork_goes_on_by_itself(backend: Backend) -> None:
    """A fork has the conversation up to a message, and the state; neither sees what the other does afterwards."""
    agent = agent_on(backend)
    agent.state.set("k", [1])
    agent("a")
    agent("b")
    with manager_of(agent).fork(agent, "t", message=agent.messages[1]["tracking_id"], title="Fork") as manager:
        forked = managed(manager)
        assert said(forked.messages) == ["a", "done"]
        assert forked.state.get("k") == [1]
        forked("c")
    agent("d")
    assert said(agent_on(backend, session="t").messages) == ["a", "done", "c", "done"]
    assert said(agent_on(backend).messages) == ["a", "done", "b", "done", "d", "done"]
    with pytest.raises(ConflictError):
        manager_of(agent).fork(agent, "t")
    (row,) = [row for row in backend.store().sessions().rows if row.id == "t"]
    assert (row.title, row.parent_session, row.project) == ("Fork", "s", "t")
    assert row.extra["strands"] == {"session": "t", "agent": "default"}


async def test_a_task_may_travel_from_a_running_loop(backend: Backend) -> None:
    """Verbs that block may be called from a loop, or from a thread beside it."""
    agent = agent_on(backend)
    await agent.invoke_async("a")
    await agent.invoke_async("b")
    manager = manager_of(agent)
    await asyncio.to_thread(manager.restore_checkpoint, agent, manager.checkpoints(agent)[1].id)
    assert said(agent.messages) == ["a", "done"]


def test_the_history_is_whole_without_an_agent(backend: Backend) -> None:
    """Whoever shows a conversation reads it without an agent, by pages."""
    agent = agent_on(backend, conversation_manager=SlidingWindowConversationManager(window_size=2))
    for number in range(5):
        agent(f"m{number}")
    view = TreeringSessionManager(backend.store(), "s").view()
    page = view.history(limit=4)
    assert said([row.node.payload for row in page.rows]) == ["done", "m4", "done", "m3"]
    assert said([row.node.payload for row in view.history(before=page.before, limit=2).rows]) == ["done", "m2"]
