"""The part of a session that one handle has in memory: both registers as last read, and the state folded from them.

Rule 1: the state is a fold over the records, so it can be dropped and rebuilt from the registers at any time.
Rule 2: records do not change: a position that once had a record has that record for ever, or its tombstone.

Other writers. A handle that opened a session exclusively stops when it meets another writer.
Rule 3: the handle accepts all records written before the caller opened or refreshed the session.
Rule 4: a later record of another writer stops the handle, whichever call sees it first: an append, or a read.
Rule 5: a stopped handle stays stopped; the caller has to open the session again.

Savepoints. A call that ends with a result or a `TreeringError` leaves a consistent handle. A call that ends in any
other way (an interrupt, a cancellation, an error of a hook, no memory left) may have stopped between any two lines.
Rule 6: the changes of such a call are dropped, and the handle goes back to its last savepoint.
Rule 7: savepoints are made when a call begins, when an append is about to be sent, and when its records were folded. So
an append that was interrupted has an unknown outcome, and is settled like any such append before the next one.
Rule 8: going back sends no request. The state is rebuilt from the registers as last read; the context comes from the
savepoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from treering import journal, session
from treering._late import Kind
from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context
from treering.checkpoint.policy import Policy, find_policy
from treering.errors import ConflictError, CorruptError, LeaseLostError, NotFoundError
from treering.format.erasure import NONE, Burials
from treering.format.paths import SessionKeys
from treering.format.record import Record, decode_record, mark_of, skeleton_of
from treering.format.register import Card
from treering.journal.resume import resume, resume_life
from treering.journal.view import View
from treering.session.snapshot import DEFAULT_POLICY, decode_state
from treering.session.state import SessionState
from treering.storage.requests import Steps, Version

if TYPE_CHECKING:
    from treering.journal.memory import Memory
    from treering.journal.rows import Rows
    from treering.journal.watch import Watch
    from treering.session.index import Index
    from treering.session.lookup import Lookup

T = TypeVar("T")

_BLOB: Final = b'"$blob"'


class Claim(msgspec.Struct, frozen=True):
    """The lease that a handle took."""

    number: int
    ttl_ms: int
    since: float
    """When the handle last began to renew it, by `treering.ids.uptime`."""


class Savepoint(msgspec.Struct, frozen=True):
    """The memory of a handle at one moment. Its objects are replaced and never changed, except `lines`."""

    view: View | None
    """The registers as last read; None: there was no session yet."""
    state: SessionState
    """The state, if there was no session; else it is rebuilt from `view`, except for the fields below."""
    follow: str | None
    context: Context
    context_at: str | None
    checkpoint: Checkpoint | None
    nodes_since: int
    lines: dict[str, bytes]
    """Not a copy, which would cost as much as the context is long: lines are added in place, and never removed."""
    lines_count: int
    """The number of lines at that moment."""
    borrowed: frozenset[str]
    met: bool
    claim: Claim | None
    has_unread_blobs: bool


class News(msgspec.Struct, frozen=True):
    """The new facts that a read of the registers showed."""

    records: list[Record]
    """The new records, as far as the tail reaches back."""
    foreign: bool
    """Whether another writer recorded some of the new records."""


class Replica:
    """Both registers of a session as last read, the state folded from them, and the index of all records.

    Args:
        keys: The keys of the session.
        policy: The policy that the caller named.
        card: The card of the session, if it does not exist yet.
        nonce: The handle's nonce; `Record.by` of each of its records begins with it. Empty if it only reads.
        shared: Other writers are allowed.
        memory: Returns the cache of data that was read; by default this replica has its own.
    """

    def __init__(
        self,
        keys: SessionKeys,
        policy: Policy | None,
        card: Card | None = None,
        *,
        nonce: str = "",
        shared: bool = True,
        memory: Callable[[], Memory] | None = None,
    ) -> None:
        self.keys = keys
        self.nonce = nonce
        self.sent = ""
        """`Record.by` of the last append that this handle sent, whatever its outcome."""
        self.own = f"{nonce}."
        """The beginning of `Record.by` of its own records."""
        self._shared = shared
        self.met = False
        """Whether another writer added records since the caller last looked; always false for a shared handle."""
        self.stopped: ConflictError | None = None
        self.claim: Claim | None = None
        """The lease that this handle took and did not release; another worker may have taken it since."""
        self.claims: Version | None = None
        """The tail that a claim without an answer is to replace: the handle may have the lease, or get it later."""
        self.has_unread_blobs = False
        """Whether records of other writers, read since the context was last complete, may show blobs."""
        self.is_sound = False
        """Whether registers and segments were checked to be of one moment, or this handle created the session."""
        self.memory = memory
        self.until: int | None = None
        """Records from this position on are not read, if the session is shown as of an earlier position."""
        self._rows: Rows | None = None
        self.asked_policy = policy
        """The policy that the caller named; None: that of the newest checkpoint."""
        self.known_view: View | None = None
        """The registers as last read; None if there was no session."""
        self._index: Index | None = None
        card = card or Card(session=keys.session, life="", write="")
        self.state = SessionState(card, policy or find_policy(DEFAULT_POLICY))

    @property
    def view(self) -> View:
        """The registers.

        Raises:
            NotFoundError: There was no session at the last read.
        """
        if self.known_view is None:
            raise NotFoundError(
                f"session {self.keys.session!r} has no record yet", kind=Kind.SESSION, key=self.keys.latest
            )
        return self.known_view

    @property
    def exists(self) -> bool:
        """Whether the session existed at the last read."""
        return self.known_view is not None

    @property
    def policy(self) -> Policy:
        """The policy that the caller named; else that of the newest checkpoint when the session was resumed."""
        return self.asked_policy if self.asked_policy is not None else self.state.policy

    @property
    def epoch(self) -> int:
        """The number of erasures in the session at the last read."""
        return self.known_view.epoch if self.known_view is not None else 0

    @property
    def burials(self) -> Burials:
        """Which records were erased, as of the last read."""
        header = self.known_view.tail.header if self.known_view is not None else None
        return header.burials if header is not None and (header.erased or header.erasures) else NONE

    # reads of the registers

    def load(self) -> Steps[None]:
        """Read both registers and fold them. The context in the state may be incomplete; see `Content.rebuild`.

        Raises:
            NotFoundError: There is no such session, or it was deleted (`SessionDeletedError`).
            CorruptError: It is damaged.
        """
        self.begin((yield from resume(self.keys)))

    def begin(self, view: View) -> None:
        """Replace everything in memory by the contents of `view`."""
        self.is_sound = False
        self.known_view, self._index = view, None  # the index may be of a life that was deleted since
        self.state = self.decoded(view)
        self.absorb(view)

    def forget(self, card: Card) -> None:
        """Drop everything in memory: the session does not exist yet and will begin with this card."""
        self.known_view = self._index = None
        self.state = SessionState(card, self.asked_policy or find_policy(DEFAULT_POLICY))

    def catch_up(self) -> Steps[bool]:
        """Read both registers again.

        Returns:
            Whether there are new records, or something was erased.
        """
        end, epoch = self.state.end, self.epoch
        view = yield from resume_life(self.keys, self.view.life)
        self.absorb(view)
        return (self.state.end, self.epoch) != (end, epoch)

    def absorb(self, view: View) -> News:
        """Fold the records of `view` that the state does not have, and note whether another writer wrote one.

        Raises:
            CorruptError: Records are gone.
        """
        known, state, tail = self.view, self.state, view.tail
        if view.end < known.end:
            raise self._lost(view.end)
        base, since = tail.header.base, state.end
        outdated = known.epoch != view.epoch  # rule: bury-memory
        if outdated:
            self._index = None
        self.note(view)
        if outdated or since < base:
            follow = state.follow
            state = self.state = self.decoded(view)
            state.turn_to(follow)
            said = (*state.lines.values(), *(item.message or b"" for item in state.context.items))
            self.has_unread_blobs = any(_BLOB in each for each in said)
        covered = state.end
        # rule: see-what-is-covered
        new = [decode_record(line, key=self.keys.tail) for line in tail.lines[max(0, since - base) : covered - base]]
        added = tail.lines[max(0, covered - base) :]
        new += state.advance(added)
        self.has_unread_blobs = self.has_unread_blobs or any(_BLOB in line for line in added)
        new = [record for record in new if record.at >= since]
        foreign = self._is_foreign(new, view.mark_at(base) if since < base else None)
        self.met = self.met or (foreign and not self._shared)  # rule: exclusive-stops
        return News(new, foreign)

    def note(self, view: View) -> None:
        """Make `view` the registers as last read; its records are added to the index when the index is asked for."""
        if self._index is not None and self._index.end < view.tail.header.base:
            self._index = self._extended(self._index, self.view)
        self.known_view = view

    def replace(self, view: View) -> None:
        """Make `view` the registers as last read: it has the same records, and a newer snapshot."""
        self.known_view = view

    # savepoints

    def mark(self) -> Savepoint:
        """Return a savepoint, which `go_back` restores."""
        state = self.state
        return Savepoint(
            self.known_view,
            state,
            state.follow,
            state.context,
            state.context_at,
            state.checkpoint,
            state.nodes_since,
            state.lines,
            len(state.lines),
            state.borrowed,
            self.met,
            self.claim,
            self.has_unread_blobs,
        )

    def go_back(self, there: Savepoint) -> None:
        """Restore a savepoint, and drop all later changes."""
        self.known_view, self._index, self.met, state = there.view, None, there.met, there.state
        self.claim, self.has_unread_blobs = there.claim, there.has_unread_blobs
        self._rows = None  # an interrupt may have left them with half of a view
        if there.view is not None:
            state = self.decoded(there.view)
            state.advance(there.view.fresh_lines)
        state.follow, state.context, state.context_at = there.follow, there.context, there.context_at
        state.checkpoint, state.nodes_since = there.checkpoint, there.nodes_since
        state.lines, state.borrowed = dict(list(there.lines.items())[: there.lines_count]), there.borrowed
        self.state = state

    # other writers

    def _is_foreign(self, records: Sequence[Record], dropped: str | None) -> bool:
        """Whether another writer recorded something new.

        Args:
            records: The new records in the tail.
            dropped: The mark after new records that were dropped from the tail before this read; None if there are
                none. If the handle itself made them, they are its last append, which began at the end that it knew.
        """
        if dropped is not None and dropped != mark_of(self.sent):  # rule: see-what-is-dropped
            return True
        return any(not record.by.startswith(self.own) for record in records)  # rule: own-is-no-conflict

    @property
    def may_append(self) -> bool:
        """Whether the session exists, was checked, and no other writer stopped this handle."""
        return self.is_sound and self.known_view is not None and not self.met and self.stopped is None

    def check(self) -> None:
        """Stop if another writer was met, or took the lease of this handle.

        Raises:
            ConflictError: The handle is stopped, now or earlier; the caller has to open the session again.
        """
        if self.claim is not None and self.known_view is not None and self.stopped is None:
            try:
                journal.lease.require(self.known_view, self.claim.number, by=self.nonce)  # rule: tell-the-loser
            except LeaseLostError as error:
                self.stop(error)
        if self.met and self.stopped is None:
            self.stop()
        if self.stopped is not None:
            raise self.stopped

    def stop(self, error: ConflictError | None = None) -> None:
        """Stop this handle: it may record nothing more, because of `error` or because of another writer."""
        self.stopped = error or ConflictError(
            f"another writer is writing session {self.keys.session!r}",
            kind=Kind.OVERTAKEN,
            key=self.keys.tail,
            remedy="open it again to continue from the other writer's records, or share it: with shared=True, or "
            "with on_conflict='branch' where an integration opens it",
        )

    def decoded(self, view: View) -> SessionState:
        """The state that `latest` holds, without payloads that the tail lists as erased."""
        state = decode_state(view.latest, self.asked_policy, key=self.keys.latest)
        if view.torn:  # rule: bury-latest-read
            session.burial.bury_state(state, view.burials, since=view.latest.card.epoch)
        return state

    # records

    def ask(self, question: Callable[[Lookup], Steps[T]], *, whole: bool = False) -> Steps[T]:
        """Answer a question about single nodes or checkpoints; see `treering.session.lookup`.

        Reads only the rows that the question is about, or the index of the whole session if only that gives the right
        answer.

        Args:
            question: A function that gets a `Lookup` and answers the question with it.
            whole: The question is about rows all over the session, so all parts of the indexes are read together.
        """
        if self._index is None and self.known_view is not None:
            rows = self._looked(self.known_view)
            try:
                if not (yield from rows.odd(whole=whole)):
                    return (yield from question(session.row_lookup.RowLookup(rows, self.state.heads)))
            except journal.rows.OddError:
                pass
        return (yield from question(session.index_lookup.IndexLookup((yield from self.index()), self.state.heads)))

    def watch(self, life: str) -> Watch:
        """The watch that all followers of a life of the session through one store share."""
        memory = self.memory() if self.memory else journal.memory.Memory()
        return memory.watches.of(self.keys, life)

    def odd(self) -> Steps[bool]:
        """Whether an id occurs twice in the session, or might, or a node was recorded before its parent."""
        return (yield from self._looked(self.view).odd())

    def _looked(self, view: View) -> Rows:
        if self._rows is None or self._rows.view.life != view.life:
            self._rows = journal.rows.Rows(view, self.memory() if self.memory else journal.memory.Memory())
        elif self._rows.view is not view:
            self._rows.look(view)
        return self._rows

    def index(self) -> Steps[Index]:
        """The skeleton of the whole session, read once and then kept up to date; empty before its first record."""
        if self.known_view is None:
            return session.index.Index()
        if self._index is not None:
            self._index = self._extended(self._index, self.known_view)
        if self._index is None and not self.view.end:
            self._index = session.index.Index()
        if self._index is None:
            _, skeletons = yield from journal.read.skeletons(self.keys, self.view.life, end=self.view.end)
            if len(skeletons) < self.view.end:
                raise self._lost(len(skeletons))
            self._index = session.index.Index(skeletons)
        return self._index

    def let_index_go(self) -> None:
        """Free the memory of the index; it is read again when it is asked for."""
        self._index = None

    def _extended(self, index: Index, view: View) -> Index | None:
        start = index.end - view.tail.header.base
        if start < 0:
            return None
        index.extend(skeleton_of(line) for line in view.tail.lines[start:])
        return index

    def lines_at(self, positions: Iterable[int]) -> Steps[dict[int, bytes]]:
        """Record lines by position, from memory where possible."""
        wanted = list(positions)
        return (yield from self._looked(self.view).lines_at(wanted)) if wanted else {}

    def _lost(self, end: int) -> CorruptError:
        message = f"records are gone. end={end}, before={self.view.end}"
        return CorruptError(message, kind=Kind.LOST, key=self.keys.tail)
