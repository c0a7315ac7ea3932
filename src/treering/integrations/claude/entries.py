"""Find the records that hold entries of the Claude Agent SDK, and restore the entries as the SDK passed them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from treering.format import values
from treering.format.erasure import Erased
from treering.format.record import Record, Skeleton, read_brief
from treering.format.values import Fields, fields_of
from treering.ids import time_of
from treering.programs.claude.entries import write_entry
from treering.programs.common.entry import RAW
from treering.programs.common.times import write_time
from treering.session.payload import decode_payload, decode_source
from treering.transcript.node import Draft

OURS: Final = frozenset({"card", "damage", "exported", "import", "label", "link", "origin", "place", "status", "usage"})
"""Kinds of notes that are not entries. An entry of such a type is recorded as another kind, see
`treering.programs.claude.entries`."""


def is_entry(row: Skeleton) -> bool:
    """Tell from its skeleton whether a record may hold an entry."""
    return row.type == "node" or (row.type == "note" and row.kind not in OURS)


def uuid_of(row: Skeleton) -> str:
    """Return the uuid of an entry; empty if its record has a generated id."""
    named = read_brief(row).get("uuid")
    if isinstance(named, str):
        return named
    return row.id if time_of(row.id) is None else ""


def entry_of(record: Record, blobs: Mapping[str, bytes | None]) -> Fields | None:
    """Return the entry from which a record was made; None if it was not made from an entry.

    Args:
        record: Any record.
        blobs: The blobs to which it refers.
    """
    if record.type not in ("node", "note") or (record.type == "note" and record.kind in OURS):
        return None
    body = bytes(record.body)
    payload, source = decode_payload(body, blobs), decode_source(body, blobs)
    if isinstance(payload, Erased):
        return _stub(record, payload) if _is_message(record) else None
    if _is_message(record) and source is None:
        return None  # not made by the SDK
    entry = write_entry(_draft(record, payload, fields_of(source)))
    return entry if "type" in entry or record.kind.startswith("claude:") else None


def _is_message(record: Record) -> bool:
    """Tell whether a record is the node of a message, or of a message that Claude Code made of an attachment."""
    return record.type == "node" and record.kind in ("message", "custom_message")


def _draft(record: Record, payload: object, source: Fields) -> Draft:
    brief: Any = values.decode(record.brief)
    time = record.time if record.time is not None else time_of(record.id)
    return Draft(
        type=record.type, kind=record.kind, role=record.role, payload=payload, id=record.id, parent=record.parent,
        time_ms=time, brief=brief, links=record.links, source=source,
    )  # fmt: skip


def as_text(draft: Draft, entry: Fields) -> Draft:
    """Return a draft that holds its entry as JSON text, for an entry that is nested too deep, for example.

    Raises:
        TypeError: The entry has no JSON form.
        ValueError: The entry contains itself.
    """
    payload = {"role": draft.role, "content": "[not shown]"} if draft.kind in ("message", "custom_message") else None
    return msgspec.structs.replace(draft, payload=payload, source={RAW: json.dumps(entry)})


def _stub(record: Record, erased: Erased) -> Fields:
    """Return the stub of an erased message, so that the parents of later messages still exist."""
    said = record.role == "assistant"
    return {
        "type": "assistant" if said else "user",
        "uuid": record.id,
        "parentUuid": record.parent,
        "isSidechain": "side" in fields_of(values.decode(record.brief)),
        "timestamp": write_time(record.time),
        "message": erased.message,
    }
