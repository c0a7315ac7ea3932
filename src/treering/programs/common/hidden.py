"""The messages that a program must not show, since they were retracted here."""

from __future__ import annotations

from typing import Final

from treering.format.record import read_brief
from treering.session.reader import Readable
from treering.storage.requests import Steps

EDITS: Final = frozenset({"context_edit"})
"""Kinds of entries that stand in the place of another one in a context."""


def hidden(reader: Readable) -> Steps[dict[str, str | None]]:
    """Return what was retracted on the way to where a session stands, and what is hidden for that in a file.

    That is the entry itself, but of an edit the message in whose place it stands: programs edit no edits. It is None if
    the last edit of it on the way hides it already, as one does that came back from a file. One on another branch hides
    nothing here, nor, in pi, one in front of a compaction that keeps what it is about.
    """
    index = yield from reader.replica.index()
    path = index.graph.path(reader.replica.state.tip)
    shown = [item.node for item in reader.replica.policy.build(path, index.graph).items]
    meant = {name: name for name in (*(row.id for row in path), *shown)}
    edits = (index.graph.node(name) for name in shown if index.graph.node(name).kind in EDITS)
    meant |= {edit.id: str(read_brief(edit).get("target")) for edit in edits}
    last = {brief.get("target"): brief.get("edit") for row in path if row.kind in EDITS and (brief := read_brief(row))}
    retracted = index.graph.annotations.retracted
    done = {entry for entry in meant.values() if last.get(entry) == "retract" and entry not in shown}
    return {name: None if entry in done else entry for name, entry in meant.items() if name in retracted}
