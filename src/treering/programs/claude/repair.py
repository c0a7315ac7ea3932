"""The rules for repairing a session file of Claude Code. See `treering.programs.common.tree_rules`."""

from __future__ import annotations

from typing import Final

from treering.programs.claude.entries import TYPES
from treering.programs.common.tree_rules import TreeRules

TREE: Final = TreeRules(
    id="uuid",
    parent="parentUuid",
    pointers=("logicalParentUuid", "leafUuid", "messageId", "sourceToolAssistantUUID"),
    asides=frozenset(),
    types=TYPES,
    id_bytes=16,
    loose=True,
    lane=("isSidechain", "agentId"),
)
