"""A single agent: what is durable when, what a resume brings back, and who is told what."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from strands import tool
from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
from strands.hooks import AfterInvocationEvent, BeforeModelCallEvent, MessageAddedEvent
from strands.types.exceptions import EventLoopException
from tests.integrations.strands.agents import ADD, agent_on, managed, said
from tests.integrations.strands.fake_model import Call, Calls, FakeModel
from tests.session.backends import Backend, memory_backend
from tests.storage.processes import WAIT_SECONDS_MAX

from treering import UnavailableError, UsageError
from treering.integrations.strands import TreeringSessionManager
from treering.storage.requests import Put


def test_an_agent_goes_on_in_another_process(backend: Backend) -> None:
    """Messages with their tracking ids, and the agent's state, are there again; the model is shown all of it."""
    first = agent_on(backend, [ADD, "3"], state={"a": 1})
    first("one and two?")
    first.state.set("b", [2, {"c": None}])
    first("thanks")
    second = agent_on(backend, ["bye"])
    assert second.messages == first.messages
    assert second.state.get() == {"a": 1, "b": [2, {"c": None}]}
    second("bye")
    assert said(second.model.shown[0]) == [*said(first.messages), "bye"]  # type: ignore[attr-defined]


@tool
def dig() -> dict[str, Any]:
    """Return something nested deep."""
    return {"status": "success", "content": [{"json": {"found": nested(200)}}]}


def nested(depth: int) -> Any:
    """Lists in lists."""
    return json.loads("[" * depth + "]" * depth)


def test_what_is_nested_deep_stops_no_agent(backend: Backend) -> None:
    """The innermost parts of a result of a tool are recorded as text; a state comes back as it was."""
    state = {"deep": nested(200), "alike": {"strands:json": "[1]"}}
    agent = agent_on(backend, [Calls(Call("dig")), "found it"], tools=[dig])
    for name, value in state.items():
        agent.state.set(name, value)
    agent("dig")
    agent("again")
    assert agent.messages[2]["content"][0]["toolResult"]["content"] == [{"json": {"found": nested(200)}}]
    again = agent_on(backend, tools=[dig])
    assert again.state.get() == state
    result: Any = again.messages[2]["content"][0]["toolResult"]["content"]
    depth, part = 0, result[0]["json"]["found"]
    while isinstance(part, list):
        depth, part = depth + 1, part[0]
    assert json.loads(part) == nested(200 - depth)
    again("go on")
    assert said(agent_on(backend).messages)[-2:] == ["go on", "done"]
    recorded = [row.node.id for row in backend.store().view("s").history(limit=20).rows]
    assert len(recorded) == len(set(recorded)) == 8


def test_every_message_is_durable_when_the_next_thing_happens(backend: Backend) -> None:
    """Whatever the agent shows to the model is stored by then."""
    stored: list[int] = []
    shown: list[int] = []

    def look(event: BeforeModelCallEvent) -> None:
        stored.append(len(backend.store().view("s").context))
        shown.append(len(event.agent.messages))

    agent = agent_on(backend, [ADD, ADD, "6"])
    agent.add_hook(look)
    agent("add twice")
    assert stored == shown == [1, 3, 5]


def test_state_set_by_a_tool_is_stored_with_the_next_message(backend: Backend) -> None:
    """What a tool put into the agent's state survives a kill in the middle of the invocation."""
    script: list[Any] = [Calls(Call("remember", {"key": "name", "value": "Ada"})), KeyboardInterrupt()]
    agent = agent_on(backend, script)
    seen: list[dict[str, object]] = []

    def look(event: BeforeModelCallEvent) -> None:
        view = backend.store().view("s") if len(event.agent.messages) > 1 else None
        seen.append({} if view is None else dict(view.state))

    agent.add_hook(look)
    with pytest.raises(KeyboardInterrupt):
        agent("remember me")
    assert seen[-1]["name"] == "Ada"


def test_requests_of_a_turn(backend: Backend) -> None:
    """Making an agent costs two reads, a message one request, the end of an invocation one; the first one a LIST."""
    agent_on(backend)("first")
    store, counts = backend.counted()
    agent = managed(TreeringSessionManager(store, "s"), [ADD, "3"])
    assert (counts.total, counts.counts["Get"]) == (2, 2)
    counts.reset()
    agent("one and two?")
    assert (counts.total, counts.counts["Get"], counts.counts["List"]) == (6, 0, 1)


def test_resuming_writes_nothing(backend: Backend) -> None:
    """Making an agent, also one whose open calls have to be closed, changes no byte of the store."""
    with pytest.raises(EventLoopException):
        agent_on(backend, [ADD, RuntimeError("gone")])("go")
    before = backend.snapshot()
    agent_on(backend)
    agent_on(backend)
    assert {key: data for key, data in backend.snapshot().items() if "hold" not in key} == {
        key: data for key, data in before.items() if "hold" not in key
    }


