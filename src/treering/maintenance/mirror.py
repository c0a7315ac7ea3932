"""Bring one session in a backup to the moment at which its original is, also while that is in use.

A session in a backup has segments and `latest`, and no tail: like one that was just imported. So one swap of one object
takes it from one moment to the next.

Rule 1: both registers are read first, then segments are listed; what was sealed or merged since is looked at again. So
all that is copied is of the moment of the registers.
Rule 2: segments and blobs are written first, then `latest` is swapped, then what it does not need is deleted. Whoever
is killed in between leaves the moment before.
Rule 3: before the swap the original is looked at once more: if something was erased there meanwhile, it is copied anew.
Rule 4: what is no longer in the original is not taken from a backup unasked: a session that was deleted, or created
again, or that lost records because an older copy was restored over it.
Rule 5: what a backup does not hold by name is read, checked and written, nothing else. Damage in the original never
replaces what is sound in a backup.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import msgspec

from treering.errors import ConflictError, CorruptError, NotFoundError, TreeringError, UnavailableError
from treering.format.blobs import blob_refs_in
from treering.format.paths import SegmentName, SessionKeys, parse_segment
from treering.format.record import skeleton_of
from treering.format.register import Card, Latest, decode_latest, encode_latest
from treering.format.segment import build_segment
from treering.ids import new_nonce
from treering.journal.life import free_name
from treering.journal.merge import DELETES_MAX
from treering.journal.moment import require_one_moment, two_moments
from treering.journal.read import LOOKS_MAX, Segment, choose, list_segments, record_at, segment_content, survey
from treering.journal.resume import Registers, look, resume
from treering.journal.view import View
from treering.session.reader import Reader
from treering.session.state import encode_state, knows
from treering.storage.requests import Delete, Deleted, Driver, Entry, Found, Get, Put, Steps, Version, Written
from treering.storage.run import ask, checked, list_all, run

Told = Callable[[int], None]
"""Called with the number of bytes written so far."""


class Moment(msgspec.Struct, frozen=True):
    """Everything a session consists of at one moment."""

    view: View
    latest: Latest
    """As it would be if it accounted for everything."""
    segments: tuple[Segment, ...]
    """They hold all records but those of `rest`."""
    rest: Sequence[bytes]
    """The lines that only the tail holds."""
    blobs: tuple[Entry, ...]


class Mirrored(msgspec.Struct, frozen=True):
    """What was done for one session."""

    records: int
    objects: int = 0
    """How many were written; none if the backup had all of them."""
    bytes: int = 0
    missing: tuple[str, ...] = ()
    """Digests of blobs that records name and the original lacks, or holds damaged."""


def read_moment(keys: SessionKeys) -> Steps[Moment]:
    """Find out what a session consists of: two GETs, and a LIST each for segments and blobs.

    Raises:
        NotFoundError: There is no such session, or it was deleted.
        CorruptError: It is damaged.
        FormatVersionError: A later version wrote what only that version can account for.
        UnavailableError: It changes faster than it can be read.
    """
    for _ in range(LOOKS_MAX):
        reader = Reader(keys)
        yield from reader.look()
        yield from reader.mend()
        view = reader.view
        view.require_known_critical(knows)
        listed = yield from list_segments(keys, view.life)
        if two_moments(view, listed) and not _is_backup(view):
            yield from require_one_moment(view)  # raises, or somebody sealed in between
            continue
        chosen, _, reach = choose([segment for segment in listed if segment.name.end <= view.end])
        if reach < view.tail.header.base:
            yield from survey(keys, view.life)  # likewise
            continue
        blobs = yield from list_all(keys.blobs(view.life))
        rest = view.tail.lines[reach - view.tail.header.base :]
        return Moment(view, _latest(reader, view), chosen, rest, tuple(blobs))
    raise UnavailableError("the session changes faster than it can be copied", kind="busy", key=keys.tail)


def _is_backup(view: View) -> bool:
    """Nothing was ever appended here: segments behind the end are those of a backup that was cut short."""
    return not view.tail.header.nonce


def _latest(reader: Reader, view: View) -> Latest:
    lines = encode_state(reader.state)
    card = msgspec.structs.replace(
        reader.state.card,
        session=view.keys.session,
        life=view.life,
        write=new_nonce(),
        epoch=view.epoch,
        erased=view.tail.header.erased,
        erasures=view.burials.erasures,
        covers=view.end,
        sealed=view.end,
        born=view.end,
        dead=False,
        lines=len(lines),
    )
    return Latest(card=card, lines=lines)


class Mirror:
    """Brings one session in a backup up to date.

    Args:
        source: The store it is in.
        keys: The session there.
        target: The store of the backup.
        there: The session there; of the same name.
        replace: Also where rule 4 says no.
        told: Told how far it is.
    """

    def __init__(
        self, source: Driver, keys: SessionKeys, target: Driver, there: SessionKeys, *, replace: bool, told: Told
    ) -> None:
        self._source, self._keys = source, keys
        self._target, self._there = target, there
        self._replace, self._told = replace, told
        self._objects = self._bytes = 0
        self._missing: set[str] = set()

    def run(self) -> Mirrored:
        """Copy what the backup lacks, and let it stand at the moment that was found.

        Raises:
            NotFoundError: The original is not there, or was deleted.
            ConflictError: What is in the backup is no older moment of the same session.
            CorruptError: The original is damaged, and the backup lacks the damaged object.
            UnavailableError: A store does not answer, or the original changes faster than it can be copied.
        """
        for _ in range(LOOKS_MAX):
            moment = run(read_moment(self._keys), self._source)
            seen, version = self._look(moment)
            if seen is not None:
                if self._is_current(moment, seen):
                    return Mirrored(moment.view.end)
                self._require_older(moment, seen)
            self._missing.clear()
            try:
                wanted = self._copy(moment)
            except NotFoundError:
                continue  # merged, or erased
            now = run(resume(self._keys), self._source)
            now.require_same_life(moment.view.life)
            if now.epoch == moment.view.epoch:
                break
        else:
            raise UnavailableError("others merge faster than can be copied", kind="busy", key=self._keys.tail)
        self._swap(moment.latest, version)
        self._clear(wanted)
        return Mirrored(moment.view.end, self._objects, self._bytes, tuple(sorted(self._missing)))

    # what is there

    def _look(self, moment: Moment) -> tuple[Registers | None, Version]:
        """What stands in the backup, None if that is nothing, and the version of its `latest`."""
        try:
            seen = run(look(self._there), self._target)
        except CorruptError as error:
            if not self._replace:
                raise ConflictError(
                    f"the backup itself is damaged: {error}", kind="backup", key=error.key, remedy=_REPLACE
                ) from error
            return None, run(ask(Get(self._there.latest, register=True), Found), self._target).version
        if seen.absent or seen.dead:
            stones = run(free_name(self._there, nonce=new_nonce()), self._target)
            if stones.tail is not None and stones.tail.header.life == moment.view.life:
                raise self._conflict("this very session was deleted in the backup", "purge it there, then run it again")
            return None, stones.latest_version
        if not seen.in_creation:
            raise self._conflict(
                "a session of that name is in use there, not only backed up", "back up into a place of its own"
            )
        return seen, seen.latest_version

    def _conflict(self, message: str, remedy: str) -> ConflictError:
        return ConflictError(message, kind="backup", key=self._there.latest, remedy=remedy)

    def _require_older(self, moment: Moment, seen: Registers) -> None:
        """Refuse to lose what the backup holds (rule 4)."""
        if not self._replace and (why := self._newer(moment, seen)):
            raise self._conflict(why, _REPLACE)

    def _newer(self, moment: Moment, seen: Registers) -> str:
        """Why what the backup holds would be lost; empty if the original goes on from there."""
        card, view = seen.card, moment.view
        if card is None or card.life != view.life:
            return "the session was deleted and created again; the backup holds the one before"
        if card.covers > view.end or card.epoch > view.epoch:
            return (
                f"the backup holds {card.covers} records and the session {view.end}: it went back to an earlier moment"
            )
        if card.covers and not self._has_same_record(moment, seen, card.covers - 1):
            return "the backup holds records that the session lost: it went back to an earlier moment and on from there"
        return ""

    def _has_same_record(self, moment: Moment, seen: Registers, at: int) -> bool:
        """The last record in the backup is in the original, too; so those before are.

        Where both have the segment that holds it, nothing is read: names are never used twice.
        """
        here = {segment.name.unique for segment in moment.segments}
        there = [name for entry in self._list() if (name := parse_segment(entry.key))]
        if any(name.first <= at < name.end and name.unique in here for name in there):
            return True
        view = seen.view()
        try:
            last = run(record_at(view, at), self._target) if view is not None else None
        except CorruptError:
            last = None
        if last is None:
            return True  # that is damaged, and about to be replaced by what is sound
        record = run(record_at(moment.view, at), self._source)
        return record is not None and _identity(record) == _identity(last)

    def _is_current(self, moment: Moment, seen: Registers) -> bool:
        """The backup stands at that moment, and has what it needs."""
        latest = seen.latest
        if latest is None or _told_by(latest.card) != _told_by(moment.latest.card):
            return False
        if latest.lines[:1] != moment.latest.lines[:1]:
            return False
        there = {entry.key for entry in self._list()}
        listed = [segment for key in there if (segment := _segment(key)) and segment.name.end <= moment.view.end]
        blobs = {_digest_of(entry.key) for entry in moment.blobs}
        held = {key.rpartition("/")[2] for key in there}
        return (
            choose(listed)[2] == moment.view.end and blobs <= held and len(there) == self._count_needed(listed, blobs)
        )

    def _count_needed(self, listed: list[Segment], blobs: set[str]) -> int:
        """How many objects there are if nothing is left over."""
        return len(choose(listed)[0]) + len(blobs)

    def _list(self) -> list[Entry]:
        """Segments and blobs in the backup, of any life."""
        entries = run(list_all(self._there.home), self._target)
        return [
            entry
            for entry in entries
            if (life := _life_of(entry.key, self._there)) and self._there.owns(entry.key, life)
        ]

    # what is copied

    def _copy(self, moment: Moment) -> set[str]:
        """Write what is missing; return the keys of all that the moment needs."""
        sizes = {entry.key: entry.size for entry in self._list()}
        view, needed = moment.view, set[str]()
        wanted = set(self._copy_blobs(moment, sizes))  # first: records that are there name nothing that is not
        for segment in moment.segments:
            clean = not view.burials.is_dirty(segment.name)
            name = segment.name if clean else segment.name._replace(epoch=view.epoch)
            key = self._there.segment(view.life, name)
            wanted.add(key)
            if key in sizes and (not clean or sizes[key] == segment.size):
                continue
            try:
                data, lines = run(segment_content(segment), self._source)
            except CorruptError:
                if key in sizes:
                    continue  # one of the two was cut, and it is this one
                raise
            if not clean:
                lines = view.burials.bury_all(lines, name.first)
                data = build_segment(lines, key=key)
            needed |= _blobs_of(lines)
            self._put(key, data)
        if moment.rest:
            name = SegmentName(view.end - len(moment.rest), view.end, view.epoch, new_nonce())
            key = self._there.segment(view.life, name)
            self._put(key, build_segment(moment.rest, key=key))
            needed |= _blobs_of(moment.rest)
            wanted.add(key)
        listed = {_digest_of(entry.key) for entry in moment.blobs}
        self._missing |= needed - listed
        return wanted

    def _copy_blobs(self, moment: Moment, sizes: dict[str, int]) -> Iterator[str]:
        for entry in moment.blobs:
            digest = _digest_of(entry.key)
            key = self._there.blob(moment.view.life, digest)
            if sizes.get(key) != entry.size:
                data = run(ask(Get(entry.key), Found), self._source).data
                if hashlib.sha256(data).hexdigest() != digest:
                    self._missing.add(digest)
                    if key in sizes:
                        yield key
                    continue
                self._put(key, data)
            yield key

    def _put(self, key: str, data: bytes) -> None:
        run(ask(Put(key, data), Written), self._target)
        self._objects += 1
        self._bytes += len(data)
        self._told(self._bytes)

    # what it comes to

    def _swap(self, latest: Latest, expect: Version) -> None:
        data = encode_latest(latest.card, latest.lines)
        self._objects, self._bytes = self._objects + 1, self._bytes + len(data)
        (answer,) = run(_put_register(Put(self._there.latest, data, expect=expect)), self._target)
        if isinstance(answer, Written):
            return
        if not isinstance(answer, (ConflictError, NotFoundError)):
            raise answer
        found = run(ask(Get(self._there.latest, register=True), Found), self._target)
        if decode_latest(found.data, key=self._there.latest).card.write != latest.card.write:
            raise ConflictError(
                "somebody else wrote to the backup at this moment",
                kind="overtaken",
                key=self._there.latest,
                remedy="let one backup into one place run at a time; run it again",
            ) from answer

    def _clear(self, wanted: set[str]) -> None:
        """Delete what the moment does not need, and make sure that the rest is there."""
        there = {entry.key for entry in self._list()}
        if lost := sorted(wanted - there):
            raise UnavailableError(
                "somebody removed what was just written", kind="vanished", key=lost[0], remedy="run the backup again"
            )
        surplus = sorted(there - wanted)
        for start in range(0, len(surplus), DELETES_MAX):
            run(ask(Delete(tuple(surplus[start : start + DELETES_MAX])), Deleted), self._target)


_REPLACE = "look what happened; pass --delete (`delete=True`) to let the backup become what the store is now"


def _put_register(put: Put) -> Steps[tuple[Written | TreeringError]]:
    (answer,) = yield (put,)
    return (answer if isinstance(answer, TreeringError) else checked(answer, Written),)


def _told_by(card: Card) -> Card:
    """What a card says of the records, whoever wrote it and when."""
    return msgspec.structs.replace(card, write="", updated=0, lines=0)


def _identity(line: bytes) -> tuple[str, str]:
    skeleton = skeleton_of(line)
    return skeleton.id, skeleton.type


def _blobs_of(lines: Sequence[bytes]) -> set[str]:
    return {digest for line in lines for digest in blob_refs_in(line)}


def _digest_of(key: str) -> str:
    return key.rpartition("/")[2]


def _segment(key: str) -> Segment | None:
    name = parse_segment(key)
    return Segment(key, 0, name) if name else None


def _life_of(key: str, keys: SessionKeys) -> str:
    life, slash, _ = key.removeprefix(keys.home).partition("/")
    return life if slash else ""
