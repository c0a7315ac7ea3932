"""Remove erased payloads from `latest`, the snapshot register, and from the memory of a handle.

Folding tombstones gives the same state as folding the records and removing the payloads afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import without_messages
from treering.checkpoint.policy import Policy
from treering.format.erasure import Burials
from treering.format.record import decode_record
from treering.format.register import Latest
from treering.session.snapshot import decode_state, encode_state
from treering.session.state import SessionState

if TYPE_CHECKING:
    from treering.journal.erase import Bury


def bury_state(state: SessionState, marks: Burials, *, since: int) -> None:
    """Remove everything erased after the epoch `since` from a state."""
    state.lines = {name: bury_line(line, marks) for name, line in state.lines.items()}
    state.context = without_messages(state.context, marks.names)
    if state.checkpoint is not None:
        state.checkpoint = bury_checkpoint(state.checkpoint, marks, since=since)  # rule: forget-values
    if state.effects:
        from treering.session.effects import buried  # most sessions have none

        state.effects = buried(state.effects, marks)
    state.take_back(marks.facts_since(since))


def bury_checkpoint(checkpoint: Checkpoint, marks: Burials, *, since: int) -> Checkpoint:
    """Remove everything erased after the epoch `since` from a checkpoint that was read at that epoch."""
    state, manager = dict(checkpoint.state), checkpoint.manager
    for act in marks.of_state(since):
        state |= {key: act.tombstone(state[key]) for key in act.state if key is not None and key in state}
        if None in act.state and manager is not None:
            manager = act.tombstone(manager)
    context = without_messages(checkpoint.context, marks.names)
    return msgspec.structs.replace(checkpoint, context=context, state=state, manager=manager)


def bury_line(line: bytes, marks: Burials) -> bytes:
    """Return the line that replaces a record: its tombstone if it was erased, else the line itself."""
    return marks.bury(line, decode_record(line).at) if marks else line


def latest_burier(policy: Policy | None, key: str) -> Bury:
    """Return the function that removes erased payloads from `latest`."""

    def bury(latest: Latest, marks: Burials) -> Latest:
        state = decode_state(latest, policy, key=key)
        bury_state(state, marks, since=latest.card.epoch)
        return Latest(card=state.card, lines=encode_state(state) if latest.lines else ())

    return bury
