"""The checkpoint storage: several processes, kills, faults, a model to compare with, and what it costs."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import pytest
from agent_framework import InMemoryCheckpointStorage, Message, WorkflowCheckpoint, WorkflowCheckpointException
from tests.sampling import few
from tests.session.backends import Backend, backend_of, memory_backend
from tests.session.faults import Outage
from tests.storage.processes import start

from treering.api.store import Store
from treering.errors import UnavailableError
from treering.integrations.agent_framework import TreeringCheckpointStorage
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

CALLS, SEEDS = 60, few(4, whole=12)
WRITERS, EACH = 4, few(5, whole=10)
STEPS = 100


def made(number: int, workflow: str = "flow", **fields: Any) -> WorkflowCheckpoint:
    """A checkpoint with a conversation that has so many messages."""
    said = [Message("user", [f"message {at} " * 40]) for at in range(number)]
    state = {"_executor_state": {"writer": {"conversation": said, "count": number}}, "plan": "x" * 500}
    fields = {
        "checkpoint_id": f"{workflow}-{number}",
        "timestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}+00:00",
    } | fields
    return WorkflowCheckpoint(workflow, "hash", state=state, iteration_count=number, **fields)


def shown(checkpoint: Any) -> Any:
    """A checkpoint in a form that can be compared; messages have no equality of their own."""
    if checkpoint is None:
        return None
    said = [each.to_dict() for each in checkpoint.state["_executor_state"]["writer"]["conversation"]]
    return checkpoint.checkpoint_id, checkpoint.workflow_name, checkpoint.timestamp, checkpoint.iteration_count, said


async def test_checkpoints_come_back_in_another_process(anywhere: Backend) -> None:
    """Each as it was, by id, as the newest, and in a list; a deleted one is gone."""
    first, second = (TreeringCheckpointStorage(anywhere.store(), "job") for _ in range(2))
    assert await second.get_latest(workflow_name="flow") is None
    assert await second.delete("flow-1") is False
    for number in range(1, 9):
        assert await first.save(made(number)) == f"flow-{number}"
    await first.save(made(1, "other", timestamp="2027-01-01T00:00:00+00:00"))
    assert shown(await second.get_latest(workflow_name="flow")) == shown(made(8))
    assert [shown(each) for each in await second.list_checkpoints(workflow_name="flow")] == [
        shown(made(n)) for n in range(1, 9)
    ]
    assert await first.delete("flow-8") is True
    assert await second.delete("flow-3") is True
    assert await first.list_checkpoint_ids(workflow_name="flow") == [f"flow-{number}" for number in (1, 2, 4, 5, 6, 7)]
    assert shown(await first.load("flow-7")) == shown(made(7))
    assert shown(await second.get_latest(workflow_name="flow")) == shown(made(7))
    with pytest.raises(WorkflowCheckpointException, match="flow-8"):
        await second.load("flow-8")
    first.close()
    assert anywhere.store().verify("job") == []


async def told(call: Any) -> Any:
    """What a call returns, or that it raised."""
    try:
        found = await call
    except WorkflowCheckpointException:
        return WorkflowCheckpointException
    if isinstance(found, list):
        return [each if isinstance(each, str) else shown(each) for each in found]
    return shown(found) if isinstance(found, WorkflowCheckpoint) else found


def called(storage: Any, action: str, new: WorkflowCheckpoint, old: str) -> Any:
    """One of the calls that a storage has."""
    match action:
        case "s":
            return storage.save(new)
        case "l":
            return storage.load(old)
        case "d":
            return storage.delete(old)
        case "g":
            return storage.get_latest(workflow_name=new.workflow_name)
        case "i":
            return storage.list_checkpoint_ids(workflow_name=new.workflow_name)
    return storage.list_checkpoints(workflow_name=new.workflow_name)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_random_calls_give_what_the_framework_gives(seed: int) -> None:
    """By several processes, with times in any order, and with ids that are saved again."""
    rng, backend = random.Random(seed), memory_backend()
    ours = [TreeringCheckpointStorage(backend.store(), "job") for _ in range(rng.randrange(1, 4))]
    theirs = InMemoryCheckpointStorage()
    for number in range(CALLS):
        workflow, old = rng.choice(["red", "blue"]), f"{rng.choice(['red', 'blue'])}-{rng.randrange(CALLS)}"
        at = f"2026-01-01T00:00:00.{rng.choice([number, rng.randrange(999)]) * 1000 + number:06}+00:00"
        new = made(rng.randrange(9), workflow, timestamp=at, checkpoint_id=rng.choice([f"{workflow}-{number}", old]))
        if (name := new.checkpoint_id).partition("-")[0] != workflow:
            new.checkpoint_id = f"{workflow}-{name}"  # an id is of one workflow
        action = rng.choice("sssssldgit")
        found = [await told(called(each, action, new, old)) for each in (rng.choice(ours), theirs)]
        assert found[0] == found[1], action


async def test_nothing_is_lost_where_many_save(anywhere: Backend) -> None:
    """Several runs of a workflow in processes of their own share one storage."""
    storages = [TreeringCheckpointStorage(anywhere.store(), "job") for _ in range(WRITERS)]

    async def write(number: int) -> None:
        for at in range(EACH):
            await storages[number].save(made(at, f"flow {number}"))

    await asyncio.gather(*map(write, range(WRITERS)))
    for number in range(WRITERS):
        found = await storages[0].list_checkpoints(workflow_name=f"flow {number}")
        assert [shown(each) for each in found] == [shown(made(at, f"flow {number}")) for at in range(EACH)]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
async def test_a_save_without_an_answer_may_be_repeated(fault: Fault) -> None:
    """Then the checkpoint is there once."""
    outage = Outage()
    storage = TreeringCheckpointStorage(Store(Place(FaultyDriver(MemoryDriver(), outage))), "job")
    await storage.save(made(1))
    outage.begin(fault)
    with pytest.raises(UnavailableError):
        await storage.save(made(2))
    outage.end()
    await storage.save(made(2))
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ["flow-1", "flow-2"]
    assert shown(await storage.load("flow-2")) == shown(made(2))


@dataclass
class Mine:
    """A class of the user."""

    text: str


async def test_what_cannot_be_stored_is_told_and_stores_nothing() -> None:
    """Also what cannot be loaded, since the class is not registered in this process."""
    backend = memory_backend()
    storage = TreeringCheckpointStorage(backend.store(), "job")
    wrong = WorkflowCheckpoint("flow", "hash", state={"key": [Mine("a")]})
    with pytest.raises(WorkflowCheckpointException, match=r"state\.key\[0\].*Mine"):
        await storage.save(wrong)
    assert await storage.list_checkpoint_ids(workflow_name="flow") == []
    knowing = TreeringCheckpointStorage(backend.store(), "job", types=[Mine])
    await knowing.save(wrong)
    assert (await knowing.load(wrong.checkpoint_id)).state == {"key": [Mine("a")]}
    with pytest.raises(WorkflowCheckpointException, match=r"Mine.*types"):
        await storage.load(wrong.checkpoint_id)
    with pytest.raises(WorkflowCheckpointException, match="too long"):
        await storage.save(made(1, "flow" * 200))


WRITER = """
import asyncio
import treering
from agent_framework import WorkflowCheckpoint
from treering.integrations.agent_framework import TreeringCheckpointStorage

