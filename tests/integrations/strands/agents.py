"""Agents for tests: each is made as a new process would make it, on a store that tests look at past all our code."""

from __future__ import annotations

from typing import Any

from strands import Agent, ToolContext, tool
from strands.types.content import Messages
from tests.integrations.strands.fake_model import Call, Calls, FakeModel, Script
from tests.session.backends import Backend

from treering.integrations.strands import TreeringSessionManager


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


@tool(context=True)
def remember(key: str, value: str, tool_context: ToolContext) -> str:
    """Put something into the agent's state.

    Args:
        key: Where.
        value: What.
        tool_context: Of Strands.
    """
    tool_context.agent.state.set(key, value)
    return "remembered"


def agent_on(backend: Backend, script: Script = (), *, session: str = "s", **options: Any) -> Agent:
    """An agent with the fake model and a session manager of its own."""
    manager = TreeringSessionManager(backend.store(), session)
    return managed(manager, script, **options)


def managed(manager: TreeringSessionManager, script: Script = (), **options: Any) -> Agent:
    """An agent with the fake model on a given session manager."""
    model = options.pop("model", None) or FakeModel(script)
    options = {"tools": [add, remember], "callback_handler": None, **options}
    return Agent(model=model, session_manager=manager, **options)


def manager_of(agent: Agent) -> TreeringSessionManager:
    """The session manager of an agent."""
    manager = agent._session_manager
    assert isinstance(manager, TreeringSessionManager)
    return manager


def said(messages: Messages) -> list[str]:
    """The messages in short: text, `call:tool` and `result:text`."""
    return [" ".join(_said(block) for block in message["content"]) for message in messages]


def _said(block: Any) -> str:
    if "toolUse" in block:
        return f"call:{block['toolUse']['name']}"
    if "toolResult" in block:
        return "result:" + " ".join(str(part.get("text")) for part in block["toolResult"]["content"])
    return str(block.get("text"))


ADD = Calls(Call("add", {"a": 1, "b": 2}))
