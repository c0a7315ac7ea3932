"""Append to a session. The records of one call form one append, which is sent once and settled before the next.

Rule 1: records are built on the current state, sent, and folded into it only when they are known to be durable.
Rule 2: an append with an unknown outcome is settled before the next one. It is never sent twice, and never forgotten.
Rule 3: a handle of an exclusive session stops when another writer has recorded something. A handle of a shared session
continues next to the other writer's records: under the same parent, on a new head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from treering import journal
from treering._late import Kind
from treering.checkpoint.checkpoint import Checkpoint
from treering.errors import HeadMovedError, NotFoundError, TreeringError, UnavailableError, UnsafeStoreError
from treering.format.record import Record, decode_record, encode_record
from treering.ids import new_nonce, uptime
from treering.journal.register import Attempts
from treering.journal.resume import resume_life
from treering.journal.view import View
from treering.session.blobs import Blobs
from treering.session.creation import Creation
from treering.session.options import Options
from treering.session.position import Mark, Position
from treering.session.replica import Replica
from treering.session.snapshot import require_card, require_room
from treering.session.upkeep import Upkeep
from treering.storage.requests import Steps
from treering.transcript.node import HERE, Draft

if TYPE_CHECKING:
    from treering.journal.append import Landed, Overtaken


class BufferedCall(msgspec.Struct, frozen=True):
    """The effect of a buffered call in addition to its drafts: it ends a turn, or begins the conversation again."""

    perform: Callable[[Any], None]
    """Called with the recording of the append, in place of a draft."""
    starts_over: bool = False
    """Whether the drafts before the call are on another branch."""
    state: Mapping[str, bytes] = {}
    """State values that the call sets, encoded; `drop` has the keys that it removes."""
    drop: Sequence[str] = ()
    manager: bytes | UnsetType | None = UNSET


class Buffered(msgspec.Struct, frozen=True):
    """A draft that a later append records."""

    draft: Draft
    """For a call, an empty draft with an id of its own."""
    free_at: int | None = None
    """The number of records of the session when the id that the caller chose was last known to be free; None: the
    caller chose no id, or knows that no other node gets it."""
    call: BufferedCall | None = None


class Planned(Protocol):
    """One append as an operation plans it, and where the handle stands after it."""

    records: list[Record]
    blobs: dict[str, bytes]
    """Blobs, stored before the records that refer to them."""
    buffered: tuple[Buffered, ...]
    """The buffered drafts that this append records."""
    moved: bool
    """Whether the handle moves to `head` and `node` after the append."""
    head: str
    node: str | None
    made: Checkpoint | None
    """The last checkpoint of the append."""
    caught_up: bool
    """Whether the handle moves to that checkpoint after the append."""


P = TypeVar("P", bound=Planned)


class Pending(msgspec.Struct, frozen=True):
    """An append whose outcome is unknown."""

    view: View
    by: str
    planned: Any
    """The records that the append tried to write, a `Planned`."""
    stood: Mark
    """The position of the handle when they were sent."""


class Appender:
    """Sends the appends of one handle, one after the other.

    Args:
        replica: The session in memory.
        blobs: Its blobs.
        position: Where the handle stands.
        upkeep: Seals, and writes `latest`, when an append makes that due.
        creation: Creates the session if it does not exist yet.
        options: How the session was opened.
        save: Makes a savepoint of the whole handle, with the ids of what was just recorded.
    """

    def __init__(
        self,
        replica: Replica,
        blobs: Blobs,
        position: Position,
        *,
        upkeep: Upkeep,
        creation: Creation,
        options: Options,
        save: Callable[[Sequence[str]], None],
    ) -> None:
        self._replica = replica
        self._blobs = blobs
        self._position = position
        self._upkeep = upkeep
        self._creation = creation
        self._options = options
        self._save = save
        self.buffered: tuple[Buffered, ...] = ()
        """Drafts and calls that wait to be recorded, see `holds_back`."""
        self.found: set[str] = set()
        """Ids of records of which the caller was not told: their append had no answer and turned out to be recorded, or
        the call was interrupted behind it. Callers may pass them again."""
        self.count = 0
        """The number of appends sent."""
        self.pending: Pending | None = None
        """The last append, if its outcome is unknown; see `settle`."""

    @property
    def unrecorded(self) -> tuple[Draft, ...]:
        """Drafts not known to be recorded: buffered, or part of an append whose outcome is unknown."""
        return tuple([each.draft for each in self._waiting if each.call is None])

    @property
    def unrecorded_here(self) -> tuple[Draft, ...]:
        """The unrecorded drafts after which the session will stand, once they are recorded."""
        here: list[Draft] = []
        node = self._position.node
        for each in self._waiting:
            if each.call is None:
                if each.draft.type != "node" or each.draft.parent is HERE or each.draft.parent == node:
                    here.append(each.draft)
                    node = each.draft.id if each.draft.type == "node" else node
            elif each.call.starts_over:
                here, node = [], None
        return tuple(here)

    @property
    def calls(self) -> tuple[BufferedCall, ...]:
        """The calls among the unrecorded drafts."""
        return tuple([each.call for each in self._waiting if each.call is not None])

    @property
    def _waiting(self) -> tuple[Buffered, ...]:
        pending = self.pending
        doubtful = pending.planned.buffered if pending is not None and not self._was_shown(pending) else ()
        return (*doubtful, *self.buffered)

    def begin(self, records: Sequence[Record] = ()) -> Steps[None]:
        """Make sure that the session exists and that the outcome of the last append is known.

        Args:
            records: The records to be appended next; the card of a newly created session is made from them.
        """
        self._replica.check()
        if not self._replica.exists:
            yield from self._creation.create(records)
        yield from self._upkeep.require_one_moment()
        if self.pending is not None:
            yield from self.settle()

    def settle(self) -> Steps[None]:
        """Find out the outcome of the last append, if it is unknown; `found` has its records then, if they are there.

        Raises:
            UnavailableError: The store still does not answer.
            ConflictError: Another writer recorded something since, and this session is exclusive.
        """
        if (pending := self.pending) is not None:
            planned: Planned = pending.planned
            outcome = yield from journal.append.settle(pending.view, by=pending.by, nonce=new_nonce())
            self.pending = None
            moves = self._goes_along(pending)
            if isinstance(outcome, journal.append.Overtaken):
                self.buffered = (*planned.buffered, *self.buffered)
            else:
                self.found.update(record.id for record in planned.records)
                if moves and self._position.head != planned.head:  # a refresh moved the handle
                    self._position.go_back(pending.stood)  # rule: late-move
            self._take(outcome, planned, moves=moves, epoch=pending.view.epoch)
        # The caller may only read; and an earlier call may not have come so far.
        yield from self._position.ensure_context(blobs=True)

    def _goes_along(self, pending: Pending) -> bool:
        """Whether the handle goes where an append without an answer put it: a refresh may have moved it since."""
        if self._position.head != pending.planned.head:
            return bool(pending.planned.moved)  # rule: late-commit-stays
        return not self._is_passed(pending)

    def _is_passed(self, pending: Pending) -> bool:
        """Whether the caller was shown as many records as there are with those of an append without an answer."""
        return self._position.shown >= pending.view.end + len(pending.planned.records)  # rule: refresh-is-newer

    def _was_shown(self, pending: Pending) -> bool:
        """Whether a refresh has shown the records of an append without an answer, with what its head says now."""
        if self._position.head != pending.planned.head or not self._is_passed(pending):
            return False
        tail, lines = self._replica.view.tail, self._replica.state.lines
        at = pending.view.end - tail.header.base
        there = 0 <= at < len(tail.lines) and decode_record(tail.lines[at]).by == pending.by
        return there or any(record.id in lines for record in pending.planned.records)

    # append

    def write(self, plan: Callable[[], Steps[P]]) -> Steps[P]:
        """Record the result of `plan`, all or nothing; `plan` is called again if the session changed before the append.

        Args:
            plan: Reads the session as it is now, pins the records that its context needs, and returns the records to
                append. A later call must not use results of an earlier one.

        Returns:
            The last plan; its records are durable.

        Raises:
            ConflictError: Another writer holds this session; none of these records was written.
            UnavailableError: The store did not answer. The records may be in the journal; the next call finds out.
            UnsafeStoreError: The store refuses conditions that hold. As above: the next call finds out.
        """
        if self.pending is not None or not self._replica.may_append:
            yield from self._make_ready(plan)
        attempts = Attempts(self._replica.keys.tail)
        while attempts.another():
            seen, end = self._replica.known_view, self._replica.state.end
            try:
                planned = yield from plan()
            except (HeadMovedError, NotFoundError) as error:
                if not (yield from self._was_outdated(error, seen, end)):
                    raise
                continue
            if self._moved_on(seen, end):  # rule: plan-anew
                continue  # the session changed while this was planned
            if not planned.records:  # all objects that it refers to are gone by now
                self.buffered = self.buffered[len(planned.buffered) :]
                yield from self._keep_up()
                return planned
            require_room(self._replica.state, planned.records)  # rule: refuse-what-stays
            if planned.blobs:
                self._require_storable(planned.records)  # else blobs would be stored that no record refers to
                yield from self._blobs.store(planned.blobs)
            outcome = yield from self._append(planned)
            self._take(outcome, planned)
            if isinstance(outcome, journal.append.Landed):
                shows_all = self._position.is_known and not self._replica.has_unread_blobs
                if self._upkeep.seal_is_due or self._upkeep.card_is_due or not shows_all:
                    yield from self._keep_up()
                return planned

    def _was_outdated(self, error: TreeringError, seen: View | None, end: int) -> Steps[bool]:
        """Whether a plan failed on outdated knowledge; in a shared session this reads the registers again."""
        if self._replica.known_view is seen and self._options.shared and isinstance(error, HeadMovedError):
            yield from self._replica.catch_up()
            self._replica.check()
        return self._moved_on(seen, end)

    def _moved_on(self, seen: View | None, end: int) -> bool:
        """Whether the session changed since it was seen; stops an exclusive handle that meets another writer."""
        if self._replica.known_view is seen:
            return False
        self._replica.check()  # rule: stop-while-planning
        return seen is None or self._replica.state.end != end or self._replica.epoch != seen.epoch

    def _make_ready(self, plan: Callable[[], Steps[Planned]]) -> Steps[None]:
        """Create the session if needed, check that its format allows writing, and settle an unknown outcome."""
        records: Sequence[Record] = ()
        if not self._replica.exists:
            planned = yield from plan()
            require_card(self._replica.state.behind(planned.records).card)
            self._require_storable(planned.records)  # else the session would be created and never get a record
            records = planned.records
        yield from self.begin(records)

    def _require_storable(self, records: Sequence[Record]) -> None:
        """Refuse records that cannot be appended, before anything is written for them.

        Raises:
            UsageError: A record or its brief is too large, or all records together are too large for one append.
        """
        journal.append.require_one_append(self._replica.keys, [encode_record(record) for record in records])

    def _append(self, planned: Planned) -> Steps[Landed | Overtaken]:
        self.count += 1
        view = self._replica.view
        by = self._replica.sent = f"{self._replica.nonce}.{self.count}.{view.end}"
        # until there is an answer, even if the caller gives up
        self.pending = Pending(view, by, planned, self._position.mark())  # rule: settle-first
        self.buffered = self.buffered[len(planned.buffered) :]
        self._save(())
        claim = self._replica.claim
        began = 0.0 if claim is None else uptime()
        try:
            outcome = yield from journal.append.append(
                view, planned.records, by=by, nonce=by, lease=claim.number if claim is not None else 0
            )
        except TreeringError as error:
            if not isinstance(error, UnavailableError | UnsafeStoreError):
                self._withdraw(planned)
            if error.kind != Kind.TAIL_FULL:
                raise
            return (yield from self._append_to_sealed(planned))
        if isinstance(outcome, journal.append.Overtaken):
            self._withdraw(planned)
        elif claim is not None:
            self._replica.claim = msgspec.structs.replace(claim, since=began)  # an append is a sign of life
        self.pending = None
        return outcome

    def _append_to_sealed(self, planned: Planned) -> Steps[Landed | Overtaken]:
        seen, end = self._replica.view, self._replica.state.end
        yield from self._upkeep.seal()
        # Another writer replaced `latest`, so this handle's tail may be outdated, too; or the seal read the registers
        # again, and the session had changed.
        if self._replica.view.unsealed_lines or self._moved_on(seen, end):  # rule: plan-again
            now = yield from resume_life(self._replica.keys, self._replica.view.life)
            return journal.append.Overtaken(now, by="")
        return (yield from self._append(planned))

    def _withdraw(self, planned: Planned) -> None:
        """Keep the drafts buffered: nothing of this append was written."""
        self.pending = None
        self.buffered = (*planned.buffered, *self.buffered)

    def _take(
        self, outcome: Landed | Overtaken, planned: Planned, *, moves: bool = True, epoch: int | None = None
    ) -> None:
        """Fold the records that the store has now, and move the handle to where its append put it.

        Args:
            outcome: The outcome of the append.
            planned: The append.
            moves: False if the handle stays where a refresh moved it since.
            epoch: The epoch at which the append was planned; by default that of now.

        Raises:
            ConflictError: Another writer recorded something in this exclusive session, and this append was not written.
        """
        landed, state = isinstance(outcome, journal.append.Landed), self._replica.state
        moved = landed and planned.moved and moves
        # A handle may stand on another head than the current one, and then nobody moved it.
        follows = self._position.head == state.head  # rule: stay-on-own-head
        stood = follows and state.heads.heads.get(self._position.head) == self._position.node
        newest = state.checkpoint
        if moved and self._options.shared:
            state.turn_to(planned.head)
        if isinstance(outcome, journal.append.Landed):
            self._upkeep.count(outcome)
        foreign = self._fold(outcome, planned)
        if landed and moves and planned.made is not None and planned.caught_up:
            newest = self._replica.state.checkpoint
            made = newest if newest is not None and newest.id == planned.made.id else planned.made
            self._position.stand_on(made, head=planned.head, epoch=epoch if made is planned.made else None)
        if moved:
            self._position.head, self._position.node = planned.head, planned.node
        elif stood and not foreign:  # an earlier append of this handle may have arrived late
            # A seal may have read another writer's checkpoint before this.
            unseen = self._position.checkpoint_id not in (HERE, newest and newest.id)  # rule: seal-shows-nothing
            # rule: shown-stays
            self._position.follow_head(blindly=self._position.behind or unseen)
        self._save([record.id for record in planned.records] if landed else ())
        if not landed:
            self._replica.check()

    def _fold(self, outcome: Landed | Overtaken, planned: Planned) -> bool:
        """Fold the new records; return whether another writer recorded some of them."""
        state, view = self._replica.state, outcome.view
        end = state.end
        if isinstance(outcome, journal.append.Landed) and outcome.records and end == outcome.first:
            state.advance(outcome.lines, outcome.records, made=planned.made)
            self._replica.note(view)
            return False
        news = self._replica.absorb(view)
        own = self._replica.own
        late = {record.id for record in news.records if record.by.startswith(own)}  # rule: drop-own-late
        if isinstance(outcome, journal.append.Landed):
            late -= {record.id for record in planned.records}  # what it recorded is not buffered any more
        self.buffered = tuple(
            [each for each in self.buffered if each.draft.id not in late and not (late and each.call is not None)]
        )
        return news.foreign

    def holds_back(self, drafts: Sequence[Draft], *, ends_turn: bool) -> bool:
        """Whether the options of this session say that `drafts` are buffered for now."""
        in_turn = self._options.durability == "turn" and not ends_turn
        waits = self._options.first_write == "assistant" and not self._replica.exists  # as below; every append asks
        if not (in_turn or waits) or any(draft.type == "edit" or draft.kind == "compaction" for draft in drafts):
            return False  # what changes the context shows it at once, and is planned on records
        return in_turn or all(draft.role != "assistant" for draft in (*self.unrecorded, *drafts))

    @property
    def waits_for_answer(self) -> bool:
        """Whether nothing is written yet, because the model has not answered."""
        return self._options.first_write == "assistant" and not self._replica.exists

    def _keep_up(self) -> Steps[None]:
        """Seal if it pays, merge after many seals, renew the card, and restore the handle's context if the head moved.

        The append is durable already, so an error here must not look like a failed append.
        """
        try:
            if self._upkeep.seal_is_due:
                yield from self._upkeep.seal()
                if self._upkeep.should_optimize(quiet=False):
                    yield from self._upkeep.optimize()
            if self._upkeep.card_is_due:
                yield from self._upkeep.renew_card()
            yield from self._position.ensure_context(blobs=True)
        except TreeringError:
            return  # the call that needs it raises the error
