"""Microsoft Agent Framework: its stores in files, and ours.

A history keeps messages and no state, so a checkpoint costs it nothing. A checkpoint of a workflow, and a snapshot of a
session, hold the whole conversation each time, as those of agents do. The framework's own files are not synced.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from agent_framework import (
    AgentSession,
    FileCheckpointStorage,
    FileHistoryProvider,
    FileSessionStore,
    Message,
    WorkflowCheckpoint,
)

import treering
from benchmarks import workload
from benchmarks.contestants.contestant import Contestant
from treering.integrations.agent_framework import (
    TreeringCheckpointStorage,
    TreeringHistoryProvider,
    TreeringSessionStore,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

EXECUTOR = "_executor_state"
"""Under this key of a workflow's state are those of its agents."""


class _Keeper(Contestant):
    """What all have in common: the framework awaits its stores."""

    def __init__(self, place: str, window: int = 10) -> None:
        super().__init__(place, window)
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)

    def _run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(call)


class Histories(_Keeper):
    """`FileHistoryProvider`."""

    def _provider(self) -> Any:
        return FileHistoryProvider(f"{self.place}/agent-framework")

    def write(self, session: str, messages: Sequence[workload.Message]) -> None:
        self._run(self._provider().save_messages(session, _messages(messages)))

    def resume(self, session: str) -> Sequence[str]:
        return self.page(session, self.window)

    def page(self, session: str, count: int) -> Sequence[str]:
        return [message.text for message in self._run(self._provider().get_messages(session))[-count:]]

    def begin(self, session: str) -> None:
        self.open, self.session = self._provider(), session

    def append(self, text: str) -> None:
        self._run(self.open.save_messages(self.session, [Message("user", [text])]))

    def turn(self, texts: Sequence[str], step: int) -> None:  # noqa: ARG002  # as the docstring says
        """Add two messages; there is no state to keep."""
        self._run(self.open.save_messages(self.session, _pair(texts)))

    def end(self) -> None:
        """Nothing is kept open."""


class TreeringHistories(Histories):
    """`TreeringHistoryProvider`."""

    def _provider(self) -> TreeringHistoryProvider:
        return TreeringHistoryProvider(treering.open(f"{self.place}/treering-agent-framework"))

    def end(self) -> None:
        self.open.close()


class _Snapshots(_Keeper):
    """Stores the whole conversation at each turn, as far as its own format does."""

    each_turn_up_to = 200
    """Longer sessions are prepared with one snapshot; all of them would take gigabytes."""

    def _save(self, step: int) -> None:
        """Store what `said` holds."""
        raise NotImplementedError

    def write(self, session: str, messages: Sequence[workload.Message]) -> None:
        self.begin(session)
        self.said = []
        shown = _messages(messages)
        each = 2 if len(shown) <= self.each_turn_up_to else len(shown)
        for start in range(0, len(shown), each):
            self.said += shown[start : start + each]
            self._save(start // 2)
        self.end()

    def append(self, text: str) -> None:
        self.said.append(Message("user", [text]))
        self._save(0)

    def turn(self, texts: Sequence[str], step: int) -> None:
        self.said += _pair(texts)
        self._save(step)

    def begin(self, session: str) -> None:
        self.session = session
        self.said = self._read(session)

    def _read(self, session: str) -> list[Message]:
        raise NotImplementedError

    def resume(self, session: str) -> Sequence[str]:
        return self.page(session, self.window)

    def page(self, session: str, count: int) -> Sequence[str]:
        return [message.text for message in self._read(session)[-count:]]

    def end(self) -> None:
        """Nothing is kept open."""


class Checkpoints(_Snapshots):
    """`FileCheckpointStorage`."""

    def _storage(self, session: str) -> Any:
        return FileCheckpointStorage(f"{self.place}/agent-framework-workflows/{session}")

    def begin(self, session: str) -> None:
        self.open = self._storage(session)
        super().begin(session)

    def _save(self, step: int) -> None:
        state = {EXECUTOR: {"agent": {"full_conversation": self.said}}, "step": step}
        self._run(self.open.save(WorkflowCheckpoint(self.session, "", state=state, iteration_count=step)))

    def _read(self, session: str) -> list[Message]:
        latest = self._run(self._storage(session).get_latest(workflow_name=session))
        return _said(latest) if latest is not None else []

    def travel(self, session: str, step: int) -> Sequence[str]:
        every = self._run(self._storage(session).list_checkpoints(workflow_name=session))
        found = next(each for each in every if each.iteration_count == step)
        return [message.text for message in _said(found)[-self.window :]]


class TreeringCheckpoints(Checkpoints):
    """`TreeringCheckpointStorage`."""

    each_turn_up_to = 1_000

    def _storage(self, session: str) -> TreeringCheckpointStorage:
        return TreeringCheckpointStorage(treering.open(f"{self.place}/treering-agent-framework-workflows"), session)

    def end(self) -> None:
        self.open.close()


class Sessions(_Snapshots):
    """`FileSessionStore`, which keeps the newest snapshot."""

    each_turn_up_to = 1_000

    def _store(self) -> Any:
        return FileSessionStore(f"{self.place}/agent-framework-sessions")

    def begin(self, session: str) -> None:
        self.open = self._store()
        super().begin(session)

    def _save(self, step: int) -> None:
        made = AgentSession(session_id=self.session)
        made.state.update({"in_memory": {"messages": self.said}, "step": step})
        self._run(self.open.set(self.session, made))

    def _read(self, session: str) -> list[Message]:
        found = self._run(self._store().get(session))
        return [] if found is None else list(found.state["in_memory"]["messages"])


class TreeringSessions(Sessions):
    """`TreeringSessionStore`."""

    def _store(self) -> TreeringSessionStore:
        return TreeringSessionStore(treering.open(f"{self.place}/treering-agent-framework-sessions"))

    def end(self) -> None:
        self.open.close()


def _said(checkpoint: WorkflowCheckpoint) -> list[Message]:
    return list(checkpoint.state[EXECUTOR]["agent"]["full_conversation"])


def _messages(messages: Sequence[workload.Message]) -> list[Message]:
    return [_message(message["role"], workload.text(message)) for message in messages]


def _pair(texts: Sequence[str]) -> list[Message]:
    return [_message(role, text) for role, text in zip(("user", "assistant"), texts, strict=True)]


def _message(role: str, text: str) -> Message:
    return Message("assistant" if role == "assistant" else "user", [text])
