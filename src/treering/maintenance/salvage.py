"""Find every record of a damaged session that can still be read, wherever it is stored. Never writes.

Rule 1: a record may lie in several places: segments, tail, `latest`. The first sound copy serves.
Rule 2: what was erased stays so. Whatever copy is read, the tombstone is put in its place if a register tells of the
erasure; and of two copies the one written under the newer epoch serves, which has it already.
Rule 3: memory holds one segment and, of all records, the positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec

from treering.errors import CorruptError, NotFoundError, UnavailableError
from treering.format.erasure import NONE, Burials
from treering.format.paths import NOT_OURS, SessionKeys, decode_id
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
from treering.journal.read import LOOKS_MAX, Segment, list_segments
from treering.journal.resume import read_registers
from treering.journal.view import deleted
from treering.storage.requests import Answer, Found, Get, Steps
from treering.storage.run import checked, list_all

NEWEST = 1 << 62
"""As an epoch: after every erasure."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be salvaged."""

    kind: str
    """`object`: damaged or missing, though other copies may have stood in for it. `records`: positions that are
    nowhere. `blob`: a large part. `checkpoint`: one that cannot be restored any more. `head`: a branch that had to be
    moved. `context`: messages that the agent had before it."""
    key: str
    message: str
    offset: int | None = None
    """Byte in the object."""
    first: int | None = None
    """First position lost, in the damaged session."""
    end: int | None = None
    """One past the last one."""
    ids: tuple[str, ...] = ()
    """What is known of the ids that are lost."""


class Source(msgspec.Struct, frozen=True):
    """A place where records lie."""

    key: str
    epoch: int
    """The erasures it takes account of."""
    lines: Mapping[int, bytes]
    """By position. Of a segment, empty: it is read again when it is needed."""
    segment: Segment | None = None


Part: TypeAlias = list[tuple[int, bytes]]
"""Some records in order: the position in the damaged session, and the line."""


