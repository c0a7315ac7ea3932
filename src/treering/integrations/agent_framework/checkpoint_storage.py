"""A checkpoint storage for workflows of Microsoft Agent Framework, in one session of Treering.

Rule 1: awaited calls run in threads, one at a time for each storage. So one storage serves any number of runs, threads
and event loops.
Rule 2: values are encoded before a method first awaits, and decoded again for each caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.errors import CorruptError, UsageError
from treering.integrations.agent_framework.checkpoints import Checkpoints, Plain, new_checkpoint
from treering.integrations.agent_framework.codec import Codec
from treering.integrations.agent_framework.names import MARK
from treering.integrations.agent_framework.registry import Registry, Types
from treering.integrations.closable import Closable
from treering.integrations.opened import OpenSessions
from treering.integrations.shared import shared_writer
from treering.storage.effects import Job

T = TypeVar("T")

NAME: Final = "workflows"


class TreeringCheckpointStorage(Closable):
    """Keeps checkpoints of workflows: each stores its differences from the checkpoint before it.

    Pass it as `WorkflowBuilder(checkpoint_storage=...)`, or to `workflow.run`. All checkpoints of a storage are in one
    session; give each conversation or job a storage with its own name. Several processes may use one storage at the
    same time, and the checkpoints of all of them are kept.

    Plain data, and objects of the framework, are stored as they are. Objects of your own classes can be stored if the
    classes are in `types`. Nothing is pickled: reading imports no code, and runs only code of these classes.
    """

    def __init__(self, store: Store | AsyncStore, name: str = NAME, *, types: Types = ()) -> None:
        """Make a storage, without reading or writing anything.

        Args:
            store: The store, from `treering.open`. Closing this object does not close the store.
            name: The name of the session in the store.
            types: Classes whose objects checkpoints may hold: dataclasses, pydantic models, enums, and classes with
                `to_dict` and `from_dict`. A dict gives the names that are stored, so that a class may be renamed.

        Raises:
            treering.UsageError: Objects of a class cannot be stored, or two classes have one name.
        """
        self.name = name
        self._codec = Codec(Registry(types))
        place = store.place
        self._sessions: OpenSessions[str, Checkpoints] = OpenSessions(
            place.driver, lambda name: Checkpoints(shared_writer(place, name, {MARK: {"keeps": "checkpoints"}}))
        )

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint as it is now in one append, and return its id; it is durable when this returns.

        A stored checkpoint with the same id is replaced.

        Raises:
            WorkflowCheckpointException: It holds a value that cannot be stored; the message names its path and type.
            treering.UnavailableError: The store did not answer; the checkpoint may be stored. Save it again.
        """
        try:
            new = new_checkpoint(self._codec.encode(checkpoint.to_dict()))
        except UsageError as error:
            raise WorkflowCheckpointException(
                f"checkpoint {checkpoint.checkpoint_id!r} was not saved: {error}"
            ) from error
        await self._perform(lambda session: session.save(new))
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint.

        Raises:
            WorkflowCheckpointException: No checkpoint has that id; or it holds an object of a class that is not in
                `types`, or that has other fields now.
        """
        plain = await self._perform(lambda session: session.find(checkpoint_id))
        if plain is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._checkpoint(plain)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return all checkpoints of a workflow, in the order in which they were saved.

        Raises:
            WorkflowCheckpointException: A checkpoint cannot be loaded; see `load`.
        """
        return list(map(self._checkpoint, await self._perform(lambda session: session.every(workflow_name))))

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint; False if no checkpoint has that id. Data that later checkpoints share with it stays."""
        return await self._perform(lambda session: session.delete(checkpoint_id))

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the checkpoint of a workflow with the greatest timestamp; None if there is none.

        Raises:
            WorkflowCheckpointException: The checkpoint cannot be loaded; see `load`.
        """
        plain = await self._perform(lambda session: session.latest(workflow_name))
        return None if plain is None else self._checkpoint(plain)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of all checkpoints of a workflow, in the order in which they were saved."""
        saved = await self._perform(lambda session: session.saved())
        return [each.id for each in saved if each.workflow == workflow_name]

    def close(self) -> None:
        """Bring the card of the session up to date. The storage may be used again."""
        self._sessions.close()

    async def _perform(self, work: Callable[[Checkpoints], Job[T]]) -> T:
        return await self._sessions.aside(self._sessions.use, self.name, work)

    def _checkpoint(self, plain: Plain) -> WorkflowCheckpoint:
        try:
            return WorkflowCheckpoint.from_dict(self._codec.decode(plain))
        except CorruptError as error:
            name = plain.get("checkpoint_id")
            raise WorkflowCheckpointException(f"checkpoint {name!r} cannot be loaded: {error}") from error
