"""A step store for the harness of Pydantic AI: the runs of a conversation are in one session of Treering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, ToolEffectRecord

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.integrations.closable import Closable
from treering.integrations.opened import OpenSessions
from treering.integrations.pydantic_ai.conversation import MARK
from treering.integrations.pydantic_ai.messages import named
from treering.integrations.pydantic_ai.steps import Snapshot, StepSession
from treering.integrations.shared import shared_writer
from treering.storage.effects import Job

T = TypeVar("T")

NAME: Final = "runs"
_RUN: Final = TypeAdapter(RunRecord)
_EVENT: Final = TypeAdapter(StepEvent)
_EFFECT: Final = TypeAdapter(ToolEffectRecord)
_OUTCOMES: Final = {"started": None, "completed": "done", "failed": "failed"}


class TreeringStepStore(Closable):
    """Keeps events, snapshots and tool effects of runs: pass it as `StepPersistence(store=...)`.

    All runs of a step store are in one session, which holds each message once; give each conversation a step store with
    its own name. Several processes may use one step store at the same time, and the records of all of them are kept.
    """

    def __init__(
        self, store: Store | AsyncStore, name: str = NAME, *, max_snapshots_per_run: int | None = None
    ) -> None:
        """Make a step store, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            name: The name of the session in the store.
            max_snapshots_per_run: How many of a run's newest snapshots to keep, at least 1; by default all. The newest
                complete snapshot is always kept. Snapshots share their messages, so more of them cost little.

        Raises:
            ValueError: `max_snapshots_per_run` is less than 1, or no integer.
        """
        if max_snapshots_per_run is not None and not isinstance(max_snapshots_per_run, int):
            raise ValueError(f"max_snapshots_per_run must be an int >= 1 or None, got {max_snapshots_per_run!r}")
        if max_snapshots_per_run is not None and max_snapshots_per_run < 1:
            raise ValueError(f"max_snapshots_per_run must be >= 1 or None, got {max_snapshots_per_run!r}")
        self.name = name
        self._keep = max_snapshots_per_run
        place = store.place
        self._sessions: OpenSessions[str, StepSession] = OpenSessions(
            place.driver, lambda name: StepSession(shared_writer(place, name, {MARK: {"keeps": "steps"}}))
        )

    async def register_run(self, record: RunRecord) -> None:
        """Record the description of a run, which replaces an earlier one of the same run."""
        plain = _RUN.dump_python(record, mode="json")
        await self._perform(lambda session: session.register(record.run_id, plain))

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """Return the description of a run; None if it was not registered."""
        plain = await self._perform(lambda session: session.run(run_id))
        return None if plain is None else _RUN.validate_python(plain)

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Return the runs that match, ordered by the time at which they started."""
        runs = [_RUN.validate_python(plain) for plain in await self._perform(lambda session: session.runs())]
        return sorted(
            (
                run
                for run in runs
                if parent_run_id in (None, run.parent_run_id) and conversation_id in (None, run.conversation_id)
            ),
            key=lambda run: run.started_at,
        )

    async def append_event(self, event: StepEvent) -> None:
        """Record an event, once for each idempotency key of a run; it is durable when this returns."""
        plain = _EVENT.dump_python(event, mode="json")
        await self._perform(lambda session: session.add_event(event.run_id, plain, event.idempotency_key))

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """Return the events of a run, in the order in which they were recorded."""
        return list(map(_EVENT.validate_python, await self._perform(lambda session: session.events(run_id))))

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Record a snapshot in one append, once for each idempotency key of a run; it is durable when this returns.

        The append stores the messages that no snapshot had yet, and the differences from the last history.

        Raises:
            treering.UsageError: A message holds a value that cannot be stored.
            treering.UnavailableError: The store did not answer; the snapshot may be stored.
        """
        history = named(snapshot.messages)
        facts = {
            "run_id": snapshot.run_id,
            "step_index": snapshot.step_index,
            "conversation_id": snapshot.conversation_id,
            "parent_run_id": snapshot.parent_run_id,
            "agent_name": snapshot.agent_name,
            "timestamp": snapshot.timestamp.isoformat(),
            "state": snapshot.state,
            "idempotency_key": snapshot.idempotency_key,
        }
        key, keep = snapshot.idempotency_key, self._keep
        await self._perform(lambda session: session.save(snapshot.run_id, facts, history, key=key, keep=keep))

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> ContinuableSnapshot | None:
        """Return the snapshot of a run that was saved last; by default the last complete one."""
        found = await self._perform(lambda session: session.newest(run_id, interrupted=include_interrupted))
        return None if found is None else _snapshot(found)

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> list[ContinuableSnapshot]:
        """Return the snapshots of a run, in the order in which they were saved; by default the complete ones."""
        return list(
            map(_snapshot, await self._perform(lambda session: session.every(run_id, interrupted=include_interrupted)))
        )

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Record the status of a tool call; it is durable when this returns. The last status counts.

        Raises:
            treering.UsageError: The record of a started call is larger than 8 KiB, or too many calls are unresolved.
        """
        plain, outcome = _EFFECT.dump_python(record, mode="json"), _OUTCOMES[record.status]
        await self._perform(
            lambda session: session.record_effect(record.run_id, record.tool_call_id, plain, outcome=outcome)
        )

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """Return the last recorded status of a tool call; None if there is none."""
        plain = await self._perform(lambda session: session.effect(run_id, tool_call_id))
        return _EFFECT.validate_python(plain) if plain else None

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Return the started calls of a run without a recorded end: if a process was killed, they may have run."""
        found = await self._perform(lambda session: session.unresolved())
        return [record for plain in found if plain and (record := _EFFECT.validate_python(plain)).run_id == run_id]

    def close(self) -> None:
        """Bring the card of the session up to date. The step store may be used again."""
        self._sessions.close()

    async def _perform(self, work: Callable[[StepSession], Job[T]]) -> T:
        return await self._sessions.aside(self._sessions.use, self.name, work)


def _snapshot(found: Snapshot) -> ContinuableSnapshot:
    facts: dict[str, Any] = found.facts
    return _SNAPSHOT.validate_python(facts | {"messages": found.history})


_SNAPSHOT: Final = TypeAdapter(ContinuableSnapshot)
