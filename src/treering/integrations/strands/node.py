"""Sessions for agents in nodes of a graph or swarm, each linked with the session of the orchestrator.

Strands allows no session manager for an agent in a node, so hooks record the agent. An orchestrator resets its agents:
a node that runs again begins with an empty conversation. So each run is a branch, which begins at the first difference
between the agent's list of messages and the recorded messages.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, Protocol

from strands import Agent
from strands.hooks import AfterInvocationEvent, AfterModelCallEvent, BeforeModelCallEvent, MessageAddedEvent

from treering import NotFoundError, Session, Store
from treering.integrations.strands.agent_state import NO_STASH, Known, capture
from treering.integrations.strands.conversation import tracking_id
from treering.integrations.strands.recorder import Recorder, System
from treering.integrations.strands.worker import Worker

if TYPE_CHECKING:
    from strands.types.agent import LocalAgent
    from strands.types.content import Message

TASK_CHARACTERS_MAX: Final = 200
"""The most characters of a node's task on the card of its session."""


class Above(Protocol):
    """The orchestrator to which a node belongs."""

    @property
    def session(self) -> Session:
        """The orchestrator's session."""

    @property
    def worker(self) -> Worker:
        """The thread that records in that session."""


class Node:
    """Records one agent while its orchestrator runs.

    Args:
        store: The store of its session.
        above: The orchestrator.
        name: The name of its session.
        agent: The agent.
    """

    def __init__(self, store: Store, above: Above, name: str, agent: Agent) -> None:
        self._store = store
        self._above = above
        self._name = name
        self._agent = agent
        self._worker = Worker(name)
        self._recorder: Recorder | None = None
        self._system: System | None = None
        self._listens = False
        """Whether the orchestrator runs; invocations of the agent by other callers are not recorded."""
        self._asked: Message | None = None
        """A copy of the message to which the model replies."""
        agent.add_hook(self._on_message_added, MessageAddedEvent)
        agent.add_hook(self._on_model_asked, BeforeModelCallEvent)
        agent.add_hook(self._on_model_answered, AfterModelCallEvent)
        agent.add_hook(self._on_invocation_ended, AfterInvocationEvent)

    def begin(self) -> None:
        """Listen to the agent: the orchestrator starts. The prompt and the tools may have changed."""
        self._listens, self._system = True, None

    def end(self) -> None:
        """Ignore the agent from now on: the orchestrator has finished."""
        self._listens = False

    def close(self) -> None:
        """Close the session."""
        if self._recorder is not None:
            self._worker.run(self._recorder.session.close)
        self._worker.close()

    async def _on_message_added(self, event: MessageAddedEvent[LocalAgent]) -> None:
        if self._listens:
            await self._worker.arun(self._add, copy.deepcopy(event.message), *self._facts())

    async def _on_model_asked(self, event: BeforeModelCallEvent) -> None:
        messages = event.agent.messages
        self._asked = copy.deepcopy(messages[-1]) if self._listens and messages else None

    async def _on_model_answered(self, event: AfterModelCallEvent) -> None:
        """Erase a message that a guardrail redacted during the model's answer: Strands calls no hook for that."""
        asked, self._asked = self._asked, None
        if asked is None or self._recorder is None:
            return
        now = next((each for each in event.agent.messages if tracking_id(each) == tracking_id(asked)), None)
        if now is not None and now["content"] != asked["content"]:
            await self._worker.arun(self._recorder.redact, copy.deepcopy(now), *self._facts())

    async def _on_invocation_ended(self, event: AfterInvocationEvent) -> None:  # noqa: ARG002  # the agent is known
        recorder = self._recorder
        if self._listens and recorder is not None:
            try:
                await self._worker.arun(recorder.checkpoint, *self._facts())
            finally:
                await self._worker.arun(recorder.end)

    def _facts(self) -> tuple[list[Any], Known, System]:
        """Return the current messages, state, prompt and tools of the agent."""
        agent = self._agent
        if self._system is None:
            self._system = System.of(agent.system_prompt_content, agent.tool_registry.get_all_tools_config())
        known = capture(agent, stash=NO_STASH, system=self._system.digest)
        return copy.deepcopy(list(agent.messages)), known, self._system

    # in the thread

    def _add(self, message: Message, messages: list[Any], known: Known, system: System) -> None:
        if self._recorder is None:
            self._recorder = Recorder(self._opened())
        self._go_along(self._recorder, {tracking_id(each) for each in messages} - {tracking_id(message)})
        self._recorder.add(message, messages, known, system, drawn=True)

    def _go_along(self, recorder: Recorder, before: set[str]) -> None:
        """Move the head to the last recorded message that the agent still has, or before the first message."""
        shown = [each.node for each in recorder.shown]
        kept = [each.node for each in recorder.shown if each.tracking_id in before]
        if shown and (not kept or kept[-1] != shown[-1]):
            recorder.go(lambda session: session.checkout(kept[-1] if kept else None))

    def _opened(self) -> Session:
        """Open the session of this node, or make a new one that is linked with the orchestrator's session."""
        try:
            return self._store.session(self._name, create=False, hold=False)
        except NotFoundError:
            return self._above.worker.run(self._spawned)

    def _spawned(self) -> Session:
        task = (self._agent.description or self._agent.name)[:TASK_CHARACTERS_MAX]
        session = self._store.spawn(self._above.session, self._name, task=task)
        session.release()
        return session
