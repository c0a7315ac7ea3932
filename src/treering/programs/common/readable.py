"""Which entries Operator-Use and kit accept when they read a file.

Both check the types of fields. Operator skips an invalid entry, and loses its ancestors; kit does not open the file.
Here such entries are read like all entries, and an export reports them. (From their published sources. Go and pydantic
accept more spellings of keys and of some values than are listed here.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

from treering.format.values import Fields, fields_of
from treering.programs.common.reader import text_of
from treering.programs.common.rfc3339 import nanoseconds

Check = Callable[[object], bool]


def _text(value: object) -> bool:
    return isinstance(value, str)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list(value: object) -> bool:
    return isinstance(value, list)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


# kit: absent and null are the same, an empty value


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str | None) for part in value)


def _stamp(value: object) -> bool:
    return nanoseconds(value) is not None


KIT: Final[Mapping[str, Mapping[str, Check]]] = {
    "branch_summary": {"from_id": _text, "summary": _text},
    "compaction": {
        "summary": _text, "first_kept_entry_id": _text, "tokens_before": _whole, "tokens_after": _whole,
        "messages_removed": _whole, "read_files": _texts, "modified_files": _texts,
    },
    "extension_data": {"ext_type": _text, "data": _text},
    "label": {"target_id": _text, "label": _text},
    "message": {"role": _text, "model": _text, "provider": _text},
    "model_change": {"provider": _text, "model_id": _text},
    "session": {},
    "session_info": {"name": _text},
    "system_prompt": {"content": _text, "model": _text, "provider": _text},
}  # fmt: skip
"""By type of entry: fields that kit reads, and what may be in them."""


def kit_reads(record: Fields) -> bool:
    """Tell whether kit opens a file with this entry in it."""
    fields = KIT.get(text_of(record.get("type")))
    if fields is None:
        return False
    checks = {"id": _text, "timestamp": _stamp, "parent_id": _text, **fields}
    return all(record.get(name) is None or check(record[name]) for name, check in checks.items())


# Operator: what has no default must be there


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
"""Of thinking, as Operator knows them."""
_SAYING: Final = frozenset({"system", "user", "assistant", "tool"})
_TOLD: Final = frozenset({"custom", "branch_summary", "compaction_summary"})
_BLOCKS: Final[Mapping[str, Mapping[str, Check]]] = {
    "audio": {"audio": _list},
    "image": {"images": _list},
    "text": {"content": _text},
    "thinking": {"content": _text, "signature": _text},
    "tool_call": {"id": _text, "name": _text, "args": _object, "metadata": _object},
    "tool_result": {"id": _text, "content": _text, "metadata": _object},
}


def _message(value: object) -> bool:
    message = fields_of(value)
    contents = message.get("contents", [])
    role = text_of(message.get("role"))
    if role not in _SAYING:
        return role in _TOLD
    answered: Mapping[str, Check] = {"usage": _object, "error": _text} if role == "assistant" else {}
    fits = _are({"id": _text, "timestamp": _seconds, **answered}, message)
    return fits and isinstance(contents, list) and all(_block(part, _BLOCKS) for part in contents)


def _block(value: object, known: Collection[str]) -> bool:
    kind = text_of(value.get("type", "text")) if isinstance(value, dict) else ""
    return kind in known and _are(_BLOCKS[kind], fields_of(value))


def _are(checks: Mapping[str, Check], fields: Fields) -> bool:
    """Tell whether the fields that are there have their types."""
    return all(check(fields[name]) for name, check in checks.items() if name in fields)


def _blocks(value: object) -> bool:
    return isinstance(value, list) and all(_block(part, {"text", "image"}) for part in value)


def _level(value: object) -> bool:
    return isinstance(value, str) and value in LEVELS


OPERATOR: Final[Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]]] = {
    "branch_summary": ({"from_id": _text, "summary": _text}, {}),
    "channel": ({"name": _text}, {"chat_id": _or_null(_text), "user_id": _or_null(_text)}),
    "compaction": ({"summary": _text, "first_kept_entry_id": _text, "tokens_before": _count}, {}),
    "custom": ({"custom_type": _text}, {}),
    "custom_message": ({"custom_type": _text, "content": _blocks}, {}),
    "label": ({"target_id": _text}, {"label": _or_null(_text)}),
    "leaf": ({}, {"target_id": _or_null(_text)}),
    "message": ({"message": _message}, {"meta": _or_null(_object)}),
    "model_change": ({"model_id": _text, "provider_id": _text}, {}),
    "session": ({}, {}),
    "session_info": ({}, {"name": _or_null(_text)}),
    "thinking_level_change": ({"thinking_level": _level}, {}),
}
"""By type of entry: the fields that it must have, and those that it may have."""


def operator_reads(record: Fields) -> bool:
    """Tell whether Operator takes this entry."""
    if text_of(record.get("type")) not in OPERATOR:
        return False
    needed, allowed = OPERATOR[record["type"]]
    common: Mapping[str, Check] = {"id": _text, "timestamp": _seconds, "parent_id": _or_null(_text)}
    there = all(name in record and check(record[name]) for name, check in needed.items())
    return there and _are({**common, **allowed}, record)
