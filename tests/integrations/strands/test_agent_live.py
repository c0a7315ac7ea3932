"""Agents with a live connection: what was said is stored while it goes on, and the next connection begins with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from strands.bidi import BidiAgent
from strands.bidi.hooks import BidiAgentStopEvent, BidiBeforeConnectionRestartEvent
from strands.bidi.types.events import BidiResponseStopEvent
from tests.integrations.strands.agents import add, said
from tests.integrations.strands.fake_live_model import FakeLiveModel, Unfinished
from tests.integrations.strands.fake_model import Call
from tests.session.backends import Backend, memory_backend

from treering.integrations.strands import TreeringSessionManager


def live_agent(backend: Backend, replies: Iterable[str | Call] = (), **options: Any) -> BidiAgent:
    """A live agent with a fake model and a session manager of its own."""
    manager = TreeringSessionManager(backend.store(), "s")
    return BidiAgent(model=FakeLiveModel(replies), tools=[add], session_manager=manager, **options)


async def talk(agent: BidiAgent, *prompts: str, responses: int = 1) -> None:
    """Say something and wait until the model has answered, so many times for each prompt."""
    events = agent.receive()
    for prompt in prompts:
        await agent.send(prompt)
        left = responses
        async for event in events:
            left -= isinstance(event, BidiResponseStopEvent)
            if not left:
                break


async def test_a_live_agent_goes_on_in_another_process(backend: Backend) -> None:
    """What was said, and the agent's state, are there when the next connection begins."""
    first = live_agent(backend, ["hi", "fine"])
    async with first:
        await talk(first, "hello", "how are you?")
        first.state.set("k", 1)
    second = live_agent(backend)
    assert second.messages == first.messages
    assert said(second.messages) == ["hello", "hi", "how are you?", "fine"]
    assert second.state.get() == {"k": 1}
    async with second:
        await talk(second, "bye")
    assert said(second.model.shown[0]) == said(first.messages)  # type: ignore[attr-defined]
    assert said(live_agent(backend).messages)[-2:] == ["bye", "done"]


async def test_what_was_said_is_stored_while_the_connection_is_open(backend: Backend) -> None:
    """A kill in the middle of a connection loses nothing that was complete; a placeholder was replaced by its text."""
    agent = live_agent(backend, ["hi"])
    await agent.start()
    await talk(agent, "hello")
    view = backend.store().view("s")
    assert said([item.message for item in view.context]) == ["hello", "hi"]
    assert [item.message for item in view.context] == agent.messages
    assert len(view.path()) == 2
    await agent.stop()


async def test_requests_of_a_live_turn() -> None:
    """A message is one request, a placeholder that is filled one more, the end of the connection one."""
    backend = memory_backend()
    agent = live_agent(backend)
    async with agent:
        await talk(agent, "first")
    store, counts = backend.counted()
    agent = BidiAgent(model=FakeLiveModel(), session_manager=TreeringSessionManager(store, "s"))
    assert (counts.total, counts.counts["Get"]) == (2, 2)
    counts.reset()
    async with agent:
        await talk(agent, "again")
        assert (counts.total, counts.counts["Get"], counts.counts["List"]) == (4, 0, 1)
    assert (counts.total, counts.counts["Get"]) == (5, 0)


async def test_a_tool_of_a_live_agent_is_recorded_with_its_result(backend: Backend) -> None:
    """Calls and results, which come in messages of their own, are there again."""
    agent = live_agent(backend, [Call("add", {"a": 1, "b": 2}), "three"])
    async with agent:
        await talk(agent, "one and two?", responses=2)
    again = live_agent(backend)
    assert again.messages == agent.messages
    assert "result:3" in said(again.messages)


async def test_a_reply_that_was_cut_is_there_as_far_as_strands_tells(backend: Backend) -> None:
    """The connection ended in the middle of a reply: the list comes back as the agent had it."""
    agent = live_agent(backend, [Unfinished("I was about to")])
    async with agent:
        await agent.send("go")
        async for event in agent.receive():
            if type(event).__name__ == "BidiTextDeltaEvent":
                break
    again = live_agent(backend)
    assert again.messages == agent.messages


async def test_what_a_hook_does_at_the_end_is_stored(backend: Backend) -> None:
    """Hooks of the program come before the checkpoint at the end of a connection."""
    agent = live_agent(backend)
    agent.add_hook(lambda event: event.agent.state.set("ended", True), BidiAgentStopEvent)
    async with agent:
        await talk(agent, "hello")
    assert live_agent(backend).state.get("ended") is True


async def test_what_a_hook_does_before_a_restart_is_stored(backend: Backend) -> None:
    """A connection that is about to be made anew is a boundary: what hooks of the program did by then is stored."""
    agent = live_agent(backend)
    agent.add_hook(lambda event: event.agent.state.set("restarts", 1), BidiBeforeConnectionRestartEvent)
    async with agent:
        await talk(agent, "hello")
        await agent.hooks.invoke_callbacks_async(BidiBeforeConnectionRestartEvent(agent, reason="scheduled"))
        assert backend.store().view("s").state["restarts"] == 1


async def test_a_live_agent_travels_only_when_it_is_stopped(backend: Backend) -> None:
    """An agent whose connection is open is not taken back, and nothing is written; afterwards it is."""
    agent = live_agent(backend)
    manager = agent._session_manager
    assert isinstance(manager, TreeringSessionManager)
    async with agent:
        await talk(agent, "a")
    checkpoint = manager.checkpoints(agent)[-1].id
    async with agent:
        await talk(agent, "b")
        heads = manager.heads(agent)
        with pytest.raises(RuntimeError, match="stop"):
            manager.restore_checkpoint(agent, checkpoint)
        assert manager.heads(agent) == heads
    manager.restore_checkpoint(agent, checkpoint)
    assert said(agent.messages) == ["a", "done"]
