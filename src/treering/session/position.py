"""Where a handle stands, and where its new records go: on its own head, or on a new one if another writer moved that.

Rule 1: a handle stands on a node and on a checkpoint: those that its caller saw when it opened, refreshed or navigated
the session, or later ones that the handle recorded. Records of other writers, whichever call finds them, change
neither.
Rule 2: the position of a handle is local to it: `latest` holds only the state that every reader gets by folding the
records.
Rule 3: new nodes continue the handle's node. If another writer moved the head, they begin a new head.
Rule 4: a checkpoint with content (state, context, a label, ...) continues the handle's checkpoint. If the head has a
newer checkpoint with other content, the new one begins a new head: it may be based on values that the newer one
replaced.
Rule 5: records without such content conflict with nothing. A checkpoint made by a schedule continues the newest one.
Rule 6: if the caller expects another place (`expect`, `expect_checkpoint`), the call raises and records nothing.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from treering import session
from treering._late import Kind
from treering.checkpoint.checkpoint import Checkpoint
from treering.errors import HeadMovedError, NotFoundError
from treering.session.content import Content, Restored
from treering.session.replica import Replica
from treering.storage.requests import Steps
from treering.transcript.heads import Heads
from treering.transcript.node import HERE, Here

Mark: TypeAlias = tuple[str, str | None, Checkpoint | Here | None, int, bool, int]
"""A saved position, which `Position.go_back` restores."""


class Wish(msgspec.Struct, frozen=True):
    """The place that the caller asked for, and what the caller expects of it."""

    head: str | None = None
    """Record on this head instead of the handle's."""
    expect: str | Here | None = HERE
    """The node that the caller expects the head to point to."""
    expect_checkpoint: str | Here | None = HERE
    """The checkpoint that the caller expects to be the newest of the head."""
    merge: bool = False
    """Apply the change of state to the newest state, whichever writer recorded it."""

    @property
    def is_particular(self) -> bool:
        """Whether the caller names the place: buffered drafts are then recorded first."""
        return self.head is not None or self.expect is not HERE or self.expect_checkpoint is not HERE


ANYWHERE = Wish()
"""The place where the handle stands, without expectations."""


class Place(msgspec.Struct, frozen=True):
    """Where new records go."""

    head: str
    node: str | None
    own_head: bool = True
    """Whether the handle moves to the new records."""
    newest: Restored | None = None
    """The basis of a new checkpoint, if it is not the handle's own checkpoint."""
    caught_up: bool = True
    """Whether the caller knows the basis or allowed changing it unseen: the handle then moves to the new checkpoint."""


