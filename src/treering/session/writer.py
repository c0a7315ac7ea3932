"""Record in a session: one append for everything a call records, then whatever upkeep is due.

Rule 1: records are built from where the session stands, sent, and folded only when they are known to be durable.
Rule 2: an append without an answer is settled before the next one. It is never sent twice, and never forgotten.
Rule 3: an exclusive session in which somebody else wrote is over for this handle. A shared one goes on beside what the
other wrote: under the same parent, on a head of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import msgspec

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.policy import Policy
from treering.checkpoint.schedule import EVERY_TURN, Schedule
from treering.errors import (
    ConflictError,
    FormatVersionError,
    HeadMovedError,
    NotFoundError,
    SessionDeletedError,
    TreeringError,
    UnavailableError,
)
from treering.format.paths import SessionKeys
from treering.format.record import Record, encode_record
from treering.format.register import Card
from treering.ids import new_nonce
from treering.journal import life
from treering.journal.append import Appended, Overtaken, append, require_one_append, rewrite_tail, settle
from treering.journal.erase import SweptBlobs
from treering.journal.resume import resume
from treering.journal.view import View
from treering.session.anchor import Anchored
from treering.session.hooks import Hooks
from treering.session.keeper import RACES_MAX
from treering.session.others import Others
from treering.session.reader import may_have_vanished
from treering.session.redaction import Redaction
from treering.session.room import require_card, require_room
from treering.session.state import SessionState, encode_state
from treering.session.tally import announced
from treering.storage.requests import Put, Steps, Written
from treering.storage.run import checked
from treering.transcript.node import Draft, Here


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is opened."""

    shared: bool = False
    durability: str = "sync"
    schedule: Schedule = EVERY_TURN
    first_write: str = "record"
    hooks: Hooks = Hooks()
    create: bool = True
    redaction: Redaction | None = None
    """What every text passes before it is stored; the store says so, see `treering.session.place.Place`."""


class Planned(Protocol):
    """One append, as a verb plans it, and where it leaves the session."""

    records: list[Record]
    blobs: dict[str, bytes]
    """Large parts, stored before the records that refer to them."""
    put_off: tuple[Draft, ...]
    """Drafts that had been put off and are part of it."""
    moved: bool
    """The handle stands at `head` and `node` afterwards."""
    head: str
    node: str | None
    made: Checkpoint | None
    """The last of its checkpoints."""
    caught_up: bool
    """The handle stands on that one afterwards."""


P = TypeVar("P", bound=Planned)


class _Doubt(msgspec.Struct, frozen=True):
    """An append that had no answer."""

    view: View
    by: str
    planned: Any
    """What it was to record, a `Planned`."""


class _Stand(NamedTuple):
    """Where a writer stands, for a savepoint."""

    head: str
    node: str | None
    basis: Checkpoint | Here | None
    behind: bool
    waiting: tuple[Draft, ...]
    doubt: _Doubt | None
    met: bool


