"""The settings in force at each node of a session.

The entry of a node depends on them, for example on the model that gave an answer. The settings at the node count, not
the settings at the session's head: otherwise the next export would write the entry differently.
"""

from __future__ import annotations

from typing import TypeAlias

from treering.api.view import View
from treering.checkpoint.context import Context
from treering.checkpoint.policy import Policy
from treering.format.record import Skeleton
from treering.format.values import alike
from treering.programs.common.stored import let_index_go
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.node import Draft

Settings: TypeAlias = dict[str, object]


class InForce:
    """The settings in force at each node, computed from all nodes on first use. Only Treering's records need them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._found: dict[str | None, Settings] | None = None

    def at(self, draft: Draft, before: str | None) -> Settings:
        """Return the settings at a node, or at the target of a note.

        Args:
            draft: The node or note.
            before: The node recorded before it, for a note without a target.
        """
        if self._found is None:
            self._found = self._view.perform(_in_force)
            self._view.perform(let_index_go)
        return self._found.get((draft.id if draft.type == "node" else draft.target) or before, {})


def _in_force(reader: Readable) -> Steps[dict[str | None, Settings]]:
    """Return the settings after each node; equal settings are one object."""
    index = yield from reader.replica.index()
    found: dict[str | None, Settings] = {None: {}}
    for row in index.graph:
        found[row.id] = _behind(found.get(row.parent, {}), row, reader.replica.policy)
    return found


def _behind(settings: Settings, row: Skeleton, policy: Policy) -> Settings:
    context = policy.extend(
        Context((), settings), row
    )  # None: the items cannot be derived, and this node changes no setting
    return settings if context is None or alike(context.settings, settings) else context.settings
