"""What the step store keeps: the same as the harness's own in memory, shared, durable, from several processes."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from benchmarks import workload
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    InMemoryStepStore,
    RunRecord,
    StepEvent,
    StepStore,
    ToolEffectRecord,
)
from tests.session.backends import Backend, memory_backend
from tests.session.faults import Unreliable, tail_write

import treering
from treering.integrations.pydantic_ai import TreeringStepStore
from treering.storage.faulty import Fault

STEPS, RUNS = 120, ("run/1", "run 2", "r" * 200)
MOMENT = datetime(2026, 11, 26, 12, tzinfo=UTC)
SNAPSHOTS, MESSAGE_BYTES = 100, 2048
STORED, REQUESTS_A_SAVE = 2.2, 1.6
"""At most: bytes for each byte of text, log and `latest` included; requests of a save, seals included."""


def message(number: int) -> ModelMessage:
    """A message of a conversation, the same each time."""
    when = MOMENT + timedelta(seconds=number)
    if number % 2:
        return ModelResponse(parts=[TextPart(f"answer {number}")], timestamp=when, model_name="m")
    return ModelRequest(parts=[UserPromptPart(f"question {number}", timestamp=when)], timestamp=when)


class Beside:
    """The same calls for a step store of ours, opened anew now and then, and for the harness's own in memory."""

    def __init__(self, backend: Backend, rng: random.Random, keep: int | None) -> None:
        self.backend, self.rng, self.keep = backend, rng, keep
        self.theirs = InMemoryStepStore(max_snapshots_per_run=keep)
        self.ours = self.opened()
        self.count = 0

    def opened(self) -> TreeringStepStore:
        """Ours, as another process has it."""
        return TreeringStepStore(self.backend.store(), max_snapshots_per_run=self.keep)

    async def step(self) -> None:
        """One call that records something."""
        self.count += 1
        if self.rng.random() < 0.15:
            self.ours = self.opened()
        run, kind = self.rng.choice(RUNS), self.rng.randrange(5)
        if kind == 0:
            await self.both("register_run", RunRecord(run_id=run, agent_name=f"a{self.count}", started_at=self.time()))
        elif kind == 1:
            key = self.rng.choice([None, f"{self.rng.randrange(4)}:event"])
            event = StepEvent(run_id=run, kind="run_started", step_index=1, timestamp=self.time(), idempotency_key=key)
            await self.both("append_event", event)
        elif kind == 2:
            await self.effect(run)
        else:
            await self.snapshot(run)

    async def snapshot(self, run: str) -> None:
        """A history that goes on, leaves out, or repeats."""
        first = self.rng.choice([0, 0, self.rng.randrange(4)])
        history = [message(number) for number in range(first, first + self.rng.randrange(6))]
        if history and self.rng.random() < 0.2:
            history.append(self.rng.choice(history))
        key = self.rng.choice([None, None, f"{self.rng.randrange(8)}:{self.rng.randrange(2)}", "without a number"])
        state: Any = self.rng.choice(["complete", "interrupted"])
        await self.both(
            "save_snapshot",
            ContinuableSnapshot(
                run_id=run, step_index=self.count, messages=history, timestamp=self.time(), state=state,
                idempotency_key=key,
            ),
        )  # fmt: skip

    async def effect(self, run: str) -> None:
        """A call that begins, is said more of, ends, or is recorded anew."""
        status: Any = self.rng.choice(["started", "started", "completed", "failed"])
        record = ToolEffectRecord(
            tool_call_id=f"call {self.rng.randrange(3)}", tool_name="pay", run_id=run, status=status,
            started_at=self.time(), effect_summary=f"number {self.count}",
        )  # fmt: skip
        await self.both("record_tool_effect", record)

    def time(self) -> datetime:
        """A moment of its own."""
        return MOMENT + timedelta(seconds=self.count)

    async def both(self, verb: str, value: object) -> None:
        """The same call for both."""
        for store in (self.ours, self.theirs):
            await getattr(store, verb)(value)

    async def compare(self) -> None:
        """Both tell the same."""
        assert await self.ours.list_runs() == await self.theirs.list_runs()
        for run in RUNS:
            assert await self.ours.get_run(run_id=run) == await self.theirs.get_run(run_id=run)
            assert await self.ours.list_events(run_id=run) == await self.theirs.list_events(run_id=run)
            for also in (False, True):
                mine = await self.ours.list_snapshots(run_id=run, include_interrupted=also)
                assert mine == await self.theirs.list_snapshots(run_id=run, include_interrupted=also)
                last = await self.ours.latest_snapshot(run_id=run, include_interrupted=also)
                assert last == await self.theirs.latest_snapshot(run_id=run, include_interrupted=also)
            told = await self.ours.list_unresolved_tool_effects(run_id=run)
            own = await self.theirs.list_unresolved_tool_effects(run_id=run)
            assert sorted(told, key=lambda each: each.tool_call_id) == sorted(own, key=lambda each: each.tool_call_id)
            for call in range(3):
                one = await self.ours.get_tool_effect(run_id=run, tool_call_id=f"call {call}")
                assert one == await self.theirs.get_tool_effect(run_id=run, tool_call_id=f"call {call}")


