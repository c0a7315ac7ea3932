"""The entries that kit accepts when it reads a file.

kit checks the types of fields, and opens no file with an invalid entry. The importer reads such entries like all other
entries, and an export reports them. (From its published source. Go accepts more spellings of keys than are listed
here.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treering.format.values import Fields
from treering.programs.common.checks import Check, is_text
from treering.programs.common.reader import text_of
from treering.programs.common.rfc3339 import nanoseconds


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str | None) for part in value)


def _stamp(value: object) -> bool:
    return nanoseconds(value) is not None


FIELDS: Final[Mapping[str, Mapping[str, Check]]] = {
    "branch_summary": {"from_id": is_text, "summary": is_text},
    "compaction": {
        "summary": is_text, "first_kept_entry_id": is_text, "tokens_before": _whole, "tokens_after": _whole,
        "messages_removed": _whole, "read_files": _texts, "modified_files": _texts,
    },
    "extension_data": {"ext_type": is_text, "data": is_text},
    "label": {"target_id": is_text, "label": is_text},
    "message": {"role": is_text, "model": is_text, "provider": is_text},
    "model_change": {"provider": is_text, "model_id": is_text},
    "session": {},
    "session_info": {"name": is_text},
    "system_prompt": {"content": is_text, "model": is_text, "provider": is_text},
}  # fmt: skip
"""By type of entry: the fields that kit reads, and their types. Missing, null and empty values are equivalent."""


def kit_reads(record: Fields) -> bool:
    """Tell whether kit opens a file with this entry in it."""
    fields = FIELDS.get(text_of(record.get("type")))
    if fields is None:
        return False
    checks = {"id": is_text, "timestamp": _stamp, "parent_id": is_text, **fields}
    return all(record.get(name) is None or check(record[name]) for name, check in checks.items())
