"""The cost of answers in the formats of programs: tokens and money under one set of names.

`input` and `output` are the tokens of a call, `cache_read` and `cache_write` the tokens read from and written to a
cache, `reasoning` the tokens of thinking, `total` all tokens as the program counts them, and `cost` the money. Other
numbers keep their names.
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
"""The names of each number in the known programs and APIs."""
_COMMON: Final = {theirs: ours for ours, names in NAMES.items() for theirs in names}
_LARGEST: Final = 2**53
"""The largest count; a larger number is an error, which would make all sums useless."""
_COPIED: Final = "copied"
_TURN: Final = "turn"


def numbers_in(usage: object) -> dict[str, int | float]:
    """Return the numbers of usage in any format, by their common names; the cost is the total one."""
    fields = fields_of(usage)
    cost = fields.get("cost")
    counted = fields | {"cost": cost.get("total")} if isinstance(cost, dict) else fields
    return {_COMMON.get(name, name): value for name, value in counted.items() if _is_count(value)}


def spelled(numbers: Mapping[str, object], names: Mapping[str, str]) -> Fields:
    """Return numbers under a program's names, which `names` gives by common name; others are left out."""
    counted = numbers_in(numbers)
    return {theirs: counted[ours] for ours, theirs in names.items() if ours in counted}


def usage_in(payload: object) -> dict[str, int | float]:
    """Return the usage that a message states; empty if it states none.

    Most programs keep it in the message, Strands in the message's metadata.
    """
    message = fields_of(payload)
    numbers = numbers_in(message.get("usage", fields_of(message.get("metadata")).get("usage")))
    return numbers if any(numbers.values()) else {}


def brief_of(numbers: Mapping[str, int | float], *, turn: bool, copied: bool = False) -> Fields:
    """Return the brief of a note of usage; numbers without a common name are left out if there is no room for them.

    Args:
        numbers: The numbers by their common names.
        turn: Whether it is the usage of a turn; otherwise that of a call outside the turns, such as a summary.
        copied: Whether the target of the note states the same usage, so that an export has it already.
    """
    flags: Fields = ({} if turn else {_TURN: False}) | ({_COPIED: True} if copied else {})
    brief = {**numbers, **flags}
    if len(values.encode(brief)) <= BRIEF_BYTES_MAX:
        return brief
    return {name: value for name, value in numbers.items() if name in NAMES or name == "cost"} | flags


def is_copied(brief: Mapping[str, object]) -> bool:
    """Tell whether the target of a note of usage states the same usage."""
    return brief.get(_COPIED) is True


def _is_count(value: object) -> bool:
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST  # type: ignore[operator]  # a number by now
