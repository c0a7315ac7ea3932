"""Graphs and swarms: their progress, and the conversations of their nodes, which Strands does not store.

| event of Strands                 | action of this module                                                  | requests |
|----------------------------------|------------------------------------------------------------------------|----------|
| an orchestrator was made         | load its state before an answer to an interrupt comes; write nothing   | 2 GET    |
| a node or an invocation ended    | record the changes of its state, as a checkpoint                       | 0 or 1   |
| an agent in a node added messages| append each to the node's session, linked with the orchestrator's      | 1        |
| an agent in a node ended         | record a checkpoint in the session of the node                         | 0 or 1   |

Rule 1: states are copied on the event loop and recorded in that order, by one thread for each orchestrator: nodes that
end at the same time cannot record an older state after a newer one.
Rule 2: an orchestrator whose state was not loaded is never written. A state that cannot be loaded raises an error when
the orchestrator is made.
Rule 3: a session keeps one orchestrator. An orchestrator of another id or kind is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from strands import Agent
from strands.hooks import (
    AfterMultiAgentInvocationEvent,
    AfterNodeCallEvent,
    BeforeNodeCallEvent,
    HookRegistry,
    MultiAgentInitializedEvent,
)
from strands.multiagent import MultiAgentBase
from strands.types.exceptions import SessionException

from treering import OpenOptions, Session, Store
from treering.format import values
from treering.integrations.strands.names import EXTRA
from treering.integrations.strands.node import Node
from treering.integrations.strands.worker import Worker
from treering.programs.strands.keys import node_session, orchestrator_session, orchestrator_state, serialized_state

_IDENTITY: Final = ("id", "type")
"""Fields of a serialized state that must be equal in the orchestrator that loads it."""


class Orchestrators:
    """The graphs and swarms of one session manager.

    Args:
        store: The store of their sessions.
        session_id: The session id of the manager.
        options: Options for new sessions.
    """

    def __init__(self, store: Store, session_id: str, options: OpenOptions) -> None:
        self._store = store
        self._session_id = session_id
        self._options = options
        self._kept: dict[str, _Kept] = {}

    def register_hooks(self, registry: HookRegistry) -> None:
        """Register the hooks that record."""
        registry.add_callback(MultiAgentInitializedEvent, self._on_initialized)
        # Not at the beginning of the invocation: Strands may still refuse it for a wrong answer, and calls no hook at
        # its end then.
        registry.add_callback(BeforeNodeCallEvent, self._on_node_begins)
        registry.add_callback(AfterNodeCallEvent, self._on_node_ended)
        registry.add_callback(AfterMultiAgentInvocationEvent, self._on_invocation_ended)

    def initialize(self, source: MultiAgentBase) -> None:
        """Load an orchestrator from its session, if that exists, and listen to its nodes.

        Raises:
            SessionException: Another orchestrator of this manager has the same id, the id holds a `/`, or the session
                keeps something else.
        """
        if source.id in self._kept or "/" in source.id:
            raise SessionException(f"The id of an orchestrator must be unique, and have no `/`. got={source.id!r}")
        name = orchestrator_session(self._session_id, source.id)
        facts = {EXTRA: {"session": self._session_id, "orchestrator": source.id}}
        options: OpenOptions = {**self._options, "extra": facts}
        worker = Worker(source.id)
        session = worker.run(lambda: self._store.session(name, **options))
        kept = _Kept(session, worker)
        try:
            kept.load(source)
        except BaseException:
            kept.close()
            raise
        kept.nodes += [Node(self._store, kept, each, agent) for each, agent in _agents_in(name, source)]
        self._kept[source.id] = kept

    def sync(self, source: MultiAgentBase) -> None:
        """Record the changes of an orchestrator's state."""
        kept = self._found(source)
        kept.worker.run(kept.save, _copied(source))

    def close(self) -> None:
        """Close the sessions of orchestrators and nodes."""
        while self._kept:
            self._kept.popitem()[1].close()

    def _found(self, source: MultiAgentBase) -> _Kept:
        kept = self._kept.get(source.id)
        if kept is None:
            raise SessionException(f"orchestrator is not attached to this session. id={source.id!r}")
        return kept

    def _on_initialized(self, event: MultiAgentInitializedEvent) -> None:
        self.initialize(event.source)

    async def _on_node_begins(self, event: BeforeNodeCallEvent) -> None:
        kept = self._found(event.source)
        if not kept.at_work:
            await kept.worker.arun(kept.session.claim)
            kept.begin()

    async def _on_node_ended(self, event: AfterNodeCallEvent) -> None:
        kept = self._found(event.source)
        await kept.worker.arun(kept.save, _copied(event.source))

    async def _on_invocation_ended(self, event: AfterMultiAgentInvocationEvent) -> None:
        kept = self._found(event.source)
        kept.end()
        try:
            await kept.worker.arun(kept.save, _copied(event.source))
        finally:
            await kept.worker.arun(kept.session.release)


class _Kept:
    """One orchestrator's session, the thread that records in it, and the state that is recorded in it."""

    def __init__(self, session: Session, worker: Worker) -> None:
        self.session = session
        self.worker = worker
        self.nodes: list[Node] = []
        self.at_work = False
        self._known: dict[str, bytes] = {key: values.encode(value) for key, value in session.state.items()}

    def load(self, source: MultiAgentBase) -> None:
        """Load the state of the session into an orchestrator."""
        if not self._known:
            return
        found, own = serialized_state(self.session.state), source.serialize_state()
        for name in _IDENTITY:
            if found.get(name) != own.get(name):
                raise SessionException(
                    f"session keeps another orchestrator. {name}={found.get(name)!r}, got={own.get(name)!r}"
                )
        source.deserialize_state(found)

    def begin(self) -> None:
        """Begin an invocation: its first node is about to run."""
        self.at_work = True
        for node in self.nodes:
            node.begin()

    def end(self) -> None:
        """End the invocation."""
        self.at_work = False
        for node in self.nodes:
            node.end()

    def save(self, state: Mapping[str, bytes]) -> None:
        """Record the changes, with a checkpoint; do nothing if there are none."""
        changed = {key: values.decode(value) for key, value in state.items() if self._known.get(key) != value}
        dropped = [key for key in self._known if key not in state]
        if changed or dropped:
            self.session.claim()
            self.session.commit(state=changed, drop=dropped)
            self._known = dict(state)

    def close(self) -> None:
        """Close the session, and the sessions of the nodes."""
        for node in self.nodes:
            node.close()
        self.worker.run(self.session.close)
        self.worker.close()


def _copied(source: MultiAgentBase) -> dict[str, bytes]:
    """Return a copy of an orchestrator's state: the objects in it change while it is recorded."""
    return {key: values.encode(value) for key, value in orchestrator_state(source.serialize_state()).items()}


def _agents_in(name: str, source: MultiAgentBase) -> Iterator[tuple[str, Agent]]:
    """Yield the agents in an orchestrator's nodes, also in nested ones, with the names of their sessions.

    A nested orchestrator that has its own session manager records its nodes itself.
    """
    for node_id, node in getattr(source, "nodes", {}).items():
        executor, own = node.executor, node_session(name, node_id)
        if isinstance(executor, Agent):
            yield own, executor
        elif isinstance(executor, MultiAgentBase) and getattr(executor, "session_manager", None) is None:
            yield from _agents_in(own, executor)
