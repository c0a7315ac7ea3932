"""Follow one answer while it is written, from an offset on.

Rule 1: the pieces of a chunk are yielded only if the journal, read after the chunk, says that the stream is open. A
chunk that a late write began after the end of the stream is never shown.
Rule 2: chunks exist while the stream is open. So if a chunk is gone, the stream has ended, and the rest is in its node.
Rule 3: a writer counts as dead if its chunk did not change for the time that the chunk names. This reader measures that
time from when it first saw the chunk in this version. Clocks of two computers are never compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treering.errors import NotFoundError
from treering.format.paths import ChunkName
from treering.format.record import read_brief, skeleton_of
from treering.format.stream import Chunk, ChunkLine
from treering.ids import uptime
from treering.journal.stream import TTL_MS, ChunkRegister
from treering.kinds import Kind
from treering.session.reader import Readable, Reader
from treering.session.streams import BEGIN, Piece, StreamStatus, end_piece, pieces_from, pieces_of_node, status_of_node
from treering.session.verbs.reading import payload_in
from treering.storage.requests import Get, Steps, Unchanged, Version
from treering.transcript.node import Node, node_of


class StreamFollower:
    """Reads the new pieces of one stream, look by look.

    Args:
        reader: The session.
        stream: The id of the stream.
        offset: Where to begin.
        look_again: Reads the session as it is now.
        clock: Seconds that pass evenly.
    """

    def __init__(
        self,
        reader: Readable,
        stream: str,
        offset: int,
        look_again: Callable[[], Steps[Reader]],
        clock: Callable[[], float] = uptime,
    ) -> None:
        self.offset = offset
        """The offset after all pieces that were returned."""
        self._reader = reader
        self._stream = stream
        self._look_again = look_again
        self._clock = clock
        self._number = 0
        self._seen: Chunk | None = None
        """The chunk with the number `_number`, as last read."""
        self._version: Version | None = None
        self._before: Version | None = None
        """The version of the previous chunk, which is closed."""
        self._at = 0
        """The offset after the writes of `_seen`."""
        self._failed: str | None = None
        """Why the writer of the last line gave up."""
        self._since = clock()
        """When this reader first saw the newest sign of life."""
        self._began = self._since
        """When the last look began; later changes are not known."""

    def look(self) -> Steps[list[Piece]]:
        """Return the new pieces, if any; the last one may be the end.

        Raises:
            NotFoundError: The stream does not exist, or the session does not exist any more.
        """
        self._began = self._clock()
        while True:
            register = self._register(self._number)
            (answer,) = yield (Get(register.key, unless=self._version, register=True),)
            if isinstance(answer, Unchanged):
                return (yield from self._unchanged())
            cell = register.cell(answer)
            if cell.value is None:
                return (yield from self._without_chunk())
            if self._version is None and not (yield from self._is_open()):  # rule: look-behind-chunk
                return (yield from self._rest())
            pieces = self._shown(cell.value)
            self._seen, self._version, self._since = cell.value, cell.version, self._clock()
            if cell.value.closed:
                self._number, self._seen, self._version, self._before = self._number + 1, None, None, cell.version
            self._failed = cell.value.writes[-1].failed if cell.value.writes else None
            if self._failed is not None and not cell.value.closed:
                return [*pieces, end_piece(StreamStatus.FAILED, self.offset, self._failed)]
            if pieces or not cell.value.closed:
                return pieces

    def _register(self, number: int) -> ChunkRegister:
        return ChunkRegister(self._reader.keys, self._reader.replica.view.life, ChunkName(self._stream, number))

    def _shown(self, chunk: Chunk) -> list[Piece]:
        """The pieces of a chunk that were not returned yet."""
        known = self._seen
        writes: Sequence[ChunkLine] = chunk.writes
        at = chunk.header.offset
        if known is not None:
            writes, at = writes[len(known.writes) :], self._at
        forms = [piece for write in writes for piece in write.pieces]
        self._at = at + sum(form.length for form in forms)
        pieces = pieces_from(forms, at, self.offset)
        self.offset = pieces[-1].after if pieces else self.offset
        return pieces

    def _unchanged(self) -> Steps[list[Piece]]:
        """Return the pieces for a look that found nothing new: none while the writer counts as alive.

        Else the end; or the rest, if the writer was killed after it recorded the node and before it deleted the chunk.
        """
        if self._failed is not None:  # in a line that closed its chunk, and no writer has begun the next one
            return [end_piece(StreamStatus.FAILED, self.offset, self._failed)]
        ttl = self._seen.header.ttl if self._seen is not None else TTL_MS
        if self._began - self._since < ttl / 1000:  # rule: sign-of-writer
            return []
        if not (yield from self._is_open()):
            return (yield from self._rest())
        return [end_piece(StreamStatus.LOST, self.offset)]

    def _without_chunk(self) -> Steps[list[Piece]]:
        """There is no chunk with this number: it is not begun, or the stream has ended."""
        if self._number:
            register = self._register(self._number - 1)
            (answer,) = yield (Get(register.key, unless=self._before, register=True),)
            if isinstance(answer, Unchanged) or register.cell(answer).value is not None:
                return (yield from self._unchanged())
        if (yield from self._is_open()):
            return (yield from self._unchanged())
        return (yield from self._rest())  # rule: rest-from-node

    def _is_open(self) -> Steps[bool]:
        self._now = yield from self._look_again()
        return self._stream in self._now.replica.state.streams

    def _rest(self) -> Steps[list[Piece]]:
        """The remaining pieces of a stream that has ended, and a last piece that says how it ended."""
        node = yield from self._node()
        if node is None:
            if not (yield from self._was_begun()):
                raise NotFoundError(f"there is no such stream. stream={self._stream!r}", kind=Kind.STREAM)
            return [end_piece(StreamStatus.DISCARDED, self.offset)]
        pieces = pieces_of_node(node, self.offset)
        if pieces:
            self.offset = max(self.offset, pieces[-1].after)
        return [*pieces, end_piece(status_of_node(node), self.offset)]

    def _node(self) -> Steps[Node | None]:
        """The node as it was recorded, without later edits; None if there is none."""
        now = self._now
        rows = yield from now.replica.ask(lambda look: look.nodes([self._stream]))
        if self._stream not in rows:
            return None
        at = rows[self._stream].at
        line = (yield from now.replica.lines_at([at]))[at]
        yield from now.blobs.fetch([line])
        return node_of(skeleton_of(line), payload_in(line, now), label=None, retracted=False, amended=False)

    def _was_begun(self) -> Steps[bool]:
        notes = yield from self._now.replica.ask(lambda look: look.notes(BEGIN))
        return any(read_brief(note).get("node") == self._stream for note in notes)


def is_over(reader: Readable, stream: str, chunks: Sequence[Chunk]) -> bool:
    """Whether a stream's writer counts as dead: this process saw no sign of life for the time its chunk names."""
    memory = reader.replica.memory() if reader.replica.memory is not None else None
    sign = (len(chunks), chunks[-1].header.nonce, len(chunks[-1].writes)) if chunks else ()
    key, now = ("stream", reader.keys.tail, stream), uptime()
    known = memory.get(key) if memory is not None else None
    if memory is not None and (known is None or known[0] != sign):
        memory.put(key, (sign, now), len(stream) * 4)
        return False
    ttl = chunks[-1].header.ttl if chunks else TTL_MS
    return known is not None and now - known[1] >= ttl / 1000
