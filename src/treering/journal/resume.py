"""Read the state of a session in two GETs, however long its history.

Rule 1: the two answers may come from different moments. They fit together if they are of one life, the tail begins at
or below the position that `latest` covers and reaches at least that far, and the tail's epoch is not the older one.
Also, both list the same erasures up to that epoch, and both have the same mark at the covered position: the last
covered record is the same. Otherwise read again.
Rule 2: if the same two versions are read twice and do not fit, that is damage. It is reported as such, never as an
empty session. A version never comes back, so both existed at one moment. But a key is absent both before a life and
after its purge, so a missing object has to be missing three times.

Theory of operation
-------------------
`latest` only ever moves forward and the tail never drops a record that `latest` does not call sealed. So a pair that
does not fit was read before and after a seal, close, delete or creation by another process, and the next read is of a
later moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from treering._late import Kind
from treering.errors import CorruptError, NotFoundError
from treering.format.erasure import erased_mark
from treering.format.paths import SessionKeys
from treering.journal.register import Attempts, LatestRegister, TailRegister
from treering.journal.view import View, deleted, empty_tail
from treering.storage.requests import ABSENT, Answer, Found, Get, Steps

APART = "they are of two copies that went on apart"
REMEDY = (
    "put all objects of the session back from one of the copies, and delete what that has not; "
    "`treering copy SESSION PLACE --name NEW` brings the session of the other copy in beside it, and "
    "`treering repair SESSION --into NEW` makes a session of what is left"
)


class Registers:
    """One read of both registers, decoded; None stands for a missing object."""

    def __init__(self, keys: SessionKeys, latest: Answer, tail: Answer) -> None:
        cells = LatestRegister(keys).cell(latest), TailRegister(keys).cell(tail)
        self.keys = keys
        self.latest, self.tail = cells[0].value, cells[1].value
        self.latest_version, self.tail_version = cells[0].version, cells[1].version
        self.versions = (self.latest_version, self.tail_version)
        self.absent = self.latest is None and self.tail is None
        self.card = self.latest.card if self.latest else None
        rest = tail.data[self.tail.complete :] if isinstance(tail, Found) and self.tail else b""
        self._ends_whole = b"\n" not in rest

    @property
    def life(self) -> str:
        """The life of these registers, deleted or not; if they are torn, perhaps an older life.

        Empty if no life ever existed, also if tombstones show that one is about to begin.
        """
        if self.tail is None or (self.card is not None and self.tail.header.dead):
            return self.card.life if self.card else ""
        return self.tail.header.life

    @property
    def dead(self) -> bool:
        """Whether the session was deleted, and not created again.

        A tombstone in the tail beside the card of another life says nothing about that life: the tail may have been
        read before that life's first append, and the card long after.
        """
        if self.tail is None:
            return self.card is not None and self.card.dead
        if not self.tail.header.dead:
            return False
        # rule: tombstone-of-life, own-tombstone
        return self.card is None or self.card.dead or self.card.life == self.tail.header.life

    @property
    def in_creation(self) -> bool:
        """Whether a life has `latest` and no tail: nothing was appended so far. Any process may continue it."""
        if self.card is None or self.card.dead or self.card.covers != self.card.born:  # rule: missing-tail, adopt
            return False
        return self.tail is None or (self.tail.header.dead and self.tail.header.life != self.card.life)

    @property
    def torn(self) -> bool:
        """Whether the tail is missing, or is a tombstone of another life than the card: read again.

        The tail may have been read before the first append of the card's life, or long after the end of that life.
        """
        return not self.dead and (self.tail is None or self.tail.header.dead)

    @property
    def proven_by(self) -> int:
        """How many reads in a row must show these versions to prove that they existed at one moment."""
        return 3 if ABSENT in self.versions else 2  # rule: absent-thrice

    @property
    def misfit(self) -> str:
        """Why the two answers do not fit together; empty if they do."""
        card, tail = self.card, self.tail
        if card is None:
            return "the card register is missing beside a tail"
        if tail is None:
            return f"the tail is missing, but records up to {card.covers} are covered"
        if card.dead or tail.header.dead or tail.header.life != card.life:  # rule: fit-life
            return f"the registers are of different lives {card.life} and {tail.header.life}"
        if tail.header.base > card.covers:  # rule: fit-base
            return f"the tail begins at {tail.header.base}, after what is covered ({card.covers})"
        if tail.end < card.covers:  # rule: fit-end
            return f"the tail ends at {tail.end}, before what is covered ({card.covers})"
        if tail.header.epoch < card.epoch:
            return f"the tail is of epoch {tail.header.epoch}, older than {card.epoch}"
        erased = erased_mark(card.erased, card.erasures, card.epoch)
        if tail.header.epoch == card.epoch and tail.header.erased_mark(card.epoch) != erased:  # rule: fit-erased
            return f"the registers list different things as erased, both by epoch {card.epoch}: {APART}"
        if card.mark and tail.mark_at(card.covers) not in (card.mark, ""):  # rule: fit-mark
            return f"the tail holds other records than those up to {card.covers} that are covered: {APART}"
        return ""

    def view(self) -> View | None:
        """The view of these answers, or None if they do not fit."""
        if self.latest is None or (not self.in_creation and self.misfit):
            return None
        tail = self.tail
        if self.in_creation or tail is None:
            tail = empty_tail(self.latest.card, self.keys.session, nonce="")
        return View(
            keys=self.keys,
            latest=self.latest,
            latest_version=self.latest_version,
            tail=tail,
            tail_version=self.tail_version,
            # Whole lines of a torn append would come before the lines added next: rewrite the log instead.
            in_place=self.keys.appends and not self.in_creation and self._ends_whole,  # rule: append-behind-whole
        )


def unused(keys: SessionKeys) -> Registers:
    """The registers of a name that was never used, or was purged, without reading them."""
    missing = NotFoundError(f"there is no session {keys.session!r}", kind=Kind.SESSION, key=keys.latest)
    return Registers(keys, missing, missing)


def read_registers(sessions: Sequence[SessionKeys]) -> Steps[list[tuple[Answer, Answer]]]:
    """Read `latest` and the tail of each session of a store, in parallel."""
    latest = tuple(Get(keys.latest, register=True) for keys in sessions)
    answers = yield (*latest, *(Get(keys.tail, register=True) for keys in sessions))
    return list(zip(answers[: len(latest)], answers[len(latest) :], strict=True))


def look(keys: SessionKeys) -> Steps[Registers]:
    """Read both registers once, and decode them."""
    ((latest, tail),) = yield from read_registers((keys,))
    return Registers(keys, latest, tail)


def resume(keys: SessionKeys) -> Steps[View]:
    """Read both registers until they fit together: two GETs, and two more per concurrent seal.

    Raises:
        NotFoundError: There never was such a session.
        SessionDeletedError: It was deleted.
        CorruptError: A register is damaged, or the two do not belong together.
        UnavailableError: The store does not answer, or the session changes faster than it can be read.
    """
    attempts = Attempts(keys.tail)
    while attempts.another():
        seen = yield from look(keys)
        if seen.absent or (seen.dead and not seen.life):
            raise NotFoundError(f"there is no session {keys.session!r}", kind=Kind.SESSION, key=keys.latest)
        if seen.dead:
            raise deleted(keys)
        looks = attempts.in_a_row(seen.versions)
        if (view := seen.view()) is not None and (not seen.torn or looks == seen.proven_by):  # rule: adopt-at-rest
            return view
        if looks == seen.proven_by:  # rule: misfit-twice
            key = keys.latest if seen.latest is None else keys.tail
            raise CorruptError(seen.misfit, kind=Kind.REGISTERS, key=key, remedy=REMEDY)


def resume_life(keys: SessionKeys, life: str) -> Steps[View]:
    """Read both registers of a session again that had this life; see `resume`.

    Raises:
        SessionDeletedError: It was deleted since, and perhaps purged, or created again.
    """
    try:
        view = yield from resume(keys)
    except NotFoundError as error:
        if error.kind != Kind.SESSION:
            raise
        raise deleted(keys) from error  # a purge leaves nothing that says so
    view.require_same_life(life)
    return view
