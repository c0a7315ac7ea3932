"""`TreeringSessionManager`: the hooks that Strands calls, and the records of each of them.

| event of Strands                          | action of this module                                       | requests |
|-------------------------------------------|-------------------------------------------------------------|----------|
| an agent was made                         | load it from its session; write nothing                     | 2 GET    |
| a message was added                       | append it, with a checkpoint if the agent's state changed   | 1        |
| a message was replaced                    | amend it                                                    | 1        |
| an invocation ended                       | append a checkpoint if anything changed since the last one  | 0 or 1   |
| the first invocation of a session ended   | also write its card, so that lists show the first prompt    | 1 more   |
| the context was reduced after an overflow | the same                                                    | 0 or 1   |
| a live connection stops or restarts       | the same                                                    | 0 or 1   |
| a guardrail redacted a user's message     | erase it wherever it is stored, and append the new text     | several  |

Rule 1: when a hook has returned, its records are durable. If all retries fail, the user's turn raises the error, so
that no agent continues with a message that is not stored.
Rule 2: the event loop never waits for the store in a hook that Strands awaits.
Rule 3: no two agents share a session.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from strands import Snapshot
from strands.bidi.hooks.events import BidiAgentStopEvent, BidiBeforeConnectionRestartEvent
from strands.hooks import (
    AfterInvocationEvent,
    AgentInitializedEvent,
    BeforeInvocationEvent,
    HookOrder,
    HookRegistry,
    MessageAddedEvent,
    MessageUpdatedEvent,
)
from strands.session import SessionManager
from strands.types.agent import LocalAgent
from strands.types.content import Message
from strands.types.exceptions import SessionException

from treering import CheckpointInfo, OpenOptions, Session, Store, View
from treering.integrations.closable import Closable
from treering.integrations.deleting import names_beginning
from treering.integrations.strands.agent_state import (
    NO_STASH,
    SCHEMA,
    SCOPE,
    Known,
    Stash,
    capture,
    is_named,
    snapshot_of,
    stash_of,
)
from treering.integrations.strands.conversation import put_aside_as
from treering.integrations.strands.names import EXTRA, belongs_to, require_session_id
from treering.integrations.strands.orchestrator import Orchestrators
from treering.integrations.strands.recorder import Recorder, System
from treering.integrations.strands.worker import Worker
from treering.programs.strands.keys import DEFAULT_AGENT, agent_session

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase

    from treering import AsyncStore

_log: Final = logging.getLogger(__name__)


class _Attached:
    """One agent, its recorder, and the thread of the recorder."""

    def __init__(self, recorder: Recorder, worker: Worker) -> None:
        self.recorder = recorder
        self.worker = worker
        self.brought: set[str] = set()
        """Tracking ids that the caller gave to messages of this invocation, and that may have been used before."""
        self._system: System | None = None

    def begin(self, messages: list[Message] | None) -> None:
        """Begin an invocation; the prompt and the tools may have changed."""
        self._system = None
        self.brought = {name for message in messages or () if (name := message.get("tracking_id"))}

    def system(self, agent: LocalAgent) -> System:
        """Return the prompt and tools of this invocation."""
        if self._system is None:
            self._system = System.of(agent.system_prompt_content, agent.tool_registry.get_all_tools_config())
        return self._system

    def facts(self, agent: LocalAgent, stash: Stash = NO_STASH) -> tuple[list[Any], Known, System]:
        """Return the current messages, state, prompt and tools of an agent."""
        system = self.system(agent)
        return list(agent.messages), capture(agent, stash=stash, system=system.digest), system


class TreeringSessionManager(Closable, SessionManager[LocalAgent]):
    """Keeps agents in a Treering store: every message when it is added, and the state needed to continue.

    Args:
        store: The store.
        session_id: The id of the conversation; an agent that is made with the same ids continues it.
        title: The title of a new session, for lists.
        project: The project of a new session, for filters of lists; by default the session id.
        cwd: The working folder of a new session.
        on_conflict: What happens if an agent continues from a message and another process has continued from it, too:
            `raise` an error, or `branch` to record the agent's messages on a new branch. Graphs and swarms always
            raise.

    Raises:
        ValueError: The session id is empty or holds a path, or `on_conflict` has another value.
    """

    def __init__(
        self,
        store: Store | AsyncStore,
        session_id: str,
        *,
        title: str = "",
        project: str = "",
        cwd: str = "",
        on_conflict: Literal["raise", "branch"] = "raise",
    ) -> None:
        if on_conflict not in ("raise", "branch"):
            raise ValueError(f"no such way. on_conflict={on_conflict!r}, known=('raise', 'branch')")
        self.session_id: str = require_session_id(session_id)
        """The id of the conversation."""
        self._store = store if isinstance(store, Store) else Store(store.place)
        self._options: OpenOptions = {"title": title, "project": project or session_id, "cwd": cwd, "hold": False}
        self._branches = on_conflict == "branch"
        self._agents: dict[str, _Attached] = {}
        self._orchestrators = Orchestrators(self._store, session_id, self._options)

    def __repr__(self) -> str:
        """Name the session, its store and its agents."""
        return f"<TreeringSessionManager {self.session_id!r} of {self._store!r}, agents {sorted(self._agents)}>"

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:  # noqa: ARG002  # of Strands
        """Register the hooks that record."""
        registry.add_callback(AgentInitializedEvent, self._on_agent_initialized)
        registry.add_callback(BeforeInvocationEvent, self._on_invocation_begins)
        registry.add_callback(MessageAddedEvent, self._on_message_added)
        registry.add_callback(MessageUpdatedEvent, self._on_message_updated)
        registry.add_callback(AfterInvocationEvent, self._on_invocation_ended)
        registry.add_callback(
            [BidiAgentStopEvent, BidiBeforeConnectionRestartEvent], self._on_live_boundary, order=HookOrder.SDK_LAST
        )
        self._orchestrators.register_hooks(registry)

    # hooks

    def _on_agent_initialized(self, event: AgentInitializedEvent[LocalAgent]) -> None:
        self.initialize(event.agent)

    async def _on_invocation_begins(self, event: BeforeInvocationEvent) -> None:
        attached = self._attached(event.agent)
        attached.begin(event.messages)
        await attached.worker.arun(attached.recorder.begin)

    async def _on_message_added(self, event: MessageAddedEvent[LocalAgent]) -> None:
        attached, message = self._attached(event.agent), copy.deepcopy(event.message)
        drawn = message.get("tracking_id") not in attached.brought
        await attached.worker.arun(attached.recorder.add, message, *attached.facts(event.agent), drawn=drawn)

    async def _on_message_updated(self, event: MessageUpdatedEvent[LocalAgent]) -> None:
        attached = self._attached(event.agent)
        await attached.worker.arun(attached.recorder.revise, copy.deepcopy(event.message))

    async def _on_invocation_ended(self, event: AfterInvocationEvent) -> None:
        await self._checkpoint(event.agent)

    async def _on_live_boundary(self, event: BidiAgentStopEvent | BidiBeforeConnectionRestartEvent) -> None:
        await self._checkpoint(event.agent)
        self._attached(event.agent).begin(None)

    async def _checkpoint(self, agent: LocalAgent) -> None:
        attached = self._attached(agent)
        try:
            facts = attached.facts(agent, await _stash(agent))
            await attached.worker.arun(attached.recorder.checkpoint, *facts)
        finally:
            await attached.worker.arun(attached.recorder.end)

    # methods that Strands calls

    def initialize(self, agent: LocalAgent, **kwargs: Any) -> None:  # noqa: ARG002
        """Load an agent from its session, if that exists: two reads, no write.

        Raises:
            SessionException: Another agent of this manager has the same id.
        """
        if agent.agent_id in self._agents:
            raise SessionException(f"The `agent_id` of an agent must be unique in a session. got={agent.agent_id!r}")
        worker = Worker(agent.agent_id)
        attached = _Attached(worker.run(self._open, agent.agent_id), worker)
        if not attached.recorder.is_new:
            if agent.messages:
                _log.warning("agent %r had messages; those of its session replace them", agent.agent_id)
            self._load(agent, attached)
        self._agents[agent.agent_id] = attached

    def append_message(self, message: Message, agent: LocalAgent, **kwargs: Any) -> None:  # noqa: ARG002
        """Record a message that was added to the agent."""
        attached, message = self._attached(agent), copy.deepcopy(message)
        attached.worker.run(attached.recorder.add, message, *attached.facts(agent), drawn=False)

    def sync_agent(self, agent: LocalAgent, **kwargs: Any) -> None:  # noqa: ARG002
        """Record the changes, with a checkpoint; do nothing if there are none."""
        self.checkpoint(agent)

    def redact_latest_message(self, redact_message: Message, agent: LocalAgent, **kwargs: Any) -> None:  # noqa: ARG002
        """Erase the old text of a message wherever it is stored, and record the new one."""
        attached, message = self._attached(agent), copy.deepcopy(redact_message)
        attached.worker.run(asyncio.run, _forget(agent, message))
        attached.worker.run(attached.recorder.redact, message, *attached.facts(agent))

    def initialize_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:  # noqa: ARG002
        """Load a graph or a swarm from its session, if that exists: two reads, no write.

        Raises:
            SessionException: Another orchestrator of this manager has the same id, the id holds a `/`, or the session
                keeps something else.
        """
        self._orchestrators.initialize(source)

    def sync_multi_agent(self, source: MultiAgentBase, **kwargs: Any) -> None:  # noqa: ARG002
        """Record the changes of a graph's or a swarm's state; do nothing if there are none."""
        self._orchestrators.sync(source)

    # time travel

    def checkpoint(self, agent: LocalAgent, *, label: str | None = None) -> str | None:
        """Record the changes, with a checkpoint; do nothing if there are no changes and no label.

        Args:
            agent: An agent of this manager.
            label: A name for the checkpoint.

        Returns:
            The newest checkpoint; None if there is none yet.
        """
        attached = self._attached(agent)
        facts = attached.facts(agent, attached.worker.run(asyncio.run, _stash(agent)))
        return attached.worker.run(attached.recorder.checkpoint, *facts, label=label)

    def checkpoints(self, agent: LocalAgent) -> tuple[CheckpointInfo, ...]:
        """Return all checkpoints of an agent, oldest first."""
        attached = self._attached(agent)
        return attached.worker.run(attached.recorder.session.checkpoints)

    def heads(self, agent: LocalAgent) -> Mapping[str, str | None]:
        """Return the branches of an agent's conversation, each with its last message."""
        return self._attached(agent).recorder.session.heads

    def restore_checkpoint(self, agent: LocalAgent, checkpoint: str) -> None:
        """Restore an agent to a checkpoint: its messages and its state. Later messages stay as a branch.

        Raises:
            NotFoundError: There is no such checkpoint.
            RuntimeError: It is a live agent that was not stopped.
        """
        self._travel(agent, lambda session: session.rewind(checkpoint))

    def branch(self, agent: LocalAgent, head: str, *, message: str | None = None) -> None:
        """Continue the agent from a message on a new branch; the old branch stays.

        Args:
            agent: An agent of this manager.
            head: A name for the branch.
            message: The tracking id of the message to continue from; by default the last one.

        Raises:
            NotFoundError: There is no such message.
            UsageError: A branch has that name.
            RuntimeError: It is a live agent that was not stopped.
        """
        node = None if message is None else self._attached(agent).recorder.node_of(message)
        self._travel(agent, lambda session: session.branch(head, node=node))

    def switch(self, agent: LocalAgent, head: str) -> None:
        """Continue the agent at the end of another branch.

        Raises:
            NotFoundError: There is no such branch.
            RuntimeError: It is a live agent that was not stopped.
        """
        self._travel(agent, lambda session: session.switch(head))

    def fork(
        self, agent: LocalAgent, session_id: str, *, message: str | None = None, title: str | None = None
    ) -> TreeringSessionManager:
        """Fork a new session from the conversation up to a message. This agent does not change.

        Args:
            agent: An agent of this manager.
            session_id: The id of the new session.
            message: The tracking id of the last message to copy; by default the last one.
            title: The title of the new session.

        Returns:
            A manager of the new session: an agent that is made with it and has the same id continues the copy.

        Raises:
            ConflictError: A session has that id.
            NotFoundError: There is no such message.
        """
        how: Literal["raise", "branch"] = "branch" if self._branches else "raise"
        other, attached = TreeringSessionManager(self._store, session_id, on_conflict=how), self._attached(agent)
        node = None if message is None else attached.recorder.node_of(message)
        name = agent_session(other.session_id, agent.agent_id)
        about = _about(session_id, agent.agent_id)

        def fork() -> None:
            with attached.recorder.held() as session:
                session.fork(name, node=node, title=title, project=session_id, extra=about)

        attached.worker.run(fork)
        return other

    def view(self, agent_id: str = DEFAULT_AGENT) -> View:
        """Return a read-only view of an agent's session.

        Raises:
            NotFoundError: There is no such agent in this session.
        """
        return self._store.view(agent_session(self.session_id, agent_id))

    # the whole session

    def delete_session(self) -> None:
        """Delete all sessions with this session id. Its agents cannot continue. Call again if this had no answer."""
        self.close()
        for name in names_beginning(self._store.place, self.session_id):
            if belongs_to(self.session_id, name):
                self._store.delete(name)

    def close(self) -> None:
        """Close the sessions of all agents, so that resuming each takes two reads."""
        self._orchestrators.close()
        agents, self._agents = self._agents, {}
        for attached in agents.values():
            attached.worker.run(attached.recorder.session.close)
            attached.worker.close()

    # implementation

    def _open(self, agent_id: str) -> Recorder:
        name = agent_session(self.session_id, agent_id)
        options: OpenOptions = {**self._options, "extra": _about(self.session_id, agent_id), "shared": self._branches}
        session = self._store.session(name, **options)
        about = session.info.extra.get(EXTRA)
        if isinstance(about, dict) and "keeps" in about:
            raise SessionException(f"this session is kept by another class of ours. session={name!r}, keeps={about!r}")
        return Recorder(session)

    def _attached(self, agent: LocalAgent) -> _Attached:
        attached = self._agents.get(agent.agent_id)
        if attached is None:
            raise SessionException(f"agent is not attached to this session. agent_id={agent.agent_id!r}")
        return attached

    def _travel(self, agent: LocalAgent, move: Callable[[Session], None]) -> None:
        """Move the head of a session, and load its agent from there."""
        agent.load_snapshot(_snapshot({}))  # raises now if the agent cannot be loaded
        attached = self._attached(agent)
        self.sync_agent(agent)
        attached.worker.run(attached.recorder.go, move)
        self._load(agent, attached)

    def _load(self, agent: LocalAgent, attached: _Attached) -> None:
        loaded = attached.worker.run(attached.recorder.load)
        agent.load_snapshot(snapshot_of(agent, loaded.state, loaded.messages))
        self._load_manager(agent, loaded.manager)
        if agent.model.stateful and agent.messages:
            _log.warning("the model of agent %r keeps the conversation itself: no messages loaded", agent.agent_id)
            agent.messages = []
        attached.worker.run(asyncio.run, _unstash(agent, stash_of(loaded.state)))

    def _load_manager(self, agent: LocalAgent, manager: object) -> None:
        """Load the state of the conversation manager, if a manager of the same class made that state."""
        current = getattr(agent, "conversation_manager", None)
        if current is None or not isinstance(manager, Mapping):
            return
        try:
            if manager.get("__name__") == type(current).__name__:
                agent.load_snapshot(_snapshot({"conversation_manager_state": copy.deepcopy(manager)}))
                return
        except ValueError:
            _log.debug("agent %r: its conversation manager refuses its state", agent.agent_id, exc_info=True)
        text = "agent %r: state of a %r was left out, it is not for a %r; the messages are as they were"
        _log.warning(text, agent.agent_id, manager.get("__name__"), type(current).__name__)


