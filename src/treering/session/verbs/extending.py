"""Add the new records of the file that a session was imported from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from treering.format import values
from treering.format.record import Record, Skeleton
from treering.ids import time_of
from treering.session.foreign import CHECKPOINT, checkpoint_of
from treering.session.reader import Readable
from treering.session.record import flush
from treering.session.recording import Recording, checkpoint_records
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.graph import Graph
from treering.transcript.node import Draft, Here

EXPORTED: Final = "exported"
"""Kind of a note about another note: an export wrote that one into a file, as an entry at the place that the links of
this note name."""


class SideHead(NamedTuple):
    """A head for the position of another program, in addition to the handle's head."""

    name: str
    node: str | None


def record_foreign(writer: Writer, drafts: Sequence[Draft], side: SideHead | None = None) -> Steps[None]:
    """Record drafts as they are, in one append: parents are kept even if missing, and only the head `side` moves.

    Raises:
        ConflictError: Another writer writes this exclusive session.
        UnavailableError: The store did not answer; the next call finds out whether it is recorded.
    """
    yield from flush(writer)

    def plan() -> Steps[Recording]:
        yield from ()
        recording = _Foreign(writer)
        for draft in drafts:
            recording.draft(draft)
        if side is not None:
            recording.records.append(_standing(side, writer.replica.state.clock.new()))
        return recording

    yield from writer.appender.write(plan)


