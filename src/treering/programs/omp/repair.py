"""The rules for repairing a session file of oh-my-pi. See `treering.programs.common.tree_rules`."""

from __future__ import annotations

from typing import Final

import msgspec

from treering.format.values import Fields
from treering.programs.pi import repair as pi

_OWN_TYPES: Final = frozenset(
    {
        "credential_pin",
        "mode_change",
        "model_usage",
        "reset_boundary",
        "service_tier_change",
        "session_init",
        "title_change",
        "ttsr_injection",
    }
)
TREE: Final = msgspec.structs.replace(
    pi.TREE,
    pointers=(*pi.TREE.pointers, "providerReplayThroughEntryId"),
    asides=frozenset({*pi.TREE.asides, "title_change", "model_usage", "credential_pin"}),
    types=pi.TREE.types | _OWN_TYPES,
)


def is_entry(record: Fields) -> bool:
    """Tell whether a record without a header is an entry of oh-my-pi, of a type that pi does not have."""
    of_own_type = record.get("type") in _OWN_TYPES - pi.TREE.types
    return "parentId" in record and isinstance(record.get("id"), str) and of_own_type
