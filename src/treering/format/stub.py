"""The message that a model sees in place of an erased one: its role, and the tool calls it makes or answers.

Providers refuse a conversation in which a tool call has no result or a result no call. The other half of such a pair
contains the call's id anyway, so that id reveals nothing new; and the name of a tool comes from the agent, not from the
user. So only ids and names of tools stay, if they are short words.

The shapes are those of the chat APIs of OpenAI (`tool_calls`, `tool_call_id`, `function_call_output`), of Anthropic
(`tool_use`, `tool_result`), and in camel case (`toolCall`, `toolResult`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from treering.errors import TreeringError
from treering.format.erasure import NOTE
from treering.format.pieces import split_source
from treering.format.values import decode

_CALL_ID: Final = ("tool_call_id", "tool_use_id", "toolCallId", "call_id")
_ARGUMENTS: Final = ("arguments", "input")
_KEPT: Final = ("type", "id", *_CALL_ID, "name", "toolName")
_word: Final = r"[A-Za-z0-9_.:|/+=-]{1,256}"


def stub_of(body: bytes, role: str) -> dict[str, object]:
    """Return the message that stands for an erased one.

    Args:
        body: The body of the record: its payload as JSON.
        role: The role of the record; used if the payload has none.
    """
    try:
        payload = decode(split_source(body)[1])
    except (TreeringError, ValueError):  # a later version wrote it
        payload = None
    if not isinstance(payload, dict):
        return {"role": role or "user", "content": NOTE}
    payload = _edited(payload)
    named = payload.get("role")
    message: dict[str, object] = _pair(payload) or {}
    if "content" in payload or not message:
        message["content"] = _content(payload.get("content"), has_calls=bool(payload.get("tool_calls")))
    if isinstance(calls := payload.get("tool_calls"), list):
        message["tool_calls"] = [found for call in calls if (found := _pair(call))]
    if named is None and "type" in message and "content" not in message:
        return message  # an item of its own, such as a `function_call`
    return {"role": named if _is_word(named) else role or "user"} | message


def _edited(payload: dict[Any, object]) -> dict[Any, object]:
    """Return the edited message, if the payload is an edit of one; otherwise the payload."""
    message, replacement = payload.get("message"), payload.get("replacement")
    if not isinstance(message, dict) or not isinstance(replacement, dict):
        return payload
    return {**message, "content": replacement.get("content")}


def _content(content: object, *, has_calls: bool) -> object:
    if not isinstance(content, list):
        return None if content is None and has_calls else NOTE
    pairs = [found for part in content if (found := _pair(part))]
    if not pairs:
        return NOTE
    note = [{"type": "text", "text": NOTE}] if len(pairs) < len(content) else []
    answers = any(key in pairs[0] for key in _CALL_ID)  # these have to come first
    return [*pairs, *note] if answers else [*note, *pairs]


def _pair(part: object) -> dict[str, object] | None:
    """The part of a tool call or a tool result that stays; None for everything else."""
    if not isinstance(part, dict):
        return None
    answers = any(_is_word(part.get(key)) for key in _CALL_ID)
    calls = "function" in part or any(key in part for key in _ARGUMENTS)
    if not (answers or (calls and _is_word(part.get("id")))):
        return None
    stub: dict[str, object] = {key: part[key] for key in _KEPT if _is_word(part.get(key))}
    stub |= {key: _nothing(part[key]) for key in _ARGUMENTS if key in part}
    if isinstance(function := part.get("function"), Mapping):
        stub["function"] = _function(function)
    if not calls:
        stub |= {key: NOTE for key in ("content", "output") if key in part}
    return stub


def _function(function: Mapping[Any, object]) -> dict[str, object]:
    name = function.get("name")
    return {"name": name if _is_word(name) else "erased", "arguments": _nothing(function.get("arguments", ""))}


def _nothing(arguments: object) -> object:
    return "{}" if isinstance(arguments, str) else {}


def _is_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(_word, value) is not None
