"""The message history of a conversation, and the media store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.media import MediaContext, MediaStore, externalize_media, media_uri_for, restore_media
from tests.session.backends import Backend, memory_backend
from tests.session.faults import Outage

import treering
from treering.api.store import Store
from treering.integrations.pydantic_ai import TreeringMediaStore, TreeringMessageHistory
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.store.place import Place


def count(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """A model that says how many messages it was shown."""
    return ModelResponse(parts=[TextPart(f"I see {len(messages)}")])


AGENT = Agent(FunctionModel(count))


async def test_a_conversation_goes_on_in_another_process(anywhere: Backend) -> None:
    """What one process saved the next one loads; each message is stored once."""
    for turn in range(3):
        async with TreeringMessageHistory(anywhere.store(), "talk") as history:
            before = await history.load()
            assert len(before) == 2 * turn
            result = await AGENT.run("and?", message_history=before)
            assert result.output == f"I see {2 * turn + 1}"
            await history.save(result.all_messages())
            assert await history.load() == result.all_messages()
    view = anywhere.store().view("talk")
    assert [node.role for node in view.nodes()] == ["user", "assistant"] * 3


def test_blocking_code_has_the_same() -> None:
    """Without a loop of its own; a conversation that was never saved is empty."""
    backend = memory_backend()
    history = TreeringMessageHistory(backend.store(), "talk")
    assert history.load_sync() == []
    result = asyncio.run(AGENT.run("hello"))
    history.save_sync(result.all_messages())
    assert TreeringMessageHistory(backend.store(), "talk").load_sync() == result.all_messages()


async def test_of_two_processes_the_second_one_is_told() -> None:
    """Who saves over a history that another process saved meanwhile is refused, and may load it and go on."""
    backend = memory_backend()
    one, other = (TreeringMessageHistory(backend.store(), "talk") for _ in range(2))
    await one.save((await AGENT.run("one")).all_messages())
    with pytest.raises(treering.HeadMovedError, match="load it again"):
        await other.save((await AGENT.run("other")).all_messages())
    now = await other.load()
    await other.save((await AGENT.run("other", message_history=now)).all_messages())
    assert len(await one.load()) == 4


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
@pytest.mark.parametrize("met", [False, True])
async def test_a_history_without_an_answer_may_be_saved_again(fault: Fault, *, met: bool) -> None:
    """It is no other process's; but another process may have saved one since."""
    outage, memory = Outage(), MemoryDriver()
    one, other = (TreeringMessageHistory(Store(Place(each)), "talk") for each in (FaultyDriver(memory, outage), memory))
    first = (await AGENT.run("one")).all_messages()
    await one.save(first)
    whole = (await AGENT.run("two", message_history=first)).all_messages()
    outage.begin(fault)
    for _ in range(2):
        with pytest.raises(treering.UnavailableError):
            await one.save(whole)
    outage.end()
    if met:
        now = await other.load()
        await other.save((await AGENT.run("other", message_history=now)).all_messages())
        with pytest.raises(treering.HeadMovedError):
            await one.save(whole)
        return
    await one.save(whole)
    await one.save((await AGENT.run("three", message_history=whole)).all_messages())
    assert len(await other.load()) == 6


async def test_a_history_may_leave_out_and_come_back() -> None:
    """What is loaded is what was saved last; what was left out is still in the session, and may be shown again."""
    backend = memory_backend()
    history = TreeringMessageHistory(backend.store(), "talk")
    whole = (await AGENT.run("two", message_history=(await AGENT.run("one")).all_messages())).all_messages()
    for shown in (whole, whole[2:], [], whole[:1], whole, [whole[3], whole[0]]):
        await history.save(shown)
        assert await TreeringMessageHistory(backend.store(), "talk").load() == shown
    assert len(list(backend.store().view("talk").nodes())) == 4
    assert backend.store().verify("talk") == []


async def test_a_session_knows_its_messages() -> None:
    """Lists show the first prompt; a call without a result is told, and can be answered, so that an agent goes on."""
    backend = memory_backend()
    history = TreeringMessageHistory(backend.store(), "talk")
    call = ModelResponse(parts=[ToolCallPart("pay", {"bill": "water"}, tool_call_id="c1")])
    await history.save([ModelRequest(parts=[UserPromptPart("pay the bills")]), call])
    with backend.store().session("talk", shared=True) as session:
        assert session.info.first_prompt == "pay the bills"
        assert [(each.id, each.name, each.arguments) for each in session.open_calls()] == [
            ("c1", "pay", {"bill": "water"})
        ]
        session.close_open_calls("the agent was killed")
        assert session.open_calls() == ()
    now = await history.load()
    assert [vars(part)["content"] for part in now[-1].parts] == ["the agent was killed"]
    assert (await AGENT.run("and?", message_history=now)).output == "I see 3"  # which joins requests