def missing(reader: Readable, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    """Return the drafts, all with ids of their own, that are not recorded yet in any form."""
    if not drafts:
        return []
    index = yield from reader.replica.index()
    notes = {note.id for note in index.graph.annotations.notes()}
    recorded = (index.graph, index.all_checkpoints, notes)
    return [draft for draft in drafts if not any(draft.id in each for each in recorded)]


def notes_among(writer: Writer, names: Collection[str | None]) -> Steps[set[str]]:
    """Return the ids that belong to notes."""
    if not names:
        return set()
    index = yield from writer.replica.index()
    return {note.id for note in index.graph.annotations.notes()} & set(names)


def node_at(writer: Writer, name: str | None, lost: str | None) -> Steps[str | None]:
    """Return the id itself, or for a note the nearest node above its entry in the file; see `Hanging`."""
    index = yield from writer.replica.index()
    return Hanging(index.graph, lost).node_at(name)


def hung(writer: Writer, drafts: Sequence[Draft], back: Sequence[Draft], lost: str | None) -> Steps[list[Draft]]:
    """Return the drafts of a file, their parents mapped to nodes where the file names an entry that is a note here.

    Args:
        writer: The session.
        drafts: The new records of the file; all earlier records of the file are in the session.
        back: Notes of the kind `exported` about the session's notes in the file. Those with new content follow the
            returned drafts.
        lost: The parent for notes whose place in the file is unknown.
    """
    named = (name for each in drafts for name in (each.parent, each.target, (each.brief or {}).get("kept")))
    if not back and all(time_of(str(name)) is None for name in named):
        return list(drafts)  # no draft names a record made here, so the index need not be read
    index = yield from writer.replica.index()
    hanging = Hanging(index.graph, lost)
    new = [note for note in back if hanging.came_back(note)]
    return [*map(hanging.hang, drafts), *new]


class Hanging:
    """The tree of a file into which an export wrote notes of this session as entries.

    Rule 1: only the file says which parent such an entry has. A note of the kind `exported` records this parent when
    the file is first read back, and again whenever a later export wrote the entry elsewhere.
    Rule 2: entries that the program added below such an entry get the nearest node above it as their parent here.
    Rule 3: a compaction that keeps messages from such an entry on keeps them from the first node after it on its path,
    or after it in the file for programs that go by the file's order. If the entry is not on the path, nothing is kept,
    as in the program.
    """

    def __init__(self, graph: Graph, lost: str | None) -> None:
        """Index the notes of a session.

        Args:
            graph: The session.
            lost: The parent for notes whose place in the file is unknown.
        """
        self._graph = graph
        self._lost = lost
        self._notes: dict[str | None, Mapping[str, str]] = {}
        self._back: dict[str | None, Mapping[str, str]] = {}
        self._new: dict[str | None, Draft] = {}
        for note in graph.annotations.notes():
            self._notes[note.id] = note.links or {}
            if note.kind == EXPORTED:
                self._back[note.target] = note.links or {}

    def came_back(self, note: Draft) -> bool:
        """Remember the place of a note in the file; return whether it is new."""
        known, self._back[note.target] = self._back.get(note.target), note.links or {}
        return known != self._back[note.target]

    def hang(self, draft: Draft) -> Draft:
        """Return the next draft of the file with its parent mapped to a node."""
        if draft.type == "note":
            self._notes[draft.id] = draft.links or {}
        if draft.type == "note" and draft.kind == "usage" and draft.target in self._notes:
            return msgspec.structs.replace(draft, target=self.node_at(draft.target))
        if draft.type != "node":
            return draft
        parent = draft.parent if isinstance(draft.parent, str) else None
        if parent in self._notes:
            links = {"source_parent": str(parent)} | (draft.links or {})
            draft = msgspec.structs.replace(draft, parent=self.node_at(parent), links=links)
        kept = (draft.brief or {}).get("kept")
        if kept in self._notes:
            first = self._first_behind(str(kept), draft)
            draft = msgspec.structs.replace(draft, brief={**(draft.brief or {}), "kept": first or kept})
        self._new[draft.id] = draft
        return draft

    def node_at(self, name: str | None) -> str | None:
        """Return the id itself, or for a note the nearest node above its entry in the file."""
        seen: set[str | None] = set()
        while name in self._notes and name not in seen:
            seen.add(name)
            name = self._above(name, "parent")
        return name if name not in self._notes else self._lost

    def _above(self, name: str | None, link: str) -> str | None:
        """Return the nearest node (link `parent`) or the entry (link `source_parent`) above a note in the file."""
        if time_of(str(name)) is not None and name not in self._back:
            return self._lost
        links = self._back.get(name, self._notes[name])
        return links.get(link, links.get("source_parent", links.get("parent")))

    def _first_behind(self, note: str, draft: Draft) -> str | None:
        if "logical_parent" in (draft.links or {}):
            names: list[str | None] = [*(row.id for row in self._graph), *self._new]
            after = self._back.get(note, {}).get("after")
            return next(iter(names[names.index(after) + 1 if after in names else 0 :]), None)
        first, seen = None, set[str | None]()
        name = _above(draft)
        while name is not None and name != note and name not in seen:
            seen.add(name)
            if name in self._notes:
                name = self._above(name, "source_parent")
            elif (node := self._node(name)) is not None:
                first, name = name, _above(node)
            else:
                return None
        return first if name == note else None

    def _node(self, name: str) -> Skeleton | Draft | None:
        return self._graph.node(name) if name in self._graph else self._new.get(name)


def _above(node: Skeleton | Draft) -> str | None:
    """Return the entry that a node names as its parent in the file."""
    parent = node.parent if isinstance(node.parent, str) else None
    return (node.links or {}).get("source_parent", parent)


def _standing(side: SideHead, identifier: str) -> Record:
    brief = Raw(values.encode({"current": False}))
    return Record(
        at=0, by="", type="head", kind="branch", id=identifier, head=side.name, target=side.node, brief=brief
    )  # fmt: skip


class _Foreign(Recording):
    """Records nodes and checkpoints of a file, which belong to no head, like those of the first import."""

    def draft(self, draft: Draft, *, here: bool = False) -> str:
        """Record a draft; return its id."""
        if draft.type != CHECKPOINT:
            return super().draft(draft, here=here)
        made = checkpoint_of(draft, self.writer.options.redaction)
        name, policy = made.id or self.state.clock.new(), self.writer.replica.policy.name
        made = msgspec.structs.replace(made, id=name, policy=policy)
        self.records += checkpoint_records(None, made, self.state.clock.new, time_ms=made.time_ms or None)[1]
        return name

    def _place_node(self, node: str, parent: str | Here | None) -> tuple[str | None, str]:  # noqa: ARG002
        return (None if isinstance(parent, Here) else parent), ""
