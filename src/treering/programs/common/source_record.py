"""The record of a draft in its program's file: the bytes from which it was imported, or the record written again."""

from __future__ import annotations

import msgspec

from treering.format.values import Fields, fields_of
from treering.programs.common.entry import FRAMING, ORDER, RAW, Encode, as_bytes
from treering.programs.common.lines import decode
from treering.programs.formats import Format
from treering.transcript.node import Draft


def own_id(draft: Draft) -> str | None:
    """Return the id of an entry in the file; None if it has none."""
    source = draft.source or {}
    if RAW in source:
        own = object_in(as_bytes(source[RAW])).get("id")
    elif ORDER in source and "id" not in source[ORDER]:  # type: ignore[operator]  # a list
        own = None
    else:
        own = source.get("id", draft.id)
    return own if isinstance(own, str) and own else None


def object_in(raw: bytes) -> Fields:
    """Return the object in a line that was read before; empty if the line holds another value."""
    return fields_of(decode(raw)[0])


def record_bytes(draft: Draft, parent: str | None, found: Format, encode: Encode) -> bytes:
    """Return the line of an imported draft without the line break: its original bytes if they are kept.

    Args:
        draft: A draft from an importer.
        parent: The parent that its record names.
        found: The format.
        encode: Encodes a record.
    """
    source = draft.source or {}
    if RAW in source:
        return as_bytes(source[RAW])
    record = found.to_record(_bare(draft), parent)
    order = source.get(ORDER)
    return encode({name: record[name] for name in order} if isinstance(order, list) else record)


def numbered_record(draft: Draft, parent: str | None, found: Format) -> Fields:
    """Return the record of an entry whose ids differ from those in its file."""
    source = draft.source or {}
    record = object_in(as_bytes(source[RAW])) if RAW in source else found.to_record(_bare(draft), parent)
    now = found.to_record(msgspec.structs.replace(draft, source=None), parent)
    times = {name: record[name] for name in ("timestamp",) if name in record}  # drafts have milliseconds
    return {name: value for name, value in (record | now | times).items() if name != "firstKeptEntryIndex"}


def _bare(draft: Draft) -> Draft:
    left = {name: value for name, value in (draft.source or {}).items() if name != ORDER and name not in FRAMING}
    return msgspec.structs.replace(draft, source=left or None)
