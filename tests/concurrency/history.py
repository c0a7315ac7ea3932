"""Whether what several writers and readers of one session were told could have happened one call after the other.

The journal gives the only order there can be: the append of its n-th message has rank 2n + 1, a read that saw the first
n messages has rank 2n. The history is linearisable if no call that began after another one had ended has a lower rank.

That is enough: sort the calls by rank, and those of one rank, which are reads, by when they began. Every call then sees
exactly what those before it did, and the order contradicts no clock. A call without an answer may have taken effect at
any time after it began, or never.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

Outcome: TypeAlias = Literal["done", "refused", "unknown"]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one worker, as a history is written and read."""

    worker: str
    verb: str
    """`append` or `read`; others are kept for people."""
    texts: tuple[str, ...] = ()
    """What was to be appended, each text used once; or all that was read, in order."""
    began: int
    """Nanoseconds of a clock that all workers share."""
    ended: int | None = None
    """None: killed before it ended."""
    outcome: Outcome = "unknown"
    error: str = ""
    """Class and kind of what was raised."""


def violations(calls: Sequence[Call], journal: Sequence[str]) -> list[str]:
    """Say what is wrong with a history; nothing if it is linearisable and nothing acknowledged was lost or doubled.

    Args:
        calls: All calls of all workers, in any order.
        journal: The texts that are stored in the end, in order.
    """
    counts = Counter(journal)
    places = {text: place for place, text in enumerate(journal)}
    wrong = [f"stored {times} times: {text}" for text, times in counts.items() if times > 1]
    wrong += [f"nobody appended it: {text}" for text in counts.keys() - {t for c in calls for t in _own(c)}]
    ranked: list[tuple[Call, int, int]] = []
    for call in calls:
        if call.verb == "read" and call.outcome == "done":
            if call.texts != tuple(journal[: len(call.texts)]):
                wrong.append(f"no prefix of the journal was read by {call}")
            ranked.append((call, 2 * len(call.texts), 2 * len(call.texts)))
        elif call.verb == "append":
            wrong += _misplaced(call, places)
            if found := [places[text] for text in call.texts if text in places]:
                ranked.append((call, 2 * min(found) + 1, 2 * max(found) + 1))
    return wrong + _out_of_order(ranked)


def _own(call: Call) -> tuple[str, ...]:
    return call.texts if call.verb == "append" else ()


def _misplaced(call: Call, places: dict[str, int]) -> list[str]:
    """An append is there whole and in one piece, or not at all; its outcome may say which."""
    found = [places[text] for text in call.texts if text in places]
    if call.outcome == "refused" and found:
        return [f"refused, and stored: {call}"]
    if not found:
        return [f"lost: {call}"] if call.outcome == "done" else []
    whole = list(range(found[0], found[0] + len(call.texts)))
    return [] if found == whole else [f"torn: {call}, places={found}"]


def _out_of_order(ranked: list[tuple[Call, int, int]]) -> list[str]:
    """Calls that began after another one of a higher rank had ended."""
    wrong = []
    by_end = sorted(ranked, key=_end)
    ended, highest = 0, -1
    before: Call | None = None
    for call, lowest, _ in sorted(ranked, key=lambda each: each[0].began):
        while ended < len(by_end) and _end(by_end[ended]) < call.began:
            if by_end[ended][2] > highest:
                before, _, highest = by_end[ended]
            ended += 1
        if lowest < highest:
            wrong.append(f"order: {call} began after the end of {before}")
    return wrong


def _end(ranked: tuple[Call, int, int]) -> float:
    """When a call was over; one without an answer never is."""
    call = ranked[0]
    return call.ended if call.ended is not None and call.outcome == "done" else math.inf
