"""Where a handle stands: on a node and on a checkpoint of one head, whatever other writers added there since.

Rule 1: the context and state that a caller sees change when it refreshes, navigates or records something. They do not
change because a call found records of another writer.
Rule 2: the position of a handle is local to it: `latest` holds only what every reader gets by folding the records.
"""

from __future__ import annotations

from typing import TypeAlias

from treering.checkpoint.checkpoint import Checkpoint
from treering.session.content import Content
from treering.session.replica import Replica
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Here

Mark: TypeAlias = tuple[str, str | None, Checkpoint | Here | None, bool]
"""What `Position.go_back` restores."""


class Position:
    """The head, the node and the checkpoint that one handle stands on."""

    def __init__(self, replica: Replica, content: Content, *, shared: bool) -> None:
        self._replica = replica
        self._content = content
        self._shared = shared
        self.head = ""
        self.node: str | None = None
        """The node that the caller saw the head point to, whatever was appended to it since."""
        self._basis: Checkpoint | Here | None = None
        """The checkpoint that the caller saw; `HERE`: the newest one at this place, whichever that is."""
        self.behind = False
        """The head has a newer checkpoint than the handle."""

    # where it stands

    @property
    def checkpoint_id(self) -> str | Here | None:
        """The checkpoint that this handle stands on; `HERE`: the newest one at this place, whichever that is."""
        return self._basis if isinstance(self._basis, Here) else _id_of(self._basis)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that this handle stands on, whatever other writers committed since."""
        newest, known = self._replica.state.checkpoint, self._basis
        if isinstance(known, Here) or _id_of(known) == _id_of(newest):
            return newest  # erased values are gone from this copy
        return known

    # where it goes

    def follow_head(self, *, blindly: bool = False) -> None:
        """Move to the node of the followed head; a side branch of ours has no head before its first node.

        Args:
            blindly: The caller does not see the checkpoints that other writers committed there.
        """
        heads, head = self._replica.state.heads.heads, self._replica.state.head
        if head in heads or not heads:
            self.head, self.node = head, heads.get(head)
            self.keep_head()
        if not blindly:
            self._know_newest()

    def _know_newest(self) -> None:
        """Move to the newest checkpoint at this place."""
        state = self._replica.state
        folded = state.context_at == self.node and not self.behind  # else the state was set to an older checkpoint
        self._basis, self.behind = state.checkpoint if folded else HERE, False

    def follow_session(self) -> None:
        """Follow the session's current head, whichever writer chose it; else a shared handle keeps its own head."""
        self._replica.state.follow = None
        self.follow_head()

    def keep_head(self) -> None:
        """Keep following this head, whichever one other writers make current."""
        if self._shared:
            self._replica.state.follow = self.head

    @property
    def is_known(self) -> bool:
        """The context and the state at this position are known."""
        state = self._replica.state
        if not self._replica.exists:
            return True
        told = state.context_at == self.node and self.checkpoint_id == _id_of(state.checkpoint)
        return told and not state.lacks_lines

    def ensure_context(self) -> Steps[None]:
        """Make the context and the state at this position known, wherever other writers moved the head."""
        if not self.is_known:
            yield from self._content.fetch_lines()
        if self.is_known:
            return
        index = yield from self._replica.index()
        newest, _ = index.nearest_checkpoint(index.graph.path(self.node), head=self.head)
        known = self.checkpoint_id
        found = HERE if known in (newest, *index.pruned) else known
        restored = yield from self._content.restore(self.node, checkpoint=found, head=self.head)
        self._content.restore_to(restored)
        if known is HERE:
            self._basis = restored.checkpoint
        self.behind = known not in (HERE, newest)

    # savepoints

    def mark(self) -> Mark:
        """Return what `go_back` needs to restore this position."""
        return self.head, self.node, self._basis, self.behind

    def go_back(self, mark: Mark) -> None:
        """Restore the position that `mark` returned."""
        self.head, self.node, self._basis, self.behind = mark

    def stand_on(self, checkpoint: Checkpoint) -> None:
        """Move to a checkpoint that was made just now, the newest of the head."""
        self._basis, self.behind = checkpoint, False


def _id_of(checkpoint: Checkpoint | None) -> str | None:
    return checkpoint.id if checkpoint is not None else None
