"""Read a transcript back: its entries as they came, one segment at a time.

Whoever goes elsewhere in a session with Treering (`checkout`, `switch`, `branch`, `rewind`) wants Claude to go on from
there. Claude Code goes on from the last message of a transcript, so what such a move leaves behind is left out from
then on; moving back brings it back. Moves that the transcript itself tells of, by messages that follow an earlier one,
are Claude's own: all of it is given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from treering.errors import NotFoundError
from treering.format.record import Record, decode_record, read_brief, skeleton_of_record
from treering.format.values import Fields
from treering.integrations.claude.entries import entry_of
from treering.journal.read import read_lines
from treering.session.reader import Reader
from treering.storage.requests import Steps


class _Read(NamedTuple):
    at: int
    node: str | None
    """The node that it is, or is about."""
    entry: Fields


def load(reader: Reader) -> Steps[list[Fields] | None]:
    """Return the entries of a session that was not looked at yet; None if there are none.

    Raises:
        CorruptError: Some of it is missing or damaged.
    """
    try:
        yield from reader.look()
    except NotFoundError:
        return None
    found: list[_Read] = []
    parents: dict[str, str | None] = {}
    moved: Record | None = None
    end, known = 0, None
    while True:
        known, lines = yield from read_lines(reader.keys, end, known, life=reader.view.life)
        if not lines:
            break
        end += len(lines)
        yield from reader.fetch_blobs(lines)
        for line in lines:
            record = decode_record(line)
            moved = record if _is_move(record) else moved
            if record.type == "node":
                parents[record.id] = record.parent
            entry = entry_of(record, reader.blobs)
            if entry:
                found.append(_Read(record.at, record.id if record.type == "node" else record.target, entry))
    return [read.entry for read in _in_view(found, parents, moved)] or None


def _is_move(record: Record) -> bool:
    """Whether a record says that somebody went elsewhere, and not that Claude's user did."""
    if record.type != "head":
        return False
    brief = read_brief(skeleton_of_record(record, 0))
    return record.kind != "drop" and brief.get("by") != "claude" and brief.get("current") is not False


def _in_view(found: list[_Read], parents: Mapping[str, str | None], moved: Record | None) -> list[_Read]:
    """Leave out what the last move left behind."""
    if moved is None:
        return found
    path: set[str | None] = {None}
    node = moved.target
    while node is not None and node not in path:
        path.add(node)
        node = parents.get(node)
    return [read for read in found if read.at > moved.at or read.node in path]
