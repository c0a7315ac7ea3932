"""Find every readable record of a damaged session, wherever it is stored. Never writes.

Rule 1: a record may be in several places: segments, tail, `latest`. The first undamaged copy is used.
Rule 2: erased payloads stay erased. If a register lists the erasure, a tombstone replaces the payload of whichever copy
is read. And of two copies the one written under the newer epoch is used, which has the tombstone already.
Rule 3: memory holds one segment, and the positions of all records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec

from treering.errors import CorruptError, NotFoundError, UnavailableError
from treering.format.erasure import NONE, Burials
from treering.format.paths import SessionKeys
from treering.format.register import Card, Latest, Tail, TailHeader, decode_latest, decode_tail
from treering.format.salvage import (
    Salvaged,
    salvage_card,
    salvage_content,
    salvage_header,
    salvage_lines,
    salvage_segment,
)
from treering.format.segment import read_segment
from treering.journal.read import Segment, list_segments, newest_life
from treering.journal.register import Attempts, lost_end
from treering.journal.resume import read_registers
from treering.journal.view import deleted
from treering.kinds import Kind
from treering.session.state import without_facts
from treering.storage.requests import Answer, Found, Get, Steps
from treering.storage.run import checked, found_in

NEWEST = 1 << 62
"""As an epoch: after every erasure."""


class RepairLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A loss that a repair could not prevent."""

    kind: Kind
    """`object`: damaged or missing, though other copies may have replaced it. `records`: positions that no object
    holds. `blob`: a large part. `checkpoint`: a checkpoint that can no longer be restored. `head`: a branch that had to
    be moved. `context`: messages of the agent's context. `stream`: the stored pieces of an answer that was being
    written."""
    key: str
    message: str
    offset: int | None = None
    """Byte in the object."""
    first: int | None = None
    """First position lost, in the damaged session."""
    end: int | None = None
    """One past the last position lost."""
    ids: tuple[str, ...] = ()
    """Known ids of the lost records."""


class Source(msgspec.Struct, frozen=True):
    """An object that holds records."""

    key: str
    epoch: int
    """The epoch of the erasures applied to it."""
    lines: Mapping[int, bytes]
    """Lines by position. Empty for a segment, which is read again when needed."""
    segment: Segment | None = None


Part: TypeAlias = list[tuple[int, bytes]]
"""Some records in order: the position in the damaged session, and the line."""


