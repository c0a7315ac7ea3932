"""The rules for repairing a session file of pi. See `treering.programs.common.tree_rules`."""

from __future__ import annotations

from typing import Final

from treering.format.values import Fields
from treering.programs.common.tree_rules import TreeRules
from treering.programs.pi.read import READERS

TREE: Final = TreeRules(
    parent="parentId",
    pointers=("targetId", "firstKeptEntryId", "fromId"),
    asides=frozenset({"label", "session_info", "usage", "custom"}),
    types=frozenset({*READERS, "leaf"}),
    linear_below=2,
)


def is_entry(record: Fields) -> bool:
    """Tell whether a record without a header is an entry of pi."""
    return "parentId" in record and isinstance(record.get("id"), str) and record.get("type") in TREE.types
