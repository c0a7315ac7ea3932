"""The rules for repairing a session file of kit. See `treering.programs.common.tree_rules`."""

from __future__ import annotations

from typing import Final

from treering.format.values import Fields
from treering.programs.common.tree_rules import Carrier, TreeRules
from treering.programs.kit.read import READERS

TREE: Final = TreeRules(
    parent="parent_id",
    pointers=("target_id", "first_kept_entry_id", "from_id"),
    asides=frozenset({"label", "session_info", "extension_data"}),
    types=frozenset(READERS),
    carrier=Carrier("extension_data", "ext_type", "data", as_text=True),
    id_bytes=8,
)


def is_entry(record: Fields) -> bool:
    """Tell whether a record without a header is an entry of kit: a message with `parts`."""
    named = record.get("type") == "message" and isinstance(record.get("id"), str)
    return named and isinstance(record.get("parts"), list) and isinstance(record.get("role"), str)
