"""Add to a session what the file it was imported from has gained since."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from treering.format import values
from treering.format.record import Record
from treering.ids import time_of
from treering.session.foreign import CHECKPOINT, checkpoint_of
from treering.session.recording import Recording, checkpoint_records
from treering.session.verbs import flush
from treering.session.writer import Writer
from treering.storage.requests import Steps
from treering.transcript.graph import Graph
from treering.transcript.node import Draft, Here


class SideHead(NamedTuple):
    """A head that stands where another program stands, beside the one in hand."""

    name: str
    node: str | None


def record_foreign(writer: Writer, drafts: Sequence[Draft], side: SideHead | None = None) -> Steps[None]:
    """Record drafts as they are, in one append: parents are kept whatever they name, and no head moves but `side`.

    Raises:
        ConflictError: Somebody else writes this exclusive session.
        UnavailableError: The store did not answer; the next call finds out whether it is recorded.
    """
    yield from flush(writer)

    def plan() -> Steps[Recording]:
        yield from ()
        recording = _Foreign(writer)
        for draft in drafts:
            recording.draft(draft)
        if side is not None:
            recording.records.append(_standing(side, writer.state.new_id()))
        return recording

    yield from writer.write(plan)


def missing(writer: Writer, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    """Return those of some drafts with ids of their own that are not recorded yet, in whatever form."""
    if not drafts:
        return []
    index = yield from writer.index()
    notes = {note.id for note in index.graph.annotations.notes()}
    recorded = (index.graph, index.all_checkpoints, notes)
    return [draft for draft in drafts if not any(draft.id in each for each in recorded)]


def notes_among(writer: Writer, names: Collection[str | None]) -> Steps[set[str]]:
    """Return which of some ids are those of notes."""
    if not names:
        return set()
    index = yield from writer.index()
    return {note.id for note in index.graph.annotations.notes()} & set(names)


def nodes_below(writer: Writer, notes: Collection[str]) -> Steps[dict[str, str | None]]:
    """Return of notes, as far as nodes of a file name them as their parents, on what these hang here."""
    index = yield from writer.index()
    named = ((row.links.get("source_parent", ""), row.parent) for row in index.graph if row.links)
    return {note: parent for note, parent in named if note in notes}


def hung(writer: Writer, drafts: Sequence[Draft], asides: Mapping[str | None, str | None]) -> Steps[list[Draft]]:
    """Return drafts of a file as they hang on nodes, where the file has a node and a note stands here.

    Args:
        writer: The session.
        drafts: What a file has gained; all before them is recorded.
        asides: Of notes that are nodes in the file: on what hangs here what hangs there on them.
    """
    if not asides and all(time_of(str((draft.brief or {}).get("kept"))) is None for draft in drafts):
        return list(drafts)  # none names what was made here, so the index need not be read
    index = yield from writer.index()
    notes = {note.id: note.at for note in index.graph.annotations.notes() if time_of(note.id) is not None}
    found: list[Draft] = []
    above: dict[str | None, str | None] = {}
    for each in drafts:
        draft, parent = each, each.parent
        if draft.type == "node" and isinstance(parent, str) and parent in asides:
            links = {"source_parent": parent} | (draft.links or {})
            draft = msgspec.structs.replace(draft, parent=asides[parent], links=links)
        kept = (draft.brief or {}).get("kept")
        if draft.type == "node" and kept in notes:
            first = _first_behind(index.graph, notes[str(kept)], draft, above)
            draft = msgspec.structs.replace(draft, brief={**(draft.brief or {}), "kept": first or kept})
        if draft.type == "node":
            above[draft.id] = draft.parent if isinstance(draft.parent, str) else None
        found.append(draft)
    return found


def _first_behind(graph: Graph, at: int, draft: Draft, above: Mapping[str | None, str | None]) -> str | None:
    """Return the first node behind a note, which a compaction keeps from: on its path, or in the order of the file."""
    new: list[str | None] = [*above]
    place = draft.parent if isinstance(draft.parent, str) else None
    path = [row for row in graph if row.at > at]
    if "logical_parent" not in (draft.links or {}):
        new = []
        while place in above:
            new.insert(0, place)
            place = above[place]
        path = [row for row in graph.path(place if place in graph else None) if row.at > at]
    return next(iter([*(row.id for row in path), *new]), None)


def _standing(side: SideHead, identifier: str) -> Record:
    brief = Raw(values.encode({"current": False}))
    return Record(
        at=0, by="", type="head", kind="branch", id=identifier, head=side.name, target=side.node, brief=brief
    )  # fmt: skip


class _Foreign(Recording):
    """Nodes of a file belong to no head, as those that came with the import; neither do its checkpoints."""

    def draft(self, draft: Draft, *, here: bool = False) -> str:
        """Record a draft; return its id."""
        if draft.type != CHECKPOINT:
            return super().draft(draft, here=here)
        made = checkpoint_of(draft, self.writer.options.redaction)
        name, policy = made.id or self.state.new_id(), self.writer.policy.name
        made = msgspec.structs.replace(made, id=name, policy=policy)
        self.records += checkpoint_records(None, made, self.state.new_id, time_ms=made.time_ms or None)[1]
        return name

    def _place_node(self, node: str, parent: str | Here | None) -> tuple[str | None, str]:  # noqa: ARG002
        return (None if isinstance(parent, Here) else parent), ""
