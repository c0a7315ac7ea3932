"""Everything that a session consists of at one moment, for backups and copies.

Rule 1: both registers are read first, then segments are listed. If some were sealed or merged since, all is read again.
So the objects are those of the moment at which the registers were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from treering.digests import sha256
from treering.format.paths import SessionKeys, file_name
from treering.format.stream import Chunk
from treering.journal.read import Segment, choose, list_segments, survey
from treering.journal.register import Attempts
from treering.journal.stream import read_stream
from treering.journal.view import View
from treering.session.blobs import BLOBS_AT_ONCE_MAX
from treering.session.reader import Reader
from treering.session.state import SessionState, knows
from treering.storage.requests import Entry, Found, Get, Steps
from treering.storage.run import ask, checked, list_all

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""Limit for blobs that are read together; a larger one is read alone."""


class Moment(msgspec.Struct, frozen=True):
    """Everything a session consists of at one moment."""

    view: View
    state: SessionState
    """Folded from every record, with the working context."""
    listed: tuple[Segment, ...]
    """All segments of the session."""
    segments: tuple[Segment, ...]
    """The segments that hold all records but `rest`. The last one ends after the tail only if the tail is damaged."""
    rest: Sequence[bytes]
    """The lines that are only in the tail."""
    blobs: tuple[Entry, ...]
    chunks: tuple[Chunk, ...] = ()
    """Pieces of answers that are being written."""


def read_moment(keys: SessionKeys) -> Steps[Moment]:
    """Find all objects of a session: two GETs, and a LIST each for segments and blobs.

    Raises:
        NotFoundError: There is no such session, or it was deleted.
        CorruptError: It is damaged.
        FormatVersionError: A later version wrote records that only that version can fold.
        UnavailableError: The session changes faster than it can be read.
    """
    attempts = Attempts(keys.tail)
    while attempts.another():
        reader = Reader(keys)
        yield from reader.replica.load()
        yield from reader.content.rebuild()
        view = reader.replica.view
        view.require_known_critical(knows)
        base = view.tail.header.base
        listed = yield from list_segments(keys, view.life)
        # A segment that ends after the tail was sealed or merged since, or the tail is older than it should be.
        chosen, _, reach = choose([segment for segment in listed if segment.name.end <= view.end])
        if reach < base:
            chosen, _, reach = choose(listed)
        if reach < base:
            yield from survey(keys, view.life)  # raises, unless another process merged in between
            continue
        blobs = yield from list_all(keys.blobs(view.life))
        chunks: list[Chunk] = []
        for stream in reader.replica.state.streams:
            chunks += yield from read_stream(keys, view.life, stream)
        rest = view.tail.lines[reach - base :]
        return Moment(view, reader.replica.state, listed, chosen, rest, tuple(blobs), tuple(chunks))


def read_whole(key: str) -> Steps[bytes]:
    """Read an object by a range from byte 0: without a range, some drivers hash the bytes to compute the version.

    Raises:
        NotFoundError: The object is gone.
    """
    return (yield from ask(Get(key, start=0), Found)).data


def read_blobs(entries: Sequence[Entry]) -> Steps[dict[str, bytes]]:
    """Read blobs in parallel, and return them by digest, without damaged ones.

    Raises:
        NotFoundError: A blob was erased since it was listed.
    """
    found: dict[str, bytes] = {}
    for _ in range(2):  # the transfer may have damaged one
        answers = yield tuple(Get(entry.key, start=0) for entry in entries)
        datas = [checked(answer, Found).data for answer in answers]
        read = zip((file_name(entry.key) for entry in entries), datas, strict=True)
        found |= {digest: data for digest, data in read if sha256(data) == digest}
        entries = [entry for entry in entries if file_name(entry.key) not in found]
        if not entries:
            break
    return found


def in_batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Cut a list of blobs into batches that fit in memory."""
    batch: list[Entry] = []
    for entry in entries:
        if (batch and sum(each.size for each in batch) + entry.size > BATCH_BYTES_MAX) or len(
            batch
        ) == BLOBS_AT_ONCE_MAX:
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch
