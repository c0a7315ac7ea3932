"""Copy a session as it is at one moment into another store, or under another name, by its segments.

Only the index of a segment depends on its session. So the frames of records are copied as bytes, checked by the
checksums that the index lists; they are not decompressed.
Rule 1: all copied objects are of one moment; see `treering.store.moment`. The copy has no list of earlier erasures: it
holds no erased payload, so it begins under epoch 0.
Rule 2: a segment that may hold payloads erased after it was written is rewritten without them. A blob that erased
records referred to is copied only if other records refer to it, too.
Rule 3: the original is read once more before the copy is created. If an answer that was being written has ended, or
segments were merged, the objects concerned are copied again. Objects that an earlier pass copied and the last one does
not need are deleted before the copy is created, so the copy never has them.
Rule 4: the folder is that of a life that no reader knows until the copy is created; see `treering.session.loader`.
Rule 5: if a payload was erased in the original during the copying, everything is copied again, into the folder of
another life: a delayed write may still put the payload into the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from treering.errors import NotFoundError
from treering.format.erasure import NONE
from treering.format.paths import ChunkName, Marks, SessionKeys, file_name
from treering.format.record import mark_behind
from treering.format.segment import build_segment
from treering.journal import life
from treering.journal.erase import living_blobs, rewritten
from treering.journal.read import Segment, Survey, content_of
from treering.journal.register import Attempts
from treering.session.loader import Loader
from treering.session.reader import Reader
from treering.storage.effects import Job, on, tell
from treering.storage.requests import Driver, Steps
from treering.storage.run import delete_all
from treering.store.loading import Progress
from treering.store.moment import Moment, in_batches, read_blobs, read_moment, read_whole


def copy_session(
    keys: SessionKeys,
    target: Driver,
    there: SessionKeys,
    *,
    prepare: Callable[[], Steps[None]],
    progress: Progress | None = None,
) -> Job[None]:
    """Copy a session, as it is at this moment, into another store or under another name.

    Args:
        keys: The session, in the store that the job is run against.
        target: The store to copy to.
        there: The session to create in the target.
        prepare: Called before the first write to the target.
        progress: Called with the number of records done.

    Raises:
        NotFoundError: There is no such session, or it was deleted.
        ConflictError: A session of that name exists in the target.
        CorruptError: The session is damaged; nothing was created.
        FormatVersionError: A later version wrote a part of it.
        UnavailableError: A store does not answer, or the session changes faster than it can be copied.
    """
    moment = yield from read_moment(keys)
    yield from on(target, life.require_free(there))
    yield from on(target, prepare())
    loader = yield from _written(target, there, moment, progress)
    yield from on(target, loader.finish())


def _written(target: Driver, there: SessionKeys, moment: Moment, progress: Progress | None) -> Job[Loader]:
    """Write the objects of the copy; return what creates it."""
    copy = _Copy(target, there, moment, progress)
    attempts = Attempts(moment.view.keys.tail)
    try:
        while attempts.another():
            try:
                yield from copy.take(moment)
                if (yield from _is_current(moment)):  # rule: copy-looks-again
                    return copy.loader
            except NotFoundError:
                pass  # a part of it was merged or erased since it was listed
            before, moment = moment, (yield from read_moment(moment.view.keys))
            moment.view.require_same_life(before.view.life)
            if moment.view.epoch != before.view.epoch:  # rule: copy-begins-anew
                yield from on(target, life.discard(there, copy.loader.life))
                copy = _Copy(target, there, moment, progress)
    except Exception:
        yield from on(target, copy.loader.discard())
        raise


def _is_current(moment: Moment) -> Steps[bool]:
    """Whether nothing was erased since, and the answers that were being written are still being written."""
    now = Reader(moment.view.keys).replica
    yield from now.load()
    now.view.require_same_life(moment.view.life)
    if moment.state.streams.keys() - now.state.streams.keys():  # rule: copy-open-streams
        return False
    return now.epoch == moment.view.epoch


class _Copy:
    """Writes the objects of a session that does not exist yet; each moment adds the objects that are not copied yet.

    All moments are of one epoch.
    """

    def __init__(self, target: Driver, there: SessionKeys, moment: Moment, progress: Progress | None) -> None:
        self.loader = Loader(there, moment.state.policy, moment.state.card)
        self._target = target
        self._progress = progress
        self._segments: dict[str, Segment] = {}
        """Copies of segments without erased records, by the keys of the originals."""
        self._blobs: dict[str, str] = {}
        """Keys of copied blobs by digest."""
        self._written: set[str] = set()
        """Keys of all objects written."""

    def take(self, moment: Moment) -> Job[None]:
        """Write the objects of a moment.

        Raises:
            NotFoundError: An object is gone; look again.
            CorruptError: An object is damaged.
        """
        segments = yield from self._copy_segments(moment)
        blobs = yield from self._copy_blobs(moment)
        view, loader = moment.view, self.loader
        loader.begin_with(moment.state, segments, view.mark_at(view.end))
        chunks = [ChunkName(chunk.header.stream, chunk.header.number) for chunk in moment.chunks]
        for name, chunk in zip(chunks, moment.chunks, strict=True):
            yield from on(self._target, loader.add_chunks(name.stream, [chunk]))
        needed = {*blobs, *(segment.key for segment in segments)}
        needed |= {loader.keys.chunk(loader.life, name) for name in chunks}
        yield from on(self._target, delete_all(sorted(self._written - needed)))  # rule: copy-leaves-nothing
        self._written = needed
        self._segments = {key: copied for key, copied in self._segments.items() if copied.key in needed}
        self._blobs = {digest: key for digest, key in self._blobs.items() if key in needed}

    def _copy_segments(self, moment: Moment) -> Job[list[Segment]]:
        copied: list[Segment] = []
        for segment in moment.segments:
            copied.append((yield from self._copy_segment(moment, segment)))
            yield from tell(self._progress, copied[-1].name.end)
        if moment.rest:
            view, first = moment.view, moment.view.end - len(moment.rest)
            copied.append((yield from self._write_lines(moment.rest, first, view.mark_at(first))))
            yield from tell(self._progress, view.end)
        return copied

    def _copy_segment(self, moment: Moment, segment: Segment) -> Job[Segment]:
        name, view = segment.name, moment.view
        dirty = view.burials.is_dirty(name)  # rule: copy-clean
        held = None if dirty else self._segments.get(segment.key)
        if held is not None:
            return held
        data = yield from read_whole(segment.key)
        if name.end > view.end:  # the tail is older than it should be: only records up to its end count
            lines = view.burials.bury_all(content_of(segment, data).lines[: view.end - name.first], name.first)
            return (yield from self._write_lines(lines, name.first, name.marks.first))
        build = partial(rewritten, segment, data, view.burials if dirty else NONE)
        copied = yield from self._write(name.first, name.end, msgspec.structs.replace(name.marks, erased=""), build)
        if not dirty:
            self._segments[segment.key] = copied
        return copied

    def _write_lines(self, lines: Sequence[bytes], first: int, mark: str) -> Job[Segment]:
        marks = Marks(mark, mark_behind(lines[-1]))
        return (yield from self._write(first, first + len(lines), marks, partial(build_segment, lines)))

    def _write(self, first: int, end: int, marks: Marks, build: Callable[..., bytes]) -> Job[Segment]:
        copied = yield from on(self._target, self.loader.write_segment(first, end, marks, build))
        self._written.add(copied.key)
        return copied

    def _copy_blobs(self, moment: Moment) -> Job[list[str]]:
        """Copy all blobs; a damaged one counts as missing. Return the keys of the copies."""
        view, loader = moment.view, self.loader
        listed = {file_name(entry.key): entry for entry in moment.blobs}
        gone = listed.keys() & view.burials.blobs
        if gone:  # rule: copy-shared-blobs
            living = yield from living_blobs(Survey(view.keys, view.tail, moment.segments, ()))
            listed = {digest: entry for digest, entry in listed.items() if digest not in gone - living}
        for batch in in_batches(listed[digest] for digest in sorted(listed.keys() - self._blobs.keys())):
            found = yield from read_blobs(batch)
            yield from on(self._target, loader.add_blobs(found))
            new = {digest: loader.keys.blob(loader.life, digest) for digest in found}
            self._blobs |= new
            self._written |= set(new.values())
        return [self._blobs[digest] for digest in listed if digest in self._blobs]
