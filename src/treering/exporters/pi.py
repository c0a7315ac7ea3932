"""What pi is given that was not recorded by it: messages and changes of ours, in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from treering.exporters.lines import compose_lines
from treering.exporters.target import Composed
from treering.importers.entry import Fields
from treering.importers.pi import VERSION, write_time
from treering.session.blocking import View
from treering.session.info import SessionInfo
from treering.transcript.node import Draft

FORMAT: Final = "pi"
_USAGE: Final = ("input", "output", "cacheRead", "cacheWrite", "totalTokens")
_COSTS: Final = ("input", "output", "cacheRead", "cacheWrite", "total")
_ROLES: Final = {"tool": "toolResult", "function": "toolResult", "developer": "system"}
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})
_CALLS: Final = frozenset({"toolCall", "tool_use", "tool_call", "function_call"})
_SAID: Final = frozenset({"label", "title", "usage", "extension"})
"""Notes that pi has words for."""


def compose(view: View) -> Composed:
    """Make a file of pi of a session."""
    return compose_lines(view, _Pi())


class _Pi:
    """See `LineExporter`."""

    FORMAT = FORMAT
    VERSION = VERSION

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return a header; that of a fork names its parent, as pi does."""
        made = {"type": "session", "version": VERSION, "id": info.id, "timestamp": write_time(info.created_ms)}
        made |= {"parentSession": info.parent_session} if info.parent_session else {}
        made |= {"cwd": info.cwd} if info.cwd else {}
        return (old or {"cwd": ""}) | made

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return a record of ours as pi would have written it."""
        return adapted(draft, settings)

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return a label that is there already, or takes off one that is not."""
        brief: dict[str, object] = {"label": label}
        return Draft(type="note", kind="label", id=identifier, target=node, brief=brief, time_ms=time_ms)

    def retract(self, draft: Draft) -> Draft | None:
        """Return an edit of the context that shows nothing in the place of a message."""
        brief: dict[str, object] = {"target": draft.target, "edit": "retract"}
        return msgspec.structs.replace(
            draft, type="note", kind="context_edit", target=None, brief=brief, payload={"replacement": None}
        )


def adapted(draft: Draft, settings: Mapping[str, object]) -> Draft | None:
    """Return a record of ours as pi would have written it; what it has no word for becomes a `custom` entry."""
    if draft.type == "note" and draft.kind not in _SAID:
        return None
    adapt = _ADAPTED.get(draft.kind)
    changed: Fields = adapt(draft, settings) if adapt is not None else _as_custom(draft)
    return msgspec.structs.replace(draft, **changed)


def _message(draft: Draft, settings: Mapping[str, object]) -> Fields:
    payload = draft.payload
    if (draft.brief or {}).get("context") is False or not isinstance(payload, dict):
        return _as_custom(draft)
    role = _ROLES.get(str(payload.get("role")), str(payload.get("role")))
    message: Fields = {**payload, "role": role, "content": payload.get("content")}
    if role == "toolResult":
        message = _result(message)
    elif role == "assistant":
        message = _answer(message, settings)
    elif message["content"] is None:
        message["content"] = ""
    message.setdefault("timestamp", draft.time_ms or 0)
    return {"role": role, "payload": message}


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
    calls = message.pop("tool_calls", None) or []
    made = {
        "api": "unknown",
        "provider": str(settings.get("provider") or ""),
        "model": str(settings.get("model") or ""),
        "usage": usage_of({}),
        "stopReason": "toolUse" if calls else "stop",
    }
    return {**made, **message, "content": [*_blocks(message.get("content")), *map(_call, calls)]}


def _blocks(content: object) -> list[object]:
    """Content as pi has it in the messages of assistants and tools: a list of blocks."""
    if isinstance(content, list | tuple):
        return [_block(part) for part in content]
    return [{"type": "text", "text": content}] if isinstance(content, str) and content else []


def _block(part: Any) -> object:
    if not isinstance(part, dict):
        return {"type": "text", "text": str(part)}
    if part.get("type") in _TEXTS:
        return {**part, "type": "text"}
    return _call(part) if part.get("type") in _CALLS else part


def _call(part: Any) -> object:
    """A call as pi has it, from the forms that the common interfaces of models have for it."""
    inner = part.get("function") if isinstance(part.get("function"), dict) else part
    arguments = inner.get("arguments", inner.get("input", inner.get("args", {})))
    name, identifier = inner.get("name", ""), part.get("id", part.get("call_id", ""))
    return {"type": "toolCall", "id": identifier, "name": name, "arguments": _arguments(arguments)}


def _arguments(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except ValueError:
        return {"text": arguments}


def usage_of(numbers: Mapping[str, object]) -> Fields:
    """Return usage as pi has it, with all its fields."""
    cost = dict.fromkeys(_COSTS, 0) | {"total": numbers.get("cost", 0)}
    return dict.fromkeys(_USAGE, 0) | {**numbers} | {"cost": cost}


def _compaction(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    payload = draft.payload if isinstance(draft.payload, dict) else {}
    brief = draft.brief or {}
    details = {name: value for name, value in payload.items() if name != "summary"}
    return {
        "payload": {"summary": payload.get("summary", "")} | ({"details": details} if details else {}),
        # its own id keeps nothing, in every version
        "brief": {"kept": brief.get("kept", draft.id), "tokens_before": brief.get("tokens_before", 0)},
    }


def _branch_summary(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    payload = draft.payload if isinstance(draft.payload, dict) else {}
    details = {name: value for name, value in payload.items() if name != "summary"}
    source = (draft.links or {}).get("source", "root")
    return {
        "payload": {"fromId": source, "summary": payload.get("summary", "")} | ({"details": details} if details else {})
    }


def _model_change(draft: Draft, settings: Mapping[str, object]) -> Fields:
    brief = draft.brief or {}
    return {"brief": {name: brief.get(name, settings.get(name)) or "" for name in ("provider", "model")}}


def _thinking_change(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    return {"brief": {"thinking": (draft.brief or {}).get("thinking") or "off"}}


def _custom_message(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    if (draft.brief or {}).get("context") is False:
        return _as_custom(draft)
    payload = draft.payload if isinstance(draft.payload, dict) else {}
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
