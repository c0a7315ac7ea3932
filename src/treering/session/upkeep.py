"""Keep a session fast to resume: seal segments, write `latest` and the card, merge, and finish erasures.

A handle does the upkeep that its own appends make due. It adds no records, and all of it can be left to the next
handle.
Rule 1: `latest` holds the state as every reader folds it, not the position of the handle that writes it.
Rule 2: the records that a move needs are written to `latest` before the move is recorded. So two reads resume the
session even if the process is killed between these two writes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from treering import journal, session
from treering.errors import TreeringError
from treering.format.paths import SessionKeys, file_name
from treering.format.record import decode_record
from treering.ids import new_nonce, now_ms
from treering.journal import limits
from treering.journal.limits import SEALED_BYTES_DROP, SealSchedule
from treering.journal.register import ATTEMPTS_MAX, Attempts
from treering.session.content import Restored
from treering.session.position import Position
from treering.session.replica import Replica
from treering.session.snapshot import decode_state, encode_state
from treering.session.state import SessionState, knows
from treering.storage.requests import Steps

if TYPE_CHECKING:
    from treering.journal.append import Landed
    from treering.journal.erase import SweptBlobs
    from treering.journal.merge import Merged
    from treering.journal.read import Survey

CARD_LAG_MS_MAX = 60_000
"""If the card is older than this, an append also writes a new card, so that lists show which sessions are active."""
SEALS_PER_MERGE = 16  # after that many seals a handle merges segments when it is closed
SEALS_PER_MERGE_OPEN = 64  # after that many seals it merges right after an append, whose caller waits for it


def open_now(keys: SessionKeys) -> Steps[Collection[str]]:
    """Return the ids of the answers that are being written, by the newest records: two GETs."""
    now = Replica(keys, None)
    yield from now.load()
    return now.state.streams


class Upkeep:
    """Does the upkeep of one session for one handle."""

    def __init__(self, replica: Replica, position: Position) -> None:
        self._replica = replica
        self._position = position
        self._schedule = SealSchedule()
        self._seals = 0
        self._tail_bytes = 0
        self._latest_bytes = 0
        self._card_ms = 0
        """The last activity that the card shows which this handle wrote; or when it last tried to renew the card."""

    def require_one_moment(self) -> Steps[None]:
        """Check once, before the first write: refuse to write to a session that was restored or copied in parts.

        Raises:
            CorruptError: Registers and segments are of two moments.
        """
        if not self._replica.is_sound:
            yield from journal.moment.require_one_moment(self._replica.view)
            self._replica.is_sound = True

    # costs

    def measure(self) -> None:
        """Estimate the stored sizes of both registers: on an object store, about a quarter of their text."""
        self._tail_bytes = sum(map(len, self._replica.view.tail.lines)) // (1 if self._replica.keys.appends else 4)
        self._latest_bytes = sum(map(len, self._replica.view.latest.lines)) // 4

    def count(self, outcome: Landed) -> None:
        """Track the cost of the tail: its size, and how much of it was uploaded again."""
        view = self._replica.view
        dropped = outcome.view.tail.header.base > view.tail.header.base
        if view.in_place and not dropped:
            self._tail_bytes += outcome.sent_bytes
            return
        before = 0 if dropped else self._tail_bytes
        self._schedule.appended(sent_bytes=outcome.sent_bytes, new_bytes=max(0, outcome.sent_bytes - before))
        self._tail_bytes = outcome.sent_bytes

    @property
    def seal_is_due(self) -> bool:
        """Whether sealing pays now."""
        if self._replica.keys.appends:
            return self._tail_bytes >= limits.LOG_BYTES_SEAL
        return self._schedule.should_seal(tail_bytes=self._tail_bytes, latest_bytes=self._latest_bytes)

    @property
    def card_is_due(self) -> bool:
        """Whether the stored card lacks a new fact, such as a title, or is a minute old; see `renew_card`.

        A stored card that covers more records than this handle knows is newer than the one it would write. If the clock
        was set back, the card counts as a minute old.
        """
        view = self._replica.known_view
        if view is None or self._replica.state.end <= view.latest.card.covers:
            return False
        card = view.latest.card
        age_ms = now_ms() - (self._card_ms or card.updated)
        return not 0 <= age_ms < CARD_LAG_MS_MAX or self._replica.state.tally.tells_more_than(card)

    # latest and segments

    def renew_card(self) -> Steps[None]:
        """Write a new card. It is part of `latest`, which then covers all records.

        A card is never replaced by one that covers fewer records; a handle that lost the race to an older card tries
        again.
        """
        self._card_ms = now_ms()  # if this fails, not every append tries it again
        for _ in range(ATTEMPTS_MAX):  # no error after the last attempt: the card just stays older
            if (yield from self.cover(seal=False)) or not self.card_is_due:
                return

    def seal(self) -> Steps[None]:
        """Write the unsealed records to a segment, and a new `latest` that covers them."""
        yield from self.cover(seal=True)
        self._schedule.sealed()
        self._seals += 1
        self._tail_bytes = 0 if self._replica.view.sealed == self._replica.view.end else self._tail_bytes

    def drop_sealed(self) -> Steps[None]:
        """Rewrite the tail if it holds many records that are in segments; called when no append is about to follow.

        Nothing depends on it, and the next append drops these records anyway; so it raises no errors.
        """
        view = self._replica.view
        sealed = view.tail.lines[: max(0, view.sealed - view.tail.header.base)]
        stored_bytes = sum(map(len, sealed)) // (1 if self._replica.keys.appends else 4)  # as in `measure`
        if view.torn or stored_bytes < SEALED_BYTES_DROP:
            return
        try:
            dropped = yield from journal.append.drop_sealed(view, new_nonce())
        except TreeringError:
            return
        if dropped is not None:
            self._replica.note(dropped)

    def cover(
        self,
        *,
        seal: bool,
        again: bool = False,
        lines: Mapping[str, bytes] | None = None,
        segments: Sequence[str] | None = None,
    ) -> Steps[bool]:
        """Write `latest` so that it covers the tail, and add `lines` to it; see `treering.journal.cover`.

        Returns:
            False if another writer replaced it first.
        """
        self._replica.view.require_known_critical(knows)
        yield from self.require_one_moment()
        if self._replica.view.torn:
            # rule: heal-anybody
            yield from self.heal()  # the state was computed before the heal, so the caller has to start again
            return False  # rule: cover-anew
        state = self._common_state()
        state.lines |= lines or {}
        if self._replica.view.end == self._replica.view.covers:  # rule: carry-on
            state.lines |= self._carried()
        outcome = yield from journal.cover.cover(
            self._replica.view,
            state.card,
            encode_state(state),
            seal=seal,
            nonce=new_nonce(),
            now_ms=now_ms(),
            again=again,
            segments=segments,
        )
        self._replica.replace(outcome.view)
        if outcome.done:
            self._latest_bytes = outcome.latest_bytes
            self._card_ms = max(self._card_ms, journal.marker.active_ms(state.card, now_ms()))
        return outcome.done

    def _common_state(self) -> SessionState:
        """The state as every reader folds it; the handle's own may follow another head."""
        state = self._replica.state
        if self._position.behind:  # rule: own-is-not-common
            return self._folded()
        if state.head == state.heads.current and state.context_at == state.tip:
            return state
        return self._folded()

    def _folded(self) -> SessionState:
        """The state folded from the registers."""
        state = decode_state(self._replica.view.latest, self._replica.policy, key=self._replica.keys.latest)
        state.advance(self._replica.view.fresh_lines)
        return state

    def _carried(self) -> dict[str, bytes]:
        """Records in `latest`; some may be pinned for a move that is not recorded yet."""
        return {decode_record(line).id: line for line in self._replica.view.latest.lines[1:]}

    def pin(self, restored: Restored) -> Steps[None]:
        """Write the records of `restored` to `latest` before any record refers to them, so that two reads resume it."""
        attempts = Attempts(self._replica.keys.latest)
        while attempts.another():
            state = self._replica.state
            held = state.lines.keys() - state.borrowed  # rule: bring-from-tail
            lines = {name: line for name, line in restored.lines.items() if name not in held}
            burial, gone = session.burial, self._replica.burials
            missing = {name: burial.bury_line(line, gone) for name, line in lines.items()}  # rule: bury-brought
            state.lines |= missing
            state.borrowed |= missing.keys()
            if not missing or (yield from self.cover(seal=False, again=True, lines=missing)):  # rule: bring-until-done
                self._replica.state.borrowed -= missing.keys()
                return
            yield from self._replica.catch_up()
            self._replica.check()

    # erasures and merging

    def heal(self) -> Steps[None]:
        """Remove from `latest` the payloads that the tail lists as erased, whichever process began the erasure."""
        bury = session.burial.latest_burier(self._replica.asked_policy, self._replica.keys.latest)
        view = yield from journal.erase.heal(self._replica.keys, self._replica.view.life, bury, unique=new_nonce)
        self._replica.absorb(view)
        self._replica.check()

    def finish_erasing(self) -> Steps[tuple[int, SweptBlobs]]:
        """Remove the payloads that the tail lists as erased from all other objects.

        Returns:
            The number of rewritten segments, and the blobs that were deleted or kept.
        """
        yield from self.heal()
        keys, life = self._replica.keys, self._replica.view.life
        segments = yield from journal.erase.sweep(keys, life, unique=new_nonce)
        yield from self.sweep_streams()  # rule: erase-pieces
        blobs = yield from journal.erase.sweep_blobs(keys, life)
        yield from self._position.ensure_context(blobs=True)  # a part of it may have been erased
        if segments:
            yield from self._name_segments()
        return segments, blobs

    def sweep_streams(self) -> Steps[int]:
        """Delete the pieces of answers that have ended, left by writers that were killed or late; return how many.

        One LIST, and no further request if there are no pieces.
        """
        keys = self._replica.keys
        return (yield from journal.stream.sweep_streams(keys, self._replica.view.life, lambda: open_now(keys)))

    def optimize(self, *, everything: bool = False) -> Steps[Merged]:
        """Merge small segments, and finish erasures that another process began.

        Args:
            everything: Merge all segments that can be merged, and remove leftovers of earlier lives and ended streams.
        """
        yield from self.require_one_moment()
        where: Survey | None = yield from journal.read.survey(self._replica.keys, self._replica.view.life)
        if where is not None and where.burials:  # rule: tidy-erases
            yield from self._replica.catch_up()
            self._replica.check()
            yield from self.finish_erasing()
            where = None
        if everything:
            yield from journal.purge.sweep_folders(self._replica.keys, nonce=new_nonce())
            yield from self.sweep_streams()  # rule: tidy-pieces
        self._seals = 0
        if everything:
            yield from self.drop_sealed()
        merged = yield from journal.merge.optimize(self._replica.keys, new_nonce, everything=everything, where=where)
        if merged.outputs:
            yield from self._name_segments()
        return merged

    def _name_segments(self) -> Steps[None]:
        """Write the names of the current segments to `latest`, so that readers need not list them."""
        keys, life = self._replica.keys, self._replica.view.life
        found, _, _ = journal.read.choose((yield from journal.read.list_segments(keys, life)))
        yield from self.cover(seal=False, again=True, segments=[file_name(segment.key) for segment in found])

    def should_optimize(self, *, quiet: bool) -> bool:
        """Whether this handle wrote enough segments since its last merge to merge again; sooner if no caller waits."""
        return self._seals >= (SEALS_PER_MERGE if quiet else SEALS_PER_MERGE_OPEN)
