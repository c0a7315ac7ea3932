"""What the model sees comes back exactly: windows, summaries, pins, edits, what was put aside, open calls."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import (
    ConversationManager,
    NullConversationManager,
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.hooks import BeforeModelCallEvent, BeforeToolsEvent
from strands.storage import InMemoryStorage
from strands.types.exceptions import ContextWindowOverflowException, EventLoopException
from tests.integrations.strands.agents import ADD, agent_on, managed, manager_of, said
from tests.integrations.strands.fake_model import Call, Calls, FakeModel
from tests.session.backends import Backend, memory_backend

from treering.integrations.strands import TreeringSessionManager


@pytest.fixture
def backend() -> Backend:
    """A place for sessions."""
    return memory_backend()


def summarizing() -> ConversationManager:
    """One that puts a summary in front when the model says that there is too much."""
    return SummarizingConversationManager(
        summary_ratio=0.5, preserve_recent_messages=2, summarization_agent=Agent(model=FakeModel(["a summary"] * 9))
    )


def same(backend: Backend, agent: Agent, **options: Any) -> Agent:
    """Make the agent again, and hold what it has to what the first one had."""
    again = agent_on(backend, **options)
    assert again.messages == agent.messages
    assert again.state.get() == agent.state.get()
    assert again.conversation_manager.get_state() == agent.conversation_manager.get_state()
    return again


def texts_of_history(backend: Backend) -> list[str]:
    """All that was ever recorded on the branch in hand, oldest first."""
    rows = backend.store().view("s").history(limit=1000).rows
    return said([row.node.payload for row in reversed(rows)])


def test_a_sliding_window_comes_back_and_the_history_is_whole(backend: Backend) -> None:
    """What slid out of the window is not loaded, and is still in the transcript."""
    options: Any = {"conversation_manager": SlidingWindowConversationManager(window_size=4)}
    agent = agent_on(backend, **options)
    for number in range(6):
        agent(f"m{number}")
    assert len(agent.messages) == 4
    same(backend, agent, conversation_manager=SlidingWindowConversationManager(window_size=4))
    assert texts_of_history(backend)[::2] == [f"m{number}" for number in range(6)]


def test_a_window_that_slides_costs_one_request_a_turn() -> None:
    """What leaves the window is said in the checkpoint of the turn: no read, and no further write."""
    backend = memory_backend()
    agent = agent_on(backend, conversation_manager=SlidingWindowConversationManager(window_size=4))
    for _ in range(4):
        agent("go")
    store, counts = backend.counted()
    options: Any = {"conversation_manager": SlidingWindowConversationManager(window_size=4)}
    again = managed(TreeringSessionManager(store, "s"), **options)
    counts.reset()
    for _ in range(2):
        again("go on")
    assert (counts.total, counts.counts["Get"], counts.counts["List"]) == (7, 0, 1)


def test_a_summary_is_kept_and_not_made_again(backend: Backend) -> None:
    """A summary that was put in front after an overflow comes back, with the messages that were kept behind it."""
    overflow = ContextWindowOverflowException("too much")
    agent = agent_on(backend, ["one", "two", "three", overflow, "four"], conversation_manager=summarizing())
    for text in "abcd":
        agent(text)
    assert "a summary" in said(agent.messages)[0]
    again = same(backend, agent, conversation_manager=summarizing())
    again("e")
    assert "a summary" in said(again.model.shown[0])[0]  # type: ignore[attr-defined]
    same(backend, again, conversation_manager=summarizing())
    view = backend.store().view("s")
    marked = [row.node for row in view.history(limit=100).rows if row.node.brief.get("injected")]
    assert said([node.payload for node in marked]) == said(agent.messages)[:1]
    assert [text for text in texts_of_history(backend) if len(text) == 1] == list("abcde")


EDITS: dict[str, Callable[[Any], None]] = {
    "shorten": lambda messages: messages[0].update(content=[{"text": "..."}]),
    "shorten in place": lambda messages: messages[2]["content"][0].update(text="..."),
    "drop the first": lambda messages: messages.pop(0),
    "drop one in the middle": lambda messages: messages.pop(2),
    "drop all": lambda messages: messages.clear(),
    "keep a pin": lambda messages: messages.__delitem__(slice(1, 4)),
    "reorder": lambda messages: messages.insert(0, messages.pop()),
    "put in front": lambda messages: messages.insert(0, {"role": "user", "content": [{"text": "front"}]}),
    "put between": lambda messages: messages.insert(2, {"role": "user", "content": [{"text": "between"}]}),
    "twice the same": lambda messages: messages.insert(3, copy.deepcopy(messages[1])),
    "the same object twice": lambda messages: messages.append(messages[0]),
    "metadata": lambda messages: messages[1].setdefault("metadata", {}).update(custom={"pinned": True}),
    "replace all": lambda messages: messages.__setitem__(slice(None), [{"role": "user", "content": [{"text": "new"}]}]),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("when", ["between", "during"])
def test_any_edit_of_the_messages_comes_back(backend: Backend, edit: str, when: str) -> None:
    """Whatever a plugin or a program does to the list, the next process has that list, and the transcript has all."""
    options: Any = {"conversation_manager": NullConversationManager()}
    agent = agent_on(backend, **options)
    for text in "abc":
        agent(text)
    before = texts_of_history(backend)
    if when == "between":
        EDITS[edit](agent.messages)
        agent("next")
    else:
        agent.add_hook(lambda event: EDITS[edit](event.agent.messages), BeforeModelCallEvent)
        agent("next")
    again = same(backend, agent, **options)
    again("last")
    same(backend, again, **options)
    assert texts_of_history(backend)[: len(before)] == before


def test_an_edit_survives_a_kill_with_the_next_message(backend: Backend) -> None:
    """What left the list during an invocation has left the stored context when the next message is stored."""
    options: Any = {"conversation_manager": NullConversationManager()}
    agent = agent_on(backend, [*["done"] * 3, ADD, KeyboardInterrupt()], **options)
    for text in "abc":
        agent(text)

    def look(event: BeforeModelCallEvent) -> None:
        if len(event.agent.messages) == 7:
            del event.agent.messages[0:4]
        elif len(event.agent.messages) == 5:
            shown.append([item.node for item in backend.store().view("s").context])

    shown: list[list[str]] = []
    agent.add_hook(look)
    with pytest.raises(KeyboardInterrupt):
        agent("add")
    assert shown == [[message["tracking_id"] for message in agent.messages]]


@tool
def read_log() -> str:
    """Read a long log."""
    return "".join(f"line {number} of the log\n" for number in range(2000))


def put_aside(agent: Agent) -> dict[str, Any]:
    """What the agent's context manager holds, by reference."""
    assert agent.context_manager is not None
    assert agent.context_manager.stash is not None
    return asyncio.run(agent.context_manager.stash.take_snapshot())


