"""The snapshot of an `AgentSession` in one session of Treering: protocols without I/O.

Rule 1: each value of its state has a key of its own, so a snapshot stores only the values that changed.
Rule 2: a writer that replaces the snapshot it has read is refused if another snapshot was stored since, except those
that it tried to store itself, without an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from treering.errors import HeadMovedError
from treering.format import values
from treering.format.erasure import is_erased
from treering.integrations.agent_framework.names import SNAPSHOT, VALUES
from treering.integrations.agent_framework.pieces import is_of, join, split
from treering.integrations.shared import SharedSession
from treering.session.recording import Change, Recording
from treering.storage.requests import Steps


class Snapshot(NamedTuple):
    """A stored snapshot."""

    write: str
    """A random id of this snapshot."""
    session: dict[str, Any]
    """The result of `AgentSession.to_dict`."""


class Snapshots(SharedSession):
    """Reads and records the snapshot of one session."""

    def get(self) -> Steps[Snapshot | None]:
        """Read the snapshot; None if there is none."""
        if not (yield from self.look()):
            return None
        return self._in(self._keys)

    def set(self, session: Mapping[str, Any], *, write: str, expect: Collection[str] | None) -> Steps[None]:
        """Record a snapshot, which is durable when this returns.

        Args:
            session: The result of `AgentSession.to_dict`.
            write: The snapshot's random id.
            expect: The random ids of snapshots that may be replaced; None replaces any.

        Raises:
            HeadMovedError: Another snapshot was stored since, or the session was deleted.
        """
        yield from self._be_ready()
        yield from self.writer.appender.write(partial(self._plan, session, expect, write))
        yield from self._tidy()

    def _plan(self, session: Mapping[str, Any], expect: Collection[str] | None, write: str) -> Steps[Recording]:
        yield from self._stand()
        recording = Recording(self.writer)
        before = recording.checkpoint.state if recording.checkpoint is not None else {}
        there = _stored_in(before)
        if expect is not None and (there is None or there["write"] not in expect):
            raise HeadMovedError(
                "another process stored this session since it was read",
                key=self.writer.keys.tail,
                remedy="get the session again and apply the changes to it; or on_conflict='replace'",
            )
        facts = {name: value for name, value in session.items() if name != "state"}
        new = {SNAPSHOT: {"write": write, "session": facts}, **split(VALUES, session["state"])}
        changed = {key: value for key, value in new.items() if before.get(key) != values.encode(value)}
        gone = [key for key in before if is_of(VALUES, key) and key not in new]
        recording.keep(Change(state=changed, drop=gone))
        return recording

    def _in(self, state: Mapping[str, bytes]) -> Snapshot | None:
        if (there := _stored_in(state)) is None:
            return None
        return Snapshot(there["write"], {**there["session"], "state": join(VALUES, state)})


def _stored_in(state: Mapping[str, bytes]) -> Any:
    """Return what is stored of the snapshot in a state, except its values; None if there is none, or it was erased."""
    if SNAPSHOT not in state or is_erased(state[SNAPSHOT]):
        return None
    return values.decode(state[SNAPSHOT])
