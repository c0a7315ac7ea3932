"""Update one session in a backup to the current state of its original, also while the original is in use.

A session in a backup has segments and `latest`, and no tail, like a session that was just imported. So one swap of one
object takes it from one state to the next.
Rule 1: all copied objects are of one moment; see `treering.store.moment`.
Rule 2: segments and blobs are written first, then `latest` is swapped, then unneeded objects are deleted. A run killed
in between leaves the earlier state. A backup has markers of its own; see `treering.journal.marker`.
Rule 3: the original is read once more before the swap: if a payload was erased there since the first read, the copy is
repeated.
Rule 4: content that the original no longer has is removed from a backup only on request. This concerns a session that
was deleted, or created again, or that lost records because an older copy was restored over it.
Rule 5: only objects whose names the backup lacks are read, checked and written. Damage in the original never replaces
sound content in a backup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from treering.errors import ConflictError, CorruptError, NotFoundError, UnavailableError
from treering.format.blobs import blob_refs_in
from treering.format.paths import ChunkName, SegmentName, SessionKeys, file_name, parse_segment
from treering.format.record import skeleton_of
from treering.format.register import Card, Latest
from treering.format.segment import build_segment
from treering.ids import new_nonce
from treering.journal import marker
from treering.journal.erase import rewritten
from treering.journal.life import free_name
from treering.journal.moment import contradiction, require_one_moment
from treering.journal.read import Segment, choose, segment_content
from treering.journal.register import Attempts, LatestRegister, Swapped
from treering.journal.resume import Registers, look, resume_life
from treering.journal.rows import record_at
from treering.journal.stream import ChunkRegister
from treering.journal.view import View
from treering.kinds import Kind
from treering.session.snapshot import encode_state
from treering.storage.effects import Job, on, tell
from treering.storage.requests import Driver, Entry, Found, Get, Put, Steps, Version, Written
from treering.storage.run import ask, delete_all, list_all
from treering.store.loading import Progress
from treering.store.moment import Moment, in_batches, read_blobs, read_moment

_is_plain = re.compile(r"[0-9a-z]+")


class Mirrored(msgspec.Struct, frozen=True):
    """The result for one session."""

    records: int
    objects: int = 0
    """How many objects were written; 0 if the backup was up to date."""
    bytes: int = 0
    missing: tuple[str, ...] = ()
    """Digests of blobs that records refer to and that are missing or damaged in the original."""


def _is_backup(view: View) -> bool:
    """Whether nothing was ever appended here; then segments behind the end are left from an interrupted backup."""
    return not view.tail.header.nonce


def require_backup(view: View) -> None:
    """Require that nothing was ever appended to a session: it is a backup, and no session in use.

    Raises:
        ConflictError: It has appends of its own.
    """
    if not _is_backup(view):
        raise _in_use(view.keys)


def _in_use(keys: SessionKeys) -> ConflictError:
    return ConflictError(
        "a session of that name is in use there, not only backed up", kind=Kind.BACKUP, key=keys.latest,
        remedy="back up into a place of its own",
    )  # fmt: skip


def _latest(moment: Moment) -> Latest:
    """Return the `latest` of the backup, which covers every record."""
    view, lines = moment.view, encode_state(moment.state)
    card = msgspec.structs.replace(
        moment.state.card,
        session=view.keys.session,
        life=view.life,
        write=new_nonce(),
        epoch=view.epoch,
        erased=view.tail.header.erased,
        erasures=view.burials.erasures,
        covers=view.end,
        sealed=view.end,
        mark=view.mark_at(view.end),
        born=view.end,
        segments=(),
        dead=False,
        lines=len(lines),
    )
    # A repeated run writes the same marker, so that a killed run leaves no extra one.
    unique = view.latest.card.write if _is_plain.fullmatch(view.latest.card.write) else new_nonce()
    return Latest(card=marker.first_marked(card, ms=marker.marked_ms(view.latest.card), unique=unique), lines=lines)


class Mirror:
    """Updates one session in a backup.

    Args:
        keys: The session, in the store that the job is run against.
        target: The store of the backup.
        there: The session in that store, with the same name.
        replace: Replace the session even against rule 4.
        progress: Called with the number of bytes done so far.
    """

    def __init__(
        self, keys: SessionKeys, target: Driver, there: SessionKeys, *, replace: bool, progress: Progress
    ) -> None:
        self._keys, self._target, self._there = keys, target, there
        self._replace, self._progress = replace, progress
        self._objects = self._bytes = 0
        self._missing: set[str] = set()

    def copy(self) -> Job[Mirrored]:
        """Copy the objects that the backup lacks, and swap its `latest`.

        Raises:
            NotFoundError: The original does not exist, or was deleted.
            ConflictError: The backup does not hold an earlier state of the same session.
            CorruptError: The original is damaged, and the backup lacks the damaged object.
            UnavailableError: A store does not answer, or the original changes faster than it can be copied.
        """
        attempts = Attempts(self._keys.tail)
        while attempts.another():
            moment = yield from read_moment(self._keys)
            if not _is_backup(moment.view) and (yield from contradiction(moment.view, moment.listed)):
                yield from require_one_moment(moment.view)  # raises, unless another process sealed in between
                continue
            latest = _latest(moment)
            seen, version = yield from self._look(moment)
            if seen is not None:
                if (yield from self._is_current(moment, latest, seen)):
                    return Mirrored(moment.view.end)
                yield from self._require_older(moment, seen)
            self._missing.clear()
            try:
                wanted = yield from self._copy(moment)
            except NotFoundError:
                continue  # it was merged or erased in the meantime
            now = yield from resume_life(self._keys, moment.view.life)
            if now.epoch != moment.view.epoch:
                continue
            old = seen.card if seen is not None else None
            yield from on(self._target, self._swap(latest, version, old))
            yield from on(self._target, self._clear(wanted))
            return Mirrored(moment.view.end, self._objects, self._bytes, tuple(sorted(self._missing)))

    # reading the backup

    def _look(self, moment: Moment) -> Job[tuple[Registers | None, Version]]:
        """The registers in the backup, None if it has none, and the version of its `latest`."""
        try:
            seen = yield from on(self._target, look(self._there))
        except CorruptError as error:
            if not self._replace:
                raise ConflictError(
                    f"the backup itself is damaged: {error}", kind=Kind.BACKUP, key=error.key, remedy=_REPLACE
                ) from error
            damaged = yield from on(self._target, ask(Get(self._there.latest, register=True), Found))
            return None, damaged.version
        if seen.absent or seen.dead:
            stones = yield from on(self._target, free_name(self._there, nonce=new_nonce()))
            if stones.tail is not None and stones.tail.header.life == moment.view.life:
                raise self._conflict("this very session was deleted in the backup", "purge it there, then run it again")
            return None, stones.latest_version
        if not seen.in_creation:
            raise _in_use(self._there)
        return seen, seen.latest_version

    def _conflict(self, message: str, remedy: str) -> ConflictError:
        return ConflictError(message, kind=Kind.BACKUP, key=self._there.latest, remedy=remedy)

    def _require_older(self, moment: Moment, seen: Registers) -> Job[None]:
        """Raise if content of the backup would be lost (rule 4)."""
        if not self._replace and (why := (yield from self._newer(moment, seen))):
            raise self._conflict(why, _REPLACE)

    def _newer(self, moment: Moment, seen: Registers) -> Job[str]:
        """Why content of the backup would be lost; empty if the original continues from it."""
        card, view = seen.card, moment.view
        if card is None or card.life != view.life:
            return "the session was deleted and created again; the backup holds the one before"
        if card.covers > view.end or card.epoch > view.epoch:
            return (
                f"the backup holds {card.covers} records and the session {view.end}: it went back to an earlier moment"
            )
        if card.covers and not (yield from self._has_same_record(moment, seen, card.covers - 1)):
            return "the backup holds records that the session lost: it went back to an earlier moment and on from there"
        return ""

    def _has_same_record(self, moment: Moment, seen: Registers, at: int) -> Job[bool]:
        """Whether the original has the last record of the backup, and so all records before it.

        If both have the segment that holds it, no segment is read, since names are never used twice.
        """
        here = {segment.name.unique for segment in moment.segments}
        entries = yield from on(self._target, self._list())
        there = [name for entry in entries if (name := parse_segment(entry.key))]
        if any(name.first <= at < name.end and name.unique in here for name in there):
            return True
        view = seen.view()
        try:
            last = (yield from on(self._target, record_at(view, at))) if view is not None else None
        except CorruptError:
            last = None
        if last is None:
            return True  # the backup's copy is damaged, and will be replaced by an undamaged one
        record = yield from record_at(moment.view, at)
        return record is not None and _identity(record) == _identity(last)

    def _is_current(self, moment: Moment, latest: Latest, seen: Registers) -> Job[bool]:
        """Whether the backup is up to date and complete."""
        there = seen.latest
        if there is None or moment.chunks or _told_by(there.card) != _told_by(latest.card):
            return False
        if there.lines[:1] != latest.lines[:1]:
            return False
        keys = {entry.key for entry in (yield from on(self._target, self._list()))}
        listed = [segment for key in keys if (segment := _segment(key)) and segment.name.end <= moment.view.end]
        blobs = {file_name(entry.key) for entry in moment.blobs}
        held = set(map(file_name, keys))
        return choose(listed)[2] == moment.view.end and blobs <= held and len(keys) == self._count_needed(listed, blobs)

    def _count_needed(self, listed: list[Segment], blobs: set[str]) -> int:
        """The number of objects that the backup needs."""
        return len(choose(listed)[0]) + len(blobs)

    def _list(self) -> Steps[list[Entry]]:
        """Segments and blobs in the backup, of any life."""
        entries = yield from list_all(self._there.home)
        return [
            entry
            for entry in entries
            if (life := _life_of(entry.key, self._there)) and self._there.owns(entry.key, life)
        ]

    # copying

    def _copy(self, moment: Moment) -> Job[set[str]]:
        """Write missing objects; return the keys of all objects that the moment needs."""
        sizes = {entry.key: entry.size for entry in (yield from on(self._target, self._list()))}
        view, needed = moment.view, set[str]()
        wanted = yield from self._copy_blobs(moment, sizes)  # first, so that records never refer to missing blobs
        for segment in moment.segments:
            clean = not view.burials.is_dirty(segment.name)
            erased = view.tail.header.erased_mark(view.epoch)
            name = segment.name if clean else segment.name.at_epoch(view.epoch, erased)
            key = self._there.segment(view.life, name)
            wanted.add(key)
            if key in sizes and (not clean or sizes[key] == segment.size):
                continue
            try:
                content = yield from segment_content(segment)
            except CorruptError:
                if key in sizes:
                    continue  # one of the two was truncated: this one
                raise
            needed |= _blobs_of(view.burials.bury_all(content.lines, name.first))
            data = content.data if clean else rewritten(segment, content.data, view.burials, key=key)
            yield from self._put(key, data)
        if moment.rest:
            first = view.end - len(moment.rest)
            name = SegmentName.marked(first, view.end, view.epoch, new_nonce(), view.marks(first, view.end))
            key = self._there.segment(view.life, name)
            yield from self._put(key, build_segment(moment.rest, key=key))
            needed |= _blobs_of(moment.rest)
            wanted.add(key)
        for chunk in moment.chunks:
            place = ChunkName(chunk.header.stream, chunk.header.number)
            register = ChunkRegister(self._there, view.life, place)
            yield from self._put(register.key, register.encode(chunk))
            wanted.add(register.key)
        listed = {file_name(entry.key) for entry in moment.blobs}
        self._missing |= needed - listed
        return wanted

    def _copy_blobs(self, moment: Moment, sizes: dict[str, int]) -> Job[set[str]]:
        listed = {file_name(entry.key): entry for entry in moment.blobs}
        there = {digest: self._there.blob(moment.view.life, digest) for digest in listed}
        lacking = {digest: entry for digest, entry in listed.items() if sizes.get(there[digest]) != entry.size}
        wanted = {there[digest] for digest in listed.keys() - lacking.keys()}
        for batch in in_batches(lacking.values()):
            found = yield from read_blobs(batch)
            for digest in (file_name(entry.key) for entry in batch):
                if digest in found:
                    yield from self._put(there[digest], found[digest])
                    wanted.add(there[digest])
                else:
                    self._missing.add(digest)
                    wanted |= {there[digest]} & sizes.keys()
        return wanted

    def _put(self, key: str, data: bytes) -> Job[None]:
        yield from on(self._target, ask(Put(key, data), Written))
        self._objects += 1
        self._bytes += len(data)
        yield from tell(self._progress, self._bytes)

    # swapping and clearing

    def _swap(self, latest: Latest, expect: Version, old: Card | None) -> Steps[None]:
        yield from ask(marker.put_of(self._there, latest.card), Written)
        outcome = yield from LatestRegister(self._there).replace(latest, expect=expect)
        if not isinstance(outcome, Swapped):
            yield from marker.drop(self._there, latest.card, outcome.value.card if outcome.value is not None else None)
            raise ConflictError(
                "another process wrote to the backup at this moment",
                kind=Kind.OVERTAKEN,
                key=self._there.latest,
                remedy="let one backup into one place run at a time; run it again",
            )
        if old is not None:
            yield from marker.drop(self._there, old, latest.card)
        self._objects, self._bytes = self._objects + 1, self._bytes + outcome.sent_bytes

    def _clear(self, wanted: set[str]) -> Steps[None]:
        """Delete objects that the moment does not need, and check that the others exist."""
        there = {entry.key for entry in (yield from self._list())}
        if lost := sorted(wanted - there):
            raise UnavailableError(
                "another process removed a new object", kind=Kind.VANISHED, key=lost[0], remedy="run the backup again"
            )
        yield from delete_all(sorted(there - wanted))


_REPLACE = "look what happened; pass --delete (`delete=True`) to let the backup become what the store is now"


def _told_by(card: Card) -> Card:
    """The fields of a card that depend only on the records."""
    return msgspec.structs.replace(card, write="", updated=0, lines=0, marker="")


def _identity(line: bytes) -> tuple[str, str]:
    skeleton = skeleton_of(line)
    return skeleton.id, skeleton.type


def _blobs_of(lines: Sequence[bytes]) -> set[str]:
    return {digest for line in lines for digest in blob_refs_in(line)}


def _segment(key: str) -> Segment | None:
    name = parse_segment(key)
    return Segment(key, 0, name) if name else None


def _life_of(key: str, keys: SessionKeys) -> str:
    life, slash, _ = key.removeprefix(keys.home).partition("/")
    return life if slash else ""