class Position:
    """The head, the node and the checkpoint that one handle stands on."""

    def __init__(self, replica: Replica, content: Content, *, shared: bool) -> None:
        self._replica = replica
        self._content = content
        self._shared = shared
        self.head = ""
        self.node: str | None = None
        """The node that the caller saw the head point to, whatever was appended to the head since."""
        self._basis: Checkpoint | Here | None = None
        """The checkpoint that the caller saw; `HERE`: the newest checkpoint at this place."""
        self._seen = 0
        """The epoch at which it was seen: it may hold values that were erased since."""
        self.behind = False
        """Whether the head has a newer checkpoint than the handle, or another head is current: the state in memory may
        then be that of this handle alone."""
        self.shown = 0
        """The number of records that the session had when its caller was last shown this place."""

    # where it stands

    @property
    def checkpoint_id(self) -> str | Here | None:
        """The checkpoint that this handle stands on; `HERE`: the newest checkpoint at this place."""
        return self._basis if isinstance(self._basis, Here) else _id_of(self._basis)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that this handle stands on, whatever other writers committed since."""
        newest, known = self._replica.state.checkpoint, self._basis
        if isinstance(known, Here) or _id_of(known) == _id_of(newest):
            return newest  # erased values are gone from this copy
        if known is not None and self._seen < self._replica.epoch:  # rule: forget-basis
            return session.burial.bury_checkpoint(known, self._replica.burials, since=self._seen)
        return known

    # where it goes

    def follow_head(self, *, blindly: bool = False) -> None:
        """Move to the node of the followed head, if that exists: a new side branch has no head before its first node.

        Args:
            blindly: The caller does not see the checkpoints that other writers committed there.
        """
        state = self._replica.state
        heads, head = state.heads.heads, state.head
        if head in heads or not heads:
            self.head, self.node = head, heads.get(head)
            self.shown = self.shown if blindly else state.end
            self.keep_head()
        if not blindly:
            folded = state.context_at == self.node and not self.behind  # else the state was set to an older checkpoint
            self._basis, self._seen = state.checkpoint if folded else HERE, self._replica.epoch

    def follow_session(self) -> None:
        """Follow the session's current head, whichever writer chose it. Without this a shared handle keeps its head."""
        self._replica.state.turn_to(None)
        self.follow_head()

    def keep_head(self) -> None:
        """Keep following this head, whichever head other writers make current."""
        if self._shared:
            self._replica.state.turn_to(self.head)

    @property
    def is_known(self) -> bool:
        """Whether the context and the state at this position are known."""
        state = self._replica.state
        if self._replica.known_view is None:
            return True
        stands = self._basis is state.checkpoint or self.checkpoint_id == _id_of(state.checkpoint)
        return stands and state.context_at == self.node and not state.lacks_lines

    def ensure_context(self, *, blobs: bool = False) -> Steps[None]:
        """Make the context and the state at this position known, wherever other writers moved the head.

        Args:
            blobs: Read the blobs of the context as well: the caller may only read it.
        """
        if not self.is_known:
            yield from self._content.fetch_lines()
        if not self.is_known:
            yield from self._restore()
        if blobs and self._replica.has_unread_blobs:
            yield from self._content.fetch_blobs()

    def _restore(self) -> Steps[None]:
        """Read the context and the state at this position."""
        newest = yield from self._content.newest_checkpoint(self.node, head=self.head)
        known = self.checkpoint_id
        found = HERE if (yield from self._is_pruned()) or known == newest else known
        restored = yield from self._content.restore(self.node, checkpoint=found, head=self.head)
        self._content.restore_to(restored)
        if known is HERE:
            self._basis, self._seen = restored.checkpoint, self._replica.epoch
        self.behind = known not in (HERE, newest)
        if self.head != self._replica.state.head:  # rule: own-head-is-apart
            self.behind = True  # another writer made another head current, perhaps at this very node

    # where its records go

    def in_hand(self, *, says_state: bool = False) -> Place:
        """The handle's head; a new head if another writer moved it, or changed the state that this record changes."""
        there = self._replica.state.heads.heads.get(self.head)
        if there != self.node or (says_state and self.behind):
            return self._beside()
        return Place(self.head, self.node)

    def find_place(self, wish: Wish, *, says_state: bool, adds_nodes: bool, ends: bool) -> Steps[Place]:
        """Find where new records go; the context is known, see `ensure_context`.

        Args:
            wish: The place that the caller asked for.
            says_state: The records change the agent's state.
            adds_nodes: The records include nodes.
            ends: The records may include a checkpoint.

        Raises:
            HeadMovedError: The head's node or its newest checkpoint is not the one that the caller expected.
            NotFoundError: There is no head of that name.
        """
        heads = self._replica.state.heads.heads
        name = wish.head or self.head
        there = heads.get(name)
        if wish.expect is not HERE and there != wish.expect:
            raise self._moved(f"head {name!r} is not where you expected it", wish.expect, there)
        if name != self.head and name not in heads:
            raise NotFoundError(f"no such head. head={name!r}, known={sorted(heads)!r}", kind=Kind.HEAD)
        newest: str | Here | None = HERE
        if wish.expect_checkpoint is not HERE:
            newest = yield from self._newest_checkpoint(name, there)
            if newest != wish.expect_checkpoint:
                what = f"the newest checkpoint of head {name!r} is not the one you expected"
                raise self._moved(what, wish.expect_checkpoint, newest)
        if name != self.head:
            return Place(name, there, own_head=False)
        if there != self.node and wish.expect is HERE and (adds_nodes or not wish.merge):
            if adds_nodes or says_state or ends:  # else no head begins there
                yield from self.require_basis()
            return self._beside()
        if ends:
            return (yield from self._find_basis(wish, there, newest, says_state=says_state))
        return Place(name, there)

    def _newest_checkpoint(self, name: str, there: str | None) -> Steps[str | Here | None]:
        """The newest checkpoint of a head that points to `there`."""
        if (name, there) == (self.head, self.node) and not self.behind:
            return self.checkpoint_id
        return (yield from self._content.newest_checkpoint(there, head=name))

    def _find_basis(
        self, wish: Wish, there: str | None, newest: str | Here | None, *, says_state: bool
    ) -> Steps[Place]:
        """Find the basis of a checkpoint, and so its head.

        Args:
            wish: The place that the caller asked for.
            there: The node that the handle's head points to.
            newest: The newest checkpoint of that head; `HERE`: look for it.
            says_state: The records change the agent's state.
        """
        name, known = self.head, self.checkpoint_id
        if newest is HERE:
            newest = yield from self._newest_checkpoint(name, there)
        if newest == known and there == self.node:
            return Place(name, there)
        restored = yield from self._content.restore(there, head=name)
        told = wish.merge or wish.expect_checkpoint is not HERE
        knows = told or newest == known or (there == self.node and self._says_the_same(restored))
        if says_state and not knows:  # rule: state-stands
            if wish.expect is not HERE:
                raise self._moved(f"another writer committed state on head {name!r} since you looked", known, newest)
            yield from self.require_basis()
            return self._beside()
        return Place(name, there, newest=restored, caught_up=knows)

    def _says_the_same(self, newest: Restored) -> bool:
        """Whether the newest checkpoint has the state that the caller saw: a writer only went back, or set a label."""
        same_state = _state_of(self.checkpoint) == _state_of(newest.checkpoint)
        return same_state and self._replica.state.context == newest.context

    def _beside(self) -> Place:
        """A new head at the handle's node. The name of the handle's head is taken even if nothing is recorded yet."""
        heads, name = self._replica.state.heads.heads, self.head
        if heads.get(name) == self.node:
            heads = heads | {name: self.node}
        return Place(Heads(heads).free_name(name), self.node)

    def require_basis(self) -> Steps[None]:
        """Require the state that the caller saw: it is in no record of its own once its checkpoint is pruned.

        Raises:
            HeadMovedError: Another writer pruned the checkpoint that this handle stands on.
        """
        if self.checkpoint_id != _id_of(self._replica.state.checkpoint) and (yield from self._is_pruned()):
            raise self._moved("the checkpoint that this session stood on was pruned", self.checkpoint_id, None)

    def _is_pruned(self) -> Steps[bool]:
        """Whether another writer pruned the checkpoint that this handle stands on: its state is gone."""
        known = self.checkpoint_id
        return isinstance(known, str) and (yield from self._replica.ask(lambda look: look.is_pruned(known)))

    def _moved(self, what: str, expected: object, got: object) -> HeadMovedError:
        return HeadMovedError(
            f"{what}. expected={expected!r}, got={got!r}",
            key=self._replica.keys.tail,
            remedy="refresh, look at what was added, and decide where to go on",
        )

    # savepoints

    def mark(self) -> Mark:
        """Return this position, so that `go_back` can restore it."""
        return self.head, self.node, self._basis, self._seen, self.behind, self.shown

    def go_back(self, mark: Mark) -> None:
        """Restore the position that `mark` returned."""
        self.head, self.node, self._basis, self._seen, self.behind, self.shown = mark

    def stand_on(self, checkpoint: Checkpoint, *, head: str, epoch: int | None = None) -> None:
        """Move to a checkpoint that this handle made, now or at an earlier epoch, the newest of this head."""
        self._basis, self._seen = checkpoint, self._replica.epoch if epoch is None else epoch
        self.behind = head != self._replica.state.head  # rule: stay-apart


def _id_of(checkpoint: Checkpoint | None) -> str | None:
    return checkpoint.id if checkpoint is not None else None


def _state_of(checkpoint: Checkpoint | None) -> tuple[dict[str, bytes], bytes | None]:
    return (checkpoint.state, checkpoint.manager) if checkpoint is not None else ({}, None)
