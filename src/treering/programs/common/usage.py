"""What answers cost, as programs write it: tokens and money under one set of names.

`input` and `output` are the tokens of a call, `cache_read` and `cache_write` those that a cache gave or took,
`reasoning` those of thinking, `total` all of them as a program counts them, and `cost` the money. Other numbers keep
their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treering.format import values
from treering.format.record import BRIEF_BYTES_MAX
from treering.format.values import Fields, fields_of

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("input", "input_tokens", "inputTokens", "InputTokens", "prompt_tokens"),
    "output": ("output", "output_tokens", "outputTokens", "OutputTokens", "completion_tokens"),
    "cache_read": (
        "cache_read", "cacheRead", "cache_read_tokens", "CacheReadTokens", "cache_read_input_tokens",
        "cacheReadInputTokens",
    ),
    "cache_write": (
        "cache_write", "cacheWrite", "cache_write_tokens", "CacheCreationTokens", "cache_creation_input_tokens",
        "cacheWriteInputTokens",
    ),
    "reasoning": ("reasoning", "reasoning_tokens", "reasoningTokens", "ReasoningTokens"),
    "total": ("total", "totalTokens", "total_tokens"),
}  # fmt: skip
"""The names of each number in the programs and APIs that are known."""
_COMMON: Final = {theirs: ours for ours, names in NAMES.items() for theirs in names}
_LARGEST: Final = 2**53
"""No count is larger; a number that is would make all sums useless."""
_COPIED: Final = "copied"
_TURN: Final = "turn"


def numbers_in(usage: object) -> dict[str, int | float]:
    """Return the numbers of usage in any format, by their common names; the cost is the total one."""
    fields = fields_of(usage)
    cost = fields.get("cost")
    counted = fields | {"cost": cost.get("total")} if isinstance(cost, dict) else fields
    return {_COMMON.get(name, name): value for name, value in counted.items() if _is_count(value)}


def spelled(numbers: Mapping[str, object], names: Mapping[str, str]) -> Fields:
    """Return numbers under a program's names, by their common ones; those that it does not have are left out."""
    counted = numbers_in(numbers)
    return {theirs: counted[ours] for ours, theirs in names.items() if ours in counted}


def usage_in(payload: object) -> dict[str, int | float]:
    """Return what a message says that it cost; empty if that is nothing.

    Most programs keep it in the message, Strands in the metadata of it.
    """
    message = fields_of(payload)
    numbers = numbers_in(message.get("usage", fields_of(message.get("metadata")).get("usage")))
    return numbers if any(numbers.values()) else {}


def brief_of(numbers: Mapping[str, int | float], *, turn: bool, copied: bool = False) -> Fields:
    """Return the brief of a note of usage; numbers without a common name are left out if there is no room for them.

    Args:
        numbers: By their common names.
        turn: It is that of a turn; otherwise of a call beside the turns, such as one that summarises.
        copied: The target of the note says the same, so that an export has it already.
    """
    flags: Fields = ({} if turn else {_TURN: False}) | ({_COPIED: True} if copied else {})
    brief = {**numbers, **flags}
    if len(values.encode(brief)) <= BRIEF_BYTES_MAX:
        return brief
    return {name: value for name, value in numbers.items() if name in NAMES or name == "cost"} | flags


def is_copied(brief: Mapping[str, object]) -> bool:
    """Tell whether the target of a note of usage says the same."""
    return brief.get(_COPIED) is True


def _is_count(value: object) -> bool:
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST  # type: ignore[operator]  # a number by now
