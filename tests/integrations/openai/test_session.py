"""A session of the OpenAI Agents SDK on a store: what a runner needs, beside others, after a kill, and its costs."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, Runner, RunState, SessionSettings, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.usage import Usage
from tests.sampling import few
from tests.session.backends import Backend, memory_backend
from tests.session.faults import Unreliable, tail_write
from tests.storage.processes import start

import treering
from treering.api.store import Store
from treering.errors import UnavailableError, UsageError
from treering.integrations.openai import TreeringSession
from treering.integrations.openai.usage import NUMBERS
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Request
from treering.store.place import Place

Items = list[dict[str, Any]]
WRITERS, EACH = 6, few(6, whole=20)
TURNS, SEALS = 20, 10
"""What a turn takes is a look, what the user says, a look, and the answer; and now and then a seal, or a card."""


def said(*texts: str) -> Any:
    """What a user said."""
    return [{"role": "user", "content": text} for text in texts]


def opened(backend: Backend, count: int = 2, name: str = "talk") -> list[TreeringSession]:
    """Sessions of one name, each as a process of its own has it."""
    return [TreeringSession(name, backend.store()) for _ in range(count)]


def texts(items: Any) -> list[str]:
    """What they say."""
    return [item["content"] for item in items]


# histories


@pytest.mark.parametrize("item", ["text", None, ["role", "user"]])
async def test_what_is_no_item_is_refused(backend: Backend, item: Any) -> None:
    """With its type, and nothing is recorded of the items beside it."""
    (session,) = opened(backend, 1)
    with pytest.raises(UsageError, match=f"an item is no mapping. type='?{type(item).__name__}"):
        await session.add_items([*said("a"), item])
    assert await session.get_items() == []


async def test_items_come_back_as_they_were(anywhere: Backend) -> None:
    """Whatever has a role or none, in the order in which it was added, also in another process."""
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "what is in it?"}, picture()]},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "a cat"},
        {"role": "assistant", "content": "a cat", "type": "message", "phase": None},
    ]
    first, second = opened(anywhere)
    assert await second.get_items() == []
    await first.add_items(items[:2])
    await first.add_items(items[2:])
    assert await second.get_items() == items
    assert [await second.get_items(count) for count in (0, 2, 99, -1)] == [[], items[-2:], items, items]
    view = anywhere.store().view("talk")
    assert [row.role for row in view.nodes()] == ["user", "assistant", "assistant", "tool", "assistant"]
    first.close()
    assert anywhere.store().verify("talk") == []


def picture() -> dict[str, str]:
    """An image that is large enough to be stored as an object of its own."""
    return {"type": "input_image", "image_url": "data:image/png;base64," + base64.b64encode(bytes(99_999)).decode()}


async def test_settings_limit_what_is_returned(backend: Backend) -> None:
    """A call may say otherwise."""
    session = TreeringSession("talk", backend.store(), session_settings=SessionSettings(limit=1))
    await session.add_items(said("a", "b", "c"))
    assert texts(await session.get_items()) == ["c"]
    assert texts(await session.get_items(2)) == ["b", "c"]


async def test_what_is_popped_or_cleared_stays_in_the_transcript(backend: Backend) -> None:
    """The history is without it, for all; nothing is forgotten."""
    first, second = opened(backend)
    await first.add_items(said("a", "b", "c"))
    assert await second.pop_item() == said("c")[0]
    assert await first.pop_item() == said("b")[0]
    await second.add_items(said("d"))
    assert texts(await first.get_items()) == ["a", "d"]
    await first.clear_session()
    assert await second.get_items() == []
    assert await second.pop_item() is None
    await second.add_items(said("e"))
    assert texts(await first.get_items()) == ["e"]
    view = backend.store().view("talk")
    assert sorted(texts(node.payload for node in view.each_node())) == ["a", "b", "c", "d", "e"]
    assert view.heads.keys() == {"main"}


async def test_a_value_that_cannot_be_stored_is_refused(backend: Backend) -> None:
    """Then nothing is recorded, not even what came before it in the call."""
    (session,) = opened(backend, 1)
    await session.add_items(said("a"))
    wrong: Any = {"role": "user", "content": object()}
    with pytest.raises(UsageError, match="content"):
        await session.add_items([*said("b"), wrong])
    assert texts(await session.get_items()) == ["a"]


async def test_a_session_that_was_deleted_begins_anew(backend: Backend) -> None:
    """Also for one who has it open."""
    first, second = opened(backend)
    await first.add_items(said("a"))
    assert texts(await second.get_items()) == ["a"]
    first.close()
    backend.store().delete("talk")
    await second.add_items(said("b"))
    assert texts(await opened(backend, 1)[0].get_items()) == ["b"]


class Outage:
    """A plan: from the next write of the tail on nothing is answered, until it is over."""

    def __init__(self) -> None:
        self.first: Fault | None = None
        """What happens to that write."""
        self.down = False

    def __call__(self, request: Request) -> Fault:
        if self.first is not None and tail_write(request):
            fault, self.first, self.down = self.first, None, True
            return fault
        return Fault.BEFORE if self.down else Fault.NONE


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_look_tells_what_became_of_items_without_an_answer(fault: Fault) -> None:
    """They are there once, or not at all and stay away; what is added then comes behind them."""
    plan = Outage()
    session = TreeringSession("talk", Store(Place(FaultyDriver(MemoryDriver(), plan))))
    await session.add_items(said("a"))
    plan.first = fault
    with pytest.raises(UnavailableError):
        await session.add_items(said("b"))
    plan.down = False
    found = ["a", "b"] if fault is Fault.AFTER else ["a"]
    assert texts(await session.get_items()) == found
    await session.add_items(said("c"))
    assert texts(await session.get_items()) == [*found, "c"]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
async def test_a_call_without_an_answer_may_be_repeated(fault: Fault) -> None:
    """Its items and its cost are there once, whatever others did meanwhile; what is added again behind that is new."""
    bucket = Unreliable()
    session, other = TreeringSession("talk", bucket.store), TreeringSession("talk", bucket.sound)
    await session.add_items(said("a"))
    for call in (partial(session.add_items, said("b")), partial(session.store_run_usage, run_with(10))):
        bucket.plan.arm(fault, tail_write)
        with pytest.raises(UnavailableError):
            await call()
        await other.add_items(said("meanwhile"))
        await call()
        bucket.settle()
    assert sorted(texts(await other.get_items())) == ["a", "b", "meanwhile", "meanwhile"]
    assert bucket.sound.view("talk").usage["input"] == 10
    await session.add_items(said("b"))
    await session.store_run_usage(run_with(10))
    assert texts(await other.get_items()).count("b") == 2
    assert bucket.sound.view("talk").usage["input"] == 20


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
async def test_a_pop_without_an_answer_may_be_repeated(fault: Fault) -> None:
    """It takes one item out, and returns it; a pop after another call takes the next one."""
    bucket = Unreliable()
    session, other = TreeringSession("talk", bucket.store), TreeringSession("talk", bucket.sound)
    await session.add_items(said("a", "b", "c", "d"))
    for left in (["a", "b", "c"], ["a", "b"]):
        bucket.plan.arm(fault, tail_write)
        with pytest.raises(UnavailableError):
            await session.pop_item()
        popped: Any = await session.pop_item()
        bucket.settle()
        assert popped["content"] == {3: "d", 2: "c"}[len(left)]
        assert texts(await other.get_items()) == texts(await session.get_items()) == left
    bucket.plan.arm(Fault.AFTER, tail_write)
    with pytest.raises(UnavailableError):
        await session.pop_item()
    assert texts(await session.get_items()) == ["a"]
    await session.pop_item()
    assert texts(await session.get_items()) == []


# beside others


async def test_nothing_is_lost_where_many_write(anywhere: Backend) -> None:
    """What each adds is there once, in its order, and in one branch."""
    sessions = opened(anywhere, WRITERS)

    async def write(number: int) -> None:
        for at in range(EACH):
            await sessions[number].add_items(said(f"{number} {at}", f"{number} {at} more"))

    await asyncio.gather(*map(write, range(WRITERS)))
    found = texts(await sessions[0].get_items())
    for number in range(WRITERS):
        own = [f"{number} {at}{more}" for at in range(EACH) for more in ("", " more")]
        assert [text for text in found if text.startswith(f"{number} ")] == own
    assert len(found) == 2 * WRITERS * EACH
    assert anywhere.store().view("talk").heads.keys() == {"main"}


async def test_each_item_is_popped_once(backend: Backend) -> None:
    """Whoever takes one has it for itself, while others add."""
    first, second, third = opened(backend, 3)
    await first.add_items(said(*map(str, range(30))))
    popped = await asyncio.gather(
        *(each.pop_item() for _ in range(10) for each in (first, second)),
        *(third.add_items(said(f"new {number}")) for number in range(10)),
    )
    taken = texts([item for item in popped if item is not None])
    left = texts(await first.get_items())
    assert len(taken) == len({*taken}) == 20
    assert sorted([*taken, *left]) == sorted([*map(str, range(30)), *(f"new {number}" for number in range(10))])


WRITER = """
import asyncio
import treering
from treering.integrations.openai import TreeringSession

