"""Check `latest`, the snapshot register, against the journal: fold all records again and name the differences.

A checksum shows that `latest` has the bytes that were written. It cannot show that the right content was written: a
program that missed one record, by a defect or an interrupt, would leave a `latest` that contradicts the journal for
good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from treering.errors import TreeringError
from treering.format.record import decode_record
from treering.format.register import Latest
from treering.session.snapshot import decode_state
from treering.session.state import SessionState

# Fields of the card that depend on records only, and not on how the session was created or loaded.
_COUNTED = ("nodes", "messages", "checkpoints", "head", "node")
# Fields that records override: a card may also have them from its creation.
_SAID = ("status", "model", "provider")


class Replay:
    """The state of a session at the position that `latest` covers, folded from its records alone.

    Memory holds the same as for an open handle: the records of the working context.

    Args:
        latest: The snapshot to check.

    Raises:
        CorruptError: The body of `latest` cannot be read.
    """

    def __init__(self, latest: Latest) -> None:
        self._stored = decode_state(latest, None, key="latest")
        card = msgspec.structs.replace(
            latest.card, born=0, nodes=0, messages=0, checkpoints=0, status="", provider="", model=""
        )
        self._state = SessionState(card, self._stored.policy)
        self._end = latest.card.covers
        self._whole = True

    def take(self, lines: Sequence[bytes], first: int) -> None:
        """Fold the lines that come next; lines of other positions are skipped.

        Args:
            lines: Whole records as readers see them: erased payloads replaced.
            first: Position of the first of them.
        """
        for at, line in enumerate(lines, first):
            if not self._whole or at != self._state.end or at >= self._end:
                continue
            try:
                self._state.apply(decode_record(line), line)
            except TreeringError:
                self._whole = False  # the record is damaged; the code that reads the segment reports it

    @property
    def differences(self) -> list[str]:
        """The names of the parts of `latest` that differ; empty if some of the records are missing or damaged."""
        if not self._whole or self._state.end != self._end:
            return []
        return [what for what, stored, told in self._compared() if stored != told]

    def _compared(self) -> Iterable[tuple[str, object, object]]:
        """Name, value in `latest`, and value folded from the records."""
        stored, told = self._stored, self._state
        for name in _COUNTED:
            yield name, getattr(stored.card, name), getattr(told.card, name)
        for name in _SAID:
            if said := getattr(told.card, name):
                yield name, getattr(stored.card, name), said
        yield "heads", stored.heads.heads, told.heads.heads
        yield "usage", (stored.usage, stored.last_usage), (told.usage, told.last_usage)
        yield "effects", stored.effects, told.effects
        if told.checkpoint is None or stored.checkpoint is None or told.context_at != told.tip:
            return  # a checkpoint was pruned, a head dropped, or an edit undone: the fold cannot know the context
        yield "checkpoint", stored.checkpoint.id, told.checkpoint.id
        yield "state", stored.checkpoint.state, told.checkpoint.state
        yield "manager", stored.checkpoint.manager, told.checkpoint.manager
        if told.context_at == stored.context_at and told.policy.name == stored.policy.name:
            yield "context", stored.context.items, told.context.items
