"""The settings in force at each node of a session.

What is written of a node depends on them: the model that gave an answer, for example. So they are those of its own
place, and not of the place where the session stands: else the next export would word it in another way.
"""

from __future__ import annotations

from typing import TypeAlias

from treering.api.view import View
from treering.checkpoint.context import Context
from treering.checkpoint.policy import Policy
from treering.format.record import Skeleton
from treering.programs.common.stored import let_index_go
from treering.session.reader import Readable
from treering.storage.requests import Steps
from treering.transcript.node import Draft

Settings: TypeAlias = dict[str, object]


class InForce:
    """Tells which settings are in force. Only what was recorded here asks for them; then all nodes are gone through."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._found: dict[str | None, Settings] | None = None

    def at(self, draft: Draft, before: str | None) -> Settings:
        """Return the settings where a node stands, or that which a note is about.

        Args:
            draft: The node or note.
            before: The node that was recorded before it, for a note that is about none.
        """
        if self._found is None:
            self._found = self._view.perform(_in_force)
            self._view.perform(let_index_go)
        return self._found.get((draft.id if draft.type == "node" else draft.target) or before, {})


def _in_force(reader: Readable) -> Steps[dict[str | None, Settings]]:
    """Return the settings behind each node, those that stand alike as one object."""
    index = yield from reader.replica.index()
    found: dict[str | None, Settings] = {None: {}}
    for row in index.graph:
        found[row.id] = _behind(found.get(row.parent, {}), row, reader.replica.policy)
    return found


def _behind(settings: Settings, row: Skeleton, policy: Policy) -> Settings:
    context = policy.extend(Context((), settings), row)  # None: the items cannot be told, and this changes no setting
    return settings if context is None or context.settings == settings else context.settings
