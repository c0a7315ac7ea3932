"""A stored session as drafts: imported records and records made in Treering.

Rule: imported records are written back unchanged, however often the file was imported. Records made in Treering are
first translated to the program's format. A record has no field that distinguishes the two: it is imported if the append
that wrote it also wrote a note about a file, as every import does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec

from treering.api.view import View
from treering.format import values
from treering.format.erasure import NOTE, Erased, is_erased
from treering.format.record import Record, decode_record, read_brief, skeleton_of_record
from treering.format.values import Fields, fields_of
from treering.ids import new_id, time_of
from treering.messages import common
from treering.programs.common.usage import is_copied
from treering.programs.common.writing import lacked_by_json, plain
from treering.session.payload import decode_payload, decode_source
from treering.session.reader import Readable
from treering.session.state import ORIGIN
from treering.storage.requests import Steps
from treering.store.info import SessionInfo
from treering.transcript.node import Draft

_BLOB = b'"$blob"'
_ABOUT_A_FILE: Final = frozenset({"import", ORIGIN})
"""Kinds of notes that only an import writes: the header, and the progress of reading."""


def is_fork(info: SessionInfo) -> bool:
    """Tell whether a session was forked in Treering. An imported session may also have a parent, from its header."""
    return bool(info.parent_session) and fields_of(info.extra.get(ORIGIN)).get("session") != info.id


def is_circular(view: View) -> bool:
    """Tell whether the parents of any nodes form a cycle."""
    return any(problem.kind == "cycle" for problem in view.problems())


VALUES: Final = "value"
"""The kind of values in `LeftOut` that JSON lacks."""
NO_JSON: Final = "JSON has no such values: numbers that are not finite, bytes, sets, times, keys that are not text"


class Stored(NamedTuple):
    """A node, note or edit."""

    draft: Draft
    imported: bool
    """Whether an importer made it, so that it can be written back unchanged."""
    erased: bool = False
    """Its payload is the message that stands for what was erased, which no program wrote."""
    lacked: int = 0
    """How many of its values JSON lacks; something else is in their place."""


def header_in(records: Iterable[Stored]) -> Draft | None:
    """Return the newest header of the imported file, since programs rewrite headers; None if there is none."""
    notes = (each.draft for each in records if each.draft.type == "note" and each.draft.kind == "import")
    return next(iter(deque(notes, maxlen=1)), None)


def title_of_creation(info: SessionInfo) -> Draft | None:
    """Return the note that would say the title of a session again; None if it has no title.

    Only its card has a title that was given when the session was created: no record of it says the title.
    """
    brief: dict[str, object] = {"title": info.title}
    return Draft(type="note", kind="title", id=new_id(), brief=brief, time_ms=info.created_ms) if info.title else None


def stored_drafts(
    view: View,
    format: str,  # noqa: A002  # as it is called everywhere here
    *,
    types: Collection[str] = ("node", "note", "edit"),
    copies: bool = False,
) -> Iterator[Stored]:
    """Yield nodes, notes and edits of a session in their order, one payload in memory at a time.

    Args:
        view: The session.
        format: Records imported from other formats do not count as imported.
        types: The types of records; other records are skipped.
        copies: Include notes of usage that only repeat the usage in a message.
    """
    header = False
    for record, line, from_file in _with_origin(view.lines()):
        if record.type not in types:
            continue
        erased = is_erased(bytes(record.body))
        if record.type == "edit" and erased:
            continue  # its target is erased, too
        if record.kind == "usage" and not copies and is_copied(read_brief(skeleton_of_record(record, len(line)))):
            continue
        draft = view.perform(_draft, record, line)
        if record.type == "note" and record.kind == "import":
            header = isinstance(draft.payload, dict) and draft.payload.get("format") == format
        imported = header and from_file and record.time is not None
        if imported or not (header and from_file and record.kind == "title"):  # that title is in the header
            yield Stored(draft, imported, erased) if imported else _as_json(Stored(draft, imported, erased))


def _as_json(stored: Stored) -> Stored:
    """Return a record that was made here without values that JSON lacks."""
    draft = stored.draft
    payload, brief = plain(draft.payload), plain(draft.brief)
    if payload is draft.payload and brief is draft.brief:
        return stored
    made = msgspec.structs.replace(draft, payload=payload, brief=brief)
    read = common(draft.payload) if isinstance(draft.payload, dict) else draft.payload  # bytes of images are no loss
    return stored._replace(draft=made, lacked=lacked_by_json([read, draft.brief]))


def let_index_go(reader: Readable) -> Steps[None]:
    """Free the index of nodes; it is read again when needed."""
    yield from ()
    reader.replica.let_index_go()


def _with_origin(lines: Iterable[bytes]) -> Iterator[tuple[Record, bytes, bool]]:
    """Yield records with their lines, and whether each is imported; at most one append is buffered."""
    begun = False  # before the first import no lookahead is needed
    records = ((decode_record(line), line) for line in lines)
    for _, append in groupby(records, key=lambda each: each[0].by):
        held: list[tuple[Record, bytes]] = []
        from_file = False
        for record, line in append:
            from_file = from_file or (record.type == "note" and record.kind in _ABOUT_A_FILE)
            begun = begun or from_file
            held.append((record, line))
            if from_file or not begun:
                yield from ((*each, from_file) for each in held)
                held.clear()
        yield from ((*each, False) for each in held)


def _draft(reader: Readable, record: Record, line: bytes) -> Steps[Draft]:
    if _BLOB in line:
        yield from reader.blobs.fetch([line])
    body = bytes(record.body)
    brief: Any = values.decode(record.brief)
    source: Any = decode_source(body, reader.blobs.at_hand)
    payload = decode_payload(body, reader.blobs.at_hand)
    if isinstance(payload, Erased):
        payload = _left_of(payload, record, fields_of(brief))
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


def _left_of(erased: Erased, record: Record, brief: Fields) -> object:
    """Return the message that replaces an erased payload; other programs have no notion of erasure."""
    if record.type != "node":
        return None
    if record.kind == "message":
        return erased.message if record.role else None  # there was no message in it
    if record.kind == "context_edit":
        return _EDITS_LEFT.get(brief.get("edit"), {})
    hidden = brief.get("empty") is True  # it was empty, and no program shows it
    return erased.message | {"summary": "" if hidden else NOTE}


_EDITS_LEFT: Final[Mapping[object, Fields]] = {
    "amend": {"replacement": {"content": NOTE}},
    "retract": {"replacement": None},
}
"""What replaces the payload of an erased `context_edit`, by the `edit` in its brief: a hidden message stays hidden."""
