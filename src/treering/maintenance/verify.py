"""Read all objects of a session and report all damage, each with its place and a remedy. Never writes.

Reading stops at the first error, verifying does not: after a damaged register the segments are still read, after a
damaged segment the next ones. Memory holds one segment and the skeletons of all records.

Other processes may merge segments or erase during a check. Then what it read is of several moments, which looks like
damage. So such a check is discarded and made again: findings are reported only if nothing moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import msgspec

from treering.checkpoint.checkpoint import chain_of, entry_of, is_pruned, without_label
from treering.errors import CorruptError, FormatVersionError, NotFoundError, TreeringError
from treering.format.blobs import blob_refs_in
from treering.format.erasure import NONE, Burials
from treering.format.paths import ChunkName, SessionKeys, decode_id, parse_chunk, parse_segment, session_of_latest
from treering.format.record import Skeleton, decode_record, encode_record, skeleton_of
from treering.format.register import Card, Latest, Tail, decode_latest, decode_tail
from treering.journal.moment import contradiction, require_one_moment
from treering.journal.read import Segment, choose, list_segments, newest_life, segment_lines
from treering.journal.register import Attempts, lost_end
from treering.journal.resume import Registers, look, read_registers
from treering.journal.stream import ChunkRegister
from treering.journal.view import View
from treering.kinds import Kind
from treering.maintenance.reindexing import list_markers
from treering.session.replay import Replay
from treering.session.upkeep import open_now
from treering.storage.effects import Items, Stream
from treering.storage.requests import Answer, Found, Get, Steps
from treering.storage.run import found_in, list_all
from treering.store.inventory import stored_sessions
from treering.store.recent import is_complete
from treering.transcript.graph import Graph

BLOBS_AT_ONCE_MAX = 8  # each may be many megabytes
STRAYS_AT_ONCE_MAX = 64  # empty objects
DAMAGE, ODDITY = "damage", "oddity"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One defect or oddity that verifying found."""

    severity: str
    """`damage`: stored content is lost or unreadable. `oddity`: unusual, but nothing is lost."""
    kind: str
    key: str
    message: str
    offset: int | None = None
    """Byte in the object."""
    first: int | None = None
    """First position affected."""
    end: int | None = None
    """One past the last position affected."""
    remedy: str = ""


Checked: TypeAlias = tuple[str, list[Finding]]
"""The name of a session or parcel, and its findings."""


def verify_session(keys: SessionKeys) -> Steps[list[Finding]]:
    """Check one session: registers, segments, coverage, blobs, checkpoint chains, the graph.

    Raises:
        NotFoundError: There is no such session.
        UnavailableError: The store does not answer.
        AccessError: It refuses.
    """
    check = yield from _checked(keys)
    if check.gone is not None:
        raise check.gone
    return check.findings


def _checked(keys: SessionKeys) -> Steps[_Check]:
    """Check one session, again while other processes merge or erase."""
    attempts = Attempts(keys.tail)
    while attempts.another():
        check = _Check(keys)
        try:
            yield from check.session()
        except NotFoundError as error:
            check.gone = error
            return check
        if not (yield from check.moved()):
            return check


def verify_store(prefix: str = "", *, appends: bool) -> Stream[Checked]:
    """Check all sessions of a namespace, one after the other; deleted ones are skipped.

    A session whose card is lost is in no list, so its tail is searched for as well.
    """
    markers, complete = (yield from list_markers(prefix)), (yield from is_complete(prefix))
    for name, key in (yield from stored_sessions(prefix, appends=appends)).items():
        keys = SessionKeys(prefix, name, appends)
        listed = markers.pop(session_of_latest(keys.latest, prefix) or "", [])
        if key not in (keys.latest, keys.tail):
            message = "the card cannot be read and its key does not tell the session's name"
            remedy = CorruptError.usual_remedy
            finding = Finding(severity=DAMAGE, kind=Kind.CARD, key=key, message=message, remedy=remedy)
            yield Items([(name, [finding])])
            continue
        check = yield from _checked(keys)
        deleted = check.gone is not None
        yield from check.markers(listed, deleted=deleted, expected=complete)
        if not deleted or check.findings:
            yield Items([(name, check.findings)])
    for encoded, listed in markers.items():
        check = _Check(SessionKeys(prefix, decode_id(encoded) or encoded, appends))
        yield from check.markers(listed, deleted=True, expected=False)
        if check.findings:
            yield Items([(check.keys.session, check.findings)])


