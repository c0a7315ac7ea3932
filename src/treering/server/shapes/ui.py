"""Conversations as `UIMessage[]` of the AI SDK (`useChat`), and back.

A message of a model becomes one UI message, whose tool parts contain the results of its calls. In the other direction,
each result becomes a message of its own behind it, as model APIs require.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from treering.errors import UsageError
from treering.kinds import Kind
from treering.messages import Media
from treering.server.shapes.kept import changes_in, kept_of, restored_all
from treering.server.shapes.parts import Call, Other, Part, Result, Said, Text, Thinking, json_text, text_or_blocks
from treering.server.shapes.results import Results, Words, drafts_of_message
from treering.transcript.node import Draft

INTERFACE: Final = "ai-sdk"
ROLES: Final = frozenset({"user", "assistant", "system"})
_TOOL: Final = "tool-"
_BLOCK: Final = "data-block"


def messages_of(said: Sequence[Said]) -> list[dict[str, Any]]:
    """Return a conversation; `said` has to start at its beginning."""
    results = Results(said)
    found = []
    for each in said:
        parts = each.parts
        if each.role == "tool" or (parts and all(isinstance(part, Result) for part in parts)):
            continue
        found.append(_message(each, results))
    return found


def _message(said: Said, results: Results) -> dict[str, Any]:
    kept = kept_of(said.payload, INTERFACE)
    made = [_shown(part, results) for part in said.parts if not isinstance(part, Result)]
    role = said.role if said.role in ROLES else "assistant"
    more = kept.get("fields")
    fields = dict(more) if isinstance(more, Mapping) else {}
    return {**fields, "id": said.id, "role": role, "parts": restored_all(made, changes_in(kept))}


def drafts_of(messages: Iterable[Any]) -> list[Draft]:
    """Return drafts of messages: each is the parent of the next, and the first one continues where it is appended.

    Raises:
        UsageError: An item is not a UI message with an id.
    """
    drafts: list[Draft] = []
    for message in messages:
        drafts += draft_of(message, parent=drafts[-1].id if drafts else None)
    return drafts


def draft_of(message: Any, *, parent: str | None) -> list[Draft]:
    """Return drafts of a message and, behind it, of the results of its calls.

    Raises:
        UsageError: It is not a UI message with an id.
    """
    if not isinstance(message, Mapping) or not isinstance(parts := message.get("parts"), list):
        raise UsageError("a UI message is an object with `parts`", kind=Kind.MESSAGE)
    name, role = message.get("id"), message.get("role")
    if not isinstance(name, str) or not name or not isinstance(role, str) or role not in ROLES:
        raise UsageError(f"a UI message has an id, and a known role. id={name!r}, role={role!r}", kind=Kind.MESSAGE)
    fields = {key: value for key, value in message.items() if key not in ("id", "role", "parts")}
    return drafts_of_message(WORDS, name, role, parts, fields, parent=parent)


def _shown(part: Part, results: Results) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text, signature):
            signed = {} if signature is None else {"providerMetadata": {"anthropic": {"signature": signature}}}
            return {"type": "reasoning", "text": text, **signed}
        case Media(url, kind, name):
            return {"type": "file", "mediaType": kind, "url": url, **({"filename": name} if name else {})}
        case Call(name, tool, given):
            called = {"type": f"{_TOOL}{tool}", "toolCallId": name, "input": given}
            return {**called, **_ended(results.take(name))}
        case Other(block):
            return {"type": _BLOCK, "data": block}
        case Result():
            return {"type": _BLOCK, "data": {"output": part.output}}


def _ended(result: Result | None) -> dict[str, Any]:
    if result is None:
        return {"state": "input-available"}
    if result.is_error:
        output = text_or_blocks(result.output)
        return {"state": "output-error", "errorText": output if isinstance(output, str) else json_text(output)}
    return {"state": "output-available", "output": result.output}


def _read(part: Mapping[str, Any]) -> Part | None:
    """Return the content part for a UI part; None if model APIs have none."""
    kind = part.get("type")
    if kind == "text" and isinstance(text := part.get("text"), str):
        return Text(text)
    if kind == "reasoning" and isinstance(text := part.get("text"), str):
        return Thinking(text, _signature(part.get("providerMetadata")))
    if kind == "file" and isinstance(url := part.get("url"), str):
        name, media = part.get("filename"), part.get("mediaType")
        return Media(url, media if isinstance(media, str) else "", name if isinstance(name, str) else "")
    if kind == _BLOCK and isinstance(part.get("data"), Mapping):
        return Other(part["data"])
    tool = part.get("toolName") if kind == "dynamic-tool" else str(kind).removeprefix(_TOOL)
    called = kind == "dynamic-tool" or (isinstance(kind, str) and kind.startswith(_TOOL))
    if called and tool and isinstance(name := part.get("toolCallId"), str):
        return Call(name, str(tool), part.get("input", {}))
    return None


def _signature(metadata: Any) -> str | None:
    found = metadata.get("anthropic") if isinstance(metadata, Mapping) else None
    signature = found.get("signature") if isinstance(found, Mapping) else None
    return signature if isinstance(signature, str) else None


def _result(part: Mapping[str, Any]) -> Result | None:
    """Return the result in a part that calls a tool."""
    name, state = str(part.get("toolCallId")), part.get("state")
    if state == "output-available":
        return Result(name, text_or_blocks(part.get("output")))
    return Result(name, str(part.get("errorText", "")), True) if state == "output-error" else None


WORDS: Final = Words(INTERFACE, _read, _result, _shown, _message, "parts")
