"""Checkpoints of workflows in one session of Treering: protocols without I/O.

Rule 1: after each save the state of the session holds that checkpoint, divided into keys. Only the differences from the
checkpoint that was saved before it are recorded, even if that belongs to another workflow or branch.
Rule 2: the metadata of each checkpoint of Treering names the checkpoint of the framework that it holds. Lists are read
from these metadata; if an id was saved twice, the last one counts.
Rule 3: a save replaces no checkpoint of another writer. So if another writer appends first, the save is planned again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import NotFoundError, UsageError
from treering.format import values
from treering.format.erasure import is_erased
from treering.format.values import fields_of
from treering.integrations.agent_framework.names import CHECKPOINT, LATE, MARK
from treering.integrations.agent_framework.pieces import is_of, join, split
from treering.integrations.shared import SharedSession
from treering.kinds import Kind
from treering.session.recording import Change, Recording
from treering.session.verbs import pruning
from treering.storage.requests import Steps

FACTS_BYTES_MAX: Final = 440
"""The most bytes of the metadata that name a checkpoint; a record has room for 512 bytes."""

Plain = dict[str, Any]
"""The fields of a checkpoint of the framework, as plain data."""


class Saved(NamedTuple):
    """One checkpoint, from the skeletons of the session."""

    id: str
    workflow: str
    timestamp: str
    held_by: str
    """The checkpoint of Treering that holds it."""


class NewCheckpoint(NamedTuple):
    """A checkpoint to be saved."""

    facts: dict[str, object]
    keys: dict[str, bytes]
    """Encoded values by key of the session's state."""
    moment: float


def new_checkpoint(plain: Plain) -> NewCheckpoint:
    """Encode a checkpoint.

    Raises:
        UsageError: A value is nested too deep, or the names are too long.
    """
    facts = {"id": plain["checkpoint_id"], "of": plain["workflow_name"], "at": plain["timestamp"]}
    if (size := len(values.encode(facts))) > FACTS_BYTES_MAX:
        raise UsageError(
            f"the names of a checkpoint are too long. bytes={size}, max={FACTS_BYTES_MAX}",
            kind=Kind.TOO_LONG,
            remedy="give the workflow a shorter name",
        )
    keys = {key: values.encode(value) for key, value in split(CHECKPOINT, plain).items()}
    return NewCheckpoint(facts, keys, moment_of(plain["timestamp"]))


