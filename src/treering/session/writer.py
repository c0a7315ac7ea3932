"""A session opened for writing, put together from its parts, each of which has one owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import UnsetType

from treering._late import Kind
from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.policy import Policy
from treering.errors import (
    ConflictError,
    FormatVersionError,
    NotFoundError,
    SessionDeletedError,
    TreeringError,
    UnavailableError,
)
from treering.format.paths import SessionKeys
from treering.format.register import Card
from treering.ids import new_nonce
from treering.session.appender import Appender
from treering.session.blobs import Blobs
from treering.session.content import Content
from treering.session.creation import Creation
from treering.session.options import Hooks, Options, Outside
from treering.session.position import Position
from treering.session.replica import Replica
from treering.session.upkeep import Upkeep
from treering.storage.requests import Get, Steps, Unchanged
from treering.transcript.node import Draft

if TYPE_CHECKING:
    from treering.journal.lease import FailureDetector
    from treering.journal.memory import Memory


class Writer:
    """The parts of a session that was opened for writing.

    Args:
        keys: The keys of the session.
        policy: The policy that the caller named; None: that of the newest checkpoint.
        card: The card of the session, if it does not exist yet.
        options: How the session is opened.
        prepare: Called before this handle first writes to the store.
        memory: Returns the cache of data that was read; by default this handle has its own.
        detector: Returns what this process saw of the holders of leases; by default each call begins without it.
    """

    def __init__(
        self,
        keys: SessionKeys,
        policy: Policy | None,
        card: Card,
        options: Options,
        prepare: Callable[[], Steps[None]],
        *,
        memory: Callable[[], Memory] | None = None,
        detector: Callable[[], FailureDetector] | None = None,
    ) -> None:
        self.keys = keys
        self.outside = Outside()
        if options.hooks != Hooks():
            options = msgspec.structs.replace(options, hooks=self.outside.hooks(options.hooks))
        self.options = options
        self.lock: Callable[[], bool] = lambda: False
        """Locks the session for this handle, or raises `SessionHeldError`; false if the store has no locks."""
        self.locks = False
        """Whether the session is to be locked once it exists: if it is opened with a hold, or claimed."""
        self.holder: Callable[[], str] = lambda: ""
        """Describes this process in a line, for the error of processes that find the session held."""
        self.detector = detector
        self.replica = Replica(keys, policy, card, nonce=new_nonce(), shared=options.shared, memory=memory)
        self.blobs = Blobs(self.replica)
        self.content = Content(self.replica, self.blobs)
        self.position = Position(self.replica, self.content, shared=options.shared)
        self.upkeep = Upkeep(self.replica, self.position)
        self.creation = Creation(
            self.replica, self.content, self.blobs, position=self.position, options=options, card=card, prepare=prepare
        )
        self.appender = Appender(
            self.replica,
            self.blobs,
            self.position,
            upkeep=self.upkeep,
            creation=self.creation,
            options=options,
            save=self.save,
        )

    @classmethod
    def visiting(cls, keys: SessionKeys, policy: Policy, *, shared: bool = False) -> Self:
        """Return a writer for an existing session, for upkeep only."""
        card = Card(session=keys.session, life="", write="")
        return cls(keys, policy, card, Options(shared=shared, create=False), _nothing)

    @property
    def head(self) -> str:
        """The head that this handle stands on."""
        return self.position.head

    @property
    def node(self) -> str | None:
        """The node that this handle stands on, whatever was appended to its head since."""
        return self.position.node

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that this handle stands on, whatever was committed since."""
        return self.position.checkpoint

    @property
    def unrecorded(self) -> tuple[Draft, ...]:
        """Drafts not known to be recorded: buffered, or in an append whose outcome is unknown."""
        return self.appender.unrecorded

    @property
    def unrecorded_here(self) -> tuple[Draft, ...]:
        """The unrecorded drafts after which this handle will stand, once they are recorded."""
        return self.appender.unrecorded_here

    @property
    def state_values(self) -> Mapping[str, bytes]:
        """The agent's state, encoded, by key: that of the checkpoint, with the changes of buffered commits."""
        values: dict[str, bytes] = dict(self.checkpoint.state) if self.checkpoint else {}
        for call in self.appender.calls:
            kept = {} if call.starts_over else values
            values = {key: value for key, value in kept.items() if key not in call.drop} | dict(call.state)
        return values

    @property
    def manager_value(self) -> bytes | None:
        """State of the conversation manager, with the changes of buffered commits, encoded."""
        manager = self.checkpoint.manager if self.checkpoint else None
        for call in self.appender.calls:
            manager = None if call.starts_over else manager
            manager = manager if isinstance(call.manager, UnsetType) else call.manager
        return manager

    def open(self) -> Steps[None]:
        """Resume the session, or prepare to create it with the first record.

        Raises:
            NotFoundError: It does not exist, and the options do not allow creating it.
        """
        try:
            yield from self.replica.load()
            yield from self.content.complete()
        except NotFoundError as error:
            if not self.options.create or error.kind not in (Kind.SESSION, Kind.SESSIONDELETED):
                raise
            self.creation.expect(absent=error.kind == Kind.SESSION)
            return
        self.creation.is_new = False
        self.upkeep.measure()
        self.replica.met = False
        self.position.follow_head()

    def refresh(self) -> Steps[bool]:
        """Read the session again, and move to the node that the head points to now; return whether anything is new.

        Returns False if the session still does not exist.
        """
        if not self.replica.exists:
            return (yield from self._open_found())
        met, end, new = self.replica.met, self.replica.state.end, (yield from self.replica.catch_up())
        stood, mark = (self.head, self.node, self.position.checkpoint_id), self.position.mark()
        try:
            self.position.follow_head()
            yield from self.position.ensure_context()
            yield from self.blobs.fetch_shown()
        except TreeringError:
            self.position.go_back(mark)  # rule: shown-when-whole
            raise
        self.replica.met = False
        moved = stood != (self.head, self.node, self.position.checkpoint_id)  # changes met by earlier calls count
        return met or new or moved or self.replica.state.end > end

    def look(self) -> Steps[None]:
        """Find out the outcome of an append without an answer, and `refresh` if other writers recorded something.

        One conditional GET if nothing is new, usually answered without a body.
        """
        yield from self.appender.settle()
        if not (yield from self._is_up_to_date()):
            yield from self.refresh()

    def _is_up_to_date(self) -> Steps[bool]:
        view = self.replica.known_view
        if view is None or not view.tail_version:
            return False
        there = self.replica.state.heads.heads.get(self.head)
        if not self.position.is_known or self.position.behind or self.node != there:  # other writers recorded more
            return False
        (answer,) = yield (Get(self.keys.tail, unless=view.tail_version, register=True),)
        return isinstance(answer, Unchanged)

    def _open_found(self) -> Steps[bool]:
        """Open the session if another writer has created it, and lock it if it is to be; return whether it exists."""
        try:
            yield from self.open()
            if self.replica.exists and self.locks:
                self.lock()
        except BaseException:
            self.creation.expect()
            raise
        return self.replica.exists

    def close(self) -> Steps[None]:
        """Settle the last append, and write `latest` so that the next resume has nothing to replay."""
        if self.appender.pending is not None:
            yield from self._settle_last()  # rule: settle-last
        if self.appender.count == 0 or not self.replica.exists or self.replica.met or self.replica.stopped is not None:
            return
        try:
            if not self.options.shared:
                yield from self.upkeep.cover(seal=False)
            elif self.upkeep.card_is_due:
                yield from self.upkeep.renew_card()
            if self.upkeep.should_optimize(quiet=True):
                yield from self.upkeep.optimize()
            if self.appender.pending is None and self.replica.claim is None:  # else releasing the lease drops them
                yield from self.upkeep.drop_sealed()
        except (SessionDeletedError, FormatVersionError):
            return  # the records are safe; only a later version may cover a critical record of that version

    def _settle_last(self) -> Steps[None]:
        """Find out the outcome of the last append, which had no answer: if it arrived later, it would stop who is next.

        An error here says nothing new: the caller was told that the outcome is unknown.
        """
        try:
            yield from self.appender.settle()
        except (UnavailableError, ConflictError, NotFoundError):
            return

    def save(self, landed: Sequence[str] = ()) -> None:
        """Make a savepoint, restored if the calls that follow are interrupted; see `treering.session.replica`.

        Args:
            landed: Ids of the records that the call under way has just recorded. If it is interrupted, its caller does
                not know of them, and may pass them again.
        """
        buffered, pending = self.appender.buffered, self.appender.pending
        self._saved = self.replica.mark(), self.blobs.at_hand, self.position.mark(), buffered, pending, landed

    def roll_back(self) -> None:
        """Go back to the last savepoint after an interrupted call; sends no request."""
        known, self.blobs.at_hand, position, self.appender.buffered, self.appender.pending, landed = self._saved
        self.appender.found.update(landed)
        self.replica.go_back(known)
        self.position.go_back(position)


def _nothing() -> Steps[None]:
    yield from ()
