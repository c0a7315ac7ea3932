"""The entries that Operator-Use accepts when it reads a file.

Operator checks the types of fields, skips an invalid entry, and loses the entry's ancestors. The importer reads such
entries like all other entries, and an export reports them. (From its published source. pydantic accepts more spellings
of some values than are listed here.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from treering.format.values import Fields, fields_of
from treering.programs.common.checks import Check, is_text
from treering.programs.common.reader import text_of


def _list(value: object) -> bool:
    return isinstance(value, list)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _seconds(value: object) -> bool:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return False
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _count(value: object) -> bool:
    return isinstance(value, int) or (_seconds(value) and float(value) % 1 == 0)  # type: ignore[arg-type]  # a number


LEVELS: Final = frozenset({"off", "minimal", "low", "medium", "high", "xhigh", "max"})
"""The thinking levels that Operator knows."""
_SAYING: Final = frozenset({"system", "user", "assistant", "tool"})
_TOLD: Final = frozenset({"custom", "branch_summary", "compaction_summary"})
_BLOCKS: Final[Mapping[str, Mapping[str, Check]]] = {
    "audio": {"audio": _list},
    "image": {"images": _list},
    "text": {"content": is_text},
    "thinking": {"content": is_text, "signature": is_text},
    "tool_call": {"id": is_text, "name": is_text, "args": _object, "metadata": _object},
    "tool_result": {"id": is_text, "content": is_text, "metadata": _object},
}


def _message(value: object) -> bool:
    message = fields_of(value)
    contents = message.get("contents", [])
    role = text_of(message.get("role"))
    if role not in _SAYING:
        return role in _TOLD
    answered: Mapping[str, Check] = {"usage": _object, "error": is_text} if role == "assistant" else {}
    fits = _are({"id": is_text, "timestamp": _seconds, **answered}, message)
    return fits and isinstance(contents, list) and all(_block(part, _BLOCKS) for part in contents)


def _block(value: object, known: Collection[str]) -> bool:
    kind = text_of(value.get("type", "text")) if isinstance(value, dict) else ""
    return kind in known and _are(_BLOCKS[kind], fields_of(value))


def _are(checks: Mapping[str, Check], fields: Fields) -> bool:
    """Tell whether all present fields have their types."""
    return all(check(fields[name]) for name, check in checks.items() if name in fields)


def _blocks(value: object) -> bool:
    return isinstance(value, list) and all(_block(part, {"text", "image"}) for part in value)


def _level(value: object) -> bool:
    return isinstance(value, str) and value in LEVELS


FIELDS: Final[Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]]] = {
    "branch_summary": ({"from_id": is_text, "summary": is_text}, {}),
    "channel": ({"name": is_text}, {"chat_id": _or_null(is_text), "user_id": _or_null(is_text)}),
    "compaction": ({"summary": is_text, "first_kept_entry_id": is_text, "tokens_before": _count}, {}),
    "custom": ({"custom_type": is_text}, {}),
    "custom_message": ({"custom_type": is_text, "content": _blocks}, {}),
    "label": ({"target_id": is_text}, {"label": _or_null(is_text)}),
    "leaf": ({}, {"target_id": _or_null(is_text)}),
    "message": ({"message": _message}, {"meta": _or_null(_object)}),
    "model_change": ({"model_id": is_text, "provider_id": is_text}, {}),
    "session": ({}, {}),
    "session_info": ({}, {"name": _or_null(is_text)}),
    "thinking_level_change": ({"thinking_level": _level}, {}),
}
"""By type of entry: the fields that it must have, and those that it may have."""


def operator_reads(record: Fields) -> bool:
    """Tell whether Operator accepts this entry."""
    if text_of(record.get("type")) not in FIELDS:
        return False
    needed, allowed = FIELDS[record["type"]]
    common: Mapping[str, Check] = {"id": is_text, "timestamp": _seconds, "parent_id": _or_null(is_text)}
    there = all(name in record and check(record[name]) for name, check in needed.items())
    return there and _are({**common, **allowed}, record)
