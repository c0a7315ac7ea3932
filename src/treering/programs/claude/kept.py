"""The messages that a compaction boundary of Claude Code keeps.

Rule 1: it names messages one by one, or the first and the last of a row. If a named message is missing, none is kept.
Rule 2: a kept message need not be an ancestor: it may have been written later, on another branch. A row is the path
from its last message up to its first, without another boundary between.

Names are long and briefs are short, so a brief has digests of messages that are named one by one.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from treering.checkpoint.policy import Recorded
from treering.format.record import Skeleton

NAMES_MAX: Final = 32
"""The most names that fit into a brief; of longer lists only the first and the last are used."""
_CHARACTERS: Final = 6
_BYTES: Final = 4


def names_of(nodes: Iterable[str]) -> str:
    """Return the digests of ids that a brief holds."""
    digests = (blake2b(node.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest() for node in nodes)
    return "".join(urlsafe_b64encode(digest).decode()[:_CHARACTERS] for digest in digests)


def kept_by(
    brief: Mapping[str, object], above: Sequence[Skeleton], below: Sequence[Skeleton], recorded: Recorded | None
) -> list[Skeleton]:
    """Return the nodes that a boundary keeps, in the order in which they are shown.

    Args:
        brief: The brief of the boundary.
        above: The path down to the boundary.
        below: The path after the boundary.
        recorded: All nodes, if available: nodes that were written later are not on the path.
    """
    first, last, names = brief.get("kept"), brief.get("kept_last"), brief.get("kept_all")
    if not isinstance(last, str) and not isinstance(names, str):
        return []
    rows = {row.id: row for row in above}
    if recorded is not None and isinstance(first, str) and below:
        rows |= {row.id: row for row in recorded.between(first, below[-1].id)}
    if isinstance(names, str):
        named = {names_of([row.id]): row for row in rows.values()}
        found = [named.get(names[at : at + _CHARACTERS]) for at in range(0, len(names), _CHARACTERS)]
        kept = [row for row in found if row is not None]
        return kept if len(kept) == len(found) else []
    return _row_of(rows, first, last)


def _row_of(rows: Mapping[str, Skeleton], first: object, last: object) -> list[Skeleton]:
    """Return the nodes from `first` to `last`; none if `first` is no ancestor of `last`."""
    found: list[Skeleton] = []
    cursor = rows.get(last) if isinstance(last, str) else None
    while cursor is not None and cursor.kind != "compaction":
        found.append(cursor)
        if cursor.id == first:
            return found[::-1]
        cursor = rows.get(cursor.parent) if cursor.parent is not None else None
    return []