async def test_media_are_kept_by_their_digest(anywhere: Backend) -> None:
    """Bytes come back under the harness's URI, with the metadata of the first put; unknown ones are told."""
    store = TreeringMediaStore(anywhere.store())
    assert isinstance(store, MediaStore)
    data = b"\x00\n{}" * 1000
    uris = await asyncio.gather(
        *(store.put(data, context=MediaContext(media_type="image/png", metadata={"by": "me"})) for _ in range(3))
    )
    assert set(uris) == {media_uri_for(data)}
    assert await store.put(data) == uris[0]
    assert await store.get(uris[0]) == data
    assert dict(await store.get_metadata(uris[0])) == {"by": "me"}
    absent = media_uri_for(b"absent")
    assert (await store.exists(uris[0]), await store.exists(absent)) == (True, False)
    for call in (store.get, store.get_metadata):
        with pytest.raises(FileNotFoundError):
            await call(absent)
    with pytest.raises(ValueError, match="not a media URI"):
        await store.get("file:///etc/passwd")
    assert await store.public_url(uris[0]) is None
    linked = TreeringMediaStore(anywhere.store(), public_url=lambda uri, _: f"https://example.org/{uri[-4:]}")
    assert await linked.public_url(uris[0]) == f"https://example.org/{uris[0][-4:]}"


async def test_the_harness_moves_large_parts_there() -> None:
    """A payload that the harness externalizes is restored from it."""
    store = TreeringMediaStore(memory_backend().store())
    payload = [{"kind": "binary", "data": "QUJD" * 50_000, "media_type": "image/png"}, {"text": "x" * 100_000}]
    moved = await externalize_media(payload, media_store=store, threshold_bytes=64 * 1024)
    assert len(str(moved)) < 110_000
    assert await restore_media(moved, media_store=store) == payload


async def test_a_history_with_a_retracted_message_can_be_saved() -> None:
    """What is new is recorded, and what was retracted stays hidden."""
    backend = memory_backend()
    history = TreeringMessageHistory(backend.store(), "talk")
    await history.save((before := await AGENT.run("one")).all_messages())
    with backend.store().session("talk", shared=True) as session:
        session.retract(session.path()[0])
    await history.save((await AGENT.run("two", message_history=before.all_messages())).all_messages())
    found = await TreeringMessageHistory(backend.store(), "talk").load()
    assert [getattr(part, "content", None) for each in found for part in each.parts] == ["I see 1", "two", "I see 3"]


async def test_arguments_of_tools_are_not_taken_for_bytes() -> None:
    """Though they have fields of the same names."""
    given = {"kind": "binary", "data": "a-_b"}
    history = TreeringMessageHistory(memory_backend().store(), "talk")
    messages: list[ModelMessage] = [ModelResponse(parts=[ToolCallPart("look", given, tool_call_id="1")])]
    await history.save(messages)
    assert await history.load() == messages


BETTER = [
    "better",
    {"role": "user", "content": [{"type": "text", "text": "better"}]},
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "better"}], "metadata": {"by": "hand"}},
]


@pytest.mark.parametrize("better", BETTER)
async def test_an_erased_message_is_not_recorded_again(anywhere: Backend, better: object) -> None:
    """Nor is one that was amended. They stay where they were, also for a run that begins after that."""
    async with TreeringMessageHistory(anywhere.store(), "talk") as history:
        first = await AGENT.run("a secret")
        second = await AGENT.run("a slip", message_history=first.all_messages())
        await history.save(second.all_messages())
    with anywhere.store().session("talk", shared=True) as session:
        nodes = session.path()
        session.erase(nodes[0])
        session.amend(nodes[2], better)
    for turn in range(2):
        async with TreeringMessageHistory(anywhere.store(), "talk") as history:
            before = await history.load()
            result = await AGENT.run("and?", message_history=before)
            await history.save(result.all_messages())
            assert [*map(texts, await history.load())][:4] == [["[erased]"], ["I see 1"], ["better"], ["I see 3"]]
        view = anywhere.store().view("talk")
        assert view.path()[:4] == nodes
        assert tuple([item.node for item in view.context]) == view.path()
        assert len(view.path()) == 6 + 2 * turn


async def test_what_a_program_makes_of_an_erased_message_is_its_own(anywhere: Backend) -> None:
    """A form with another text is another message, and so is one in a session that has no such node."""
    async with TreeringMessageHistory(anywhere.store(), "talk") as history:
        await history.save((await AGENT.run("a secret")).all_messages())
    with anywhere.store().session("talk", shared=True) as session:
        first = session.path()[0]
        session.erase(first)
    async with TreeringMessageHistory(anywhere.store(), "talk") as history:
        erased, answer = await history.load()
        assert isinstance(erased, ModelRequest)
        changed = replace(erased, parts=[UserPromptPart("what was here is gone")])
        await history.save([changed, answer])
        assert [*map(texts, await history.load())] == [["what was here is gone"], ["I see 1"]]
        await history.save([replace(erased, metadata={"by": "hand", **(erased.metadata or {})}), answer])
        assert (await history.load())[0].metadata == {"by": "hand"}
        await history.save([replace(erased, instructions="be kind"), answer])
        assert first not in [item.node for item in anywhere.store().view("talk").context]
        await history.save([erased, answer, erased])
        assert [*map(texts, await history.load())] == [["[erased]"], ["I see 1"], ["[erased]"]]
        assert [item.node == first for item in anywhere.store().view("talk").context] == [True, False, False]
    async with TreeringMessageHistory(anywhere.store(), "other") as other:
        await other.save([erased, answer])
        assert texts((await other.load())[0]) == ["[erased]"]
    assert first not in anywhere.store().view("other").path()


def texts(message: ModelMessage) -> list[object]:
    """The texts of a message."""
    return [vars(part)["content"] for part in message.parts]
