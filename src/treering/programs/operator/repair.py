"""The rules for repairing a session file of Operator-Use. See `treering.programs.common.tree_rules`."""

from __future__ import annotations

from typing import Final

from treering.format.values import Fields
from treering.programs.common.tree_rules import Carrier, TreeRules
from treering.programs.operator.read import READERS

TREE: Final = TreeRules(
    parent="parent_id",
    pointers=("target_id", "first_kept_entry_id", "from_id"),
    asides=frozenset({"label", "session_info", "leaf", "custom", "channel"}),
    types=frozenset({*READERS, "channel"}),
    carrier=Carrier("custom", "custom_type", "data", as_text=False),
    escaped=("\u2028", "\u2029", "\x85"),
)


def is_entry(record: Fields) -> bool:
    """Tell whether a record without a header is an entry of Operator-Use: a message with `contents`."""
    message = record.get("message")
    named = record.get("type") == "message" and isinstance(record.get("id"), str)
    return named and isinstance(message, dict) and isinstance(message.get("contents"), list)