def moment_of(timestamp: object) -> float:
    """Return an ISO 8601 time in seconds since 1970; minus infinity for an invalid time."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except (ValueError, OverflowError):
        return float("-inf")


class Checkpoints(SharedSession):
    """Reads and records the checkpoints of one session."""

    # read

    def newest(self) -> Plain | None:
        """Return the checkpoint that was saved last, as `look` read it; None if it was deleted or erased."""
        return self._plain_in(self._keys)

    def saved(self) -> Steps[list[Saved]]:
        """List all checkpoints, in the order in which their ids were first saved; reads only skeletons."""
        if not (yield from self.look()):
            return []
        found: dict[str, Saved] = {}
        for info in (yield from self.writer.replica.ask(lambda look: look.checkpoints())):
            facts = fields_of(info.metadata.get(MARK))
            if isinstance(name := facts.get("id"), str):
                found[name] = Saved(name, str(facts.get("of")), str(facts.get("at")), info.id)
        return [*found.values()]

    def load(self, wanted: Sequence[Saved]) -> Steps[list[Plain]]:
        """Read the listed checkpoints with all their values; data that they share is read once.

        Raises:
            NotFoundError: A checkpoint was deleted.
            UsageError: A part of a checkpoint was erased.
        """
        held = yield from self.writer.content.load_checkpoints([each.held_by for each in wanted])
        return [self._plain(each.state) for each in held]

    def find(self, checkpoint: str) -> Steps[Plain | None]:
        """Read a checkpoint by its id; None if there is none."""
        yield from self.look()
        newest = self.newest()
        if newest is not None and newest["checkpoint_id"] == checkpoint:
            return newest
        for each in (yield from self.saved()):
            if each.id == checkpoint:
                return (yield from self._load_if_there([each]))[0]
        return None

    def latest(self, workflow: str) -> Steps[Plain | None]:
        """Read the checkpoint of a workflow with the greatest timestamp, the last of equal ones; None if none exist."""
        yield from self.look()
        newest = self.newest()
        if newest is not None and LATE not in self._keys and newest["workflow_name"] == workflow:
            return newest
        of_it = [each for each in (yield from self.saved()) if each.workflow == workflow]
        if not of_it:
            return None
        last = max(reversed(of_it), key=lambda each: moment_of(each.timestamp))
        return (yield from self._load_if_there([last]))[0]

    def every(self, workflow: str) -> Steps[list[Plain]]:
        """Read all checkpoints of a workflow."""
        of_it = [each for each in (yield from self.saved()) if each.workflow == workflow]
        return [plain for plain in (yield from self._load_if_there(of_it)) if plain is not None]

    def _load_if_there(self, wanted: Sequence[Saved]) -> Steps[list[Plain | None]]:
        """Read the listed checkpoints; None for each that was erased, or that another writer deleted since."""
        content = self.writer.content
        try:
            held = yield from content.load_checkpoints([each.held_by for each in wanted])
        except NotFoundError:
            there = {each.held_by for each in (yield from self.saved())}
        else:
            return [self._plain_in(each.state) for each in held]
        left = [each for each in wanted if each.held_by in there]
        held = yield from content.load_checkpoints([each.held_by for each in left])
        found = dict(zip(left, [self._plain_in(each.state) for each in held], strict=True))
        return [found.get(each) for each in wanted]

    def _plain_in(self, state: Mapping[str, bytes]) -> Plain | None:
        """The checkpoint in a state; None if it has none, or a part of it was erased."""
        gone = any(is_of(CHECKPOINT, key) and is_erased(raw) for key, raw in state.items())
        return None if gone or CHECKPOINT not in state else self._plain(state)

    def _plain(self, state: Mapping[str, bytes]) -> Plain:
        plain: Plain = join(CHECKPOINT, state)
        return plain

    # record

    def save(self, new: NewCheckpoint) -> Steps[None]:
        """Record a checkpoint; it is durable when this returns."""
        yield from self._be_ready()
        yield from self.writer.appender.write(partial(self._plan_save, new))
        yield from self._tidy()

    def _plan_save(self, new: NewCheckpoint) -> Steps[Recording]:
        yield from self._stand()
        recording = Recording(self.writer)
        before = recording.checkpoint.state if recording.checkpoint is not None else {}
        changed = {key: values.decode(raw) for key, raw in new.keys.items() if before.get(key) != raw}
        gone = [key for key in before if is_of(CHECKPOINT, key) and key not in new.keys]
        newest = self._plain_in(before)
        if newest is not None and LATE not in before and moment_of(newest["timestamp"]) > new.moment:
            changed[LATE] = True
        recording.keep(Change(state=changed, drop=gone, metadata={MARK: new.facts}))
        return recording

    def delete(self, checkpoint: str) -> Steps[bool]:
        """Delete a checkpoint; False if no checkpoint has that id."""
        if all(each.id != checkpoint for each in (yield from self.saved())):
            return False
        newest = self.newest()
        if newest is not None and newest["checkpoint_id"] == checkpoint:
            yield from self.writer.appender.write(partial(self._plan_empty, checkpoint))
        infos = yield from self.writer.replica.ask(lambda look: look.checkpoints())
        kept = [info.id for info in infos if fields_of(info.metadata.get(MARK)).get("id") != checkpoint]
        yield from pruning.prune(self.writer, KeepCheckpoints(ids=kept, heads=()))
        return True

    def _plan_empty(self, checkpoint: str) -> Steps[Recording]:
        """Remove a checkpoint from the state, unless another checkpoint was saved since."""
        yield from self._stand()
        recording = Recording(self.writer)
        before = recording.checkpoint.state if recording.checkpoint is not None else {}
        newest = self._plain_in(before)
        if newest is not None and newest["checkpoint_id"] == checkpoint:
            gone: Collection[str] = [key for key in before if is_of(CHECKPOINT, key)]
            recording.keep(Change(state={LATE: True}, drop=[*gone]))
        return recording
