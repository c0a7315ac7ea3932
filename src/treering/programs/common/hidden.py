"""Messages that an exported file must hide, since they were retracted."""

from __future__ import annotations

from typing import Final

from treering.format.record import read_brief
from treering.session.reader import Readable
from treering.storage.requests import Steps

EDITS: Final = frozenset({"context_edit"})
"""Kinds of entries that replace another entry in a context."""


def hidden(reader: Readable) -> Steps[dict[str, str | None]]:
    """Return the retracted nodes on the path to a session's head, each with the entry to hide in a file.

    The entry is that of the node; for a node that edits a message, it is the message, since programs cannot edit edits.
    It is None if the last edit of the message on the path hides it already, as in an imported file. Edits on other
    branches do not count, nor, in pi, an edit before a compaction that keeps its target.
    """
    index = yield from reader.replica.index()
    retracted = index.graph.annotations.retracted
    if not retracted:
        return {}
    path = index.graph.path(reader.replica.state.tip)
    shown = [item.node for item in reader.replica.policy.build(path, index.graph).items]
    meant = {name: name for name in (*(row.id for row in path), *shown)}
    edits = (index.graph.node(name) for name in shown if index.graph.node(name).kind in EDITS)
    meant |= {edit.id: str(read_brief(edit).get("target")) for edit in edits}
    last = {brief.get("target"): brief.get("edit") for row in path if row.kind in EDITS and (brief := read_brief(row))}
    done = {entry for entry in meant.values() if last.get(entry) == "retract" and entry not in shown}
    return {name: None if entry in done else entry for name, entry in meant.items() if name in retracted}
