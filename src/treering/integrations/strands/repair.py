"""Close tool calls that a kill left open, since models refuse a conversation in which a call has no result.

Rule 1: each call has its result in the next message, which has no other results.
Rule 2: valid messages stay the same objects; only changed ones are new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from strands.types.content import ContentBlock, Message

INTERRUPTED: Final = "Tool was interrupted."
"""The text that Strands itself uses for a missing result."""


def close_open_calls(messages: Sequence[Message], *, pending: bool = False) -> list[Message]:
    """Return a conversation in which every tool call has its result, and every result its call.

    Args:
        messages: The conversation; not changed.
        pending: The calls of the last message wait for an answer to an interrupt: they stay open.
    """
    closed: list[Message] = []
    wanted: list[str] = []
    for message in messages:
        if wanted and (message["role"] != "user" or not _results(message)):
            closed.append(_answer(wanted))
            wanted = []
        answered = _answered(message, wanted)
        if answered is not None:
            closed.append(answered)
        wanted = _calls(message) if message["role"] == "assistant" else []
    if wanted and not pending:
        closed.append(_answer(wanted))
    return closed


def _answered(message: Message, wanted: Sequence[str]) -> Message | None:
    """Return the message with results for exactly these calls; None if it is empty then."""
    given = _results(message)
    missing = [call for call in wanted if call not in given]
    if set(given) <= set(wanted) and not missing and len(set(given)) == len(given):
        return message
    open_calls = set(wanted)
    blocks: list[ContentBlock] = []
    for block in message["content"]:
        if "toolResult" in block:
            call = block["toolResult"]["toolUseId"]
            if call not in open_calls:
                continue
            open_calls.remove(call)
        blocks.append(block)
    blocks += _error_results(missing)
    return {**message, "content": blocks} if blocks else None


def _answer(calls: Iterable[str]) -> Message:
    return {"role": "user", "content": _error_results(calls)}


def _error_results(calls: Iterable[str]) -> list[ContentBlock]:
    return [
        {"toolResult": {"toolUseId": call, "status": "error", "content": [{"text": INTERRUPTED}]}} for call in calls
    ]


def _calls(message: Message) -> list[str]:
    return [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]


def _results(message: Message) -> list[str]:
    return [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]