def test_what_a_context_manager_put_aside_comes_back(backend: Backend) -> None:
    """A long result was replaced by a placeholder; in another process the placeholder still leads to the result."""
    options: Any = {"context_manager": "auto", "tools": [read_log]}
    agent = agent_on(backend, [Calls(Call("read_log", id="log"))], **options)
    agent("read the log")
    assert "log_0" in said(agent.messages)[2]
    assert len(said(agent.messages)[2]) < 5000
    again = same(backend, agent, **options)
    assert put_aside(again) == put_aside(agent)
    assert put_aside(again)["log_0"] == {"text": read_log()}
    stored: list[Mapping[str, object]] = []
    again.add_hook(lambda _: stored.append(backend.store().view("s").state), BeforeModelCallEvent)
    again("thanks")
    assert stored[0]["strands:stash:log_0"] == {"text": read_log()}  # also in the middle of an invocation
    asyncio.run(again.context_manager.stash.delete("log_0"))  # type: ignore[union-attr]
    manager_of(again).sync_agent(again)
    third = same(backend, again, **options)
    assert put_aside(third) == put_aside(again)
    assert "log_0" not in put_aside(third)


def test_what_is_put_aside_durably_is_not_stored_twice(backend: Backend) -> None:
    """A stash that keeps its entries itself is named and not copied."""
    options: Any = {"context_manager": {"stash": {"storage": Durable()}}, "tools": [read_log]}
    agent = agent_on(backend, [Calls(Call("read_log", id="log"))], **options)
    agent("read the log")
    view = backend.store().view("s")
    assert [key for key in view.state if "stash" in key] == ["strands:stash:"]
    again = same(backend, agent, **options)
    assert put_aside(again)["log_0"] == {"text": read_log()}


class Durable(InMemoryStorage):
    """A storage that says it outlives its process."""

    _ephemeral = None


# open calls


def killed(backend: Backend, *calls: Call) -> Agent:
    """An agent that asked for tools, and was killed before there was a result."""
    agent = agent_on(backend, [Calls(*calls)])

    def die(event: object) -> None:
        raise KeyboardInterrupt

    agent.add_hook(die, BeforeToolsEvent)
    with pytest.raises(KeyboardInterrupt):
        agent("go")
    return agent


def test_open_calls_are_closed_and_the_repair_is_stored_with_the_next_message(backend: Backend) -> None:
    """The model is shown an error as the result; the repair is stored by the append that comes next, not before."""
    killed(backend, Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4}))
    again = agent_on(backend, ["what now?"])
    assert said(again.messages) == [
        "go", "call:add call:add", "result:Tool was interrupted. result:Tool was interrupted.",
    ]  # fmt: skip
    assert len(backend.store().view("s").recorded_context) == 2
    again("go on")
    assert [block["toolResult"]["status"] for block in again.messages[2]["content"]] == ["error", "error"]
    third = agent_on(backend)
    assert third.messages == again.messages
    assert said(third.messages)[3:] == ["go on", "what now?"]


def test_a_repair_costs_nothing_of_its_own(backend: Backend) -> None:
    """The repair and the next message are one request, without a read."""
    killed(backend, Call("add", {"a": 1, "b": 2}))
    store, counts = backend.counted()
    again = managed(TreeringSessionManager(store, "s"))
    counts.reset()
    again("go on")
    assert (counts.total, counts.counts["Get"], counts.counts["List"]) == (4, 0, 1)


def test_a_call_that_was_overtaken_is_closed_where_it_stands(backend: Backend) -> None:
    """A call left open before later messages gets its result in front of them, in the checkpoint of the next append."""
    killed(backend, Call("add", {"a": 1, "b": 2}))
    with backend.store().session("s") as session:
        session.append({"role": "user", "content": [{"text": "hello?"}]})
    again = agent_on(backend)
    assert said(again.messages) == ["go", "call:add", "result:Tool was interrupted.", "hello?"]
    again("go on")
    third = agent_on(backend)
    assert third.messages == again.messages
    assert said(third.messages)[2:4] == ["result:Tool was interrupted.", "hello?"]


def test_a_turn_that_failed_in_the_model_goes_on(backend: Backend) -> None:
    """After an error of the model the agent's own list is stored as it is, and goes on in another process."""
    agent = agent_on(backend, [ADD, RuntimeError("throttled")])
    with pytest.raises(EventLoopException):
        agent("go")
    again = same(backend, agent)
    again("again")
    assert said(agent_on(backend).messages) == ["go", "call:add", "result:3", "again", "done"]
