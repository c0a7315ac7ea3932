"""Learn the state of a session in two GETs, however long its history.

Rule 1: the two answers may come from different moments. They fit together when they are of one life, the tail begins
at or below what `latest` covers and reaches at least that far, and the tail's epoch is not the older one. Otherwise
read again.
Rule 2: the same two versions twice that do not fit are damage, and are reported as such; never an empty session. A
version is there once and never again, so both were there at one moment. But nothing is there before a life and after
its purge: what is missing has to be missing three times.
Rule 3: a log is read after `latest`. It shows records before they are safe, and another writer may have had their
positions by the time that `latest` covers them; what is covered already is safe, and in every log that is read later.

Theory of operation
-------------------
`latest` only ever moves forward and the tail never drops what `latest` has not sealed. So a pair that does not fit
was answered on two sides of somebody's seal, close, delete or creation, and the next look is of a later moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from treering.errors import CorruptError, NotFoundError, TreeringError, UnavailableError
from treering.format.paths import SessionKeys
from treering.format.register import Card, Latest, Tail, decode_latest, decode_tail
from treering.journal.view import View, deleted, empty_tail
from treering.storage.requests import ABSENT, Answer, Found, Get, Steps, Version

# Each further look means that somebody sealed, closed, deleted or created within one round trip.
LOOKS_MAX = 50


class Registers:
    """One look at both registers, decoded; None stands for a missing object."""

    def __init__(self, keys: SessionKeys, latest: Answer, tail: Answer) -> None:
        found_latest, found_tail = _found(latest), _found(tail)
        self.keys = keys
        self.latest_version = found_latest.version if found_latest else ABSENT
        self.tail_version = found_tail.version if found_tail else ABSENT
        self.latest: Latest | None = decode_latest(found_latest.data, key=keys.latest) if found_latest else None
        self.tail: Tail | None = (
            decode_tail(found_tail.data, key=keys.tail, compressed=not keys.appends) if found_tail else None
        )
        rest = found_tail.data[self.tail.complete :] if found_tail and self.tail else b""
        self._ends_whole = b"\n" not in rest

    @property
    def versions(self) -> tuple[Version, Version]:
        return self.latest_version, self.tail_version

    @property
    def card(self) -> Card | None:
        return self.latest.card if self.latest else None

    @property
    def life(self) -> str:
        """The life that these registers are of, dead or alive; while they are torn, perhaps an older one.

        Empty if there never was one, and tombstones stand where one is about to begin.
        """
        if self.tail is None or (self.card is not None and self.tail.header.dead):
            return self.card.life if self.card else ""
        return self.tail.header.life

    @property
    def absent(self) -> bool:
        return self.latest is None and self.tail is None

    @property
    def dead(self) -> bool:
        """Deleted, and not created again.

        A tombstone in the tail beside the card of another life says nothing about that life: it may have been answered
        before its first append, and the card long after.
        """
        if self.tail is None:
            return self.card is not None and self.card.dead
        if not self.tail.header.dead:
            return False
        return self.card is None or self.card.dead or self.card.life == self.tail.header.life

    @property
    def in_creation(self) -> bool:
        """`latest` of a life stands, its tail does not yet: nothing was appended so far. Anybody may go on."""
        if self.card is None or self.card.dead or self.card.covers != self.card.born:
            return False
        return self.tail is None or (self.tail.header.dead and self.tail.header.life != self.card.life)

    @property
    def torn(self) -> bool:
        """The tombstone in the tail is of another life than the card: look again.

        It may have been answered before that life's first append, or long after that life's own end; and so may a tail
        that is missing.
        """
        return not self.dead and (self.tail is None or self.tail.header.dead)

    @property
    def proven_by(self) -> int:
        """How many looks in a row must show these versions until they are known to have been there at one moment."""
        return 3 if ABSENT in self.versions else 2

    @property
    def misfit(self) -> str:
        """Why the two answers cannot be of one moment; empty if they fit."""
        card, tail = self.card, self.tail
        if card is None:
            return "the card register is missing beside a tail"
        if tail is None:
            return f"the tail is missing, but records up to {card.covers} are covered"
        if card.dead or tail.header.dead or tail.header.life != card.life:
            return f"the registers are of different lives {card.life} and {tail.header.life}"
        if tail.header.base > card.covers:
            return f"the tail begins at {tail.header.base}, after what is covered ({card.covers})"
        if tail.end < card.covers:
            return f"the tail ends at {tail.end}, before what is covered ({card.covers})"
        if tail.header.epoch < card.epoch:
            return f"the tail is of epoch {tail.header.epoch}, older than {card.epoch}"
        return ""

    def view(self) -> View | None:
        """The view these answers give, or None if they do not fit."""
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
            # Whole lines of a torn append would stand between what is there and what is added: write it anew.
            in_place=self.keys.appends and not self.in_creation and self._ends_whole,
            durable=not self.keys.appends or self.in_creation,
        )


def read_registers(sessions: Sequence[SessionKeys]) -> Steps[list[tuple[Answer, Answer]]]:
    """Read `latest` and the tail of each session of a store: in parallel, but logs after `latest` (rule 3)."""
    latest = tuple(Get(keys.latest, register=True) for keys in sessions)
    tails = tuple(Get(keys.tail, register=True) for keys in sessions)
    if any(keys.appends for keys in sessions):
        return list(zip((yield latest), (yield tails), strict=True))
    answers = yield (*latest, *tails)
    return list(zip(answers[: len(latest)], answers[len(latest) :], strict=True))


def look(keys: SessionKeys) -> Steps[Registers]:
    """Read both registers once, and decode them."""
    ((latest, tail),) = yield from read_registers((keys,))
    return Registers(keys, latest, tail)


def resume(keys: SessionKeys) -> Steps[View]:
    """Read both registers until they fit together: two GETs, and two more per seal that passes in between.

    Raises:
        NotFoundError: There never was such a session.
        SessionDeletedError: It was deleted.
        CorruptError: A register is damaged, or the two cannot belong together.
        UnavailableError: The store does not answer, or the session changes faster than it can be read.
    """
    before: tuple[Version, Version] | None = None
    looks = 0
    for _ in range(LOOKS_MAX):
        seen = yield from look(keys)
        if seen.absent or (seen.dead and not seen.life):
            raise NotFoundError(f"there is no session {keys.session!r}", kind="session", key=keys.latest)
        if seen.dead:
            raise deleted(keys)
        looks = looks + 1 if seen.versions == before else 1
        if (view := seen.view()) is not None and (not seen.torn or looks == seen.proven_by):
            return view
        if looks == seen.proven_by:
            raise CorruptError(seen.misfit, kind="registers", key=keys.latest if seen.latest is None else keys.tail)
        before = seen.versions
    raise UnavailableError("the session changes faster than it can be read", kind="busy", key=keys.tail)


def _found(answer: Answer) -> Found | None:
    if isinstance(answer, Found):
        return answer
    if isinstance(answer, NotFoundError):
        return None
    if isinstance(answer, TreeringError):
        raise answer
    raise TypeError(f"driver answered {type(answer).__name__} to a get")
