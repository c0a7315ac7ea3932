"""The messages that a program must not show, since they were retracted here."""

from __future__ import annotations

from typing import Final

from treering.format.record import read_brief
from treering.session.reader import Reader
from treering.storage.requests import Steps

EDITS: Final = frozenset({"context_edit"})
"""Kinds of entries that stand in the place of another one in a context."""


def hidden(reader: Reader) -> Steps[dict[str, str]]:
    """Return what was retracted on the way to where a session stands, and by what it is hidden in a file.

    That is the entry itself, but of an edit the message in whose place it stands: programs edit no edits.
    """
    index = yield from reader.index()
    path = index.graph.path(reader.state.tip)
    shown = [item.node for item in reader.policy.build(path, index.graph).items]
    meant = {name: name for name in (*(row.id for row in path), *shown)}
    edits = (index.graph.node(name) for name in shown if index.graph.node(name).kind in EDITS)
    meant |= {edit.id: str(read_brief(edit).get("target")) for edit in edits}
    return {name: entry for name, entry in meant.items() if name in index.graph.annotations.retracted}
