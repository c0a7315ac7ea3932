"""LangGraph: a graph with a list of messages, its savers for SQLite and object stores, and ours.

Each turn is one `update_state`, so one checkpoint, where a graph that runs makes three. Messages are kept in one
channel by `add_messages`, as in its prebuilt agents: every checkpoint has them all.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph_checkpoint_objectstorage import ObjectStorageSaver
from typing_extensions import TypedDict

import treering
from benchmarks.contestants.contestant import Contestant
from treering.integrations.langgraph import TreeringSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langgraph.checkpoint.base import BaseCheckpointSaver

    from benchmarks.workload import Message


class _State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    step: int


class _Graph(Contestant):
    each_turn_up_to = 200
    """Longer sessions are prepared with one checkpoint; all of them would take gigabytes."""

    def saver(self) -> BaseCheckpointSaver[Any]:
        raise NotImplementedError

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.graph = self._graph()

    def _graph(self) -> Any:
        graph = StateGraph(_State)
        graph.add_node("agent", lambda _: {})
        graph.add_edge(START, "agent")
        return graph.compile(checkpointer=self.saver())

    def write(self, session: str, messages: Sequence[Message]) -> None:
        shown = [_message(message) for message in messages]
        each = 2 if len(shown) <= self.each_turn_up_to else len(shown)
        for start in range(0, len(shown), each):
            self._update(session, shown[start : start + each], start // 2)

    def _update(self, session: str, messages: list[Any], step: int) -> None:
        self.graph.update_state(_thread(session), {"messages": messages, "step": step}, as_node="agent")

    def resume(self, session: str) -> Sequence[str]:
        values = self.graph.get_state(_thread(session)).values
        if "step" not in values:
            raise ValueError(f"the state was not restored. session={session!r}")
        return [_text(message) for message in values["messages"][-self.window :]]

    def begin(self, session: str) -> None:
        self.session, self.step = session, 0

    def append(self, text: str) -> None:
        self._update(self.session, [HumanMessage(text)], 0)

    def turn(self, texts: Sequence[str], step: int) -> None:
        self._update(self.session, [HumanMessage(texts[0]), AIMessage(texts[1])], step)

    def end(self) -> None:
        """Nothing is kept open."""

    def page(self, session: str, count: int) -> Sequence[str]:
        return [_text(message) for message in self.graph.get_state(_thread(session)).values["messages"][-count:]]

    def travel(self, session: str, step: int) -> Sequence[str]:
        history = self.graph.get_state_history(_thread(session))
        found = next(state for state in history if state.values["step"] == step)
        return [_text(message) for message in found.values["messages"][-self.window :]]


class Sqlite(_Graph):
    """`SqliteSaver`."""

    def saver(self) -> SqliteSaver:
        connection = sqlite3.connect(f"{self.place}/langgraph.sqlite", check_same_thread=False)
        return SqliteSaver(connection)


class Treering(_Graph):
    """`TreeringSaver`."""

    each_turn_up_to = 1_000

    def saver(self) -> TreeringSaver:
        return TreeringSaver(treering.open(f"{self.place}/treering-langgraph"))

    def end(self) -> None:
        """Write what was put off, a card for lists, and forget the thread."""
        self.graph.checkpointer.close()

    def resume(self, session: str) -> Sequence[str]:
        self.end()  # else it would know the thread
        return super().resume(session)


class Objects(_Graph):
    """`langgraph-checkpoint-objectstorage`, on a disk or in S3."""

    def saver(self) -> ObjectStorageSaver:
        return ObjectStorageSaver.from_conn_string(f"{self.place}/langgraph-objects")


def _thread(session: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": session}}


def _message(message: Message) -> Any:
    kind = AIMessage if message["role"] == "assistant" else HumanMessage
    return kind(message["content"])


def _text(message: Any) -> str:
    content = message.content
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