class _Check:
    """Collects the findings about one session."""

    def __init__(self, keys: SessionKeys) -> None:
        self.keys = keys
        self.findings: list[Finding] = []
        self.gone: NotFoundError | None = None
        """Why there is no such session, if there is none."""
        self._replay: Replay | None = None
        self._rows: dict[int, Skeleton] = {}
        self._digests: dict[int, str] = {}
        self._blobs: dict[str, int] = {}
        self._listed: Sequence[Segment] = ()
        self._named: str | None = None
        """The marker that the card names; None if it was not read."""
        self._erased: object = None
        """What the tail told about erasures when the check began; see `_erased_by`."""
        self._merged = False
        """Whether segments that the check began with were replaced during it."""
        self._vanished: list[Segment] = []
        """Segments that were gone when they were read."""

    def session(self) -> Steps[None]:
        ((latest_answer, tail_answer),) = yield from read_registers((self.keys,))
        latest, tail = self._latest(latest_answer), self._tail(tail_answer)
        self._erased = _erased_by(tail, tail_answer)
        if isinstance(latest_answer, NotFoundError) and isinstance(tail_answer, NotFoundError):
            raise NotFoundError(f"there is no session {self.keys.session!r}", kind=Kind.SESSION, key=self.keys.latest)
        if _is_deleted(latest, tail):
            raise NotFoundError(f"session {self.keys.session!r} was deleted", kind=Kind.SESSION, key=self.keys.tail)
        yield from self._registers(latest_answer, tail_answer, latest, tail)
        if latest is not None and not latest.card.dead:
            yield from self._marker(latest.card)
        if tail is not None and tail.header.dead:
            tail = None  # of the previous life: this one has no append yet
        life = tail.header.life if tail else latest.card.life if latest else (yield from newest_life(self.keys))
        if life:
            yield from self._segments(life, latest, tail)
            yield from self._stored_blobs(life)
            yield from self._foreign(life)
        self._graph()
        if (
            latest is not None and tail is not None and latest.card.epoch == tail.header.epoch
        ):  # else an erasure is pending
            self._compare()

    def moved(self) -> Steps[bool]:
        """Whether other processes merged or erased during the check, so that what it found may not be true.

        Segments that were read before they were merged are checked. Costs one GET if something was found, and else
        nothing.
        """
        if not self.findings:
            return bool(self._vanished)
        if self._merged:
            return True
        (answer,) = yield (Get(self.keys.tail, register=True),)
        try:
            tail = decode_tail(_bytes_of(answer) or b"", key=self.keys.tail, compressed=not self.keys.appends)
        except (CorruptError, FormatVersionError):
            tail = None
        return _erased_by(tail, answer) != self._erased

    def markers(self, listed: Sequence[str], *, deleted: bool, expected: bool) -> Steps[None]:
        """Check the markers of the session.

        Args:
            listed: The texts of listed markers (see `paths.Marker.text`); some may be gone since.
            deleted: There is no such session.
            expected: Each session of the store has a marker.
        """
        if self._named is None and not deleted:
            return  # the card cannot be read, which is reported
        if expected and not deleted and not self._named and not listed:
            self._unmarked()
        strays = [self.keys.marker(text) for text in listed if deleted or self._named not in ("", text)]
        for start in range(0, len(strays), STRAYS_AT_ONCE_MAX):
            part = strays[start : start + STRAYS_AT_ONCE_MAX]
            for key, answer in zip(part, (yield tuple(map(Get, part))), strict=True):
                if _bytes_of(answer) is not None:
                    message = "a marker that no session names, left by a kill; lists pass over it"
                    self._odd(Kind.STRAY, key, message)

    def _unmarked(self) -> None:
        self._odd(Kind.UNMARKED, self.keys.latest, "lists do not show the session: its marker is missing")

    def _marker(self, card: Card) -> Steps[None]:
        """Check that the card's marker exists; another process may replace it by a newer one during the check."""
        while card.marker and card.marker != self._named:
            self._named = card.marker
            (answer,) = yield (Get(self.keys.marker(card.marker)),)
            if _bytes_of(answer) is None:
                there = yield from look(self.keys)
                if there.card is None or there.card.dead or there.card.marker == card.marker:
                    self._unmarked()
                    return
                card = there.card
        self._named = card.marker

    def _find(self, error: TreeringError, key: str, *, first: int | None = None, end: int | None = None) -> None:
        self.findings.append(
            Finding(
                severity=DAMAGE,
                kind=error.kind,
                key=error.key or key,
                message=str(error),
                offset=error.offset,
                first=first,
                end=end,
                remedy=error.remedy or "restore the object from a copy; what else the session holds stays readable",
            )
        )

    def _odd(self, kind: Kind, key: str, message: str, at: int | None = None) -> None:
        end = None if at is None else at + 1
        self.findings.append(Finding(severity=ODDITY, kind=kind, key=key, message=message, first=at, end=end))

    def _latest(self, answer: Answer) -> Latest | None:
        found = _bytes_of(answer)
        if found is None:
            return None
        try:
            latest = decode_latest(found, key=self.keys.latest)
            if not latest.card.dead:
                self._replay = Replay(latest)
        except (CorruptError, FormatVersionError) as error:
            self._find(error, self.keys.latest)
            return None
        return latest

    def _tail(self, answer: Answer) -> Tail | None:
        found = _bytes_of(answer)
        if found is None:
            return None
        try:
            tail = decode_tail(found, key=self.keys.tail, compressed=not self.keys.appends)
        except (CorruptError, FormatVersionError) as error:
            self._find(error, self.keys.tail)
            return None
        if isinstance(answer, Found) and answer.lost_bytes:
            self._find(lost_end(answer, key=self.keys.tail), self.keys.tail)
        elif tail.complete < len(found):
            message = "an append was cut off. A kill or a power cut does that, and the append was not acknowledged; "
            message += "but if the disk lost the rest later, it was acknowledged, and later appends may be lost, too"
            self._odd(Kind.TORN, self.keys.tail, message, tail.end)
        return tail

    def _registers(
        self, latest_answer: Answer, tail_answer: Answer, latest: Latest | None, tail: Tail | None
    ) -> Steps[None]:
        """Check that both registers exist and fit together; a misfit must show the same versions when read again."""
        damaged = {finding.key for finding in self.findings if finding.severity == DAMAGE}
        if self.keys.latest in damaged or self.keys.tail in damaged:
            return
        seen = Registers(self.keys, latest_answer, tail_answer)
        if (view := seen.view()) is not None:
            yield from self._moment(view, unfinished=seen.in_creation)
            return
        other = yield from look(self.keys)
        if other.view() is None and other.versions == seen.versions:
            key = self.keys.latest if latest is None else self.keys.tail
            error = CorruptError(seen.misfit, kind=Kind.REGISTERS, key=key)
            self._find(error, key, first=tail.end if tail else 0, end=latest.card.covers if latest else None)

    def _moment(self, view: View, *, unfinished: bool) -> Steps[None]:
        """Check that registers and segments are of one moment; otherwise writers refuse the session.

        A backup writes its segments before the register that names them, so an interrupted one loses nothing.
        """
        try:
            yield from require_one_moment(view)
        except CorruptError as error:
            listed = yield from list_segments(self.keys, view.life)
            told = [segment for segment in listed if segment.name.end <= view.end]
            if unfinished and not (yield from contradiction(view, told)):
                self._odd(
                    Kind.UNFINISHED, view.keys.latest, "a backup to this place was cut short; run it again", view.end
                )
            else:
                self._find(error, view.keys.segments(view.life), first=view.end)

    def _segments(self, life: str, latest: Latest | None, tail: Tail | None) -> Steps[None]:
        segments = yield from list_segments(self.keys, life)
        self._listed = segments
        marks = tail.header.burials if tail is not None else NONE
        for segment in segments:
            yield from self._segment(segment, marks)
        if tail is not None:
            self._take(tail.lines, tail.header.base, self.keys.tail)
        base = tail.header.base if tail else latest.card.sealed if latest else 0
        self._coverage(segments, base, life)

    def _segment(self, segment: Segment, marks: Burials) -> Steps[None]:
        name = segment.name
        try:
            lines = yield from segment_lines(segment)
        except NotFoundError:
            self._vanished.append(segment)
            return
        except (CorruptError, FormatVersionError) as error:
            self._find(error, segment.key, first=name.first, end=name.end)
            return
        if marks.is_dirty(name):
            self._odd(
                Kind.DIRTY,
                segment.key,
                "it may hold what was erased: an erasure was cut short; erase again or optimize",
            )
        self._take(marks.bury_all(lines, name.first), name.first, segment.key)

    def _take(self, lines: Sequence[bytes], first: int, key: str) -> None:
        if self._replay is not None:
            self._replay.take(lines, first)
        for at, line in enumerate(lines, first):
            try:
                record = decode_record(line, key=key)
            except CorruptError as error:
                self._find(error, key, first=at, end=at + 1)
                continue
            plain = without_label(record)  # pruning removes it from segments, and not from the tail
            digest = hashlib.sha256(line if plain is record else encode_record(plain)).hexdigest()
            if not is_pruned(record) and self._digests.setdefault(at, digest) != digest:
                self._find(_differs(at, key), key, first=at, end=at + 1)
            self._rows.setdefault(at, skeleton_of(line))
            self._blobs |= dict.fromkeys(blob_refs_in(line), at)

    def _coverage(self, segments: Sequence[Segment], base: int, life: str) -> None:
        reach = 0
        places = sorted({(segment.name.first, segment.name.end) for segment in segments} | {(base, base)})
        for first, end in places:
            if first > base:
                break
            if first > reach:
                message = f"no segment holds the positions {reach} to {first}"
                error = CorruptError(message, kind=Kind.MISSING_SEGMENT, key=self.keys.segments(life))
                self._find(error, self.keys.segments(life), first=reach, end=first)
            reach = max(reach, end)
        _, waste, chosen_reach = choose(segments)
        for segment in waste if chosen_reach >= base else ():  # with a gap no segment is superfluous
            self._odd(Kind.WASTE, segment.key, "its records are held by other segments as well; merging removes it")

    def _stored_blobs(self, life: str) -> Steps[None]:
        digests = sorted(self._blobs)
        for start in range(0, len(digests), BLOBS_AT_ONCE_MAX):
            part = digests[start : start + BLOBS_AT_ONCE_MAX]
            answers = yield tuple(Get(self.keys.blob(life, digest)) for digest in part)
            for digest, answer in zip(part, answers, strict=True):
                self._blob(digest, answer, self.keys.blob(life, digest))

    def _blob(self, digest: str, answer: Answer, key: str) -> None:
        at = self._blobs[digest]
        data = _bytes_of(answer)
        if data is None:
            error = CorruptError("a blob is missing", kind=Kind.MISSING_BLOB, key=key)
        elif hashlib.sha256(data).hexdigest() != digest:
            error = CorruptError("a blob's bytes do not have its digest", kind=Kind.BLOB, key=key)
        else:
            return
        self._find(error, key, first=at, end=at + 1)

    def _graph(self) -> None:
        rows = [self._rows[at] for at in sorted(self._rows)]
        for problem in Graph(rows).problems():
            self._odd(problem.kind, self.keys.tail, f"node {problem.node!r} is of kind {problem.kind}", problem.at)
        entries = {row.id: entry_of(row) for row in rows if row.type == "checkpoint"}
        pruned = {row.target for row in rows if row.type == "edit" and row.kind == "prune"}
        for entry in entries.values():
            if entry.id in pruned:
                continue
            try:
                chain_of(entry.id, entries)
            except CorruptError as error:
                error.kind = "checkpoint"
                self._find(error, self._holder(entry.at), first=entry.at, end=entry.at + 1)

    def _compare(self) -> None:
        """Check that `latest` agrees with the records."""
        different = self._replay.differences if self._replay is not None else []
        if different:
            self._find(
                CorruptError(
                    f"latest contradicts the records: {', '.join(different)}",
                    kind=Kind.CONTRADICTION,
                    key=self.keys.latest,
                    remedy="no record is lost: `treering repair` makes a session of the records alone",
                ),
                self.keys.latest,
            )

    def _holder(self, at: int) -> str:
        """The key of the object that holds a position."""
        holders = (each.key for each in self._listed if each.name.first <= at < each.name.end)
        return next(holders, self.keys.tail)

    def _foreign(self, life: str) -> Steps[None]:
        """Report unknown objects in the session's folder; they are never read or removed."""
        pieces: dict[str, ChunkName] = {}
        listed = yield from list_all(self.keys.home)
        self._compare_segments({entry.key for entry in listed if entry.key.startswith(self.keys.segments(life))})
        for entry in listed:
            if not self.keys.owns(entry.key, life):
                self._odd(Kind.FOREIGN, entry.key, "no object of this session; it is left alone")
            elif (name := parse_chunk(entry.key)) is not None and entry.key.startswith(self.keys.streams(life)):
                pieces[entry.key] = name
        if pieces:
            yield from self._pieces(life, pieces)

    def _compare_segments(self, later: Collection[str]) -> None:
        """Compare the segments with a later list of them: merging replaces segments, sealing adds some behind them."""
        end = max((segment.name.end for segment in self._listed), default=0)
        names = {key: name for key in later if (name := parse_segment(key)) is not None}
        self._merged = {segment.key for segment in self._listed} != {key for key in names if names[key].first < end}
        for segment in self._vanished if not self._merged else ():
            message = "the store lists the segment and does not have it"
            error = CorruptError(message, kind=Kind.MISSING_SEGMENT, key=segment.key)
            self._find(error, segment.key, first=segment.name.first, end=segment.name.end)

    def _pieces(self, life: str, pieces: Mapping[str, ChunkName]) -> Steps[None]:
        """Check the pieces of answers that are being written, and report leftover pieces of other answers."""
        try:
            is_open = yield from open_now(self.keys)
        except TreeringError:
            return  # damage of the registers is reported already
        for key, name in pieces.items():
            if name.stream not in is_open:
                self._odd(
                    Kind.WASTE, key, "pieces of an answer that has ended; `optimize(everything=True)` removes them"
                )
                continue
            try:
                yield from ChunkRegister(self.keys, life, name).read()
            except (CorruptError, FormatVersionError) as error:
                self._find(error, key)


def _erased_by(tail: Tail | None, answer: Answer) -> object:
    """Tells one state of erasures from another: the life and epoch of a tail, or the version of an unreadable one."""
    if tail is not None:
        return tail.header.life, tail.header.epoch
    return answer.version if isinstance(answer, Found) else None


def _differs(at: int, key: str) -> CorruptError:
    message = f"position {at} is stored twice and differs: another process overwrote acknowledged records"
    remedy = (
        "`treering repair` takes what the tail says, else what one segment says; a copy of the store may hold the other"
    )
    return CorruptError(message, kind=Kind.DIFFERS, key=key, remedy=remedy)


def _is_deleted(latest: Latest | None, tail: Tail | None) -> bool:
    """A tombstone in the tail says nothing about a card of another life; see `Registers.dead`."""
    if tail is None or not tail.header.dead:
        return latest is not None and latest.card.dead
    return latest is None or latest.card.dead or latest.card.life == tail.header.life


def _bytes_of(answer: Answer) -> bytes | None:
    there = found_in(answer)
    return None if there is None else there.data
