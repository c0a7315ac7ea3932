"""A consistent state of a handle's memory, restored after a call was interrupted.

Rule 1: a call that ends with a result or an error of ours leaves a consistent handle. A call that ends in anything else
(an interrupt, a cancellation, an error of a hook, no memory left) may have stopped between any two lines. Its changes
are dropped, and the handle goes back to its last savepoint.
Rule 2: savepoints are made when a call begins, when an append is about to be sent, and when its records were folded. So
an append that was interrupted has an unknown outcome, and is settled like any such append before the next one.
Rule 3: going back sends no request. The state is rebuilt from the registers as last read, the context taken from the
savepoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context
from treering.journal.view import View

if TYPE_CHECKING:
    from treering.session.blobs import Blobs
    from treering.session.replica import Replica
    from treering.session.state import SessionState


class Followed(msgspec.Struct, frozen=True):
    """The part of a state that belongs to the followed head, which may differ from the session's current head."""

    follow: str | None
    context: Context
    context_at: str | None
    checkpoint: Checkpoint | None
    parent_gone: bool
    nodes_since: int
    lines: dict[str, bytes]
    """Not a copy, which would cost as much as the context is long: lines are added in place, and never removed."""
    lines_count: int
    """How many of them there were."""
    borrowed: frozenset[str]

    def give_back(self, state: SessionState) -> None:
        """Restore these parts in a state that was rebuilt from the registers."""
        state.follow = self.follow
        state.context, state.context_at = self.context, self.context_at
        state.checkpoint = self.checkpoint
        state.parent_gone, state.nodes_since = self.parent_gone, self.nodes_since
        state.lines = dict(list(self.lines.items())[: self.lines_count])
        state.borrowed = self.borrowed


class Savepoint(msgspec.Struct, frozen=True):
    """The saved memory of a handle."""

    view: View | None
    """The registers as last read; None: there was no session yet."""
    state: SessionState
    """The state, if there was no session; else it is rebuilt from `view`."""
    followed: Followed
    at_hand: dict[str, bytes | None]
    """The blobs. Not a copy: blobs are added in place, and never removed."""

    @classmethod
    def of(cls, replica: Replica, blobs: Blobs) -> Self:
        """Save the memory of a handle; its parts are replaced and never changed, except `lines` and `at_hand`."""
        state = replica.state
        followed = Followed(
            state.follow,
            state.context,
            state.context_at,
            state.checkpoint,
            state.parent_gone,
            state.nodes_since,
            state.lines,
            len(state.lines),
            state.borrowed,
        )
        return cls(replica.known_view, state, followed, blobs.at_hand)

    def give_back(self, replica: Replica, blobs: Blobs) -> None:
        """Restore the memory of a handle, and drop everything else."""
        replica.roll_back(self.view, self.state)
        self.followed.give_back(replica.state)
        blobs.at_hand = self.at_hand
