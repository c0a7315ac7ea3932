"""Where a handle stands: on a node and on a checkpoint of one head, wherever others took that since.

Rule 1: what a caller is shown changes when it looks (`refresh`), goes elsewhere or records something, and not because
a call met what others recorded.
Rule 2: what this handle stands on is its own: `latest` is made of what everybody folds.
"""

from __future__ import annotations

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.policy import Policy
from treering.format.paths import SessionKeys
from treering.session.keeper import Keeper
from treering.session.state import SessionState
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Here


class Anchored(Keeper):
    """One handle with a place of its own in a session."""

    def __init__(self, keys: SessionKeys, policy: Policy | None, *, shared: bool) -> None:
        super().__init__(keys, policy)
        self.at_head = ""
        self.at_node: str | None = None
        self._basis: Checkpoint | Here | None = None
        """The checkpoint that the caller was shown; `HERE`: the newest one at this place, whichever that is."""
        self.behind = False
        """The head has a newer checkpoint than that."""
        self._shared = shared

    # where it stands

    @property
    def head(self) -> str:
        """The head that this handle stands on."""
        return self.at_head

    @property
    def node(self) -> str | None:
        """The node that this handle stands on, wherever others took its head."""
        return self.at_node

    @property
    def at_checkpoint(self) -> str | Here | None:
        """The checkpoint that this handle stands on; `HERE`: the newest one at this place, whichever that is."""
        return self._basis if isinstance(self._basis, Here) else _id_of(self._basis)

    @property
    def shown(self) -> Checkpoint | None:
        """The checkpoint that this handle stands on, whatever others committed since."""
        newest, known = self.state.checkpoint, self._basis
        if isinstance(known, Here) or _id_of(known) == _id_of(newest):
            return newest  # without what was erased since
        return known

    # where it goes

    def _move_along(self, *, blindly: bool = False) -> None:
        """Stand where the session's followed head stands; a side branch of ours has none before its first node.

        Args:
            blindly: The caller is not shown what others committed there.
        """
        heads, head = self.state.heads.heads, self.state.head
        if head in heads or not heads:
            self.at_head, self.at_node = head, heads.get(head)
            self._follow()
        if not blindly:
            self._know_newest()

    def _know_newest(self) -> None:
        """Stand on the newest checkpoint there is at this place."""
        state = self.state
        folded = state.context_at == self.at_node and not self.behind  # else it was made to tell of an older one
        self._basis, self.behind = state.checkpoint if folded else HERE, False

    def go_along(self) -> None:
        """Stand where the session stands, whoever took it there; a shared handle else keeps to its own head."""
        self.state.follow = None
        self._move_along()

    def _follow(self) -> None:
        """Follow the head in hand, whichever one others make the current one."""
        if self._shared:
            self.state.follow = self.at_head

    @property
    def anchored(self) -> bool:
        """The context and the state where this handle stands are known."""
        state = self._state
        if self._view is None or state is None:
            return self._view is None
        told = state.context_at == self.at_node and self.at_checkpoint == _id_of(state.checkpoint)
        return told and not state.lacks_lines

    def anchor(self) -> Steps[None]:
        """Know the context and the state where this handle stands, whatever others did to its head."""
        if not self.anchored:
            yield from self.fetch_lines()
        if self.anchored:
            return
        index = yield from self.index()
        if self.at_node is not None and self.at_node not in index.graph:
            if self.at_head not in self.state.heads.heads:
                self.state.follow = None
            self._move_along()  # it was shown before it was safe, and never was
        if isinstance(self.at_checkpoint, str) and self.at_checkpoint not in index.all_checkpoints:
            self._basis = HERE
        newest, _ = index.nearest_checkpoint(index.graph.path(self.at_node), head=self.at_head)
        known = self.at_checkpoint
        found = HERE if known in (newest, *index.pruned) else known
        restored = yield from self.restore(self.at_node, checkpoint=found, head=self.at_head)
        self.adopt(restored)
        if known is HERE:
            self._basis = restored.checkpoint
        self.behind = known not in (HERE, newest)

    def _common_state(self) -> SessionState:
        return self._folded() if self.behind else super()._common_state()


def _id_of(checkpoint: Checkpoint | None) -> str | None:
    return checkpoint.id if checkpoint is not None else None
