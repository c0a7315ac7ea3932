"""A stored session as drafts again: what an importer made, and what was recorded since.

Rule: what an importer made is written back as it was, whatever it looks like. What was recorded here is first made to
look like the program's own. So the two must be told apart, and a draft bears no mark: it is an importer's if the
session has its header, it says its time (our ids carry ours), and it stands before the first checkpoint or has fields
that only an importer writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from treering.format import values
from treering.format.erasure import Erased, is_erased
from treering.format.record import Record, decode_record
from treering.format.stub import NOTE
from treering.format.values import fields_of
from treering.ids import time_of
from treering.session.blocking import View
from treering.session.info import SessionInfo
from treering.session.payload import decode_payload, decode_source
from treering.session.reader import Reader
from treering.session.tally import ORIGIN
from treering.storage.requests import Steps
from treering.transcript.node import Draft

_BLOB = b'"$blob"'


def is_fork(info: SessionInfo) -> bool:
    """Tell a session that was forked here; one that was made of a file may have a parent, too, named in its header."""
    return bool(info.parent_session) and fields_of(info.extra.get(ORIGIN)).get("session") != info.id


class Stored(NamedTuple):
    """A node, note or edit."""

    draft: Draft
    imported: bool
    """An importer made it, so it can be written back as it was."""


def stored_drafts(view: View, format: str) -> Iterator[Stored]:  # noqa: A002  # as it is called everywhere here
    """Yield nodes, notes and edits of a session in their order, one payload in memory at a time.

    Args:
        view: The session.
        format: What an importer of another format made does not count as imported.
    """
    header = checkpointed = False
    for line in view.lines():
        record = decode_record(line)
        checkpointed = checkpointed or record.type == "checkpoint"
        if record.type not in ("node", "note", "edit"):
            continue
        if record.type == "edit" and is_erased(bytes(record.body)):
            continue  # of something that is erased itself
        draft = view.perform(_draft, record, line)
        if record.type == "note" and record.kind == "import":
            header = isinstance(draft.payload, dict) and draft.payload.get("format") == format
        foreign = record.time is not None and time_of(record.id) is None
        marked = draft.source is not None or "source_parent" in (draft.links or {})
        yield Stored(draft, header and foreign and (marked or not checkpointed))


def _draft(reader: Reader, record: Record, line: bytes) -> Steps[Draft]:
    if _BLOB in line:
        yield from reader.fetch_blobs([line])
    body = bytes(record.body)
    brief: Any = values.decode(record.brief)
    source: Any = decode_source(body, reader.blobs)
    payload = decode_payload(body, reader.blobs)
    if isinstance(payload, Erased):
        payload = _left_of(payload, record)
    return Draft(
        kind=record.kind,
        role=record.role,
        payload=payload,
        id=record.id,
        parent=record.parent,
        time_ms=record.time if record.time is not None else time_of(record.id),
        brief=brief or None,
        links=record.links,
        type=record.type,
        target=record.target,
        source=source,
    )


def _left_of(erased: Erased, record: Record) -> object:
    """What other programs are told of an erased payload; they have no word for it."""
    if record.type != "node":
        return None
    return erased.message if record.kind == "message" else erased.message | {"summary": NOTE}
