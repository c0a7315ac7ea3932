"""Graphs and swarms for tests, made as a new process would make them. As a program: one that is killed in a node.

python -m tests.integrations.strands.orchestras URL OPTIONS_JSON KIND
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from strands import Agent, ToolContext, tool
from strands.hooks import HookProvider
from strands.multiagent import GraphBuilder, Swarm
from strands.multiagent.graph import Graph
from tests.integrations.strands.fake_model import Call, Calls, FakeModel, Script

import treering
from treering import Store
from treering.integrations.strands import TreeringSessionManager

DIAMOND = (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))


@tool(context=True)
def ask(tool_context: ToolContext) -> str:
    """Ask somebody."""
    return f"answer: {tool_context.interrupt('sure', reason='really?')}"


@tool
def die() -> str:
    """End the process as a kill does, at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def agent(name: str, script: Script = (), **options: Any) -> Agent:
    """An agent for a node."""
    options = {"tools": [ask, die], "callback_handler": None, **options}
    return Agent(name=name, model=FakeModel(script), **options)


def graph(
    manager: Any,
    nodes: Mapping[str, Any],
    edges: Iterable[tuple[str, str]] = (),
    *,
    name: str = "g",
    hooks: list[HookProvider] | None = None,
) -> Graph:
    """A graph of agents by their scripts, or of ready executors; the first node begins."""
    builder = GraphBuilder()
    for node, each in nodes.items():
        builder.add_node(each if hasattr(each, "stream_async") else agent(node, each), node)
    for start, end in edges:
        builder.add_edge(start, end)
    builder.set_entry_point(next(iter(nodes)))
    builder.set_graph_id(name)
    builder.set_max_node_executions(100)
    if manager is not None:
        builder.set_session_manager(manager)
    if hooks is not None:
        builder.set_hook_providers(hooks)
    return builder.build()


def swarm(manager: Any, nodes: Mapping[str, Script], *, name: str = "w") -> Swarm:
    """A swarm of agents by their scripts; the first one begins."""
    return Swarm([agent(node, script) for node, script in nodes.items()], session_manager=manager, id=name)


def hand_over(to: str) -> Calls:
    """A reply that hands the task to another agent of a swarm."""
    return Calls(Call("handoff_to_agent", {"agent_name": to, "message": f"your turn, {to}"}))


def asked(orchestrator: Any) -> dict[str, int]:
    """How often the model of each node was asked."""
    return {name: len(node.executor.model.shown) for name, node in orchestrator.nodes.items()}


def answer(result: Any, text: str = "yes") -> Any:
    """A person's answer to all questions."""
    return [{"interruptResponse": {"interruptId": each.id, "response": text}} for each in result.interrupts]


CHAIN = (("a", "b"), ("b", "c"), ("c", "d"))

KILLED: dict[str, Any] = {
    "graph": lambda manager: graph(manager, {"a": ["A"], "b": ["B"], "c": [Calls(Call("die"))], "d": []}, CHAIN),
    "swarm": lambda manager: swarm(manager, {"a": [hand_over("b"), "-"], "b": [Calls(Call("die"))]}),
}


def main(url: str, options: str, kind: str) -> None:
    """Run until the kill."""
    store: Store = treering.open(url, storage_options=json.loads(options) or None)
    KILLED[kind](TreeringSessionManager(store, "s"))("go")


if __name__ == "__main__":
    main(*sys.argv[1:])
