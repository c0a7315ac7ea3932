"""The history provider: messages come back, of several processes, after a kill, and in branches."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, Content, Message, tool
from tests.integrations.agent_framework.stand_in import StandIn, called, said
from tests.sampling import few
from tests.session.backends import Backend, memory_backend
from tests.session.faults import Outage, Unreliable, tail_write
from tests.storage.processes import start

import treering
from treering.api.store import Store
from treering.errors import UnavailableError, UsageError
from treering.integrations.agent_framework import TreeringHistoryProvider
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

WRITERS, EACH = 5, few(5, whole=15)
TURNS, SEALS = 20, 10


def user(*texts: str) -> list[Message]:
    """What a user said."""
    return [Message("user", [text]) for text in texts]


async def texts(provider: TreeringHistoryProvider, name: str | None = "talk") -> list[str]:
    """What the messages of a session say."""
    return [message.text for message in await provider.get_messages(name)]


async def test_messages_come_back_as_they_were(anywhere: Backend) -> None:
    """With all kinds of content, in the order in which they were saved, also in another process."""
    picture = "data:image/png;base64," + base64.b64encode(bytes(99_999)).decode()
    messages = [
        Message("user", ["what is in it?", Content.from_uri(picture, media_type="image/png")], author_name="Ann"),
        Message("assistant", [Content.from_function_call("c", "look", arguments={"deep": [1, None]})], message_id="m"),
        Message("tool", [Content.from_function_result("c", result={"cat": True})]),
        Message("assistant", ["a cat"], additional_properties={"mood": {"good": (1.5,)}}),
    ]
    first, second = (TreeringHistoryProvider(anywhere.store()) for _ in range(2))
    assert await second.get_messages("talk") == []
    await first.save_messages("talk", messages[:2])
    await first.save_messages("talk", messages[2:])
    await first.save_messages("talk", [])
    found = await second.get_messages("talk")
    assert [each.to_dict() for each in found] == [each.to_dict() for each in messages]
    assert found[3].additional_properties == messages[3].additional_properties
    view = anywhere.store().view("talk")
    assert [node.role for node in view.nodes()] == ["user", "assistant", "tool", "assistant"]
    await first.save_messages(None, user("a"))
    assert await texts(second, None) == ["a"]
    first.close()
    assert anywhere.store().verify("talk") == []


async def test_a_whole_history_that_is_handed_over_again_is_stored_once(backend: Backend) -> None:
    """And a user who says the same thing twice has said it twice."""
    provider = TreeringHistoryProvider(backend.store())
    await provider.save_messages("talk", user("yes"))
    await provider.save_messages("talk", user("yes"))
    await provider.save_messages("talk", [*user("yes", "yes"), Message("assistant", ["no"])])
    await provider.save_messages("talk", user("yes"))
    assert await texts(provider) == ["yes", "yes", "no", "yes"]
    with pytest.raises(UsageError, match="odd"):
        await provider.save_messages(
            "talk", [*user("a"), Message("user", ["b"], additional_properties={"odd": object()})]
        )
    assert len(await texts(provider)) == 4


async def test_excluded_messages_may_be_left_out(backend: Backend) -> None:
    """Those that a compaction of the framework marked."""
    marked = Message("user", ["old"], additional_properties={"_excluded": True})
    provider = TreeringHistoryProvider(backend.store(), skip_excluded=True)
    await provider.save_messages("talk", [marked, *user("new")])
    assert await texts(provider) == ["new"]


async def test_nothing_is_lost_where_many_write(anywhere: Backend) -> None:
    """What each adds is there once, in its order, and in one branch."""
    providers = [TreeringHistoryProvider(anywhere.store()) for _ in range(WRITERS)]

    async def write(number: int) -> None:
        for at in range(EACH):
            await providers[number].save_messages("talk", user(f"{number} {at}", f"{number} {at} more"))

    await asyncio.gather(*map(write, range(WRITERS)))
    found = await texts(providers[0])
    for number in range(WRITERS):
        own = [f"{number} {at}{more}" for at in range(EACH) for more in ("", " more")]
        assert [text for text in found if text.startswith(f"{number} ")] == own
    assert len(found) == 2 * WRITERS * EACH
    assert anywhere.store().view("talk").heads.keys() == {"main"}


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_look_tells_what_became_of_messages_without_an_answer(fault: Fault) -> None:
    """They are there once, or not at all."""
    outage = Outage()
    provider = TreeringHistoryProvider(Store(Place(FaultyDriver(MemoryDriver(), outage))))
    await provider.save_messages("talk", user("a"))
    outage.begin(fault)
    with pytest.raises(UnavailableError):
        await provider.save_messages("talk", user("b"))
    outage.end()
    found = ["a", "b"] if fault is Fault.AFTER else ["a"]
    assert await texts(provider) == found
    await provider.save_messages("talk", user("c"))
    assert await texts(provider) == [*found, "c"]


WRITER = """
import asyncio
import treering
from agent_framework import Message
from treering.integrations.agent_framework import TreeringHistoryProvider

