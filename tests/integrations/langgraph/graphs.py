"""Graphs for tests: a chat with a model that repeats what it is told, and one with parallel tools."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, MessagesState, StateGraph

Graph = Any
"""A compiled graph; LangGraph's own type has four parameters that say nothing here."""


def config(thread: object = "t", **more: object) -> RunnableConfig:
    """Name a thread."""
    return {"configurable": {"thread_id": thread, **more}}


def echo(state: MessagesState) -> dict[str, Any]:
    """Say again what was said last."""
    return {"messages": [AIMessage(f"you said: {state['messages'][-1].content}")]}


def chat(saver: BaseCheckpointSaver[Any], model: Any = echo) -> Graph:
    """A chat: each turn is two messages."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_edge(START, "model")
    builder.add_edge("model", END)
    return builder.compile(checkpointer=saver)


def say(graph: Graph, text: str, thread: object = "t", **more: Any) -> list[str]:
    """Take a turn; return all that was said."""
    done = graph.invoke({"messages": [HumanMessage(text)]}, config(thread), **{"durability": "sync", **more})
    return [message.content for message in done["messages"]]


class Tally(TypedDict):
    """What the tools did."""

    done: Annotated[list[str], operator.add]


def _last(state: Tally) -> dict[str, Any]:
    return {"done": [f"after {len(state['done'])}"]}


def tools(saver: BaseCheckpointSaver[Any], *works: Any) -> Graph:
    """Tools that run in parallel, and a step behind them."""
    builder = StateGraph(Tally)
    for number, work in enumerate(works):
        builder.add_node(f"tool-{number}", work)
        builder.add_edge(START, f"tool-{number}")
    builder.add_node("last", _last)
    builder.add_edge([f"tool-{number}" for number in range(len(works))], "last")
    builder.add_edge("last", END)
    return builder.compile(checkpointer=saver)