def _about(session_id: str, agent_id: str) -> dict[str, object]:
    """Return the facts about an agent on the card of its session."""
    return {EXTRA: {"session": session_id, "agent": agent_id}}


def _snapshot(data: dict[str, Any]) -> Snapshot:
    return Snapshot(scope=SCOPE, schema_version=SCHEMA, data=data, app_data={})


async def _stash(agent: LocalAgent) -> Stash:
    """Return the content that an agent's context manager offloaded."""
    manager = agent.context_manager
    if manager is None or manager.stash is None:
        return NO_STASH
    if manager.stash_is_durable:
        return Stash(elsewhere=manager.stash.storage_type_name)
    return Stash(await manager.stash.take_snapshot())


async def _unstash(agent: LocalAgent, stash: Stash) -> None:
    """Restore offloaded content."""
    manager = agent.context_manager
    if manager is None or manager.stash is None:
        return
    if stash.elsewhere not in ("", manager.stash.storage_type_name):
        _log.warning("agent %r: what was put aside is in a %s", agent.agent_id, stash.elsewhere)
    await manager.stash.load_snapshot(dict(stash.entries))


async def _forget(agent: LocalAgent, message: Message) -> None:
    """Remove the offloaded content of a message from the context manager."""
    manager = agent.context_manager
    if manager is None or manager.stash is None:
        return
    names = put_aside_as(message)
    for reference in await manager.stash.list():
        if is_named(reference, names):
            await manager.stash.delete(reference)
