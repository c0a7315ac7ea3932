"""The row of a session in lists: its card, read without the rest of the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from treering.format.paths import Marker, hint_of, namespaces_in
from treering.format.register import Card
from treering.format.values import copied


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a list of sessions."""

    id: str
    namespace: tuple[str, ...] = ()
    """The namespace of the session, as a path from the root of the store."""
    title: str = ""
    project: str = ""
    cwd: str = ""
    created_ms: int = 0
    updated_ms: int = 0
    """May be older than the last append by a minute at most; exact on a local disk."""
    nodes: int = 0
    messages: int = 0
    checkpoints: int = 0
    first_prompt: str = ""
    """At most 200 bytes, on one line."""
    head: str = ""
    node: str | None = None
    provider: str = ""
    model: str = ""
    """The model of the last change of model, or of the last answer that names its model, as imported answers do."""
    parent_session: str | None = None
    parent_node: str | None = None
    task: str = ""
    """The task of a subagent."""
    status: str = ""
    extra: Mapping[str, object] = {}
    warning: str = ""
    """Why the card could not be read, and the other fields are empty; or why the folder of the session could not."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions a list shows; None means any."""

    project: str | None = None
    cwd: str | None = None
    """An absolute path."""
    status: str | None = None

    @property
    def test(self) -> Callable[[SessionInfo], bool] | None:
        """The filter for rows; None if all rows are wanted."""
        return None if self == _ALL else self.fits

    def fits(self, row: SessionInfo) -> bool:
        """Whether a row is wanted."""
        asked = ((self.project, row.project), (self.cwd, row.cwd), (self.status, row.status))
        return all(value is None or value == there for value, there in asked)

    def may_fit(self, marker: Marker) -> bool:
        """Whether a session may be wanted, judged by its marker: false for nearly all other projects and folders."""
        # Not as in `fits`: this is asked of each of thousands of markers.
        return (self.project is None or hint_of(self.project) == marker.project) and (
            self.cwd is None or hint_of(self.cwd) == marker.folder
        )


_ALL = Wanted()


def info_of(card: Card, prefix: str) -> SessionInfo:
    """The row of a card in the namespace with `prefix`."""
    return SessionInfo(
        id=card.session,
        namespace=namespaces_in(prefix),
        title=card.title,
        project=card.project,
        cwd=card.cwd,
        created_ms=card.created,
        updated_ms=card.updated,
        nodes=card.nodes,
        messages=card.messages,
        checkpoints=card.checkpoints,
        first_prompt=card.first_prompt,
        head=card.head,
        node=card.node,
        provider=card.provider,
        model=card.model,
        parent_session=card.parent_session,
        parent_node=card.parent_node,
        task=card.task,
        status=card.status,
        extra=copied(card.extra),
    )