@pytest.mark.parametrize("keep", [None, 1, 3])
async def test_it_tells_what_the_harness_tells(keep: int | None) -> None:
    """Random calls for it and for the harness's own store give the same answers, also in another process."""
    rng = random.Random(f"steps {keep}")
    beside = Beside(memory_backend(), rng, keep)
    for number in range(STEPS):
        await beside.step()
        if number % 10 == 9:
            await beside.compare()
    beside.ours = beside.opened()
    await beside.compare()
    assert beside.backend.store().verify("runs") == []


async def test_several_processes_record_at_once(anywhere: Backend) -> None:
    """What all record is kept, and each sees it; on disk and in buckets."""
    stores = [TreeringStepStore(anywhere.store(), "c") for _ in range(3)]
    assert isinstance(stores[0], StepStore)

    async def work(number: int) -> None:
        for step in range(4):
            run = f"run {number}"
            await stores[number].append_event(StepEvent(run_id=run, kind="run_started", step_index=step))
            history = [message(each) for each in range(step + 1)]
            await stores[number].save_snapshot(ContinuableSnapshot(run_id=run, step_index=step, messages=history))

    await asyncio.gather(*map(work, range(3)))
    for store in stores:
        for number in range(3):
            found = await store.list_snapshots(run_id=f"run {number}")
            assert [len(each.messages) for each in found] == [1, 2, 3, 4]
            assert [event.step_index for event in await store.list_events(run_id=f"run {number}")] == [0, 1, 2, 3]
    ids = [node.id for node in anywhere.store().view("c").nodes()]
    assert len(ids) == len(set(ids)) == 4  # each message once


async def test_what_a_snapshot_costs() -> None:
    """Messages are shared: 100 snapshots of a growing history take about its text, and each save a request."""
    texts = list(workload.even_texts(2 * SNAPSHOTS, MESSAGE_BYTES))
    backend = memory_backend()
    store, counts = backend.counted()
    steps, history = TreeringStepStore(store), list[ModelMessage]()
    for step in range(SNAPSHOTS):
        history.append(ModelRequest(parts=[UserPromptPart(texts[2 * step])]))
        history.append(ModelResponse(parts=[TextPart(texts[2 * step + 1])]))
        key = f"{step}:{step}:complete"
        await steps.save_snapshot(
            ContinuableSnapshot(run_id="r", step_index=step, messages=list(history), idempotency_key=key)
        )
    assert counts.total / SNAPSHOTS <= REQUESTS_A_SAVE
    steps.close()
    assert sum(map(len, backend.snapshot().values())) <= STORED * sum(map(len, texts))
    store, counts = backend.counted()
    found = await TreeringStepStore(store).latest_snapshot(run_id="r")
    assert found is not None
    assert found.messages == history
    assert counts.counts == {"Get": 2}


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_save_without_an_answer_can_be_repeated(fault: Fault) -> None:
    """With an idempotency key it is there once; so is an event, and an effect."""
    unreliable = Unreliable()
    store = TreeringStepStore(unreliable.store)
    await store.register_run(RunRecord(run_id="r"))
    snapshot = ContinuableSnapshot(run_id="r", step_index=1, messages=[message(0)], idempotency_key="0:1")
    event = StepEvent(run_id="r", kind="run_started", step_index=1, idempotency_key="0:1")
    effect = ToolEffectRecord(tool_call_id="c", tool_name="pay", run_id="r", status="started")
    for verb, value in (("save_snapshot", snapshot), ("append_event", event), ("record_tool_effect", effect)):
        unreliable.plan.arm(fault, tail_write)
        with pytest.raises(treering.UnavailableError):
            await getattr(store, verb)(value)
        await getattr(store, verb)(value)
    assert await store.list_snapshots(run_id="r") == [snapshot]
    assert await store.list_events(run_id="r") == [event]
    assert await store.list_unresolved_tool_effects(run_id="r") == [effect]


