"""Keep what the store has of a session in order: `latest`, the segments, and nothing of what was erased.

Rule 1: nothing is written here that a record does not tell; whoever is killed in between leaves only waste.
Rule 2: what others did meanwhile is looked at before it is written over, and folded.
Rule 3: a context that leaves for nodes which are not at hand takes their records into `latest` first, and is recorded
after that; so two reads resume it even if the process is killed in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from treering.checkpoint.policy import Policy
from treering.errors import UnavailableError
from treering.format.paths import SessionKeys
from treering.format.record import decode_record
from treering.ids import new_nonce, now_ms
from treering.journal.append import Appended
from treering.journal.cover import cover
from treering.journal.erase import SweptBlobs, heal, sweep, sweep_blobs
from treering.journal.limits import Upkeep
from treering.journal.merge import Merged, tidy
from treering.journal.moment import require_one_moment
from treering.journal.purge import sweep_folders
from treering.journal.read import Survey, survey
from treering.journal.resume import resume
from treering.journal.view import View
from treering.session.burial import bury_line, latest_burier
from treering.session.reader import Reader, Restored
from treering.session.state import SessionState, decode_state, encode_state, knows
from treering.storage.requests import Steps

CARD_LAG_MS_MAX = 60_000
"""After that long an append is followed by a new card, so that lists show what is active."""
RACES_MAX = 100  # lost races in a row before a handle gives up
SEALS_PER_MERGE = 16  # after so many seals a handle tidies up when it is closed, if not before


class Keeper(Reader):
    """One handle that tends a session and says nothing in it."""

    def __init__(self, keys: SessionKeys, policy: Policy | None) -> None:
        super().__init__(keys, policy)
        self._upkeep = Upkeep()
        self._seals = 0
        self._tail_bytes = 0
        self._latest_bytes = 0
        self._card_ms = 0
        """When this handle last wrote the card, or tried to."""
        self._sound_life = ""
        """The life whose registers and segments are known to be of one moment."""

    @property
    def may_write(self) -> bool:
        """Registers and segments of the session are known to be of one moment."""
        return self._view is not None and self._view.life == self._sound_life

    def require_one_moment(self) -> Steps[None]:
        """Look once, before the first thing is written: a session that was restored or copied in parts is left alone.

        Raises:
            CorruptError: Registers and segments are of two moments.
        """
        if not self.may_write:
            yield from require_one_moment(self.view)
            self._sound_life = self.view.life

    # what others did

    def look_again(self) -> Steps[None]:
        """Look what others did."""
        now = yield from resume(self.keys)
        now.require_same_life(self.view.life)
        self.look_on(now)

    def look_on(self, view: View) -> None:
        """Fold what `view` shows beyond our state."""
        self._absorb(view)

    # what it costs

    def weigh(self) -> None:
        """Take the sizes of both registers from what was read: on an object store, about a quarter of their text."""
        self._tail_bytes = sum(map(len, self.view.tail.lines)) // (1 if self.keys.appends else 4)
        self._latest_bytes = sum(map(len, self.view.latest.lines)) // 4

    def _count(self, outcome: Appended) -> None:
        """Keep track of what the tail costs: its size, and how much of it was sent again."""
        view = self.view
        dropped = outcome.view.tail.header.base > view.tail.header.base
        if view.in_place and not dropped:
            self._tail_bytes += outcome.sent_bytes
            return
        before = 0 if dropped else self._tail_bytes
        self._upkeep.appended(sent_bytes=outcome.sent_bytes, new_bytes=max(0, outcome.sent_bytes - before))
        self._tail_bytes = outcome.sent_bytes

    @property
    def seal_is_due(self) -> bool:
        """Sealing pays now."""
        return self._upkeep.should_seal(
            tail_bytes=self._tail_bytes, latest_bytes=self._latest_bytes, in_place=self.keys.appends
        )

    @property
    def card_is_due(self) -> bool:
        """The card in the store lacks a title or the like, or is a minute old; see `renew_card`.

        A card that covers more than we know of is newer than what we would write. A clock that was set back counts as a
        minute.
        """
        if self._view is None or self._view.end <= self._view.covers:
            return False
        card = self._view.latest.card
        age_ms = now_ms() - (self._card_ms or card.updated)
        return not 0 <= age_ms < CARD_LAG_MS_MAX or self.state.tells_more_than(card)

    # latest and segments

    def renew_card(self) -> Steps[None]:
        """Let the card tell what was recorded. It lies in `latest`, which then accounts for it all.

        Whoever covers more writes the newer card, so none ever goes back; who lost a race against an older one tries
        again.
        """
        self._card_ms = now_ms()  # should it fail, it is not tried again with every append
        for _ in range(RACES_MAX):
            if (yield from self.cover(seal=False)) or not self.card_is_due:
                return

    def seal(self) -> Steps[None]:
        """Write the unsealed records to a segment, and `latest` to go with it."""
        yield from self.cover(seal=True)
        self._upkeep.sealed()
        self._seals += 1
        self._tail_bytes = 0 if self.view.sealed == self.view.end else self._tail_bytes

    def cover(self, *, seal: bool, again: bool = False, lines: Mapping[str, bytes] | None = None) -> Steps[bool]:
        """Let `latest` account for the tail, and carry `lines`, too; see `treering.journal.cover`.

        Returns:
            False if somebody else did.
        """
        self.view.require_known_critical(knows)
        yield from self.require_one_moment()
        if self.view.torn:
            yield from self.heal()  # and what was to be covered was made up before: the caller looks again
            return False
        state = self._common_state()
        state.lines |= lines or {}
        if self.view.end == self.view.covers:
            state.lines |= self._carried()
        outcome = yield from cover(
            self.view, state.card, encode_state(state), seal=seal, nonce=new_nonce(), again=again
        )
        self._view = outcome.view
        if outcome.done:
            self._latest_bytes = outcome.latest_bytes
            self._card_ms = now_ms()
        return outcome.done

    def _common_state(self) -> SessionState:
        """The state as everybody folds it; ours may follow a head of its own."""
        state = self.state
        if state.head == state.heads.current and state.context_at == state.tip:
            return state
        return self._folded()

    def _folded(self) -> SessionState:
        """The state that the registers tell."""
        state = decode_state(self.view.latest, self.policy, key=self.keys.latest)
        state.advance(self.view.fresh_lines)
        return state

    def _carried(self) -> dict[str, bytes]:
        """Records that `latest` carries: brought, perhaps, for a move that is not recorded yet."""
        return {decode_record(line).id: line for line in self.view.latest.lines[1:]}

    def bring(self, restored: Restored) -> Steps[None]:
        """Put the records of `restored` where two reads find them, before anything refers to them."""
        for _ in range(RACES_MAX):
            state = self.state
            held = state.lines.keys() - state.borrowed
            needed = restored.lines.items()
            missing = {name: bury_line(line, self.burials) for name, line in needed if name not in held}
            state.lines |= missing
            state.borrowed |= missing.keys()
            if not missing or (yield from self.cover(seal=False, again=True, lines=missing)):
                self.state.borrowed -= missing.keys()
                return
            yield from self.look_again()
        raise UnavailableError("others write faster than we can", kind="busy", key=self.keys.latest)

    # what was erased, and what is in pieces

    def heal(self) -> Steps[None]:
        """Let `latest` follow the tail in what was erased, whoever began that."""
        bury = latest_burier(self._policy, self.keys.latest)
        view = yield from heal(self.keys, self.view.life, bury, unique=new_nonce)
        self.look_on(view)

    def finish_erasing(self) -> Steps[tuple[int, SweptBlobs]]:
        """Take what the tail says was erased out of everything else.

        Returns:
            How many segments were rewritten, and what became of the blobs.
        """
        yield from self.heal()
        segments = yield from sweep(self.keys, self.view.life, unique=new_nonce)
        return segments, (yield from sweep_blobs(self.keys, self.view.life))

    def tidy(self, *, everything: bool = False) -> Steps[Merged]:
        """Merge small segments, and finish what others began to erase.

        Args:
            everything: Merge whatever can be merged, and remove what lives that are over left behind.
        """
        yield from self.require_one_moment()
        where: Survey | None = yield from survey(self.keys, self.view.life)
        if where is not None and where.burials:
            yield from self.look_again()
            yield from self.finish_erasing()
            where = None
        if everything:
            yield from sweep_folders(self.keys, nonce=new_nonce())
        self._seals = 0
        return (yield from tidy(self.keys, new_nonce, everything=everything, where=where))

    @property
    def should_tidy(self) -> bool:
        """This handle wrote enough segments since it last tidied up to do so again, at some quiet moment."""
        return self._seals >= SEALS_PER_MERGE