async def main():
    session = TreeringSession("talk", treering.open(sys.argv[1]))
    for number in range(100_000):
        await session.add_items([{"role": "user", "content": f"{number}"}])
        print(number, flush=True)

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Any) -> None:
    """Of a process that is killed while it adds items."""
    with start(WRITER, tmp_path / "store") as writer:
        assert writer.stdout is not None
        while (last := int(writer.stdout.readline())) < 20:
            pass
        writer.kill()
        last = max([last, *map(int, writer.stdout.read().split("\n")[:-1])])
    session = TreeringSession("talk", treering.open(str(tmp_path / "store")))
    found = texts(await session.get_items())
    assert found == [str(number) for number in range(len(found))]
    assert len(found) > last


# branches


async def test_the_history_of_a_branch_is_its_own(backend: Backend) -> None:
    """A user says something else in turn 2; both answers stay, and each process has a branch of its own."""
    first, second = opened(backend)
    for text in ("one", "two", "three"):
        await first.add_items([*said(text), {"role": "assistant", "content": text.upper()}])
        assert len(await second.get_items(2)) == 2  # else it would begin where the first one is then
    name = await first.create_branch_from_turn(2)
    await first.add_items(said("other"))
    assert texts(await first.get_items()) == ["one", "ONE", "other"]
    assert texts(await second.get_items()) == ["one", "ONE", "two", "TWO", "three", "THREE"]
    assert texts(await second.get_items(1, branch_id=name)) == ["other"]
    told = [(row["branch_id"], row["message_count"], row["user_turns"]) for row in await first.list_branches()]
    assert told == [("main", 6, 3), (name, 3, 2)]
    await first.create_branch_from_content("OTHER", "again")
    await first.add_items(said("third"))
    await first.delete_branch("again", force=True)
    assert texts(await first.get_items(2)) == ["three", "THREE"]
    with pytest.raises(UsageError, match="already been used"):
        await first.create_branch_from_turn(1, "again")
    assert len(backend.store().view("talk").nodes()) == 8


