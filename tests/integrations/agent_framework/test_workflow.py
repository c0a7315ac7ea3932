"""A workflow that is killed while it works, or that waits for a person, goes on in another process."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from agent_framework import Agent, AgentExecutor, AgentExecutorRequest, Message, WorkflowBuilder
from tests.integrations.agent_framework.stand_in import StandIn, said
from tests.session.backends import Backend, backend_of
from tests.storage.processes import finish, start

from treering.integrations.agent_framework import TreeringCheckpointStorage

FLOW = """
import asyncio, signal
from dataclasses import dataclass
import treering
from agent_framework import Executor, Message, WorkflowBuilder, WorkflowContext, handler, response_handler
from treering.integrations.agent_framework import TreeringCheckpointStorage

@dataclass
class Draft:
    text: str
    round: int

class Writer(Executor):
    @handler
    async def start(self, text: str, ctx: WorkflowContext[Draft]) -> None:
        await ctx.send_message(Draft(text, 1))

    @handler
    async def again(self, draft: Draft, ctx: WorkflowContext[Draft, str]) -> None:
        if draft.round == int(sys.argv[3]) and sys.argv[2] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        ctx.set_state("rounds", [*(ctx.get_state("rounds") or []), draft])
        if draft.round == 8:
            await ctx.yield_output(f"{draft.text} {len(ctx.get_state('rounds'))}")
        else:
            await ctx.send_message(Draft(draft.text + str(draft.round), draft.round + 1))

class Editor(Executor):
    @handler
    async def read(self, draft: Draft, ctx: WorkflowContext[Draft]) -> None:
        await ctx.send_message(draft)

async def main():
    storage = TreeringCheckpointStorage(treering.open(sys.argv[1]), "article", types={"Draft": Draft})
    writer, editor = Writer(id="writer"), Editor(id="editor")
    flow = WorkflowBuilder(start_executor=writer, checkpoint_storage=storage, name="article").add_edge(
        writer, editor).add_edge(editor, writer).build()
    latest = await storage.get_latest(workflow_name="article")
    if latest is None:
        result = await flow.run("a")
    else:
        print("from", latest.iteration_count)
        result = await flow.run(checkpoint_id=latest.checkpoint_id)
    print(*result.get_outputs())

asyncio.run(main())
"""


def test_a_killed_workflow_goes_on(tmp_path: Path) -> None:
    """From the checkpoint of the step before, as often as it is killed; the result is that of a run without kills."""
    place = tmp_path / "store"
    for round_ in (2, 4, 5):
        with start(FLOW, place, "die", round_) as process:
            process.communicate()
        assert process.returncode == -signal.SIGKILL
    printed = finish(start(FLOW, place, "live", 0)).split("\n")
    assert printed[0].startswith("from ")
    assert int(printed[0].split()[1]) > 4
    assert printed[1] == "a1234567 8"
    assert finish(start(FLOW, tmp_path / "other", "live", 0)) == "a1234567 8\n"
    assert backend_of("local", place).store().verify("article") == []


async def test_a_workflow_of_agents_goes_on_where_it_was(anywhere: Backend) -> None:
    """Their conversations come back, and the checkpoint of any step can be run again."""

    def flow(model: StandIn, storage: TreeringCheckpointStorage) -> Any:
        agents = [AgentExecutor(Agent(model, name=name), id=name) for name in ("writer", "editor")]
        return (
            WorkflowBuilder(start_executor=agents[0], checkpoint_storage=storage, name="flow").add_chain(agents).build()
        )

    asked = AgentExecutorRequest([Message("user", ["write"])], should_respond=True)
    storage = TreeringCheckpointStorage(anywhere.store(), "job")
    await flow(StandIn(said("draft"), said("edited")), storage).run(asked)
    storage = TreeringCheckpointStorage(anywhere.store(), "job")
    every = await storage.list_checkpoints(workflow_name="flow")
    assert [each.previous_checkpoint_id for each in every] == [None, *(each.checkpoint_id for each in every[:-1])]
    before = next(each for each in every if each.iteration_count == 1)
    model = StandIn(said("edited otherwise"))
    result = await flow(model, storage).run(checkpoint_id=before.checkpoint_id)
    assert "edited otherwise" in str([getattr(each, "text", each) for each in result.get_outputs()])
    assert model.shown == [["write", "draft"]]
    assert len(await storage.list_checkpoints(workflow_name="flow")) > len(every)
