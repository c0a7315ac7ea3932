"""Conversations in the form of the Anthropic API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from treering.server.shapes.parts import Said, Thinking, block_of, text_of


class AnthropicMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments for `messages.create` of the Anthropic API."""

    system: str
    """Instructions, in one text; empty if there are none."""
    messages: list[dict[str, Any]]


def messages_of(said: Iterable[Said]) -> AnthropicMessages:
    """Return a conversation. Consecutive results of tools are joined to one message, as the API requires.

    Thinking without a signature is left out, since the API refuses it.
    """
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    answering = False
    for each in said:
        if each.role == "system":
            system.append(text_of(each.parts))
            continue
        role = "assistant" if each.role == "assistant" else "user"
        parts = [part for part in each.parts if not (isinstance(part, Thinking) and part.signature is None)]
        blocks = [block_of(part) for part in parts]
        if each.role == "tool" and answering:
            messages[-1]["content"] += blocks
        elif blocks:
            plain = blocks[0]["text"] if len(blocks) == 1 and _is_plain(blocks[0]) else blocks
            messages.append({"role": role, "content": plain})
        answering = each.role == "tool" and bool(blocks)
    return AnthropicMessages(system="\n\n".join(filter(None, system)), messages=messages)


def _is_plain(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
