"""Add to a session what the file it was imported from has gained since."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw

from treering.format import values
from treering.format.record import Record
from treering.session.foreign import CHECKPOINT, checkpoint_of
from treering.session.recording import Recording, checkpoint_records
from treering.session.verbs import flush
from treering.session.writer import Writer
from treering.storage.requests import Steps
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
    index = yield from writer.index()
    notes = {note.id for note in index.graph.annotations.notes()}
    recorded = (index.graph, index.all_checkpoints, notes)
    return [draft for draft in drafts if not any(draft.id in each for each in recorded)]


def notes_among(writer: Writer, names: Collection[str | None]) -> Steps[set[str]]:
    """Return which of some ids are those of notes."""
    index = yield from writer.index()
    return {note.id for note in index.graph.annotations.notes()} & set(names)


def nodes_below(writer: Writer, notes: Collection[str]) -> Steps[dict[str, str | None]]:
    """Return of notes, as far as nodes of a file name them as their parents, on what these hang here."""
    index = yield from writer.index()
    named = ((row.links.get("source_parent", ""), row.parent) for row in index.graph if row.links)
    return {note: parent for note, parent in named if note in notes}


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
