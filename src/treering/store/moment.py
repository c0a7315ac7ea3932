"""Everything that a session consists of at one moment: what a backup and a copy take.

Rule 1: both registers are read first, then segments are listed. If some were sealed or merged since, all is read again.
So the objects are those of the moment of the registers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treering.digests import sha256
from treering.format.paths import SessionKeys, file_name
from treering.format.stream import Chunk
from treering.journal.read import Segment, choose, list_segments, survey
from treering.journal.register import Attempts
from treering.journal.stream import read_stream
from treering.journal.view import View
from treering.session.reader import Reader
from treering.session.state import SessionState, knows
from treering.storage.requests import Entry, Found, Get, Steps
from treering.storage.run import ask, list_all


class Moment(msgspec.Struct, frozen=True):
    """Everything a session consists of at one moment."""

    view: View
    state: SessionState
    """Folded from every record, with the working context."""
    listed: tuple[Segment, ...]
    """All segments that there are."""
    segments: tuple[Segment, ...]
    """Those of them that hold all records except `rest`. The last one ends behind the tail only if that is damaged."""
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
        UnavailableError: It changes faster than it can be read.
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
        # One that ends behind the tail was sealed or merged since, or the tail is older than it should be.
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


def read_blob(entry: Entry) -> Steps[bytes | None]:
    """Read a large part; None if it is damaged.

    Raises:
        NotFoundError: It was erased meanwhile.
    """
    data = (yield from ask(Get(entry.key), Found)).data
    return data if sha256(data) == file_name(entry.key) else None
