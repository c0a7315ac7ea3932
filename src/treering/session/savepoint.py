"""Where a handle stood at a moment at which all that it knows fitted together, to be gone back to.

Rule 1: a call that ends, with a result or an error of ours, leaves a handle whose parts fit together. One that ends in
anything else (an interrupt, a cancellation, an error of a hook's, no memory left) may have come to its end between any
two lines. What it left is dropped, and the handle stands at its last savepoint.
Rule 2: there is a savepoint when a call begins, when an append is about to be sent, and when its records were folded.
So an append whose outcome nobody took note of is one without an answer, and is settled like that before the next one.
Rule 3: going back asks the store nothing. The registers as last seen tell the state, and the savepoint the context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context
from treering.journal.view import View

if TYPE_CHECKING:
    from treering.session.state import SessionState


class Followed(NamedTuple):
    """What a state knows of the head it follows, which may not be the one that the registers tell of."""

    follow: str | None
    context: Context
    context_at: str | None
    checkpoint: Checkpoint | None
    parent_gone: bool
    nodes_since: int
    lines: dict[str, bytes]
    """Not a copy, which would cost as much as the context is long: lines are added to it in place, and never taken."""
    lines_count: int
    """How many of them there were."""
    borrowed: frozenset[str]

    @classmethod
    def of(cls, state: SessionState) -> Self:
        """Take note of it; what it consists of is replaced and not changed, but for `lines`."""
        return cls(
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

    def give_back(self, state: SessionState) -> None:
        """Let a state that was made of the registers know this again."""
        state.follow = self.follow
        state.context, state.context_at = self.context, self.context_at
        state.checkpoint = self.checkpoint
        state.parent_gone, state.nodes_since = self.parent_gone, self.nodes_since
        state.lines = dict(list(self.lines.items())[: self.lines_count])
        state.borrowed = self.borrowed


class Savepoint(NamedTuple):
    """What a handle goes back to."""

    view: View | None
    """The registers as last seen; None: there was no session yet."""
    state: SessionState
    """As it was then, if there was no session; else it is made of `view` again."""
    followed: Followed
    blobs: dict[str, bytes | None]
    """Not a copy: parts are added to it in place, and never taken."""
    stand: object
    """Where a writer stands; None for a reader."""
