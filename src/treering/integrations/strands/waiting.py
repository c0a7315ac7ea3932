"""Results of tools that are stored beside an interrupt: another tool of the same turn waits for a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from treering.format import values
from treering.format.copies import state_values
from treering.format.erasure import is_erased
from treering.format.record import decode_record
from treering.format.values import is_patch
from treering.session.reader import Readable
from treering.storage.requests import Steps

RECORDS_AT_ONCE: Final = 500
"""The most lines in memory at a time."""


def results_in(message: Mapping[str, Any]) -> list[str]:
    """Return the ids of the calls whose results a message holds."""
    return [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]


def waited(reader: Readable, key: str, calls: Collection[str]) -> Steps[bool]:
    """Tell whether any value that a key of the state ever had names one of these calls; a patch may do so."""
    if not calls:
        return False
    named = [values.encode(call) for call in calls]
    places = yield from reader.replica.ask(lambda look: look.holders((), state=True))
    for start in range(0, len(places), RECORDS_AT_ONCE):
        lines = yield from reader.replica.lines_at(places[start : start + RECORDS_AT_ONCE])
        for line in lines.values():
            raw = state_values(decode_record(line)).get(key)
            if raw is not None and not is_erased(raw) and (is_patch(raw) or any(call in raw for call in named)):
                return True
    return False
