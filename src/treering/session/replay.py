"""Hold `latest` against the journal: fold all records anew, and name what `latest` says otherwise.

A checksum shows that `latest` is as it was written. It cannot show that what was written was right: a program that
took no note of one record, by a defect or an interrupt, would leave a `latest` that contradicts the journal for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from treering.errors import TreeringError
from treering.format.record import decode_record
from treering.format.register import Latest
from treering.session.state import SessionState, decode_state

# What the card counts or says of records, whatever the session was created or loaded with.
_COUNTED = ("nodes", "messages", "checkpoints", "head", "node")
# What it says only if records do: a card may be born with it.
_SAID = ("status", "model", "provider")


class Replay:
    """The state of a session at the position that `latest` accounts for, told by its records alone.

    Memory holds what a handle holds: the records of the working context.

    Args:
        latest: What is to be held against them.

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
        """Fold the lines that follow what was folded; those of other positions are passed over.

        Args:
            lines: Whole records, as readers are to see them: what was erased is gone.
            first: Position of the first of them.
        """
        for at, line in enumerate(lines, first):
            if not self._whole or at != self._state.end or at >= self._end:
                continue
            try:
                self._state.apply(decode_record(line), line)
            except TreeringError:
                self._whole = False  # it is damaged, and whoever reads it says so

    @property
    def differences(self) -> list[str]:
        """What `latest` says otherwise, in a word each; nothing if some of the records are missing or damaged."""
        if not self._whole or self._state.end != self._end:
            return []
        return [what for what, stored, told in self._compared() if stored != told]

    def _compared(self) -> Iterable[tuple[str, object, object]]:
        """What it is, what `latest` says, and what the records tell."""
        stored, told = self._stored, self._state
        for name in _COUNTED:
            yield name, getattr(stored.card, name), getattr(told.card, name)
        for name in _SAID:
            if said := getattr(told.card, name):
                yield name, getattr(stored.card, name), said
        yield "heads", stored.heads.heads, told.heads.heads
        yield "usage", (stored.usage, stored.last_usage), (told.usage, told.last_usage)
        if told.checkpoint is None or stored.checkpoint is None:
            return  # it was pruned, or is a change of one that was: only the graph tells
        yield "checkpoint", stored.checkpoint.id, told.checkpoint.id
        yield "state", stored.checkpoint.state, told.checkpoint.state
        yield "manager", stored.checkpoint.manager, told.checkpoint.manager
        if told.context_at == stored.context_at and told.policy.name == stored.policy.name:
            yield "context", stored.context.items, told.context.items
