"""Split a message of any recorded shape into parts, and make a message to record from parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from treering import calls
from treering.format.erasure import NOTE, Erased
from treering.messages import MEDIA, Media, common, media_of

_ROLES: Final = {"ai": "assistant", "model": "assistant", "human": "user", "developer": "system"}
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})


class Text(msgspec.Struct, frozen=True):
    """Text of a message."""

    text: str


class Thinking(msgspec.Struct, frozen=True):
    """Thinking of a model before its answer."""

    text: str
    signature: str | None = None


class Call(msgspec.Struct, frozen=True):
    """A call of a tool."""

    id: str
    name: str
    input: Any


class Result(msgspec.Struct, frozen=True):
    """The result of a call of a tool."""

    call: str
    output: Any
    is_error: bool = False


class Other(msgspec.Struct, frozen=True):
    """Any other block."""

    block: Any


Part: TypeAlias = Text | Thinking | Call | Result | Media | Other


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a conversation."""

    id: str
    parent: str | None
    role: str
    time_ms: int
    payload: Any

    @property
    def parts(self) -> list[Part]:
        """The parts of the message."""
        return parts_of(self.payload)


def role_of(payload: Any, recorded: str | None = None) -> str:
    """Return the role of a message: `user`, `assistant`, `system`, `tool`, or another name that a program uses.

    Args:
        payload: The message.
        recorded: The role of its node, if the message itself names none.
    """
    message = payload.message if isinstance(payload, Erased) else payload
    role = common(message).get("role") if isinstance(message, Mapping) else None
    named = role if isinstance(role, str) and role else recorded or "user"
    return _ROLES.get(named, named)


def parts_of(payload: Any) -> list[Part]:
    """Split a message into its parts."""
    if isinstance(payload, Erased):
        return parts_of(payload.message) if payload.message else [Text(NOTE)]
    if not isinstance(payload, Mapping):
        return [Text(payload)] if isinstance(payload, str) else [Other(payload)]
    message = common(payload)
    content = message.get("content")
    named = {each.place: each for each in calls.parts_of(message)}
    if isinstance(whole := named.get(("", 0)), calls.Result):
        return [Result(whole.id, content, _failed(message))]
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    thought = message.get("reasoning_content")
    found: list[Part] = [Thinking(thought)] if isinstance(thought, str) and thought else []
    found += [_part(block, named.get(("content", index))) for index, block in enumerate(blocks)]
    beside = [each for place, each in named.items() if place[0] not in ("content", "")]
    return found + [_call(each) for each in beside if isinstance(each, calls.Call)]


def _part(block: Any, named: calls.Call | calls.Result | None) -> Part:
    if isinstance(named, calls.Call):
        return _call(named)
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, Mapping):
        return Other(block)
    if isinstance(named, calls.Result):
        return Result(named.id, block.get("content", block.get("output")), _failed(block))
    kind = block.get("type")
    if not isinstance(kind, str):
        return Other(block)
    if kind in _TEXTS and isinstance(text := block.get("text", block.get("refusal")), str):
        return Text(text)
    if kind == "thinking" and isinstance(thought := block.get("thinking"), str):
        signature = block.get("signature")
        return Thinking(thought, signature if isinstance(signature, str) else None)
    return (media_of(block) if kind in MEDIA else None) or Other(block)


def parts_in(output: Sequence[Any]) -> list[Part]:
    """Split the output of a tool that is a list of blocks."""
    return [_part(block, None) for block in output]


def _call(call: calls.Call) -> Call:
    given = call.arguments
    if isinstance(given, str):
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError):
            given = call.arguments
    return Call(call.id, call.name, given)


def _failed(block: Mapping[Any, Any]) -> bool:
    return block.get("is_error") is True or block.get("isError") is True or block.get("status") == "error"


def payload_of(role: str, parts: Sequence[Part], **fields: object) -> dict[str, object]:
    """Return the message to record: its content is text, or a list of blocks in the form of the Anthropic API."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return {"role": role, "content": parts[0].text, **fields}
    return {"role": role, "content": [*map(block_of, parts)], **fields}


def block_of(part: Part) -> Any:
    """Return a part as a block of the Anthropic API."""
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, **({} if signature is None else {"signature": signature})}
        case Call(name, tool, given):
            return {"type": "tool_use", "id": name, "name": tool, "input": given}
        case Result(call, output, failed):
            block = {"type": "tool_result", "tool_use_id": call, "content": text_or_blocks(output)}
            return {**block, "is_error": True} if failed else block
        case Media():
            return _media_block(part)
        case Other(block):
            return block


def _media_block(media: Media) -> dict[str, object]:
    head, comma, data = media.url.partition(";base64,")
    if comma and head.startswith("data:"):
        source = {"type": "base64", "media_type": head[len("data:") :], "data": data}
    else:
        source = {"type": "url", "url": media.url}
    shown = (media.media_type or source.get("media_type", "")).startswith("image/")
    return {"type": "image" if shown else "document", "source": source, **({"title": media.name} if media.name else {})}


def text_or_blocks(output: Any) -> Any:
    """Return the output of a tool in a form that APIs accept: text, or blocks; other values become JSON."""
    if output is None:
        return ""
    blocks = isinstance(output, list) and all(isinstance(each, Mapping) and "type" in each for each in output)
    return output if isinstance(output, str) or blocks else json_text(output)


def json_text(value: object) -> str:
    """Return a value as JSON; parts that JSON cannot express are written as text."""
    return msgspec.json.encode(value, enc_hook=str).decode()


def text_of(parts: Iterable[Part]) -> str:
    """Return all text parts as one text."""
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))