def test_a_checkpoint_is_made_only_when_something_changed(backend: Backend) -> None:
    """Each invocation makes one; asking again without a change makes none, and costs nothing."""
    store, counts = backend.counted()
    manager = TreeringSessionManager(store, "s")
    agent = managed(manager)
    for _ in range(3):
        agent("go on")
    made = [entry.id for entry in manager.checkpoints(agent)]
    counts.reset()
    manager.sync_agent(agent)
    assert counts.total == 0
    assert [entry.id for entry in manager.checkpoints(agent)] == made
    agent.state.set("k", 1)
    manager.sync_agent(agent)
    assert len(manager.checkpoints(agent)) == len(made) + 1


def test_messages_that_were_there_before_are_the_seed_of_a_new_session(backend: Backend) -> None:
    """An agent that was made with messages keeps them in a new session; in an old one they give way, with a warning."""
    seed: Any = [{"role": "user", "content": [{"text": "old"}]}, {"role": "assistant", "content": [{"text": "yes"}]}]
    first = agent_on(backend, messages=seed)
    first("new")
    assert said(agent_on(backend).messages) == ["old", "yes", "new", "done"]


def test_old_messages_give_way_with_a_warning(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """The messages of the session replace those that the agent was made with."""
    agent_on(backend)("mine")
    other: Any = [{"role": "user", "content": [{"text": "other"}]}]
    with caplog.at_level(logging.WARNING, "treering"):
        agent = agent_on(backend, messages=other)
    assert said(agent.messages) == ["mine", "done"]
    assert "replace" in caplog.text


def test_prompt_and_tools_are_recorded_and_not_restored(backend: Backend) -> None:
    """A new version of the program has its own prompt; which one was in force when can be read."""
    for prompt in ("v1", "v1", "v2"):
        agent = agent_on(backend, system_prompt=prompt)
        agent("go")
        assert agent.model.prompts == [prompt]  # type: ignore[attr-defined]
    notes = backend.store().view("s").notes("system")
    assert [note.payload["prompt"] for note in notes] == [[{"text": "v1"}], [{"text": "v2"}]]
    assert notes[0].payload["tools"].keys() == {"add", "remember"}


def test_tools_that_cannot_be_described_in_plain_data_are_named(backend: Backend) -> None:
    """A tool whose description holds an object does not keep the agent from being stored."""

    @tool
    def odd() -> str:
        """Do nothing."""
        return ""

    odd.tool_spec["inputSchema"]["json"]["default"] = object()
    agent_on(backend, tools=[odd])("a")
    (note,) = backend.store().view("s").notes("system")
    assert note.payload["tools"] == ["odd"]


def test_a_cut_character_does_not_end_the_turn(backend: Backend) -> None:
    """A lone surrogate in prompt, state and answer is kept as it is."""
    agent = agent_on(backend, state={"k": "\ud83d"})
    agent("half \ud83d")
    again = agent_on(backend)
    assert said(again.messages) == ["half \ud83d", "done"]
    assert again.state.get("k") == "\ud83d"


def test_bytes_come_back_as_bytes(backend: Backend) -> None:
    """Images stay bytes, and an object that looks like Strands' own form of bytes stays an object."""
    image = {"image": {"format": "png", "source": {"bytes": bytes(range(256)) * 300}}}
    lookalike = {"__bytes_encoded__": True, "data": "bm8="}
    agent = agent_on(backend, state={"k": lookalike})
    shown: Any = [image, {"text": "what is this?"}]
    agent(shown)
    again = agent_on(backend)
    assert again.messages == agent.messages
    assert again.messages[0]["content"][0] == image
    assert again.state.get("k") == lookalike


def test_state_keys_of_the_application_cannot_meet_ours(backend: Backend) -> None:
    """Any key of the application's state comes back, also one that looks like ours, or is empty."""
    state = {"": 1, "strands:interrupt_state": 2, "strands:state:": 3, "strands:stash:x": 4, "plain": 5}
    agent = agent_on(backend, state=state)
    agent("go")
    assert agent_on(backend).state.get() == state
    agent.state.delete("plain")
    agent("again")
    del state["plain"]
    assert agent_on(backend).state.get() == state


def test_the_same_message_again_is_a_revision(backend: Backend) -> None:
    """A message that is added a second time under its tracking id is shown as it is now; the first is kept."""
    agent = agent_on(backend)
    agent("a")
    message = agent.messages[0]
    longer: Any = {**message, "content": [*message["content"], {"text": "b"}]}
    agent.messages[0] = longer
    asyncio.run(agent.hooks.invoke_callbacks_async(MessageAddedEvent(agent=agent, message=longer)))
    again = agent_on(backend)
    assert said(again.messages) == ["a b", "done"]
    view = backend.store().view("s")
    assert len(view.path()) == 2
    assert view.original(message["tracking_id"])["content"] == [{"text": "a"}]


def test_the_same_message_again_unchanged_costs_nothing() -> None:
    """A message that is announced twice is recorded once."""
    backend = memory_backend()
    store, counts = backend.counted()
    agent = managed(TreeringSessionManager(store, "s"))
    agent("a")
    counts.reset()
    asyncio.run(agent.hooks.invoke_callbacks_async(MessageAddedEvent(agent=agent, message=agent.messages[0])))
    assert counts.total == 0


def test_a_message_of_long_ago_is_not_recorded_twice(backend: Backend) -> None:
    """A caller may hand in a message with its tracking id that has left the context: it is the same node."""
    agent = agent_on(backend, conversation_manager=SlidingWindowConversationManager(window_size=2))
    agent("a")
    old = agent.messages[0]
    for text in ("b", "c"):
        agent(text)
    assert old["tracking_id"] not in [message["tracking_id"] for message in agent.messages]
    again = agent_on(backend)
    again([old])
    view = backend.store().view("s")
    assert view.problems() == ()
    assert old["tracking_id"] in [item.node for item in view.context]
    assert agent_on(backend).messages == again.messages


def test_messages_appended_behind_our_back_are_recorded(backend: Backend) -> None:
    """A message that a program put into the list itself is stored with the next one, in its place."""
    agent = agent_on(backend)
    agent("a")
    agent.messages.append({"role": "user", "content": [{"text": "by hand"}]})
    agent.messages.append({"role": "assistant", "content": [{"text": "too"}]})
    agent("b")
    again = agent_on(backend)
    assert said(again.messages) == ["a", "done", "by hand", "too", "b", "done"]
    assert again.messages == agent.messages
    history = backend.store().view("s").history()
    assert [row.node.role for row in reversed(history.rows)] == ["user", "assistant"] * 3


def test_hooks_of_the_program_are_seen_in_the_checkpoint(backend: Backend) -> None:
    """What a hook does at the end of an invocation is part of what is stored at its end."""
    agent = agent_on(backend)
    agent.add_hook(lambda event: event.agent.state.set("ended", True), AfterInvocationEvent)
    agent("a")
    assert agent_on(backend).state.get("ended") is True


def test_another_conversation_manager_keeps_the_context(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """A session goes on under another kind of conversation manager, with a warning."""
    first = agent_on(backend, conversation_manager=SlidingWindowConversationManager(window_size=4))
    for text in "abc":
        first(text)
    with caplog.at_level(logging.WARNING, "treering"):
        second = agent_on(backend, conversation_manager=NullConversationManager())
    assert "NullConversationManager" in caplog.text
    assert second.messages == first.messages
    second("d")
    third = agent_on(backend, conversation_manager=NullConversationManager())
    assert third.messages == second.messages


def test_a_conversation_manager_is_not_given_the_state_of_another(backend: Backend) -> None:
    """Also one that would not look at the name gets only what its own kind made."""

    class Careless(NullConversationManager):
        def restore_from_session(self, state: dict[str, Any]) -> None:
            assert state["__name__"] == "Careless"

    agent_on(backend, conversation_manager=SlidingWindowConversationManager())("a")
    agent = agent_on(backend, conversation_manager=Careless())
    assert said(agent.messages) == ["a", "done"]


def test_a_stateful_model_keeps_its_own_messages(backend: Backend) -> None:
    """The agent of a model that keeps the conversation itself gets its model state back and no messages."""
    model = FakeModel(["one"], stateful=True)
    agent = agent_on(backend, model=model)
    agent.add_hook(lambda event: event.agent._model_state.update(response="r-1"), BeforeModelCallEvent)
    agent("a")
    again = agent_on(backend, model=FakeModel(["two"], stateful=True))
    assert again.messages == []
    assert again._model_state == {"response": "r-1"}
    again("b")
    assert [row.node.payload["content"][0]["text"] for row in backend.store().view("s").history().rows] == [
        "two", "b", "one", "a",
    ]  # fmt: skip


def test_a_stateful_model_is_not_shown_what_it_did_not_say(backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    """A session of another model goes on with a stateful one without its messages, with a warning; none is lost."""
    agent_on(backend)("a")
    with caplog.at_level(logging.WARNING, "treering"):
        agent = agent_on(backend, model=FakeModel(stateful=True))
    assert agent.messages == []
    assert "keeps the conversation itself" in caplog.text
    agent("b")
    assert agent.model.shown == [[{**agent.model.shown[0][0], "content": [{"text": "b"}]}]]  # type: ignore[attr-defined]
    assert len(backend.store().view("s").path()) == 4


def test_the_event_loop_goes_on_while_the_store_answers() -> None:
    """While a message is being stored other tasks of the same loop run."""
    backend = memory_backend()
    store, driver = backend.counted()
    agent = managed(TreeringSessionManager(store, "s"))
    told = asyncio.Event()
    execute = driver.execute

    async def go() -> None:
        loop = asyncio.get_running_loop()

        def slow(batch: Any) -> Any:
            if any(isinstance(request, Put) for request in batch):
                asyncio.run_coroutine_threadsafe(told.wait(), loop).result(WAIT_SECONDS_MAX)  # another task answers
            return execute(batch)

        driver.execute = slow  # type: ignore[method-assign]
        running = asyncio.create_task(agent.invoke_async("a"))
        await asyncio.sleep(0)
        told.set()
        await running

    asyncio.run(go())
    assert said(agent_on(backend).messages) == ["a", "done"]


async def test_a_cancelled_invocation_is_stored_as_far_as_it_came(backend: Backend) -> None:
    """A task that is cancelled while the model thinks leaves what was said, and the agent can be asked again."""
    asked = asyncio.Event()

    class Slow(FakeModel):
        async def stream(self, *args: Any, **kwargs: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()
            yield {}

    agent = agent_on(backend, model=Slow())
    running = asyncio.create_task(agent.invoke_async("a"))
    await asked.wait()
    agent.state.set("k", 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    again = agent_on(backend, ["yes"])
    assert said(again.messages) == ["a"]
    assert again.state.get("k") == 1
    await again.invoke_async("b")
    assert said(agent_on(backend).messages) == ["a", "b", "yes"]


@pytest.mark.parametrize("lands", [False, True])
def test_a_store_that_fails_fails_the_turn_and_the_next_one_makes_up(*, lands: bool) -> None:
    """A message whose append had no answer is an error, landed or not; the next turn stores what is missing, once."""
    backend = memory_backend()
    store, driver = backend.counted()
    agent = managed(TreeringSessionManager(store, "s"))
    agent("a")
    execute = driver.execute

    def fail(batch: Any) -> Any:
        if lands:
            execute(batch)
        return tuple(UnavailableError("down") for _ in batch)

    driver.execute = fail  # type: ignore[method-assign]
    with pytest.raises(UnavailableError):
        agent("b")
    driver.execute = execute  # type: ignore[method-assign]
    agent("c")
    again = agent_on(backend)
    assert said(again.messages) == ["a", "done", "b", "c", "done"]
    assert again.messages == agent.messages
    view = backend.store().view("s")
    assert len(view.path()) == 5
    assert view.problems() == ()


def test_what_cannot_be_stored_is_refused_by_its_path(backend: Backend) -> None:
    """A tool result with an object in it fails the turn and says where; the session is as before."""
    agent = agent_on(backend)
    agent("a")
    bad: Any = [{"role": "user", "content": [{"text": "x"}], "metadata": {"custom": {"o": object()}}}]
    with pytest.raises(UsageError, match="metadata"):
        agent(bad)
    assert said(agent_on(backend).messages) == ["a", "done"]


def test_an_asynchronous_store_will_do() -> None:
    """A manager takes a store that was opened for asynchronous code as well."""
    backend = memory_backend()
    agent = managed(TreeringSessionManager(backend.async_store(), "s"))
    asyncio.run(agent.invoke_async("a"))
    assert said(agent_on(backend).messages) == ["a", "done"]


def test_direct_calls_of_tools_are_recorded(backend: Backend) -> None:
    """A tool that the program calls itself is part of the conversation, if Strands records it there."""
    agent = agent_on(backend)
    agent("a")
    agent.tool.add(a=1, b=2, record_direct_tool_call=True)
    again = agent_on(backend)
    assert again.messages == agent.messages
    assert len(again.messages) > 2


def test_the_first_prompt_is_in_the_list(backend: Backend) -> None:
    """A list of sessions shows what the user asked first, though nobody closes session managers."""
    manager = TreeringSessionManager(backend.store(), "s", title="Adding", cwd="/")
    agent = managed(manager)
    agent("what is one and two?")
    (row,) = backend.store().sessions().rows
    assert (row.id, row.title, row.first_prompt, row.cwd) == ("s", "Adding", "what is one and two?", "/")
    assert (row.messages, row.checkpoints) == (2, 2)


def test_the_first_invocation_costs_one_request_more() -> None:
    """The card is written once; the invocations after that cost a request for each message and one for the end."""
    backend = memory_backend()
    store, counts = backend.counted()
    agent = managed(TreeringSessionManager(store, "s"))
    agent("a")
    assert [type(request).__name__ for request in counts.requests[-3:]] == ["Put"] * 3
    assert [request.key.partition("/")[0] for request in counts.requests[-3:]] == ["sessions", "sessions", "latest"]  # type: ignore[union-attr]
    counts.reset()
    agent("b")
    assert counts.total == 3
