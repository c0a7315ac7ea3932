"""Conversations in the form of the Anthropic API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from treering.server.shapes.parts import Said, Thinking, block_of, text_of
from treering.server.shapes.results import with_answers

SYSTEM: Final = "system"
TOOL: Final = "tool"


class AnthropicMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments for `messages.create` of the Anthropic API."""

    system: str
    """Instructions, in one text; empty if there are none."""
    messages: list[dict[str, Any]]


def messages_of(said: Iterable[Said]) -> AnthropicMessages:
    """Return a conversation. Consecutive results of tools are joined to one message, as the API requires.

    Thinking without a signature is left out, and a result without its call, since the API refuses them.
    """
    said = list(said)
    system = [text_of(each.parts) for each in said if each.role == SYSTEM]
    messages: list[dict[str, Any]] = []
    answering = False
    for name, given in with_answers(each for each in said if each.role != SYSTEM):
        role = "assistant" if name == "assistant" else "user"
        parts = [part for part in given if not (isinstance(part, Thinking) and part.signature is None)]
        blocks = [block_of(part) for part in parts]
        if name == TOOL and answering:
            messages[-1]["content"] += blocks
        elif blocks:
            plain = blocks[0]["text"] if name != TOOL and len(blocks) == 1 and _is_plain(blocks[0]) else blocks
            messages.append({"role": role, "content": plain})
        answering = name == TOOL and (answering or bool(blocks))
    return AnthropicMessages(system="\n\n".join(filter(None, system)), messages=messages)


def _is_plain(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
