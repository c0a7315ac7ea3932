"""Translate records of other programs to entries of pi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from treering.api.view import View
from treering.calls import CALLS
from treering.format.values import Fields, fields_of
from treering.messages import MEDIA, called_beside, common, shape_of
from treering.programs.common.blocks import is_result, media_block, text_of
from treering.programs.common.composition import compose_lines
from treering.programs.common.target import Composed, LeftOut
from treering.programs.common.times import write_time
from treering.programs.common.usage import numbers_in, spelled, usage_in
from treering.programs.pi.read import VERSION
from treering.store.info import SessionInfo
from treering.transcript.node import Draft

FORMAT: Final = "pi"
_COSTS: Final = ("input", "output", "cacheRead", "cacheWrite", "total")
_NUMBERS: Final = {
    "input": "input",
    "output": "output",
    "cache_read": "cacheRead",
    "cache_write": "cacheWrite",
    "total": "totalTokens",
}
"""Names of usage counts in Treering, and in pi."""
_STOPS: Final = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "toolUse", "max_tokens": "length"}
"""Stop reasons in Anthropic's API, and in pi."""
_ROLES: Final = {
    "ai": "assistant",
    "developer": "system",
    "function": "toolResult",
    "human": "user",
    "model": "assistant",
    "tool": "toolResult",
}
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_THINKING: Final = frozenset({"thinking", "reasoning"})
_CALLED: Final = frozenset({"tool_calls", "function_call"})
_SAID: Final = frozenset({"label", "title", "usage", "extension"})
"""Notes that pi's format can hold."""


def compose(view: View) -> Composed:
    """Make a session file of pi."""
    return compose_lines(view, _Pi())


class _Pi:
    """The exporter of pi; see `LineExporter`."""

    FORMAT = FORMAT
    VERSION = VERSION
    SENDS_EMPTY = False
    HOLDS = frozenset({"image"})
    HOLDS_IN_RESULTS = frozenset({"image"})
    TITLED = False

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return a header; the header of a fork names its parent, as in pi."""
        made = {"type": "session", "version": VERSION, "id": info.id, "timestamp": write_time(info.created_ms)}
        made |= {"parentSession": info.parent_session} if info.parent_session else {}
        made |= {"cwd": info.cwd} if info.cwd else {}
        return (old or {"cwd": ""}) | made

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return the draft that pi's importer would have made of a record; pi's own context edits are not changed."""
        if draft.kind == "context_edit" and "edit" in (draft.brief or {}):
            return draft
        return adapted(draft, settings)

    def apart(self, message: Fields) -> list[Fields]:
        """Split a message so that each result is a separate message."""
        return apart(message)

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return an entry that repeats an existing label, or removes a label that does not exist."""
        brief: dict[str, object] = {"label": label}
        return Draft(type="note", kind="label", id=identifier, target=node, brief=brief, time_ms=time_ms)

    def retract(self, draft: Draft) -> Draft | None:
        """Return an edit of the context that hides a message."""
        brief: dict[str, object] = {"target": draft.target, "edit": "retract"}
        return msgspec.structs.replace(
            draft, type="note", kind="context_edit", target=None, brief=brief, payload={"replacement": None}
        )

    def not_sent(self) -> list[LeftOut]:
        """Return nothing: pi sends all messages in its files."""
        return []


def apart(message: Fields) -> list[Fields]:
    """Split a message so that each result is a separate message, as pi needs it."""
    known = dict(common(message))
    content = known.get("content")
    results = [part for part in content if is_result(part)] if isinstance(content, list) else []
    if not results:
        return [message]
    others = [part for part in content or () if part is not None and not is_result(part)]
    return [*map(_as_message, results), *([{**known, "content": others}] if others else [])]


def _as_message(result: Fields) -> Fields:
    """Return a block with a result as a message."""
    names = ("tool_call_id", "toolCallId", "tool_use_id", "call_id", "id")
    call = next((result[name] for name in names if result.get(name)), "")
    failed = bool(result.get("isError") or result.get("is_error"))
    content = result.get("content", result.get("output"))
    name = result.get("toolName", result.get("name", ""))
    return {"role": "tool", "tool_call_id": call, "toolName": name, "content": content, "isError": failed}


def adapted(draft: Draft, settings: Mapping[str, object]) -> Draft | None:
    """Return the draft that pi's importer would have made; kinds that pi does not have become `custom` entries."""
    if draft.type == "note" and draft.kind not in _SAID:
        return None
    adapt = _ADAPTED.get(draft.kind)
    changed: Fields = adapt(draft, settings) if adapt is not None else _as_custom(draft)
    return msgspec.structs.replace(draft, **changed)


def _message(draft: Draft, settings: Mapping[str, object]) -> Fields:
    payload = draft.payload
    if (draft.brief or {}).get("context") is False or not isinstance(payload, dict):
        return _as_custom(draft)
    payload = _known(payload)
    role = _ROLES.get(str(payload.get("role")), str(payload.get("role")))
    message: Fields = {**payload, "role": role, "content": payload.get("content")}
    if role == "toolResult":
        message = _result(message)
    elif role == "assistant":
        message = _answer(message, settings)
    elif message["content"] is None:
        message["content"] = ""
    elif not isinstance(message["content"], str):
        message["content"] = _blocks(message["content"])
    message.setdefault("timestamp", draft.time_ms or 0)
    return {"role": role, "payload": message}


