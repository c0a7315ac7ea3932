"""The settings in force at each node of a session.

What is written of a node depends on them: the model that gave an answer, for example. So they are those of its own
place, and not of the place where the session stands: else the next export would word it in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from treering.checkpoint.context import Context
from treering.checkpoint.policy import Policy
from treering.format.record import Skeleton
from treering.session.reader import Reader
from treering.storage.requests import Steps
from treering.transcript.node import Draft

Settings: TypeAlias = dict[str, object]


def in_force(reader: Reader) -> Steps[dict[str | None, Settings]]:
    """Return the settings behind each node, those that stand alike as one object."""
    index = yield from reader.index()
    found: dict[str | None, Settings] = {None: {}}
    for row in index.graph:
        found[row.id] = _behind(found.get(row.parent, {}), row, reader.policy)
    return found


def _behind(settings: Settings, row: Skeleton, policy: Policy) -> Settings:
    context = policy.extend(Context((), settings), row)  # None: the items cannot be told, and this changes no setting
    return settings if context is None else context.settings


def at(found: Mapping[str | None, Settings], draft: Draft, before: str | None) -> Settings:
    """Return the settings where a node stands, or that which a note is about.

    Args:
        found: See `in_force`.
        draft: The node or note.
        before: The node that was recorded before it, for a note that is about none.
    """
    return found.get((draft.id if draft.type == "node" else draft.target) or before, {})
