"""An entry: one record of a foreign session file, verbatim."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from treering.format.values import Fields
from treering.transcript.node import Draft

RAW = "raw"
"""In the `source` of a draft: the bytes of its record, as text or, if they are no UTF-8, as bytes."""
ORDER = "order"
"""In the `source` of a draft: the names of the record's fields in their order."""

PIECE = "-part"
"""A part of the ids of entries that hold parts of a node; the last of these entries has the node's own id."""
AFTER = "$after"
"""In the `source` of a draft: the bytes after its line, unless they are one line break."""
BEFORE = "$before"
"""In the `source` of the header's note: white space before the header."""
SLOT = "slot"
"""In the `source` of the header's note: the line with the title before the header, if the program has one."""
FRAMING = frozenset({AFTER, BEFORE})
"""Keys for bytes that belong to a file and not to its records."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record of a file and its place."""

    id: str | None
    """The id in the file, or a generated one if the version of the file has no ids; None if it is missing."""
    parent: str | None = None
    """The parent that the program takes; None for a root."""
    type: str
    """The type; empty if it has none."""
    record: Fields
    """The fields; empty if the line is JSON but no object."""
    raw: bytes
    """The bytes of its line, without the line break; if the line has several records, only the bytes of this one."""
    line: int
    """The number of its line, from 1."""
    offset: int
    """The offset of `raw` in the uncompressed file."""
    intact: bool = True
    """Whether the record was alone on its line, so that other programs can read it."""
    after: bytes = b"\n"
    """The line break and blank lines after it; empty if the file ends without one."""


def with_source(
    draft: Draft, entry: Entry, write: Callable[[Draft], Fields], encode: Encode, *, optional: Collection[str]
) -> Draft:
    """Return a draft from which the bytes of its record can be reproduced.

    Usually the draft itself is enough. If the fields had another order, the order is stored; if they would be written
    differently, the bytes are stored. So an error in a mapping costs space, and never data.

    Args:
        draft: The draft of the record, with remaining fields in its `source`.
        entry: The record and its bytes.
        write: Makes the record from the draft.
        encode: Encodes a record like the program.
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
    """Return a line with the white space that the file had around the line of a draft."""
    source = draft.source or {}
    return as_bytes(source.get(BEFORE)) + line + (as_bytes(source[AFTER]) if AFTER in source else b"\n")


def as_text(raw: bytes) -> str | bytes:
    """Return bytes as text if they are UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def as_bytes(raw: object) -> bytes:
    """Return the bytes that were given to `as_text`."""
    return raw if isinstance(raw, bytes) else str(raw or "").encode()


Encode = Callable[[Fields], bytes]
"""A function that encodes a record like its program, without a line break."""