class Salvage:
    """What is left of a session. Call `look` first."""

    def __init__(self, keys: SessionKeys) -> None:
        self.keys = keys
        self.life = ""
        self.card: Card | None = None
        self.latest: Latest | None = None
        """None: missing or damaged, perhaps but for the card."""
        self.tail: Tail | None = None
        """None: missing or damaged."""
        self.losses: list[Loss] = []
        self.epoch = 0
        """The erasures that are known of."""
        self._burials = NONE
        self._sources: list[Source] = []
        self._where: dict[int, int] = {}  # by position: the source that serves
        self._known: dict[int, str] = {}  # ids of lost records by position, as far as an index still names them
        self._end = 0  # how far the journal is known to have reached

    def look(self) -> Steps[None]:
        """Read everything once.

        Raises:
            NotFoundError: There is no such session, or it was deleted.
            FormatVersionError: A newer version wrote some of it; that may be sound.
            UnavailableError: The store does not answer, or the session changes all the time.
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
            raise NotFoundError(f"there is no session {self.keys.session!r}", kind="session", key=self.keys.latest)
        self._note_missing(latest, tail)
        fits = self.card is not None and self.card.life == self.life
        self._take_facts(header, self.card if fits else None)
        yield from self._look_at_segments()
        self._add(Source(self.keys.tail, NEWEST, in_tail))
        self._add(Source(self.keys.latest, self.card.epoch if fits and self.card else -1, in_latest))
        self._note_lost_records()

    @property
    def reach(self) -> int:
        """One past the last position of which a record is left."""
        return max(self._where, default=-1) + 1

    def parts(self) -> Iterator[Steps[Part]]:
        """Steps that give what can be read, from the first record to the last, each no more than a segment holds."""
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
            if error.kind == NOT_OURS:
                return None, {}
            content = data if self.keys.appends else salvage_content(data)
            return salvage_header(content), salvage_lines(content)
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
            if error.kind == NOT_OURS:
                return {}
            self.card = salvage_card(data, key=key)
            return salvage_lines(salvage_content(data))
        self.card = self.latest.card
        return salvage_lines(b"".join(self.latest.lines))

    def _bytes(self, answer: Answer, key: str) -> bytes | None:
        if isinstance(answer, CorruptError):  # of a store that keeps checksums of its own
            self._note_object(answer, key)
            return None
        return None if isinstance(answer, NotFoundError) else checked(answer, Found).data

    def _note_missing(self, latest: Answer, tail: Answer) -> None:
        if isinstance(latest, NotFoundError):
            self._lose("object", self.keys.latest, "the register is missing: title, counts and the agent's state")
        expected = self.card is None or self.card.covers > self.card.born
        if isinstance(tail, NotFoundError) and expected:
            self._lose("object", self.keys.tail, "the register is missing: what was not sealed")

    def _take_facts(self, header: TailHeader | None, card: Card | None) -> None:
        self.epoch = max(header.epoch if header else 0, card.epoch if card else 0)
        self._burials = Burials(
            (*(header.erased if header else ()), *(card.erased if card else ())),
            (*(header.burials.erasures if header else ()), *(card.erasures if card else ())),
        )
        if card is not None:
            self.card = msgspec.structs.replace(card, **dict.fromkeys(self._burials.facts_since(card.epoch), ""))
        self._end = max(self.tail.end if self.tail else 0, card.covers if card else 0)

    def _begun_since(self, tombstone: TailHeader) -> bool:
        """The card is of a later life than a tombstone in the tail: nothing was appended to that yet."""
        return self.card is not None and not self.card.dead and self.card.life != tombstone.life

    def _find_life(self, header: TailHeader | None) -> Steps[None]:
        """The life that the registers name; if both are lost, the one whose folder was written to last."""
        self.life = header.life if header else self.card.life if self.card else ""
        if self.life:
            return
        newest: tuple[int, str] = (-1, "")
        for entry in (yield from list_all(self.keys.home)):
            name, _, rest = entry.key.removeprefix(self.keys.home).partition("/")
            if rest.startswith("segments/") and (life := decode_id(name)):
                newest = max(newest, (entry.modified_ms, life))
        self.life = newest[1]

    # segments

    def _look_at_segments(self) -> Steps[None]:
        """Read all segments; one that vanished was merged, unless the same list shows it again."""
        if not self.life:
            return
        before: list[str] = []
        for _ in range(LOOKS_MAX):
            segments = yield from list_segments(self.keys, self.life)
            found, missing = yield from self._read_all(segments)
            if not missing or [segment.key for segment in segments] == before:
                self._take_segments(found, missing)
                return
            before = [segment.key for segment in segments]
        raise self._busy()

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
            self._lose("object", segment.key, "the store lists the segment and does not have it", names=segment)
        for segment, read in found.items():
            for error in read.errors:
                self._note_object(error, segment.key, names=segment)
            self._known |= read.lost
            self._add(Source(segment.key, segment.name.epoch, read.lines, segment))
        self._end = max([self._end, *(segment.name.end for segment in (*found, *missing))])

    def _busy(self) -> UnavailableError:
        return UnavailableError(
            "the session changes while it is being repaired", kind="busy", key=self.keys.tail, remedy="stop its writers"
        )

    # records

    def _add(self, source: Source) -> None:
        """Let a source serve where it is better than those before it."""
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
            if len(at_hand) > 1:  # two that overlap may take turns
                del at_hand[next(iter(at_hand))]
            at_hand[number] = lines
        if not lines.keys() >= set(positions):
            raise UnavailableError("what was read a moment ago is not there any more", kind="unstable", key=source.key)
        return [(at, self._burials.bury(lines[at], at)) for at in positions]

    def _note_lost_records(self) -> None:
        expected = 0
        for at in [*sorted(self._where), max(self._end, max(self._where, default=-1) + 1)]:
            if at > expected:
                self._lose_records(expected, at)
            expected = at + 1
        if self.tail is None and any(loss.key == self.keys.tail for loss in self.losses):
            message = "whatever the tail held from this position on"
            self.losses.append(Loss(kind="records", key=self.keys.tail, message=message, first=expected - 1))

    def _lose_records(self, first: int, end: int) -> None:
        segments = [source.segment for source in self._sources if source.segment is not None]
        holders = [each.key for each in segments if each.name.first <= first < each.name.end]
        sealed = first < max(self.card.sealed if self.card else 0, self.tail.header.base if self.tail else 0)
        holder = holders[0] if holders else self.keys.segments(self.life) if sealed else self.keys.tail
        ids = tuple(name for at, name in sorted(self._known.items()) if first <= at < end and name)
        message = f"{counted(end - first)} can be read nowhere"
        self.losses.append(Loss(kind="records", key=holder, message=message, first=first, end=end, ids=ids))

    def _note_object(self, error: CorruptError, key: str, *, names: Segment | None = None) -> None:
        self._lose("object", error.key or key, error.args[0], offset=error.offset, names=names)

    def _lose(
        self, kind: str, key: str, message: str, *, offset: int | None = None, names: Segment | None = None
    ) -> None:
        first, end = (names.name.first, names.name.end) if names else (None, None)
        self.losses.append(Loss(kind=kind, key=key, message=message, offset=offset, first=first, end=end))


def counted(count: int) -> str:
    """A number of records, in words."""
    return f"{count} record{'' if count == 1 else 's'}"


def _read(segment: Segment) -> Steps[Salvaged]:
    """What can be read of one segment.

    Raises:
        NotFoundError: It is not there.
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