class Writer(Anchored):
    """One handle that records in a session."""

    def __init__(
        self, keys: SessionKeys, policy: Policy | None, card: Card, options: Options, prepare: Callable[[], Steps[None]]
    ) -> None:
        super().__init__(keys, policy, shared=options.shared)
        self.options = options
        self.nonce = new_nonce()
        self.waiting: tuple[Draft, ...] = ()
        """Drafts put off, see `puts_off`."""
        self.claim: Callable[[], None] = lambda: None
        """Holds the session for this handle where the store knows such a thing, or raises `SessionHeldError`."""
        self._lives: list[str] = []
        """Of the session that this handle creates, one for each try: an earlier one may have landed."""
        self.is_new = False
        """There was no session when this handle was opened, and nobody else began it since."""
        self._new_card = card if options.redaction is None else options.redaction.card(card)
        self._prepare = prepare
        self._appends = 0
        self._doubt: _Doubt | None = None
        self.others = Others(self.nonce, shared=options.shared, session=keys.session, key=keys.tail)

    @classmethod
    def visiting(cls, keys: SessionKeys, policy: Policy, *, shared: bool = False) -> Self:
        """Return one for a session that is there, to tend it and not to add to its conversation."""
        card = Card(session=keys.session, life="", write="")
        return cls(keys, policy, card, Options(shared=shared, create=False), _nothing)

    # what is gone back to

    def _stand(self) -> _Stand:
        basis = self._basis, self.behind
        return _Stand(self.at_head, self.at_node, *basis, self.waiting, self._doubt, self.others.met)

    def _stand_at(self, stand: _Stand) -> None:
        self.at_head, self.at_node, self._basis, self.behind = stand[:4]
        self.waiting, self._doubt, self.others.met = stand[4:]

    # open

    def open(self) -> Steps[None]:
        """Resume the session, or make ready to create it with the first record.

        Raises:
            NotFoundError: There is none, and none is to be created.
        """
        try:
            yield from self.resume()
        except NotFoundError as error:
            if not self.options.create or error.kind not in ("session", "sessiondeleted"):
                raise
            self._leave()
            return
        self.is_new = False
        self.weigh()
        self.others.accept()
        self._move_along()

    def _leave(self) -> None:
        """Stand before a session that is not there, or is not ours to write."""
        self.is_new = True
        self._view, self._state = None, SessionState(self._new_card, self.policy)
        self.blobs = {}
        self.others.accept()
        self._move_along()

    @property
    def put_off(self) -> tuple[Draft, ...]:
        """Drafts that are not known to be recorded: put off, or part of an append that had no answer."""
        doubted = self._doubt.planned.put_off if self._doubt is not None else ()
        return (*doubted, *self.waiting)

    def refresh(self) -> Steps[bool]:
        """Look again, and stand where the head in hand stands now; true if there is something new.

        A session that still is not there is nothing new.
        """
        if not self.begun:
            return (yield from self._open_found())
        met, end, new = self.others.met, self.state.end, (yield from self._look_again())
        stood = self.at_head, self.at_node, self.at_checkpoint
        self._move_along()
        yield from self.anchor()
        yield from self.fetch_shown_blobs()
        self.others.accept()
        moved = stood != (self.at_head, self.at_node, self.at_checkpoint)  # what an earlier call met, too
        return met or new or moved or self.state.end > end

    def _open_found(self) -> Steps[bool]:
        """Open and hold the session that others created meanwhile, or leave it alone; false if there still is none."""
        try:
            yield from self.open()
            if self.begun:
                self.claim()
        except BaseException:
            self._leave()
            raise
        return self.begun

    def begin(self, records: Sequence[Record] = ()) -> Steps[None]:
        """Make sure that there is a session to append to and that nothing is in doubt.

        Args:
            records: What is about to be recorded: lists show it if the session has to be created.
        """
        self.others.check()
        if not self.begun:
            yield from self._create(records)
        yield from self.require_one_moment()
        if self._doubt is not None:
            yield from self.settle()

    @property
    def in_doubt(self) -> bool:
        """An append had no answer; see `settle`."""
        return self._doubt is not None

    def settle(self) -> Steps[bool]:
        """Find out what became of an append that had no answer, if there was one; true if it was recorded.

        Raises:
            UnavailableError: The store still does not answer.
            ConflictError: Somebody else wrote meanwhile, and this session is exclusive.
        """
        if self._doubt is not None:
            doubt = self._doubt
            outcome = yield from settle(doubt.view, by=doubt.by, nonce=new_nonce())
            self._doubt = None
            if isinstance(outcome, Overtaken):
                self.waiting = (*doubt.planned.put_off, *self.waiting)
            self._take(outcome, doubt.planned)
            return isinstance(outcome, Appended)
        return False

    def _create(self, records: Sequence[Record]) -> Steps[None]:
        yield from self._prepare()
        card = announced(self._new_card, records)
        lines = encode_state(SessionState(card, self.policy))
        self._lives.append(new_nonce())
        try:
            view = yield from life.create(self.keys, card, lines, life=self._lives[-1], nonce=new_nonce())
        except ConflictError as error:
            if self.options.shared:
                yield from self.resume()
                self.is_new = self.view.life in self._lives
                self._follow()  # still standing before the first node, beside what the other began with
                return
            view = yield from resume(self.keys)
            if view.life not in self._lives:
                self.others.stop(error)
                raise
        if view.end and not self.options.shared:
            self.others.stop()
            self.others.check()
        self._sound_life = view.life if view.life in self._lives else ""
        self._view, self._index = view, None  # it may be of a life that was deleted while it was opened
        self._state = self._decoded(view)
        self._absorb(view)
        self._move_along()

    # append

    def write(self, plan: Callable[[], Steps[P]]) -> Steps[P]:
        """Record what `plan` says, all or nothing; it is asked again if the session moved on meanwhile.

        Args:
            plan: Looks at the session as it is then, brings what its context needs, and says what to record. Nothing
                it found out earlier may go into a later try.

        Returns:
            The last plan; its records are durable.

        Raises:
            ConflictError: Somebody else writes this session; nothing of ours was written.
            UnavailableError: The store did not answer. What was to be recorded may be in the journal; the next call
                finds out.
        """
        if not self.may_write or self._doubt is not None or self.others.in_the_way:
            yield from self._make_ready(plan)
        for _ in range(RACES_MAX):
            seen, end = self._view, self.state.end
            try:
                planned = yield from plan()
            except (HeadMovedError, NotFoundError) as error:
                if not (yield from self._was_outdated(error, seen, end)):
                    raise
                continue
            if self._moved_on(seen, end):
                continue  # while this was planned
            if not planned.records:  # all of it was about what is gone by now
                self.waiting = self.waiting[len(planned.put_off) :]
                yield from self._keep_up()
                return planned
            require_room(self.state, planned.records)
            if planned.blobs:
                self._require_storable(planned.records)  # else parts would be stored that no record refers to
                yield from self._store(planned.blobs)
            outcome = yield from self._append(planned)
            self._take(outcome, planned)
            if isinstance(outcome, Appended):
                if self.seal_is_due or self.card_is_due or not self.anchored:
                    yield from self._keep_up()
                return planned
        raise UnavailableError("others append faster than we can", kind="busy", key=self.keys.tail)

    def _was_outdated(self, error: TreeringError, seen: View | None, end: int) -> Steps[bool]:
        """Whether a plan failed for what is not so any more; where others move heads, too, that takes a look."""
        if self._view is seen and self.options.shared and isinstance(error, HeadMovedError):
            yield from self.look_again()
        return self._moved_on(seen, end)

    def _moved_on(self, seen: View | None, end: int) -> bool:
        """Whether there is something else than was seen, or stop if we should be alone here and are not."""
        if self._view is seen:
            return False
        self.others.check()
        if seen is None or may_have_vanished(seen, self.view.tail):
            return True
        return self.state.end != end or self.epoch != seen.epoch

    def _make_ready(self, plan: Callable[[], Steps[Planned]]) -> Steps[None]:
        """Begin the session if need be, look whether it may be gone on with, and settle what is in doubt."""
        records: Sequence[Record] = ()
        if not self.begun:
            planned = yield from plan()
            require_card(self.state.behind(planned.records).card)
            self._require_storable(planned.records)  # else a session would be made that never gets a record
            records = planned.records
        yield from self.begin(records)

    def _require_storable(self, records: Sequence[Record]) -> None:
        """Refuse what cannot be recorded before anything is written for it.

        Raises:
            UsageError: A record is too large, or its brief is; or all of them are too much for one append.
        """
        require_one_append(self.keys, [encode_record(record) for record in records])

    def _append(self, planned: Planned) -> Steps[Appended | Overtaken]:
        self._appends += 1
        view = self.view
        by = f"{self.nonce}.{self._appends}.{view.end}"
        self._doubt = _Doubt(view, by, planned)  # until there is an answer, also if the caller gives up
        self.waiting = self.waiting[len(planned.put_off) :]
        self.save()
        try:
            outcome = yield from append(view, planned.records, by=by, nonce=by)
        except TreeringError as error:
            if not isinstance(error, UnavailableError):
                self._withdraw(planned)
            if error.kind != "tail_full":
                raise
            return (yield from self._append_to_sealed(planned))
        if isinstance(outcome, Overtaken):
            self._withdraw(planned)
        self._doubt = None
        return outcome

    def _append_to_sealed(self, planned: Planned) -> Steps[Appended | Overtaken]:
        seen, end = self.view, self.state.end
        yield from self.seal()
        # Somebody else was at `latest`, so what we know of the tail may be old, too; or we looked, and it was.
        if self.view.unsealed_lines or self._moved_on(seen, end):
            now = yield from resume(self.keys)
            now.require_same_life(self.view.life)
            return Overtaken(now, by="")
        return (yield from self._append(planned))

    def _withdraw(self, planned: Planned) -> None:
        """Nothing of it was written: what had been put off still is."""
        self._doubt = None
        self.waiting = (*planned.put_off, *self.waiting)

    def _take(self, outcome: Appended | Overtaken, planned: Planned) -> None:
        """Fold what the store holds now, and stand where an append of ours left us.

        Raises:
            ConflictError: Somebody else writes here, this session is exclusive, and nothing of ours was written.
        """
        landed, state = isinstance(outcome, Appended), self.state
        moved = landed and planned.moved
        stood = moved or state.heads.heads.get(self.at_head) == self.at_node
        if moved and self.options.shared:
            state.follow = planned.head
        if isinstance(outcome, Appended):
            self._count(outcome)
        foreign = self._fold(outcome)
        if landed and planned.made is not None and planned.caught_up:
            self._basis, self.behind = planned.made, False
        if moved:
            self.at_head, self.at_node = planned.head, planned.node
        elif stood and not foreign:
            self._move_along(blindly=self.behind)  # an earlier append of ours landed late
        self.save()
        if not landed:
            self.others.check()

    def _fold(self, outcome: Appended | Overtaken) -> bool:
        """Fold what is new; true if some of it is not ours."""
        state, view = self.state, outcome.view
        end = state.end
        if isinstance(outcome, Appended) and outcome.records and end == outcome.first:
            for record, line in zip(outcome.records, outcome.lines, strict=True):
                state.apply(record, line)
            self._look_at(view)
            return False
        new = self._absorb(view)
        late = {record.id for record in new}
        self.waiting = tuple([draft for draft in self.waiting if draft.id not in late])
        return self.others.wrote(new)

    def _absorb(self, view: View) -> list[Record]:
        vanished = may_have_vanished(self.view, view.tail)
        new = super()._absorb(view)
        self.others.look(new)
        if vanished and not self.options.shared:
            self._move_along()  # what took it to where it stands may be gone
        return new

    def _store(self, blobs: dict[str, bytes]) -> Steps[None]:
        new = [digest for digest in blobs if self.blobs.get(digest) is None]
        if new:
            answers = yield tuple(Put(self.keys.blob(self.view.life, digest), blobs[digest]) for digest in new)
            for digest, answer in zip(new, answers, strict=True):
                checked(answer, Written)
                self.blobs[digest] = blobs[digest]

    def puts_off(self, drafts: Sequence[Draft], *, ends_turn: bool) -> bool:
        """Whether to keep `drafts` in memory for now, because the session was opened that way."""
        if self.options.durability == "turn" and not ends_turn:
            return True
        waits = self.options.first_write == "assistant" and not self.begun
        return waits and not any(draft.role == "assistant" for draft in [*self.waiting, *drafts])

    @property
    def unsure(self) -> bool:
        """We were shown records of a log that may not last; what `latest` covers does."""
        return self.begun and not self.view.durable and self.view.covers < self.view.end

    def make_sure(self) -> Steps[None]:
        """See to it that all we were shown lasts: a log shows records before they are safe. Or look again."""
        if not self.unsure:
            return
        rewritten = yield from rewrite_tail(self.view, new_nonce())
        if rewritten is None:
            yield from self.look_again()
        else:
            self._look_at(rewritten)

    def look_on(self, view: View) -> None:
        """Fold what `view` shows beyond our state, or stop if we should be alone here and are not."""
        self._absorb(view)
        self.others.check()

    # upkeep

    def _keep_up(self) -> Steps[None]:
        """Seal if it pays, let lists tell what was recorded, and know our context if others wrote.

        What was appended is safe already, so nothing that fails now may look as if that had failed.
        """
        try:
            if self.seal_is_due:
                yield from self.seal()
            if self.card_is_due:
                yield from self.renew_card()
            yield from self.anchor()
        except TreeringError:
            return  # whoever needs it is told

    def finish_erasing(self) -> Steps[tuple[int, SweptBlobs]]:
        """Take what the tail says was erased out of everything else, and know what is left of our context."""
        done = yield from super().finish_erasing()
        yield from self.anchor()
        return done

    def close(self) -> Steps[None]:
        """Let `latest` account for everything, so that the next resume has nothing to replay."""
        if self.others.in_the_way or not self.begun or self._appends == 0:
            return
        try:
            if not self.options.shared:
                yield from self.cover(seal=False)
            elif self.card_is_due:
                yield from self.renew_card()
            if self.should_tidy:
                yield from self.tidy()
        except (SessionDeletedError, FormatVersionError):
            return  # what was recorded is safe; over a critical record of a later version only that version may cover


def _nothing() -> Steps[None]:
    yield from ()
