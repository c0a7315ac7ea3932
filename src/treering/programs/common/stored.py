"""A stored session as drafts again: what an importer made, and what was recorded since.

Rule: what a file said is written back as it was, whatever it looks like and however often the file was imported. What
was recorded here is first made to look like the program's own. So the two must be told apart, and a record bears no
mark: it came from a file if one append wrote it together with a note about that file, which every import does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from treering.api.view import View
from treering.format import values
from treering.format.erasure import Erased, is_erased
from treering.format.record import Record, decode_record
from treering.format.stub import NOTE
from treering.format.values import fields_of
from treering.ids import time_of
from treering.session.payload import decode_payload, decode_source
from treering.session.reader import Readable
from treering.session.tally import ORIGIN
from treering.storage.requests import Steps
from treering.store.info import SessionInfo
from treering.transcript.node import Draft

_BLOB = b'"$blob"'
_ABOUT_A_FILE: Final = frozenset({"import", ORIGIN})
"""Kinds of notes that only an import writes: with the header, and how far it read."""


def is_fork(info: SessionInfo) -> bool:
    """Tell a session that was forked here; one that was made of a file may have a parent, too, named in its header."""
    return bool(info.parent_session) and fields_of(info.extra.get(ORIGIN)).get("session") != info.id


def is_circular(view: View) -> bool:
    """Tell whether parents lead round in circles somewhere."""
    return any(problem.kind == "cycle" for problem in view.problems())


class Stored(NamedTuple):
    """A node, note or edit."""

    draft: Draft
    imported: bool
    """An importer made it, so it can be written back as it was."""


def header_in(records: Iterable[Stored]) -> Draft | None:
    """Return the newest header of the file that a session was made of, as programs rewrite theirs; None if of none."""
    notes = (each.draft for each in records if each.draft.type == "note" and each.draft.kind == "import")
    return next(iter(deque(notes, maxlen=1)), None)


def stored_drafts(
    view: View,
    format: str,  # noqa: A002  # as it is called everywhere here
    *,
    types: Collection[str] = ("node", "note", "edit"),
) -> Iterator[Stored]:
    """Yield nodes, notes and edits of a session in their order, one payload in memory at a time.

    Args:
        view: The session.
        format: What an importer of another format made does not count as imported.
        types: Of records; all others are passed over unread.
    """
    header = False
    for record, line, from_file in _told(view.lines()):
        if record.type not in types:
            continue
        if record.type == "edit" and is_erased(bytes(record.body)):
            continue  # of something that is erased itself
        draft = view.perform(_draft, record, line)
        if record.type == "note" and record.kind == "import":
            header = isinstance(draft.payload, dict) and draft.payload.get("format") == format
        imported = header and from_file and record.time is not None
        if imported or not (header and from_file and record.kind == "title"):  # that is the header's, and stands there
            yield Stored(draft, imported)


def let_index_go(reader: Readable) -> Steps[None]:
    """Free what is in memory of each node; whoever asks for it again has it read again."""
    yield from ()
    reader.replica.let_index_go()


def _told(lines: Iterable[bytes]) -> Iterator[tuple[Record, bytes, bool]]:
    """Yield records and their lines, and whether each came from a file; no more than one append is held back."""
    begun = False  # a session that no file came into yet needs no look ahead
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
