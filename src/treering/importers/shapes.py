"""What a doctor must know of a format beyond its reader: which fields point to entries, and what its program refuses.

Rule: what a program does with damage is a fact about it, kept here as data; the doctor itself knows no program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from treering.programs.claude import entries as claude_entries
from treering.programs.formats import Format
from treering.programs.kit import read as kit
from treering.programs.omp import read as omp
from treering.programs.operator import read as operator
from treering.programs.pi import read as pi


class Carrier(msgspec.Struct, frozen=True):
    """A type of entry that can hold a record of a type that the program refuses."""

    type: str
    name: str
    """The field for what it holds."""
    data: str
    """The field for the record."""
    as_text: bool
    """The record is kept as JSON text."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How entries of a tree point to each other, and which of them the program takes."""

    id: str = "id"
    parent: str
    pointers: tuple[str, ...]
    """Other fields that hold ids of entries."""
    asides: frozenset[str]
    """Types that nothing is attached to: labels, names and the like."""
    types: frozenset[str]
    """All types that are known."""
    carrier: Carrier | None = None
    """For types that are not known, if the program loses them or does not open the file."""
    escaped: tuple[str, ...] = ()
    """Characters that the program takes for the end of a line."""
    linear_below: int = 0
    """Files of versions below this have no tree."""
    id_bytes: int = 4
    """Of the ids that are made for entries without one; they are written in hexadecimal."""
    loose: bool = False
    """Entries without an id are right as they are: they stand beside the tree."""
    lane: tuple[str, ...] = ()
    """Fields that tell conversations in one file apart; entries of one are not attached to those of another."""


_PI: Final = Shape(
    parent="parentId",
    pointers=("targetId", "firstKeptEntryId", "fromId"),
    asides=frozenset({"label", "session_info", "usage", "custom"}),
    types=frozenset({*pi.READERS, "leaf"}),
    linear_below=2,
)

SHAPES: Final[Mapping[str, Shape]] = {
    "claude": Shape(
        id="uuid",
        parent="parentUuid",
        pointers=("logicalParentUuid", "leafUuid", "messageId", "sourceToolAssistantUUID"),
        asides=frozenset(),
        types=claude_entries.TYPES,
        id_bytes=16,
        loose=True,
        lane=("isSidechain", "agentId"),
    ),
    "pi": _PI,
    "omp": msgspec.structs.replace(
        _PI,
        pointers=(*_PI.pointers, "providerReplayThroughEntryId"),
        asides=frozenset({*_PI.asides, "title_change", "model_usage", "credential_pin"}),
        types=frozenset(
            {
                *_PI.types,
                "credential_pin",
                "mode_change",
                "model_usage",
                "reset_boundary",
                "service_tier_change",
                "session_init",
                "title_change",
                "ttsr_injection",
            }
        ),
    ),
    "operator": Shape(
        parent="parent_id",
        pointers=("target_id", "first_kept_entry_id", "from_id"),
        asides=frozenset({"label", "session_info", "leaf", "custom", "channel"}),
        types=frozenset({*operator.READERS, "channel"}),
        carrier=Carrier("custom", "custom_type", "data", as_text=False),
        escaped=("\u2028", "\u2029", "\x85"),
    ),
    "kit": Shape(
        parent="parent_id",
        pointers=("target_id", "first_kept_entry_id", "from_id"),
        asides=frozenset({"label", "session_info", "extension_data"}),
        types=frozenset(kit.READERS),
        carrier=Carrier("extension_data", "ext_type", "data", as_text=True),
        id_bytes=8,
    ),
}
"""By format. A format that is not here has no tree, or says it itself by a constant `SHAPE` of its module."""


def shape_of(found: Format) -> Shape | None:
    """Return the shape of a format; None if its entries are no tree."""
    shape = SHAPES.get(found.NAME) or getattr(found, "SHAPE", None)
    return shape if isinstance(shape, Shape) else None


def like(record: Mapping[str, object]) -> str | None:
    """Return the format that has entries like this one, for files whose header is lost; None if no format has."""
    kind = record.get("type")
    if not isinstance(kind, str) or not isinstance(record.get("id"), str):
        return None
    if "parentId" in record and kind in SHAPES["omp"].types:
        return "pi" if kind in SHAPES["pi"].types else omp.NAME
    message = record.get("message")
    if kind == "message" and isinstance(message, dict) and isinstance(message.get("contents"), list):
        return operator.NAME
    if kind == "message" and isinstance(record.get("parts"), list) and isinstance(record.get("role"), str):
        return kit.NAME
    return None