def _known(message: Fields) -> Fields:
    """Return a message in the common format, with the fields of another program that pi also has."""
    if message.get("type") == "message":  # an answer of Anthropic's API, in the form that Claude Code stores
        stop = _STOPS.get(str(message.get("stop_reason")))
        stopped = {"provider": "anthropic"} | ({"stopReason": stop} if stop else {})
    elif shape_of(message):
        stopped = {}
    else:
        return {**common(message)}
    known, spent = common(message), usage_in(message)
    model = {name: known[name] for name in ("model", "provider") if isinstance(known.get(name), str)}
    return {"role": known.get("role"), "content": known.get("content"), **model, **stopped} | (
        {"usage": usage_of(spent)} if spent else {}
    )


def _result(message: Fields) -> Fields:
    call = message.pop("tool_call_id", None)
    made = {
        "role": message.pop("role"),
        "toolCallId": call if call is not None else "",
        "toolName": "",
        "isError": False,
    }
    return {**made, **message, "content": _blocks(message.get("content"))}


def _answer(message: Fields, settings: Mapping[str, object]) -> Fields:
    content = [*_blocks(message.get("content")), *map(_call, called_beside(message))]
    message = {name: value for name, value in message.items() if name not in _CALLED}
    calls = any(isinstance(block, dict) and block.get("type") == "toolCall" for block in content)
    made = {
        "api": "unknown",
        "provider": str(settings.get("provider") or ""),
        "model": str(settings.get("model") or ""),
        "usage": usage_of({}),
        "stopReason": "toolUse" if calls else "stop",
    }
    return {**made, **message, "content": content}


def _blocks(content: object) -> list[object]:
    """Return content in pi's format for messages of assistants and tools: a list of blocks."""
    if isinstance(content, list | tuple):
        return [_block(part) for part in content if part is not None]
    text = text_of(content)
    return [{"type": "text", "text": text}] if text else []


def _block(part: Any) -> object:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return {"type": "text", "text": text_of(part)}
    if kind in _TEXTS:
        return {**part, "type": "text"} if kind != "refusal" else {"type": "text", "text": part.get("refusal", "")}
    if kind in _THINKING and "thinkingSignature" not in part:
        signed = {"thinkingSignature": part["signature"]} if part.get("signature") else {}
        return {"type": "thinking", "thinking": part.get("thinking", part.get("text", "")), **signed}
    if kind in MEDIA:
        return _media(part)
    return _call(part) if kind in CALLS else part


def _media(part: Fields) -> object:
    if part.get("type") == "image" and isinstance(part.get("data"), str) and "mimeType" in part:
        return part
    block = media_block(part)
    if block.kind == "image":
        return {"type": "image", "data": block.text, "mimeType": block.name or "image/png"}
    return {"type": "text", "text": block.text}


def _call(part: object) -> object:
    """Return a call in pi's format, from the formats of common APIs."""
    fields = fields_of(part)
    inner = fields_of(fields.get("function")) or fields
    arguments = inner.get("arguments", inner.get("input", inner.get("args", {})))
    name, identifier = inner.get("name", ""), fields.get("id", fields.get("call_id", ""))
    return {"type": "toolCall", "id": identifier, "name": name, "arguments": _arguments(arguments)}


def _arguments(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except ValueError:
        return {"text": arguments}


def usage_of(numbers: Mapping[str, object]) -> Fields:
    """Return usage in pi's format, with all its fields."""
    spent = spelled(numbers, _NUMBERS)
    cost = dict.fromkeys(_COSTS, 0) | {"total": numbers_in(numbers).get("cost", 0)}
    return dict.fromkeys(_NUMBERS.values(), 0) | spent | {"cost": cost}


def _compaction(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    payload = fields_of(draft.payload)
    brief = draft.brief or {}
    details = {name: value for name, value in payload.items() if name != "summary"}
    return {
        "payload": {"summary": payload.get("summary", "")} | ({"details": details} if details else {}),
        # its own id keeps nothing, in every version
        "brief": {"kept": brief.get("kept", draft.id), "tokens_before": brief.get("tokens_before", 0)},
    }


def _branch_summary(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    payload = fields_of(draft.payload)
    details = {name: value for name, value in payload.items() if name != "summary"}
    source = (draft.links or {}).get("source", "root")
    return {
        "payload": {"fromId": source, "summary": payload.get("summary", "")} | ({"details": details} if details else {})
    }


def _model_change(draft: Draft, settings: Mapping[str, object]) -> Fields:
    brief = draft.brief or {}
    if "models" in brief and "model" not in brief:  # a model for another role, while no default model is known
        return _as_custom(draft)
    return {"brief": {name: brief.get(name, settings.get(name)) or "" for name in ("provider", "model")}}


def _thinking_change(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    return {"brief": {"thinking": (draft.brief or {}).get("thinking") or "off"}}


def _custom_message(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    if (draft.brief or {}).get("context") is False:
        return _as_custom(draft)
    payload = fields_of(draft.payload)
    return {"payload": {"display": True, **payload}}


def _usage(draft: Draft, settings: Mapping[str, object]) -> Fields:
    model = {"provider": settings.get("provider") or "", "model": settings.get("model") or ""}
    return {"payload": {"kind": "treering", **model, "usage": usage_of(draft.brief or {})}}


def _as_it_is(_draft: Draft, _settings: Mapping[str, object]) -> Fields:
    return {}


def _as_custom(draft: Draft) -> Fields:
    data = {name: value for name, value in (("brief", draft.brief), ("payload", draft.payload)) if value is not None}
    return {"kind": "custom", "payload": {"custom_type": f"treering.{draft.kind}", "data": data}, "brief": None}


_ADAPTED: Final = {
    "message": _message,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "custom_message": _custom_message,
    "model_change": _model_change,
    "thinking_change": _thinking_change,
    "usage": _usage,
    "label": _as_it_is,
    "title": _as_it_is,
}