class Salvage:
    """The readable records of a damaged session. Call `look` first."""

    def __init__(self, keys: SessionKeys) -> None:
        self.keys = keys
        self.life = ""
        self.card: Card | None = None
        self.latest: Latest | None = None
        """None if it is missing or damaged; its card may still be readable."""
        self.tail: Tail | None = None
        """None if it is missing or damaged."""
        self.losses: list[RepairLoss] = []
        self.epoch = 0
        """The newest epoch that a register lists."""
        self._burials = NONE
        self._sources: list[Source] = []
        self._where: dict[int, int] = {}  # by position: the source to use
        self._known: dict[int, str] = {}  # ids of lost records by position, if an index has them
        self._end = 0  # the known end of the journal

    def look(self) -> Steps[None]:
        """Read everything once.

        Raises:
            NotFoundError: There is no such session, or it was deleted.
            FormatVersionError: A newer version wrote a part of it, which may be undamaged.
            UnavailableError: The store does not answer, or the session keeps changing.
        """
        ((latest, tail),) = yield from read_registers((self.keys,))
        header, in_tail = self._look_at_tail(tail)
        in_latest = self._look_at_latest(latest)
        if header is not None and header.dead and self._begun_since(header):
            header, self.tail = None, None
        if header.dead if header else self.card is not None and self.card.dead:
            raise deleted(self.keys)
        yield from self._find_life(header)
        if not self.life and isinstance(latest, NotFoundError) and isinstance(tail, NotFoundError):
            raise NotFoundError(f"there is no session {self.keys.session!r}", kind=Kind.SESSION, key=self.keys.latest)
        self._note_missing(latest, tail)
        fits = self.card is not None and self.card.life == self.life
        self._take_facts(header, self.card if fits else None)
        yield from self._look_at_segments()
        self._add(Source(self.keys.tail, NEWEST, in_tail))
        self._add(Source(self.keys.latest, self.card.epoch if fits and self.card else -1, in_latest))
        self._note_lost_records()

    @property
    def reach(self) -> int:
        """One past the last readable position."""
        return max(self._where, default=-1) + 1

    def parts(self) -> Iterator[Steps[Part]]:
        """Steps that return the readable records in order, each at most the records of one segment."""
        at_hand: dict[int, Mapping[int, bytes]] = {}
        for number, positions in groupby(sorted(self._where), self._where.__getitem__):
            yield self._part(number, list(positions), at_hand)

    # registers

    def _look_at_tail(self, answer: Answer) -> tuple[TailHeader | None, dict[int, bytes]]:
        key = self.keys.tail
        data = self._bytes(answer, key)
        if data is None:
            return None, {}
        try:
            self.tail = decode_tail(data, key=key, compressed=not self.keys.appends)
        except CorruptError as error:
            self._note_object(error, key)
            if error.kind == Kind.OWNER:
                return None, {}
            content = data if self.keys.appends else salvage_content(data)
            return salvage_header(content), salvage_lines(content)
        if isinstance(answer, Found) and answer.lost_bytes:
            self._note_object(lost_end(answer, key=key), key)
        header = self.tail.header
        return header, dict(enumerate(self.tail.lines, header.base))

    def _look_at_latest(self, answer: Answer) -> dict[int, bytes]:
        key = self.keys.latest
        data = self._bytes(answer, key)
        if data is None:
            return {}
        try:
            self.latest = decode_latest(data, key=key)
        except CorruptError as error:
            self._note_object(error, key)
            if error.kind == Kind.OWNER:
                return {}
            self.card = salvage_card(data, key=key)
            return salvage_lines(salvage_content(data))
        self.card = self.latest.card
        return salvage_lines(b"".join(self.latest.lines))

    def _bytes(self, answer: Answer, key: str) -> bytes | None:
        if isinstance(answer, CorruptError):  # from a store that checks its own checksums
            self._note_object(answer, key)
            return None
        there = found_in(answer)
        return None if there is None else there.data

    def _note_missing(self, latest: Answer, tail: Answer) -> None:
        if isinstance(latest, NotFoundError):
            self._lose(Kind.OBJECT, self.keys.latest, "the register is missing: title, counts and the agent's state")
        expected = self.card is None or self.card.covers > self.card.born
        if isinstance(tail, NotFoundError) and expected:
            self._lose(Kind.OBJECT, self.keys.tail, "the register is missing: what was not sealed")

    def _take_facts(self, header: TailHeader | None, card: Card | None) -> None:
        self.epoch = max(header.epoch if header else 0, card.epoch if card else 0)
        self._burials = Burials(
            (*(header.erased if header else ()), *(card.erased if card else ())),
            (*(header.burials.erasures if header else ()), *(card.erasures if card else ())),
        )
        if card is not None:
            self.card = without_facts(card, self._burials.facts_since(card.epoch))
        self._end = max(self.tail.end if self.tail else 0, card.covers if card else 0)

    def _begun_since(self, tombstone: TailHeader) -> bool:
        """Whether the card is of a later life than the tombstone in the tail: that life has no append yet."""
        return self.card is not None and not self.card.dead and self.card.life != tombstone.life

    def _find_life(self, header: TailHeader | None) -> Steps[None]:
        """Find the life that the registers name; if both are lost, the one whose folder was written last."""
        self.life = header.life if header else self.card.life if self.card else ""
        if self.life:
            return
        self.life = yield from newest_life(self.keys)

    # segments

    def _look_at_segments(self) -> Steps[None]:
        """Read all segments; one that vanished was merged, unless the same list shows it again."""
        if not self.life:
            return
        before: list[str] = []
        attempts = Attempts(self.keys.tail)
        while attempts.another():
            segments = yield from list_segments(self.keys, self.life)
            found, missing = yield from self._read_all(segments)
            if not missing or [segment.key for segment in segments] == before:
                self._take_segments(found, missing)
                return
            before = [segment.key for segment in segments]

    def _read_all(self, segments: Sequence[Segment]) -> Steps[tuple[dict[Segment, Salvaged], list[Segment]]]:
        found: dict[Segment, Salvaged] = {}
        missing: list[Segment] = []
        for segment in segments:
            try:
                read = yield from _read(segment)
            except NotFoundError:
                missing.append(segment)
                continue
            found[segment] = msgspec.structs.replace(read, lines=dict.fromkeys(read.lines, b""))
        return found, missing

    def _take_segments(self, found: Mapping[Segment, Salvaged], missing: Sequence[Segment]) -> None:
        for segment in missing:
            self._lose(Kind.OBJECT, segment.key, "the store lists the segment and does not have it", names=segment)
        for segment, read in found.items():
            for error in read.errors:
                self._note_object(error, segment.key, names=segment)
            self._known |= read.lost
            self._add(Source(segment.key, segment.name.epoch, read.lines, segment))
        self._end = max([self._end, *(segment.name.end for segment in (*found, *missing))])

    def _busy(self) -> UnavailableError:
        return UnavailableError(
            "the session changes while it is being repaired",
            kind=Kind.BUSY,
            key=self.keys.tail,
            remedy="stop its writers",
        )

    # records

    def _add(self, source: Source) -> None:
        """Use a source for the positions where it is better than the earlier ones."""
        self._sources.append(source)
        for at in source.lines:
            other = self._where.get(at)
            if other is None or self._sources[other].epoch < source.epoch:
                self._where[at] = len(self._sources) - 1

    def _part(self, number: int, positions: list[int], at_hand: dict[int, Mapping[int, bytes]]) -> Steps[Part]:
        source = self._sources[number]
        lines = at_hand.get(number, source.lines)
        if source.segment is not None and number not in at_hand:
            try:
                lines = (yield from _read(source.segment)).lines
            except NotFoundError:
                raise self._busy() from None
            if len(at_hand) > 1:  # two overlapping segments may alternate
                del at_hand[next(iter(at_hand))]
            at_hand[number] = lines
        if not lines.keys() >= set(positions):
            raise UnavailableError("an object that was read a moment ago is gone", kind=Kind.UNSTABLE, key=source.key)
        return [(at, self._burials.bury(lines[at], at)) for at in positions]

    def _note_lost_records(self) -> None:
        expected = 0
        for at in [*sorted(self._where), max(self._end, max(self._where, default=-1) + 1)]:
            if at > expected:
                self._lose_records(expected, at)
            expected = at + 1
        if self.tail is None and any(loss.key == self.keys.tail for loss in self.losses):
            message = "whatever the tail held from this position on"
            self.losses.append(RepairLoss(kind=Kind.RECORDS, key=self.keys.tail, message=message, first=expected - 1))

    def _lose_records(self, first: int, end: int) -> None:
        segments = [source.segment for source in self._sources if source.segment is not None]
        holders = [each.key for each in segments if each.name.first <= first < each.name.end]
        sealed = first < max(self.card.sealed if self.card else 0, self.tail.header.base if self.tail else 0)
        holder = holders[0] if holders else self.keys.segments(self.life) if sealed else self.keys.tail
        ids = tuple(name for at, name in sorted(self._known.items()) if first <= at < end and name)
        message = f"{counted(end - first)} can be read nowhere"
        self.losses.append(RepairLoss(kind=Kind.RECORDS, key=holder, message=message, first=first, end=end, ids=ids))

    def _note_object(self, error: CorruptError, key: str, *, names: Segment | None = None) -> None:
        self._lose(Kind.OBJECT, error.key or key, error.args[0], offset=error.offset, names=names)

    def _lose(
        self, kind: Kind, key: str, message: str, *, offset: int | None = None, names: Segment | None = None
    ) -> None:
        first, end = (names.name.first, names.name.end) if names else (None, None)
        self.losses.append(RepairLoss(kind=kind, key=key, message=message, offset=offset, first=first, end=end))


def counted(count: int) -> str:
    """A number of records, in words."""
    return f"{count} record{'' if count == 1 else 's'}"


def _read(segment: Segment) -> Steps[Salvaged]:
    """Read the undamaged records of one segment.

    Raises:
        NotFoundError: It does not exist.
        FormatVersionError: A newer version wrote it.
    """
    (answer,) = yield (Get(segment.key),)
    if isinstance(answer, CorruptError):
        return Salvaged({}, (answer,))
    data = checked(answer, Found).data
    try:
        lines = read_segment(data, key=segment.key)
    except CorruptError as error:
        found = salvage_segment(data, key=segment.key)
        return found if found.errors else msgspec.structs.replace(found, errors=(error,))
    return Salvaged(salvage_lines(b"".join(lines)))
