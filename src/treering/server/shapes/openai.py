"""Conversations in the form of OpenAI's Chat Completions API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from treering.messages import Media
from treering.server.shapes.parts import Call, Other, Part, Result, Said, Text, Thinking, json_text, text_or_blocks
from treering.server.shapes.results import with_answers


def messages_of(said: Iterable[Said]) -> list[dict[str, Any]]:
    """Return a conversation.

    Thinking is left out, since this API has no field for it. So are a result without its call, and a call without its
    result if the conversation goes on, since the API refuses them.
    """
    found: list[dict[str, Any]] = []
    for role, given in with_answers(said):
        parts = [part for part in given if not isinstance(part, Thinking)]
        found += [_result(part) for part in parts if isinstance(part, Result)]
        rest = [part for part in parts if not isinstance(part, Result)]
        if rest:
            found.append(_message(role, rest))
    return found


def _message(role: str, parts: Sequence[Part]) -> dict[str, Any]:
    shown = [part for part in parts if not isinstance(part, Call)]
    message: dict[str, Any] = {"role": role, "content": _content(shown)}
    called = [part for part in parts if isinstance(part, Call)]
    if called:
        message["tool_calls"] = [*map(_call, called)]
    return message


def _content(parts: Sequence[Part]) -> Any:
    if not parts:
        return None
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [*map(_shown, parts)]


def _shown(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Media(url, kind, name) if not kind or kind.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        case Media(url, kind, _) if kind.startswith("audio/") and url.startswith("data:"):
            sound = {"data": url.partition(";base64,")[2], "format": kind.removeprefix("audio/")}
            return {"type": "input_audio", "input_audio": sound}
        case Other(block) if isinstance(block, Mapping) and block.get("type") == "file":
            return {**block}  # by its id
        case Media(url, _, name):
            return {"type": "file", "file": {"file_data": url, **({"filename": name} if name else {})}}
        case Other(block):
            return {"type": "text", "text": json_text(block)}
        case _:
            return {"type": "text", "text": json_text(part)}


def _call(part: Call) -> dict[str, Any]:
    given = part.input if isinstance(part.input, str) else json_text(part.input)
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": given}}


def _result(part: Result) -> dict[str, Any]:
    output = text_or_blocks(part.output)
    content = output if isinstance(output, str) else _texts(output)
    return {"role": "tool", "tool_call_id": part.call, "content": content}


def _texts(blocks: Sequence[Any]) -> str:
    return "\n".join(each["text"] if isinstance(each.get("text"), str) else json_text(each) for each in blocks)