async def main():
    provider = TreeringHistoryProvider(treering.open(sys.argv[1]))
    for number in range(100_000):
        await provider.save_messages("talk", [Message("user", [f"{number}"])])
        print(number, flush=True)

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Any) -> None:
    """Of a process that is killed while it saves messages."""
    with start(WRITER, tmp_path / "store") as writer:
        assert writer.stdout is not None
        while (last := int(writer.stdout.readline())) < 20:
            pass
        writer.kill()
        last = max([last, *map(int, writer.stdout.read().split("\n")[:-1])])
    found = await texts(TreeringHistoryProvider(treering.open(str(tmp_path / "store"))))
    assert found == [str(number) for number in range(len(found))]
    assert len(found) > last


@tool
def look(city: str) -> str:
    """Look at the weather."""
    return f"dry in {city}"


async def test_an_agent_goes_on_in_another_process(anywhere: Backend) -> None:
    """It calls a tool, and is shown all of that when it is asked again; a branch is shown what it has."""
    model = StandIn(called("look", city="Rome"), said("it is dry"))
    agent = Agent(model, tools=[look], context_providers=[TreeringHistoryProvider(anywhere.store())])
    assert (await agent.run("how is it?", session=AgentSession(session_id="talk"))).text == "it is dry"
    again = StandIn(said("yes"), said("no"))
    other = Agent(again, tools=[look], context_providers=[TreeringHistoryProvider(anywhere.store())])
    await other.run("sure?", session=AgentSession(session_id="talk"))
    assert again.shown[0] == ["how is it?", "", "", "it is dry", "sure?"]
    nodes = anywhere.store().view("talk").nodes()
    assert [node.role for node in nodes] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    with anywhere.store().session("talk", shared=True) as session:
        session.branch("other words", node=nodes[3].id)
    await other.run("really?", session=AgentSession(session_id="talk"))
    assert again.shown[1] == ["how is it?", "", "", "it is dry", "really?"]
    assert len(anywhere.store().view("talk").heads) == 2


async def test_a_turn_takes_two_requests() -> None:
    """A conditional read, and an append."""
    store, counts = memory_backend().counted()
    assert isinstance(store, Store)
    provider = TreeringHistoryProvider(store)
    await provider.save_messages("talk", user("first"))
    counts.reset()
    for number in range(TURNS):
        await provider.get_messages("talk")
        await provider.save_messages("talk", [*user(f"{number}"), Message("assistant", ["yes"])])
    assert counts.counts["Put"] <= TURNS + SEALS
    assert counts.counts["Get"] <= TURNS


async def test_what_was_erased_is_not_recorded_again(backend: Backend) -> None:
    """A program that passes its whole history still has the words; only the new message is added."""
    provider = TreeringHistoryProvider(backend.store())
    messages = [Message("user", ["secret"], message_id="1"), Message("assistant", ["ok"], message_id="2")]
    await provider.save_messages("talk", messages)
    with backend.store().session("talk", shared=True) as session:
        session.erase(session.path()[0])
    await provider.save_messages("talk", [*messages, Message("user", ["more"], message_id="3")])
    assert await texts(provider) == ["[erased]", "ok", "more"]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_repeated_save_records_nothing_once_more(fault: Fault, *, named: bool) -> None:
    """Behind a lost answer, and another process's message: by the same provider, and with ids by any."""
    bucket = Unreliable()
    first, second = TreeringHistoryProvider(bucket.store), TreeringHistoryProvider(bucket.sound)
    before, after = (
        [Message("user", [text], message_id=text if named else None) for text in told]
        for told in (["zero", "one"], ["two", "three"])
    )
    await first.save_messages("talk", before)
    bucket.plan.arm(fault, tail_write)
    with pytest.raises(UnavailableError):
        await first.save_messages("talk", after)
    await second.save_messages("talk", user("other"))
    await first.save_messages("talk", after)
    if named:
        await TreeringHistoryProvider(bucket.sound).save_messages("talk", after)
    assert sorted(await texts(second)) == ["one", "other", "three", "two", "zero"]
    await first.save_messages("talk", user("again"))
    await first.save_messages("talk", user("again"))
    assert (await texts(second))[-2:] == ["again", "again"]
