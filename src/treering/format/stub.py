"""The message that a model sees in place of an erased one: its role, and the tool calls it makes or answers.

Providers refuse a conversation in which a tool call has no result or a result no call. The other half of such a pair
contains the call's id anyway, so that id reveals nothing new; and the name of a tool comes from the agent, not from the
user. So only ids and names of tools stay, if they are short words, and whether a call failed.

The shapes are those of the chat APIs of OpenAI (`tool_calls`, `tool_call_id`, `function_call_output`), of Anthropic
(`tool_use`, `tool_result`), and in camel case (`toolCall`, `toolResult`). Messages of the Converse and the Gemini API
and of Pydantic AI keep their shape, since their frameworks read no other. What stands for a message of a program whose
sessions are imported has the common shape (`treering.messages`), which each program's exporter converts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from treering.errors import TreeringError
from treering.format.erasure import NOTE
from treering.format.pieces import split_source
from treering.format.values import decode, fields_of
from treering.messages import CONVERSE, GEMINI, PYDANTIC_AI, RESULT_PARTS, common, listed, shape_of

Stub: TypeAlias = dict[str, object]
"""What stays of a tool call or of a result, as a block or an item of the common shape."""

_CALL_ID: Final = ("tool_call_id", "tool_use_id", "toolCallId", "call_id", "tool_result_for")
_ARGUMENTS: Final = ("arguments", "input", "args")
_KEPT: Final = ("type", "id", *_CALL_ID, "name", "toolName")
_FAILED: Final = ("is_error", "isError")
_UNNAMED: Final = "erased"
"""In place of a name that a provider wants, and that is no short word."""
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
    shape, payload = _read(_edited(payload))
    if shape in _CALL_PARTS:
        return _in_shape(shape, payload, role)
    message: dict[str, object] = _pair(payload) or {}
    if "content" in payload or not message:
        has_calls = bool(payload.get("tool_calls") or payload.get("function_call"))
        message["content"] = _content(payload.get("content"), has_calls=has_calls)
    if isinstance(calls := payload.get("tool_calls"), list):
        message["tool_calls"] = [found for call in calls if (found := _pair(call))]
    if isinstance(call := payload.get("function_call"), Mapping):  # the chat API before it had `tool_calls`
        message["function_call"] = _function(call)
    named = payload.get("role")
    if named is None and "type" in message and "content" not in message:
        return message  # an item of its own, such as a `function_call`
    return {"role": _role(payload, role)} | message


def _edited(payload: dict[Any, object]) -> dict[Any, object]:
    """Return the edited message, if the payload is an edit of one; otherwise the payload."""
    message, replacement = payload.get("message"), payload.get("replacement")
    if not isinstance(message, dict) or not isinstance(replacement, dict):
        return payload
    return {**message, "content": replacement.get("content")}


def _read(payload: dict[Any, object]) -> tuple[str, Mapping[Any, Any]]:
    """Return the name of a message's shape, and the message in the common shape.

    A message in which nothing is listed makes no calls, so the shapes of programs need not be known.
    """
    if not any(isinstance(value, list) for value in payload.values()):
        return "", payload
    try:
        return shape_of(payload), common(payload)
    except Exception:  # noqa: BLE001  # an installed program may fail; what was erased must not come back therefore
        return "", payload


def _role(payload: Mapping[Any, object], role: str) -> object:
    named = payload.get("role")
    return named if _is_word(named) else role or "user"


def _content(content: object, *, has_calls: bool) -> object:
    if not isinstance(content, list):
        return None if content is None and has_calls else NOTE
    left = _left_of(content)
    return [part or {"type": "text", "text": NOTE} for part in left] if any(left) else NOTE


def _left_of(content: Sequence[object]) -> list[Stub | None]:
    """Return what stays of each call and result, with None for everything else together; results have to come first."""
    pairs = [found for part in content if (found := _pair(part))]
    note: list[None] = [None] if len(pairs) < len(content) or not pairs else []
    return [*pairs, *note] if pairs and _answers(pairs[0]) else [*note, *pairs]


def _answers(stub: Stub) -> bool:
    """Whether it is a result, not a call."""
    return "function" not in stub and not any(key in stub for key in _ARGUMENTS)


def _pair(part: object) -> Stub | None:
    """The part of a tool call or a tool result that stays; None for everything else."""
    if not isinstance(part, Mapping):
        return None
    answers = any(_is_word(part.get(key)) for key in _CALL_ID)
    calls = "function" in part or any(key in part for key in _ARGUMENTS)
    if not (answers or (calls and _is_word(part.get("id")))):
        return None
    stub: Stub = {key: part[key] for key in _KEPT if _is_word(part.get(key))}
    stub |= {key: _nothing(part[key]) for key in _ARGUMENTS if key in part}
    if isinstance(function := part.get("function"), Mapping):
        stub["function"] = _function(function)
    if not calls:
        stub |= {key: NOTE for key in ("content", "output") if key in part}
        stub |= {key: True for key in _FAILED if part.get(key) is True}
    return stub


def _function(function: Mapping[Any, object]) -> dict[str, object]:
    name = function.get("name")
    return {"name": name if _is_word(name) else _UNNAMED, "arguments": _nothing(function.get("arguments", ""))}


def _nothing(arguments: object) -> object:
    return "{}" if isinstance(arguments, str) else {}


def _is_word(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(_word, value) is not None


def _in_shape(shape: str, read: Mapping[Any, Any], role: str) -> dict[str, object]:
    """Return what stays of a message in its shape.

    Args:
        shape: One of `_CALL_PARTS`.
        read: The message in the common shape.
        role: The role of the record.
    """
    said = _role(read, role)
    # Calls of tools that the provider itself runs are answered in the same message, so nothing of them has to stay.
    content = [part if fields_of(part).get("type") in _OF_TOOLS else None for part in listed(read.get("content"))]
    answers = said == "assistant"
    note = (
        {"part_kind": "text" if answers else "user-prompt", "content": NOTE} if shape == PYDANTIC_AI else {"text": NOTE}
    )
    parts = [note if left is None else _part_in(shape, left) for left in _left_of(content)]
    if shape == PYDANTIC_AI:
        return {"kind": "response" if answers else "request", "parts": parts}
    return {"role": said, "content" if shape == CONVERSE else "parts": parts}


def _part_in(shape: str, left: Stub) -> dict[str, Any]:
    call, name = str(next(left[key] for key in (*_CALL_ID, "id") if key in left)), str(left.get("name", _UNNAMED))
    if _answers(left):
        return RESULT_PARTS[shape](call, name, NOTE, failed="is_error" in left)
    return _CALL_PARTS[shape](call, name)


_OF_TOOLS: Final = (None, "tool_call", "tool_result")
"""Types of blocks of the common shape that stay; None: some clients send calls without a type."""
_CALL_PARTS: Final[Mapping[str, Callable[[str, str], dict[str, Any]]]] = {
    CONVERSE: lambda call, name: {"toolUse": {"toolUseId": call, "name": name, "input": {}}},
    GEMINI: lambda call, name: {"functionCall": ({"id": call} if call != name else {}) | {"name": name, "args": {}}},
    PYDANTIC_AI: lambda call, name: {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call, "args": {}},
}
"""Functions that make the part of a message that calls a tool, by its shape: from the call's id and the tool's name."""
