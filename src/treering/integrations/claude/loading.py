"""Load a transcript: its entries as they were appended, one segment in memory at a time.

All entries are returned as they were appended, except for later changes made with Treering:

Rule 1: after a move of the head (`checkout`, `switch`, `branch`, `rewind`) Claude must continue from the move's target,
and Claude Code continues from the last message of a transcript. So the messages after the target of the last move are
left out, unless later messages descend from them. Moves that Claude Code made itself, when a message followed an
earlier one, leave out nothing.
Rule 2: an amended message is returned as amended. A retracted message is left out, and its children get its parent. An
erased message is replaced by a stub, so that the parents of later messages still exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from treering.errors import NotFoundError
from treering.format.erasure import Erased
from treering.format.record import Record, decode_record, read_brief, skeleton_of_record
from treering.format.values import Fields
from treering.integrations.claude.entries import entry_of
from treering.journal.read import read_lines
from treering.session.payload import decode_payload
from treering.session.reader import Reader
from treering.storage.requests import Steps


def load(reader: Reader) -> Steps[list[Fields] | None]:
    """Open a session and return its entries; None if there are none.

    Raises:
        CorruptError: A part of the session is missing or damaged.
    """
    try:
        yield from reader.replica.load()
    except NotFoundError:
        return None
    found = _Found()
    yield from walk(reader, lambda record: found.add(record, reader.blobs.at_hand))
    return found.entries() or None


def walk(reader: Reader, take: Callable[[Record], None]) -> Steps[None]:
    """Call `take` with each record of an opened session, in order, after its blobs were fetched."""
    end, known = 0, None
    while True:
        known, lines = yield from read_lines(reader.keys, end, known, life=reader.replica.view.life)
        if not lines:
            return
        end += len(lines)
        yield from reader.blobs.fetch(lines)
        for line in lines:
            take(decode_record(line))


class _Row(NamedTuple):
    at: int
    node: str | None
    """The node of the entry; for a note, its target."""
    entry: Fields


class _Found:
    """The records that were read so far."""

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._parents: dict[str, tuple[int, str | None]] = {}  # of each node: its position, and its parent
        self._amended: dict[str, object] = {}
        self._retracted: set[str] = set()
        self._moved: Record | None = None

    def add(self, record: Record, blobs: Mapping[str, bytes | None]) -> None:
        """Add the next record, whose blobs were fetched."""
        if record.type == "head" and _is_move(record):
            self._moved = record
        elif record.type == "edit" and record.target is not None:
            self._edit(record, record.target, blobs)
        elif record.type == "node":
            self._parents[record.id] = record.at, record.parent
        entry = entry_of(record, blobs)
        if entry:
            self._rows.append(_Row(record.at, record.id if record.type == "node" else record.target, entry))

    def _edit(self, record: Record, target: str, blobs: Mapping[str, bytes | None]) -> None:
        payload = decode_payload(bytes(record.body), blobs)
        undone = read_brief(skeleton_of_record(record, 0)).get("undo") is True
        if record.kind == "retract":
            (self._retracted.discard if undone else self._retracted.add)(target)
        elif record.kind == "amend":
            self._amended.pop(target, None)
            if not undone and not isinstance(payload, Erased):
                self._amended[target] = payload

    def entries(self) -> list[Fields]:
        """Return the entries with all changes applied."""
        seen = [row for row in self._rows if row.node not in self._retracted]
        if self._moved is not None:
            path, at = self._path(self._moved), self._moved.at
            seen = [row for row in seen if row.at > at or row.node is None or row.node in path]
        if self._amended or self._retracted:
            return list(self._edited(seen))
        return [row.entry for row in seen]

    def _path(self, moved: Record) -> set[str]:
        """Return the target of a move and its ancestors, and the ancestors of the nodes recorded after the move."""
        path: set[str] = set()
        since = [parent for at, parent in self._parents.values() if at > moved.at]
        for start in (moved.target, *since):
            node = start
            while node is not None and node not in path:
                path.add(node)
                node = self._parents.get(node, (0, None))[1]
        return path

    def _edited(self, rows: Iterable[_Row]) -> Iterable[Fields]:
        above = {
            row.entry.get("uuid"): row.entry.get("parentUuid") for row in self._rows if row.node in self._retracted
        }
        for row in rows:
            entry, parent = row.entry, row.entry.get("parentUuid")
            passed: set[object] = set()
            while parent in above and parent not in passed:
                passed.add(parent)
                parent = above[parent]
            if passed:
                entry = entry | {"parentUuid": parent}
            if row.node in self._amended and "message" in entry:
                entry = entry | {"message": self._amended[row.node]}
            yield entry


def _is_move(record: Record) -> bool:
    """Tell whether a record moves the head and was made with Treering, not by Claude Code."""
    brief = read_brief(skeleton_of_record(record, 0))
    return record.kind != "drop" and "by" not in brief and brief.get("current") is not False
