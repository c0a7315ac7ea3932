"""Limit the parts of `latest`, the snapshot register, that cannot be left out of it.

`latest` leaves out what it has no room for: it can be read from the journal. It cannot leave out the card, the heads,
by which the rest is found, and the sums of usage. So records that would make these too large are refused before they
are acknowledged; no other record is, and none that makes them smaller.
"""

from __future__ import annotations

from collections.abc import Sequence

from treering.errors import UsageError
from treering.format import register
from treering.format.record import Record
from treering.format.register import Card
from treering.kinds import Kind
from treering.session.state import SessionState, encode_adrift
from treering.session.tally import CARD, FACTS, ORIGIN

CARD_RESERVE_BYTES = 1024
"""Reserved on a card for its automatic fields: counts, times, the first prompt, an ordinary head and node."""
ON_CARD = {("node", "model_change"), *(("note", kind) for kind in (*FACTS, ORIGIN, CARD))}
NAME_CHARS_ORDINARY = 200
"""Length of the names of a head and its node together."""
JSON_BYTES_MAX = 6  # of one character
ENTRY_CHARS = 30  # around a name: quotes and the like, or a number


def require_room(state: SessionState, records: Sequence[Record]) -> None:
    """Refuse records after which no `latest` could be written.

    Args:
        state: The current state.
        records: The records to append.

    Raises:
        UsageError: The card, or the list of heads, or that of sums of usage would be too large.
    """
    crowded = _is_crowded(state, records)
    if crowded or any(_touches_card(record) for record in records):
        after = state.behind(records)
        require_card(after.card, state.card)
        if crowded:
            _require_heads(after, state)


def _touches_card(record: Record) -> bool:
    named = len(record.id) + len(record.head) + len(record.target or "")
    return (record.type, record.kind) in ON_CARD or named > NAME_CHARS_ORDINARY


def _is_crowded(state: SessionState, records: Sequence[Record]) -> bool:
    """Whether heads and names of usage may come near their limit; most sessions have one or two.

    `latest` names each head twice: where it points to, and where it was placed.
    """
    names = [*state.heads.heads, *(node or "" for node in state.heads.heads.values()), *state.usage, *state.last_usage]
    chars = sum(map(len, names)) + sum(len(record.head) + len(record.id) + len(record.brief) for record in records)
    return JSON_BYTES_MAX * (chars + ENTRY_CHARS * (len(names) + len(records))) > register.room() // 4


def require_card(card: Card, before: Card | None = None) -> None:
    """Refuse a card that leaves no room for its automatic fields.

    Args:
        card: The new card.
        before: The current card. If that is too large already, the new one may be as large.

    Raises:
        UsageError: It is too large; the message names its longest field.
    """
    largest = register.CARD_BYTES_MAX - CARD_RESERVE_BYTES
    size = register.card_bytes(card)
    if size > largest and (before is None or size > register.card_bytes(before)):
        longest = register.longest_of(card)
        raise UsageError(
            f"too much for the card that lists read. longest={longest!r}, bytes={size}, max={largest}",
            kind=Kind.CARD_TOO_LARGE,
            remedy="make it shorter; what no list shows has room in the state, in messages and in extensions",
        )


def _require_heads(after: SessionState, before: SessionState) -> None:
    largest, size = register.room() // 2, len(encode_adrift(after))
    if size > largest and size > len(encode_adrift(before)):
        raise UsageError(
            f"too many heads, or names of usage. heads={len(after.heads.heads)}, names={len(after.usage)}, "
            f"bytes={size}, max={largest}",
            kind=Kind.TOO_MANY_HEADS,
            remedy="drop heads that are not needed any more; their nodes stay",
        )
