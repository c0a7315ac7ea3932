"""References to records: which field of which type is a reference, and codes for the kinds of referrers.

A reference is the parent of a node, and the target of a checkpoint, note or edit. The parent of a checkpoint does not
count as one, nor does any field of a head record or of a record of an unknown type, since no reader looks these up from
the other end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treering.format.record import Skeleton

CHILD: Final = 0
"""A node, which refers to its parent. All other records refer to their target."""
CHECKPOINT: Final = 1
LABEL: Final = 2
NOTE: Final = 3
"""A note that is no label."""
AMEND: Final = 4
RETRACT: Final = 5
PRUNE: Final = 6
EDIT: Final = 7
"""An edit of another kind."""
CODES: Final = range(8)

HAS_ROOT: Final = 1 << 0
"""A node without a parent, or a checkpoint made before the first node."""
HAS_COMPACTION: Final = 1 << 1
HAS_CHECKPOINT: Final = 1 << 2
HAS_LABEL: Final = 1 << 3
HAS_NOTE: Final = 1 << 4
"""A note that is no label."""
HAS_EDIT: Final = 1 << 5
"""An edit that is no prune."""
HAS_PRUNE: Final = 1 << 6
HAS_HEAD: Final = 1 << 7
"""A head record."""
MASK_FIRST: Final = (1 << 8) - 1
"""The bits above, which all versions of writers know. Later bits may be set though nothing of their kind occurs, and
count as set in segments of writers that did not know them."""
HAS_CONTEXT_EDIT: Final = 1 << 8
"""A node of the kind `context_edit`."""
HAS_INLINE: Final = 1 << 9
"""A checkpoint that may have messages in it; see `treering.format.copies`."""
MASK_ALL: Final = (1 << 10) - 1
"""Anything may occur."""

_BY_KIND: Final = {
    ("note", "label"): LABEL,
    ("edit", "amend"): AMEND,
    ("edit", "retract"): RETRACT,
    ("edit", "prune"): PRUNE,
}
_BY_TYPE: Final = {"node": CHILD, "checkpoint": CHECKPOINT, "note": NOTE, "edit": EDIT}
_BIT_OF_CODE: Final = {
    CHECKPOINT: HAS_CHECKPOINT,
    LABEL: HAS_LABEL,
    NOTE: HAS_NOTE,
    AMEND: HAS_EDIT,
    RETRACT: HAS_EDIT,
    PRUNE: HAS_PRUNE,
    EDIT: HAS_EDIT,
}
_BIT_OF_KIND: Final = {"compaction": HAS_COMPACTION, "context_edit": HAS_CONTEXT_EDIT}


def code_of(type_: str, kind: str) -> int | None:
    """Return the code for how a record of this type and kind refers to another one; None if it does not."""
    return _BY_KIND.get((type_, kind), _BY_TYPE.get(type_))


def reference_of(skeleton: Skeleton) -> str | None:
    """Return the id that a record refers to, or None."""
    if skeleton.type == "node":
        return skeleton.parent
    return skeleton.target if skeleton.type in _BY_TYPE else None


def mask_of(skeletons: Sequence[Skeleton]) -> int:
    """Return the bits of what occurs among some records, without `HAS_INLINE`, which skeletons do not show."""
    mask = 0
    for skeleton in skeletons:
        if skeleton.type == "node":
            mask |= (skeleton.parent is None and HAS_ROOT) | _BIT_OF_KIND.get(skeleton.kind, 0)
        elif skeleton.type == "head":
            mask |= HAS_HEAD
        elif (code := code_of(skeleton.type, skeleton.kind)) is not None:
            mask |= _BIT_OF_CODE[code] | (code == CHECKPOINT and skeleton.target is None and HAS_ROOT)
    return mask


def rows_meant(
    references: Sequence[str | None], ids: Sequence[str], chunks: Sequence[tuple[int, int]]
) -> list[int | None]:
    """Return the row that each reference points to: the last row with that id in the chunk, else in the segment.

    None if that is the referring row itself, or no row has the id.

    Args:
        references: The reference of each row, or None.
        ids: The ids of these rows.
        chunks: First row and end of each chunk.
    """
    everywhere = {identifier: row for row, identifier in enumerate(ids)}
    meant: list[int | None] = []
    for start, end in chunks:
        here = {ids[row]: row for row in range(start, end)}
        for row in range(start, end):
            reference = references[row]
            if reference is None:
                meant.append(None)
                continue
            target = here.get(reference, row)
            if target == row:
                target = everywhere.get(reference, row)
            meant.append(None if target == row else target)
    return meant