async def test_usage_is_of_turns_and_in_the_sums(backend: Backend) -> None:
    """Of a turn the last figures count; the session's own sums have all of them."""
    (session,) = opened(backend, 1)
    await session.add_items(said("one"))
    for tokens in (10, 20):
        await session.store_run_usage(run_with(tokens))
    await session.add_items(said("two"))
    await session.store_run_usage(run_with(5))
    told: Any = await session.get_turn_usage(1)
    assert {name: told[name] for name in NUMBERS} == dict(zip(NUMBERS, (1, 20, 1, 21), strict=True))
    assert told["input_tokens_details"]["cached_tokens"] == told["output_tokens_details"]["reasoning_tokens"] == 0
    rows: Any = await session.get_turn_usage()
    assert [row["user_turn_number"] for row in rows] == [1, 2]
    assert await session.get_turn_usage(3) == {}
    sums = {"requests": 2, "input_tokens": 25, "output_tokens": 2, "total_tokens": 27, "total_turns": 2}
    assert await session.get_session_usage() == sums
    assert backend.store().view("talk").usage["input"] == 35


def run_with(tokens: int) -> Any:
    """What a run is asked for what it cost."""

    class Ran:
        context_wrapper = RunContextWrapper(
            context=None, usage=Usage(requests=1, input_tokens=tokens, output_tokens=1, total_tokens=tokens + 1)
        )

    return Ran()


# runs


async def test_a_run_that_waits_for_a_person_goes_on_in_another_process(anywhere: Backend) -> None:
    """A call is to be approved; the next process has the run, and the history is one conversation."""

    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    first, second = opened(anywhere)
    steps = [[function_call("pay", {"amount": 5}, call_id="c")], [assistant_message("done")]]
    agent: Agent[None] = Agent("payer", model=ScriptedModel(steps), tools=[pay])
    waiting = await Runner.run(agent, "pay 5", session=first)
    assert len(waiting.interruptions) == 1
    await first.save_run_state(waiting.to_state())
    first.close()
    state = await second.load_run_state(agent)
    assert isinstance(state, RunState)
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state, session=second)
    await second.clear_run_state()
    assert result.final_output == "done"
    kinds = [item.get("type") or item.get("role") for item in await second.get_items()]
    assert kinds == ["user", "function_call", "function_call_output", "message"]
    assert await second.load_run_state(agent) is None