async def test_calls_of_different_runs_are_never_one_effect() -> None:
    """Whatever characters their ids have, and also if a call was made twice."""
    backend = memory_backend()
    store = TreeringStepStore(backend.store())
    calls = [("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"), ("a", "c/2"), ("a", "c"), ("\ud83d", "c")]
    begun = [ToolEffectRecord(run_id=run, tool_call_id=call, tool_name="pay", status="started") for run, call in calls]
    for each in begun:
        await store.record_tool_effect(each)
    for each in begun:
        assert await store.get_tool_effect(run_id=each.run_id, tool_call_id=each.tool_call_id) == each
    await store.record_tool_effect(replace(begun[4], status="completed"))
    await store.record_tool_effect(again := replace(begun[4], effect_summary="again"))
    assert await store.get_tool_effect(run_id="a", tool_call_id="c/2") == begun[3]
    assert await store.get_tool_effect(run_id="a", tool_call_id="c") == again


async def test_effects_are_those_of_the_session() -> None:
    """What the harness records of a call is an effect: whoever resumes the session is told of it as well."""
    backend = memory_backend()
    store = TreeringStepStore(backend.store(), "c")
    started = ToolEffectRecord(tool_call_id="call-1", tool_name="pay", run_id="r", status="started")
    await store.record_tool_effect(started)
    (told,) = backend.store().view("c").unresolved_effects()
    assert (told.call, told.key, told.about["tool_name"]) == ("call-1", "r/call-1", "pay")
    long = replace(started, tool_call_id="x" * 300, run_id="r" * 200)
    await store.record_tool_effect(long)
    assert await store.list_unresolved_tool_effects(run_id="r" * 200) == [long]
    with pytest.raises(treering.UsageError, match="too much"):
        await store.record_tool_effect(replace(started, effect_summary="x" * 9000))


async def test_large_parts_are_blobs_and_can_be_erased() -> None:
    """An image is stored once, as bytes; erasing its message erases it in all snapshots."""
    backend = memory_backend()
    image = BinaryContent(data=random.Random(1).randbytes(100_000), media_type="image/png")
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(["look", image])]),
        ModelResponse(parts=[ToolCallPart("draw", {"size": 1}, tool_call_id="c")]),
        ModelRequest(parts=[ToolReturnPart("draw", image, tool_call_id="c")]),
    ]
    store = TreeringStepStore(backend.store(), "c")
    for step in range(3):
        await store.save_snapshot(ContinuableSnapshot(run_id="r", step_index=step, messages=history[: step + 1]))
    dump = ModelMessagesTypeAdapter.dump_json
    saved = [dump(each.messages) for each in await store.list_snapshots(run_id="r")]
    assert saved == [dump(history[: n + 1]) for n in range(3)]
    assert sum(len(data) for data in backend.snapshot().values()) < 130_000
    store.close()
    with backend.store().session("c", shared=True) as session:
        assert session.erase(*[node.id for node in session.nodes() if node.role == "user"]).blobs_deleted
    left = await TreeringStepStore(backend.store(), "c").list_snapshots(run_id="r")
    assert [[vars(part)["content"] for part in each.messages[0].parts] for each in left] == [["[erased]"]] * 3
    assert left[2].messages[1] == history[1]
    assert sum(len(data) for data in backend.snapshot().values()) < 30_000


