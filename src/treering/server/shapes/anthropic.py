"""Conversations in the form of the Anthropic API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from treering.messages import MEDIA, Media
from treering.server.shapes.parts import (
    Call,
    Other,
    Part,
    Result,
    Said,
    Thinking,
    block_of,
    json_text,
    parts_in,
    text_of,
)
from treering.server.shapes.results import with_answers

_OF_OTHERS: Final = MEDIA - {"image", "document"}
"""Types of blocks with files that this API does not have."""
SYSTEM: Final = "system"
TOOL: Final = "tool"


class AnthropicMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments for `messages.create` of the Anthropic API."""

    system: str
    """Instructions, in one text; empty if there are none."""
    messages: list[dict[str, Any]]


def messages_of(said: Iterable[Said]) -> AnthropicMessages:
    """Return a conversation. Consecutive results of tools are joined to one message, as the API requires.

    Thinking without a signature is left out, a result without its call, and a call without its result if the
    conversation goes on, since the API refuses them.
    """
    said = list(said)
    system = [text_of(each.parts) for each in said if each.role == SYSTEM]
    messages: list[dict[str, Any]] = []
    answering = False
    for name, given in with_answers(each for each in said if each.role != SYSTEM):
        role = "assistant" if name == "assistant" else "user"
        parts = [part for part in given if not (isinstance(part, Thinking) and part.signature is None)]
        blocks = [*map(_block, parts)]
        if name == TOOL and answering:
            messages[-1]["content"] += blocks
        elif blocks:
            plain = blocks[0]["text"] if name != TOOL and len(blocks) == 1 and _is_plain(blocks[0]) else blocks
            messages.append({"role": role, "content": plain})
        answering = name == TOOL and (answering or bool(blocks))
    return AnthropicMessages(system="\n\n".join(filter(None, system)), messages=messages)


def _block(part: Part) -> Any:
    """Return a part as a block that the API takes."""
    match part:
        case Call(name, tool, given) if not isinstance(given, Mapping):
            return block_of(Call(name, tool, {"text" if isinstance(given, str) else "value": given}))
        case Result(output=output):
            block = block_of(part)
            listed = isinstance(block["content"], list)
            return {**block, "content": [*map(_block, parts_in(output))]} if listed else block
        case Media(_, kind, name) if kind.startswith(("audio/", "video/")):
            return {"type": "text", "text": f"[file: {name or kind}]"}
        case Other(block) if isinstance(block, Mapping) and str(block.get("type")) in _OF_OTHERS:
            return {"type": "text", "text": json_text(block)}
        case _:
            return block_of(part)


def _is_plain(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
