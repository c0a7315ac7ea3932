"""The recorded entries of a transcript, to find duplicates and the place of the next entry.

They are read from skeletons only, so that opening a transcript for an append reads no messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from treering.format.record import Skeleton, decode_record, read_brief
from treering.integrations.claude.entries import entry_of, is_entry, uuid_of
from treering.programs.claude.course import Course
from treering.programs.claude.entries import Spot, is_side
from treering.session.index import Index
from treering.session.writer import Writer
from treering.storage.requests import Steps

Entry = Mapping[str, object]


class _Row(NamedTuple):
    at: int
    named: bool
    """Whether it has a uuid."""


class Recorded:
    """The entries of one session in the order of their records. Rebuilt whenever it may be out of date."""

    def __init__(self, index: Index, writer: Writer) -> None:
        self.index = index
        self._writer = writer
        self.end = 0
        self.course = Course(self._new_id)
        self.has_main = False
        """Whether there are messages of the main conversation. Otherwise all messages are a subagent's, and the head
        follows them."""
        self.ahead: Spot | None = None
        """The place of the next entry if it is computed already, else None."""
        self._rows: list[_Row] = []
        self._places: dict[str, int] = {}  # of each uuid in `_rows`
        self._repeated: int | None = None  # rows after the entries of the last batch

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self._rows)

    def _new_id(self) -> str:
        return self._writer.replica.state.clock.new()

    def catch_up(self) -> None:
        """Add the entries recorded since the last call."""
        for row in _rows_since(self.index, self.end):
            self.take(row)
        self.end = self.index.end

    def take(self, row: Skeleton) -> None:
        """Add one recorded entry."""
        brief = read_brief(row)
        note = row.type == "note"
        self.course.recall(
            row.id, row.target if note else row.parent, note=note, kind=row.kind, role=row.role, brief=brief
        )
        self.note_down(row)

    def note_down(self, row: Skeleton) -> None:
        """Add an entry whose place in the course was computed already."""
        uuid = uuid_of(row)
        if uuid:
            self._places.setdefault(uuid, len(self._rows))
        self._rows.append(_Row(row.at, bool(uuid)))
        self.has_main = self.has_main or (row.type == "node" and "side" not in read_brief(row))

    def stands_aside(self, entry: Entry) -> bool:
        """Tell whether an entry is a subagent's inside a main conversation: such entries move no head."""
        return self.has_main and is_side(entry)

    def repeats(self, entries: Sequence[Entry]) -> Steps[list[bool]]:
        """Tell for each entry whether it is recorded already.

        An entry with a `uuid` is recorded if its uuid is. An entry without a `uuid` is recorded if an equal entry is
        recorded at the same place: next to recorded entries of this batch or the last one.
        """
        known = [self._places.get(uuid) if (uuid := _uuid(entry)) else None for entry in entries]
        found = [place is not None for place in known]
        alike = {}  # place in `_rows`, by place in `entries`
        place = next((place - before for before, place in enumerate(known) if place is not None), self._repeated)
        for number, entry in enumerate(entries):
            if known[number] is not None:
                place = known[number]
            elif _uuid(entry) or place is None or not 0 <= place < len(self._rows) or self._rows[place].named:
                place = None
                continue
            else:
                alike[number] = place
            place = place + 1 if place is not None else None
        stored = yield from _entries_at(self._writer, [self._rows[place].at for place in alike.values()])
        for number, at in alike.items():
            found[number] = stored[self._rows[at].at] == entries[number]
        self._repeated = place if all(found) else None
        return found


def _uuid(entry: Entry) -> str:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else ""


def _rows_since(index: Index, end: int) -> Iterable[Skeleton]:
    rows = [row for row in (*index.graph, *index.graph.annotations.notes()) if row.at >= end and is_entry(row)]
    return sorted(rows, key=lambda row: row.at)


def _entries_at(writer: Writer, places: Sequence[int]) -> Steps[dict[int, Entry | None]]:
    lines = yield from writer.replica.lines_at(places)
    yield from writer.blobs.fetch(lines.values())
    return {at: entry_of(decode_record(line), writer.blobs.at_hand) for at, line in lines.items()}