@pytest.mark.parametrize(
    "steps",
    [
        "a started, b completed, a failed",
        "a started, b started, a completed, b failed",
        "a started, a completed, b started, a started",
    ],
)
async def test_the_last_status_counts_whoever_records_it(steps: str) -> None:
    """Two processes run one call; neither is refused for what the other one recorded."""
    backend, theirs = memory_backend(), InMemoryStepStore()
    ours = {name: TreeringStepStore(backend.store(), "s") for name in "ab"}
    for number, step in enumerate(steps.split(", ")):
        who, status = cast("tuple[str, Any]", tuple(step.split()))
        record = ToolEffectRecord(
            tool_call_id="c", tool_name="pay", run_id="r", status=status, started_at=MOMENT + timedelta(seconds=number)
        )
        await ours[who].record_tool_effect(record)
        await theirs.record_tool_effect(record)  # nothing is read in between: a read would look at what others did
    last = await theirs.get_tool_effect(run_id="r", tool_call_id="c")
    assert last is not None
    for one in ours.values():
        assert await one.get_tool_effect(run_id="r", tool_call_id="c") == last
    unresolved = await theirs.list_unresolved_tool_effects(run_id="r")
    for one in ours.values():
        assert await one.list_unresolved_tool_effects(run_id="r") == unresolved


async def test_what_was_erased_of_a_run_is_not_there() -> None:
    """Its description and its snapshot are missing; other runs are read, and this one goes on."""
    backend = memory_backend()
    store = TreeringStepStore(backend.store())
    snapshot = ContinuableSnapshot(run_id="r", step_index=1, messages=[message(0)], idempotency_key="0:1")
    for run in ("other", "r"):
        await store.register_run(RunRecord(run_id=run))
    await store.save_snapshot(snapshot)
    store.close()
    (name,) = [each.id for each in backend.store().sessions().rows]
    with backend.store().session(name, shared=True) as session:
        session.erase(state=["pydantic_ai/run/r", "pydantic_ai/snapshot", "pydantic_ai/keys/r"])
    again = TreeringStepStore(backend.store())
    assert [each.run_id for each in await again.list_runs()] == ["other"]
    assert await again.get_run(run_id="r") is None
    assert await again.list_snapshots(run_id="r") == []
    assert await again.latest_snapshot(run_id="r") is None
    later = replace(snapshot, step_index=2, messages=[message(0), message(1)], idempotency_key="1:2")
    await again.save_snapshot(later)
    assert [each.step_index for each in await again.list_snapshots(run_id="r")] == [2]


@pytest.mark.parametrize("opened", ["before", "after"])
async def test_edits_hold_in_every_snapshot(opened: str) -> None:
    """A retracted message is left out, and an amended one shown anew, also after another run, and in old snapshots."""
    backend, history = memory_backend(), [message(number) for number in range(3)]
    store = TreeringStepStore(backend.store())
    for step in (2, 3):
        await store.save_snapshot(ContinuableSnapshot(run_id="r", step_index=step, messages=history[:step]))
    await store.save_snapshot(ContinuableSnapshot(run_id="other", step_index=1, messages=[message(9)]))
    with backend.store().session(store.name, shared=True) as session:
        first, answer = [node.id for node in session.nodes()][:2]
        session.amend(first, {"role": "user", "content": "better"})
        session.retract(answer)
    if opened == "after":
        store = TreeringStepStore(backend.store())
    newest = await store.latest_snapshot(run_id="r")
    found = [*await store.list_snapshots(run_id="r"), newest]
    texts = [[cast("Any", each.parts[0]).content for each in cast("Any", one).messages] for one in found]
    assert texts == [["better"], ["better", "question 2"], ["better", "question 2"]]
