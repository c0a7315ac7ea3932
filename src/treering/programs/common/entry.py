"""An entry: one record of a foreign session file, as it stands there."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from treering.format.values import Fields
from treering.transcript.node import Draft

RAW = "raw"
"""In the `source` of a draft: the bytes of its record, as text or, where they are no UTF-8, as bytes."""
ORDER = "order"
"""In the `source` of a draft: the names of the record's fields in their order."""

PIECE = "-part"
"""In the ids of entries that an export made of part of a node; the last of them has the node's own id."""
AFTER = "$after"
"""In the `source` of a draft: what follows its line, where that is more or less than one line break."""
BEFORE = "$before"
"""In the `source` of the header's note: white space that stands before it."""
SLOT = "slot"
"""In the `source` of the header's note: a line with the title in front of the header, where a program has one."""
FRAMING = frozenset({AFTER, BEFORE})
"""What belongs to a file and not to its records."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record of a file and its place."""

    id: str | None
    """Verbatim; one that was made if the version of the file has no ids; None if it lacks one."""
    parent: str | None = None
    """As the program follows it; None: it starts a branch of its own."""
    type: str
    """Empty if it has none."""
    record: Fields
    """Empty if the line is JSON and no object."""
    raw: bytes
    """The bytes of its line, without the line break; of several records on one line, its own."""
    line: int
    """Counted from 1."""
    offset: int
    """Of `raw` in the uncompressed file."""
    intact: bool = True
    """It had its line to itself, so that other programs will have read it too."""
    after: bytes = b"\n"
    """The line break, and blank lines behind it; nothing where the file ends without one."""


def with_source(
    draft: Draft, entry: Entry, write: Callable[[Draft], Fields], encode: Encode, *, optional: Collection[str]
) -> Draft:
    """Return a draft from which the bytes of its record can be made again.

    Mostly they can be made from the draft itself. Where its fields only stood in another order, that order is kept;
    where they would be written in another way, the bytes are. So an error in a mapping costs space, and never data.

    Args:
        draft: What was made of the record; what is left over is in its `source`.
        entry: The record and its bytes.
        write: Makes a record of the draft again.
        encode: Writes a record as the program does.
        optional: Fields that the record may lack though every draft has them.
    """
    made = _with_bytes(draft, entry, write, encode, optional)
    if entry.after == b"\n":
        return made
    return msgspec.structs.replace(made, source=(made.source or {}) | {AFTER: as_text(entry.after)})


def _with_bytes(
    draft: Draft, entry: Entry, write: Callable[[Draft], Fields], encode: Encode, optional: Collection[str]
) -> Draft:
    left, record = draft.source or {}, entry.record
    if left.keys().isdisjoint((RAW, ORDER, AFTER)):
        written = write(draft)
        if encode(written) == entry.raw:
            return draft
        same = written.keys() - set(optional) <= record.keys() <= written.keys()
        if same and encode({name: written[name] for name in record}) == entry.raw:
            return msgspec.structs.replace(draft, source=left | {ORDER: list(record)})
    return msgspec.structs.replace(draft, source={RAW: as_text(entry.raw)})


def framed(draft: Draft, line: bytes) -> bytes:
    """Return a line with what stood around the one that a draft was made of."""
    source = draft.source or {}
    return as_bytes(source.get(BEFORE)) + line + (as_bytes(source[AFTER]) if AFTER in source else b"\n")


def as_text(raw: bytes) -> str | bytes:
    """Return bytes as text if they are text."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def as_bytes(raw: object) -> bytes:
    """Return what `as_text` was given."""
    return raw if isinstance(raw, bytes) else str(raw or "").encode()


Encode = Callable[[Fields], bytes]
"""Writes a record as its program does, without a line break."""
