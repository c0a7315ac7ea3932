"""Messages of evva: their fields have the names of Go fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treering.messages import Fields, listed

_GO: Final = frozenset({"role", "content", "thinking", "thinkingsignature", "toolcalls", "toolresults"})
"""Fields of evva's messages. Go matches them in any case."""
_GO_ONLY: Final = frozenset({"thinkingsignature", "toolcalls", "toolresults"})
_GO_CALL: Final = {"id": "id", "name": "name", "input": "input"}
_GO_RESULT: Final = {"id": "tool_call_id", "content": "content", "iserror": "is_error"}
SIGNED: Final = {"ThinkingSignature": frozenset({"Thinking", "ThinkingSignature"})}
"""The field with a signature, and the fields that it covers."""


def is_of(message: Fields) -> bool:
    """Tell whether a message is one of evva's."""
    names = [name for name in message if isinstance(name, str)]
    go = {name.lower() for name in names if name != name.lower()} & _GO
    return bool((go & {"content", "role"}) or _GO_ONLY & {name.lower() for name in names})


def common(message: Fields) -> Fields:
    """Return a message in the common format."""
    fields = {str(name).lower(): value for name, value in message.items() if value is not None}
    thought = {"thinking": fields.get("thinking") or "", "signature": fields.get("thinkingsignature") or ""}
    blocks: list[object] = [{"type": "thinking", **thought}] if thought["thinking"] else []
    content = fields.get("content", "")
    blocks += content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    blocks += [_go("tool_call", _GO_CALL, part) for part in listed(fields.get("toolcalls"))]
    blocks += [_go("tool_result", _GO_RESULT, part) for part in listed(fields.get("toolresults"))]
    return {"role": fields.get("role", ""), "content": blocks}


def _go(kind: str, names: Mapping[str, str], part: object) -> object:
    fields = {str(name).lower(): value for name, value in part.items()} if isinstance(part, Mapping) else {}
    return {"type": kind, **{new: fields[old] for old, new in names.items() if old in fields}}