async def test_a_branch_has_the_paused_run_of_its_place(backend: Backend) -> None:
    """A run that was saved in a turn that the branch leaves out is not continued there; that of an earlier turn is."""
    (session,) = opened(backend, 1)
    for turn in range(1, 4):
        await session.add_items(said(f"{turn}"))
        if turn > 1:
            await session.save_run_state(paused(turn))
    for turn, left in ((2, {}), (3, {"run_state": {"turn": 2}}), (1, {})):
        await session.create_branch_from_turn(turn)
        assert await session.get_items() == said("1", "2")[: turn - 1]
        for view in (backend.store().view("talk"), backend.store().session("talk", shared=True)):
            assert dict(view.state) == left
        await session.add_items(said("other"))
        assert dict(backend.store().view("talk").state) == left
        await session.switch_to_branch("main")
        assert dict(backend.store().view("talk").state) == {"run_state": {"turn": 3}}


def paused(turn: int) -> Any:
    """A run that waits for a person, of which nothing but this is stored."""

    class Paused:
        def to_json(self) -> dict[str, int]:
            return {"turn": turn}

    return Paused()


# what it costs


def counted(backend: Backend) -> tuple[TreeringSession, CountingDriver]:
    """A session in a new process, and what counts its requests."""
    store, counts = backend.counted()
    assert isinstance(store, Store)
    return TreeringSession("talk", store), counts


async def test_clearing_what_is_clear_records_nothing() -> None:
    """It is looked at, and that is all; state that was kept since is cleared all the same."""
    backend = memory_backend()
    session, counts = counted(backend)
    await session.add_items(said("a"))
    await session.clear_session()
    counts.reset()
    await session.clear_session()
    assert counts.total == 1
    with backend.store().session("talk", shared=True) as other:
        other.commit(state={"key": 1})
    await session.clear_session()
    assert dict(backend.store().view("talk").state) == {}


async def test_a_turn_takes_four_requests() -> None:
    """A runner looks, records what the user said, looks, and records the answer."""
    session, counts = counted(memory_backend())
    await session.add_items(said("first"))
    counts.reset()
    for number in range(TURNS):
        await session.get_items()
        await session.add_items(said(f"{number}"))
        await session.get_items()
        await session.add_items([{"role": "assistant", "content": f"{number}"}])
    assert counts.counts["Put"] <= 2 * TURNS + SEALS
    assert counts.counts["Get"] <= 2 * TURNS


async def test_resuming_takes_two_reads_however_long_it_is() -> None:
    """And one conditional read more, to see what came since."""
    backend = memory_backend()
    (session,) = opened(backend, 1)
    for number in range(300):
        await session.add_items(said(f"{number}" * 40))
    session.close()
    again, counts = counted(backend)
    counts.reset()
    assert len(await again.get_items()) == 300
    assert counts.counts["Get"] <= 3
    assert counts.total == counts.counts["Get"]


async def test_an_open_session_holds_no_lock(backend: Backend) -> None:
    """Also the one whose first items made it: it can be opened and deleted beside."""
    (session,) = opened(backend, 1)
    await session.add_items(said("hello"))
    with backend.store().session("talk") as other:
        assert other.info.messages == 1
    backend.store().delete("talk")
    session.close()


async def test_a_branch_that_another_process_deleted_does_not_come_back(backend: Backend) -> None:
    """Who stood on it is told, and goes on elsewhere."""
    one, two = opened(backend)
    await one.add_items(said("a", "b"))
    await one.create_branch_from_turn(2, "x")
    await two.switch_to_branch("main")
    await two.delete_branch("x")
    with pytest.raises(UsageError, match="'x' was deleted by another process"):
        await one.add_items(said("c"))
    assert [each["branch_id"] for each in await two.list_branches()] == ["main"]
    await one.switch_to_branch("main")
    await one.add_items(said("c"))
    assert texts(await two.get_items()) == ["a", "b", "c"]


async def test_nothing_is_taken_from_a_session_that_is_not_there(backend: Backend) -> None:
    """And none is made."""
    (session,) = opened(backend, 1, "ghost")
    assert await session.pop_item() is None
    await session.clear_session()
    assert [each.id for each in backend.store().sessions().rows] == []