async def main():
    storage = TreeringCheckpointStorage(treering.open(sys.argv[1]), "job")
    said = []
    for number in range(100_000):
        said.append(f"{number} " * 200)
        await storage.save(WorkflowCheckpoint("flow", "hash", checkpoint_id=str(number), state={"said": said}))
        print(number, flush=True)

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_a_kill(tmp_path: Any) -> None:
    """Of a process that is killed while it saves."""
    with start(WRITER, tmp_path / "store") as writer:
        assert writer.stdout is not None
        while (last := int(writer.stdout.readline())) < 20:
            pass
        writer.kill()
        last = max([last, *map(int, writer.stdout.read().split("\n")[:-1])])
    storage = TreeringCheckpointStorage(backend_of("local", tmp_path / "store").store(), "job")
    found = await storage.list_checkpoints(workflow_name="flow")
    assert [each.checkpoint_id for each in found] == [str(number) for number in range(len(found))]
    assert [len(each.state["said"]) for each in found] == [number + 1 for number in range(len(found))]
    assert len(found) > last


# what it costs


def counted(backend: Backend) -> tuple[TreeringCheckpointStorage, CountingDriver]:
    """A storage in a new process, and what counts its requests."""
    store, counts = backend.counted()
    assert isinstance(store, Store)
    return TreeringCheckpointStorage(store, "job"), counts


async def test_a_checkpoint_stores_what_is_new() -> None:
    """A save is one request, and now and then a few more; all saves of a growing conversation are about its text."""
    backend = memory_backend()
    storage, counts = counted(backend)
    rng = random.Random(1)
    said: list[Message] = []
    for number in range(STEPS):
        said.append(Message("user", ["".join(rng.choices("abcdefghijklmnop", k=1000))]))
        state = {"_executor_state": {"writer": {"full_conversation": said, "count": number}}}
        await storage.save(WorkflowCheckpoint("flow", "hash", state=state))
    assert counts.counts["Put"] <= 1.3 * STEPS
    assert counts.total <= 1.6 * STEPS
    storage.close()
    again, counts = counted(backend)
    latest = await again.get_latest(workflow_name="flow")
    assert latest is not None
    assert len(latest.state["_executor_state"]["writer"]["full_conversation"]) == STEPS
    assert counts.counts["Get"] == counts.total <= 3
    segments = sum(len(data) for key, data in backend.snapshot().items() if "/segments/" in key or "/tail" in key)
    assert segments <= 2 * STEPS * 1000


async def test_an_erased_checkpoint_is_as_one_that_was_deleted(backend: Backend) -> None:
    """It is in no list, and does not keep others from being saved, read and deleted."""
    storage = TreeringCheckpointStorage(backend.store())
    await storage.save(made(1))
    with backend.store().session("workflows", shared=True) as session:
        session.erase(state=["agent_framework/workflow"])
    with pytest.raises(WorkflowCheckpointException):
        await storage.load("flow-1")
    assert await storage.get_latest(workflow_name="flow") is None
    await storage.save(made(2))
    assert shown(await storage.load("flow-2")) == shown(made(2))
    assert [each.checkpoint_id for each in await storage.list_checkpoints(workflow_name="flow")] == ["flow-2"]
    assert await storage.delete("flow-1")
    assert await storage.delete("flow-2")
