"""The stored data of Strands Agents, of any of its SDKs, in the format of the Python SDK.

The TypeScript SDK has other names for the same data: blocks of messages differ, bytes are bare base64, and a snapshot
has `schemaVersion` in place of `schema_version`. Unknown data is not changed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import NAMESPACE_OID

from treering.format.values import Fields, fields_of
from treering.programs.common.named_uuid import named_uuid
from treering.programs.strands.keys import stored_state

_MEDIA: Final = ("image", "video", "audio", "document")


def agent_state(data: Fields) -> Fields:
    """Return the state of an agent without messages and conversation manager, by the keys of a session's state.

    Args:
        data: The data of a snapshot, in Python's format.
    """
    stash = fields_of(data.get("stash"))
    elsewhere = str(stash.get("storage_type", "")) if stash.get("location") == "external" else None
    return stored_state(data, stash=fields_of(stash.get("entries")), elsewhere=elsewhere)


def decode_bytes(value: Any) -> Any:
    """Return a value of the Python SDK with encoded bytes decoded."""
    if isinstance(value, dict):
        if value.get("__bytes_encoded__") is True and isinstance(value.get("data"), str):
            return _bytes(value["data"])
        return {key: decode_bytes(part) for key, part in value.items()}
    return [decode_bytes(part) for part in value] if isinstance(value, list) else value


def _bytes(text: Any) -> Any:
    """Return the bytes of a base64 text; other values are not changed."""
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else text
    except binascii.Error:
        return text


def is_typescript(document: Mapping[str, object]) -> bool:
    """Tell whether a snapshot is from the TypeScript SDK, and not from the Python SDK."""
    return "schemaVersion" in document


def read_snapshot(document: Fields) -> Fields:
    """Return a snapshot in Python's format, with encoded bytes decoded."""
    if not is_typescript(document):
        return fields_of(decode_bytes(document))
    names = {"schemaVersion": "schema_version", "createdAt": "created_at", "appData": "app_data"}
    found = {names.get(name, name): value for name, value in document.items()}
    return found | {"data": _data(fields_of(document.get("data")))}


def _data(data: Fields) -> Fields:
    names = {"systemPrompt": "system_prompt", "modelState": "model_state", "interrupts": "interrupt_state"}
    found = {names.get(name, name): value for name, value in data.items()}
    if isinstance(data.get("messages"), list):
        found["messages"] = [_message(message) for message in data["messages"]]
    if isinstance(data.get("interrupts"), dict):
        found["interrupt_state"] = _interrupts(data["interrupts"])
        pending = fields_of(found["interrupt_state"].get("pending_tool_execution")).get("assistant_message")
        # TypeScript adds a message with calls when they have results; Python adds it before.
        if isinstance(pending, dict) and pending not in found.get("messages", ()):
            found["messages"] = [*found.get("messages", ()), pending]
    return found


def _message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    found = {("tracking_id" if name == "trackingId" else name): value for name, value in message.items()}
    if isinstance(message.get("content"), list):
        found["content"] = [_block(block) for block in message["content"]]
    return found


def _block(block: Any) -> Any:
    """Return a block of a message in Python's format: an object with one field that names its kind."""
    if not isinstance(block, dict):
        return block
    found: Fields = {}
    for kind, value in block.items():
        name, read = _BLOCKS.get(kind, (kind, None))
        found[name] = read(value) if read is not None and isinstance(value, dict) else value
    return found


def _media(value: Fields) -> Fields:
    source = fields_of(value.get("source"))
    return value | {"source": source | {"bytes": _bytes(source["bytes"])}} if "bytes" in source else value


def _reasoning(value: Fields) -> Fields:
    text = {name: value[name] for name in ("text", "signature") if name in value}
    rest = {name: part for name, part in value.items() if name not in text}
    if "redactedContent" in rest:
        rest["redactedContent"] = _bytes(rest["redactedContent"])
    return ({"reasoningText": text} if text else {}) | rest


def _cache_point(value: Fields) -> Fields:
    return {("type" if name == "cacheType" else name): part for name, part in value.items()}


def _guarded(value: Fields) -> Fields:
    return value | {"image": _media(value["image"])} if isinstance(value.get("image"), dict) else value


def _tool_result(value: Fields) -> Fields:
    content = value.get("content")
    return value | {"content": [_block(block) for block in content]} if isinstance(content, list) else value


def _citations(value: Fields) -> Fields:
    citations = value.get("citations")
    if not isinstance(citations, list):
        return value
    return value | {"citations": [_citation(each) if isinstance(each, dict) else each for each in citations]}


def _citation(citation: Fields) -> Fields:
    location = fields_of(citation.get("location"))
    kind = location.get("type")
    if not isinstance(kind, str):
        return citation
    name = "searchResultLocation" if kind == "searchResult" else kind
    return citation | {"location": {name: {key: part for key, part in location.items() if key != "type"}}}


_BLOCKS: Final[Mapping[str, tuple[str, Callable[[Fields], Fields]]]] = {
    **{kind: (kind, _media) for kind in _MEDIA},
    "cachePoint": ("cachePoint", _cache_point),
    "citations": ("citationsContent", _citations),
    "guardContent": ("guardContent", _guarded),
    "reasoning": ("reasoningContent", _reasoning),
    "toolResult": ("toolResult", _tool_result),
}
"""Blocks with another name or format in Python: the name there, and a function that converts a block."""


def _interrupts(state: Fields) -> Fields:
    raised = [
        {"id": _interrupt_id(name, each), **{field: each.get(field) for field in ("name", "reason", "response")}}
        for name, each in fields_of(state.get("interrupts")).items()
        if isinstance(each, dict)
    ]
    responses = state.get("resumeResponses")
    found: Fields = {
        "interrupts": {each["id"]: each for each in raised},
        "context": {"responses": responses} if responses else {},
        "activated": bool(state.get("activated")),
    }
    pending = state.get("pendingToolExecution")
    if isinstance(pending, dict):
        results = fields_of(pending.get("completedToolResults")).values()
        found["pending_tool_execution"] = {
            "assistant_message": _message(pending.get("assistantMessageData")),
            "completed_tool_results": [_tool_result(fields_of(fields_of(each).get("toolResult"))) for each in results],
        }
    return found


def _interrupt_id(identifier: str, interrupt: Fields) -> str:
    """Return the id that Python gives to the same interrupt, so that it is raised again when the tool runs again."""
    name = str(interrupt.get("name"))
    for theirs, ours in _INTERRUPT_IDS.items():
        if identifier.startswith(theirs):
            of = identifier.removeprefix(theirs).removesuffix(name).removesuffix(":")
            return ":".join([ours, *([of] if of else []), named_uuid(NAMESPACE_OID, name)])
    return identifier


_INTERRUPT_IDS: Final = {
    "tool:": "v1:tool_call",
    "hook:beforeToolCall:": "v1:before_tool_call",
    "hook:beforeTools:": "v1:before_tools",
}
"""Prefixes of ids of interrupts in TypeScript and in Python; the tool call, if there is one, and the name follow."""
