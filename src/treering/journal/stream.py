"""Store the pieces of an answer while it is written: in chunks beside the journal, until the answer is a node.

Rule 1: a note in the journal begins a stream, before its first chunk is written. The node of the same id, or another
note, ends it. So the journal alone determines which streams are open. A chunk of any other stream is waste, and any
process may delete it.
Rule 2: a write swaps the open chunk that its writer saw, or appends to it; otherwise it is refused. Acknowledged pieces
stay.
Rule 3: a write that makes a chunk large closes it, and nothing follows in that chunk. Only then is the next chunk
begun. So at any time one object has to receive the next write.
Rule 4: a write without an answer is sent again unchanged, before any other write. It counts once, even if both requests
took effect.
Rule 5: a writer that takes over a stream first writes a line to that object. From then on every write of the previous
writer is refused, however late it arrives, and the pieces read up to that line are all that it ever wrote.
Rule 6: chunks are deleted when the journal shows that the stream has ended, never before.

Theory of operation
-------------------
Pieces come ten times as often as records, and they are worth little once the answer is complete. In the tail each of
them would be a compare-and-swap against all other writers, would lie in segments, and would have to be dropped again.
Here each stream has one writer, which competes with another one only if that one takes it for dead. A late write may
create a chunk again that was deleted. No reader shows it, since the journal shows that the stream has ended. And a
writer that begins a chunk, or finds one that is not the one it knew, reads the journal after that. So pieces in such a
chunk are never acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from threading import Lock
from typing import Final

import msgspec

from treering.errors import PoisonedError, StreamLostError
from treering.format.paths import ChunkName, SessionKeys, parse_chunk
from treering.format.stream import (
    CHUNK_BYTES_CLOSE,
    Chunk,
    ChunkHeader,
    ChunkLine,
    PieceForm,
    decode_chunk,
    encode_chunk,
    encode_write,
    joined,
)
from treering.ids import new_nonce
from treering.journal.register import Attempts, Cell, Lost, Register, Swapped, extend
from treering.kinds import Kind
from treering.storage.requests import ABSENT, Delete, Steps
from treering.storage.run import delete_all, list_all

TTL_MS: Final = 15_000
"""Milliseconds without a write after which a writer counts as dead."""
BEAT_SECONDS: Final = TTL_MS / 3000
"""A writer that has no pieces to write gives a sign of life at this interval."""
NUMBERS_MAX: Final = 9999  # chunks of 64 KiB


class ChunkRegister(Register[Chunk]):
    """One chunk of a stream. On a local disk it is a log."""

    def __init__(self, keys: SessionKeys, life: str, name: ChunkName) -> None:
        self.key = keys.chunk(life, name)
        self._appends = keys.appends

    def encode(self, value: Chunk) -> bytes:
        return encode_chunk(value, compressed=not self._appends)

    def decode(self, data: bytes) -> Chunk:
        return decode_chunk(data, key=self.key, compressed=not self._appends)

    def write_id(self, value: Chunk) -> str:
        return value.writes[-1].by if value.writes else ""


class Tape:
    """The pieces of one stream, as one writer stores them.

    Args:
        keys: The session.
        life: Its life.
        stream: The stream.
        writer: A random name that no other writer has.
        has_it: Reads the journal as it is now, and returns whether this writer has the stream.
    """

    def __init__(
        self, keys: SessionKeys, life: str, stream: str, writer: str, has_it: Callable[[], Steps[bool]]
    ) -> None:
        self.stream = stream
        self.writer = writer
        self.offset = 0
        """The offset behind all stored pieces."""
        self._keys = keys
        self._life = life
        self._has_it = has_it
        self._number = 0
        self._chunk: Chunk | None = None
        """The chunk that is written to, as it is stored; None if it is not begun yet."""
        self._version = ABSENT
        self._in_place = False
        self._lock = Lock()
        self._waiting: list[PieceForm] = []
        """Pieces for the next write; one thread may add pieces while another thread writes."""
        self._failed: str | None = None
        self._sent: tuple[bytes, ChunkLine] | None = None
        """The line of a write whose outcome is not known."""
        self._count = 0

    @property
    def unsaved(self) -> tuple[PieceForm, ...]:
        """The pieces that are not known to be stored, in order."""
        return (*(self._sent[1].pieces if self._sent else ()), *self._waiting)

    def add(self, piece: PieceForm) -> None:
        """Take a piece, for the next write."""
        with self._lock:
            self._waiting.append(piece)

    def write(self, *, failed: str | None = None) -> Steps[None]:
        """Store the added pieces: one request, and one more if an earlier write has got no answer.

        Args:
            failed: The reason why the writer gives up; None if it does not.

        Raises:
            StreamLostError: Another writer took the stream over, or it has ended.
            UnavailableError: The store did not answer. The pieces may be stored; the next call finds out.
        """
        if self._sent is not None:
            yield from self._send(*self._sent)  # rule: same-line-again
            if not self._waiting and failed is None:
                return
        self._failed = failed
        self._sent = self._compose()
        yield from self._send(*self._sent)

    def begin(self) -> Steps[None]:
        """Begin the first chunk: one request. Errors as for `write`."""
        yield from self.write()

    def take(self) -> Steps[list[PieceForm]]:
        """Take over the stream: fence the previous writer, and return all its pieces.

        One GET for each chunk, and one write. Errors as for `write`.
        """
        pieces: list[PieceForm] = []
        self._number, self._sent, self._waiting = 0, None, []
        attempts = Attempts(self._keys.streams(self._life))
        while attempts.another():
            register = self._register()
            cell = yield from register.read()
            self._see(cell)
            if cell.value is not None and cell.value.closed:
                pieces += _pieces_of(cell.value)
                self._go_on()
                continue
            self.offset = sum(piece.length for piece in pieces)
            taken, offset = _pieces_of(cell.value), self.offset
            self.offset += sum(piece.length for piece in taken)
            chunk = self._extended(*self._compose(), offset=offset)
            outcome = yield from register.replace(chunk, expect=cell.version)  # rule: take-stream
            if isinstance(outcome, Swapped):
                self._see(Cell(chunk, outcome.version))
                yield from self._require_mine()
                self._go_on()
                return pieces + taken

    def chunks(self) -> tuple[str, ...]:
        """Keys of all chunks that may exist."""
        numbers = range(self._number + 2)  # a write without an answer may begin the next one
        return tuple(self._keys.chunk(self._life, ChunkName(self.stream, number)) for number in numbers)

    # one write

    def _go_on(self) -> None:
        """Continue in the next chunk, if this one is closed."""
        if self._chunk is not None and self._chunk.closed:  # rule: close-first
            self._number += 1
            self._see(Cell(None, ABSENT))

    def _register(self) -> ChunkRegister:
        return ChunkRegister(self._keys, self._life, ChunkName(self.stream, self._number))

    def _see(self, cell: Cell[Chunk]) -> None:
        self._chunk, self._version = cell.value, cell.version
        self._in_place = self._keys.appends and cell.value is not None and not cell.value.torn

    def _compose(self) -> tuple[bytes, ChunkLine]:
        """Make the line of the next write, from all waiting pieces."""
        self._count += 1
        with self._lock:
            pieces, self._waiting = tuple(joined(self._waiting)), []
        write = ChunkLine(by=f"{self.writer}.{self._count}", pieces=pieces, failed=self._failed)
        size = self._chunk.size if self._chunk is not None else 0
        line = encode_write(write)
        if size + len(line) >= CHUNK_BYTES_CLOSE:
            write = msgspec.structs.replace(write, closed=True)
            line = encode_write(write)
        return line, write

    def _send(self, line: bytes, write: ChunkLine) -> Steps[None]:
        """Send a line until it is stored."""
        stored = self._chunk is not None and self._chunk.writes[-1].by == write.by  # and the journal did not answer
        began = self._chunk is None or stored
        attempts = Attempts(self._register().key)
        while not stored and attempts.another():
            outcome = yield from self._try(line, write)
            if isinstance(outcome, Swapped):
                break
            if (yield from self._read_back(write)):
                break
        if began:
            yield from self._require_mine()  # rule: look-behind-own-chunk
        self._sent = None
        self.offset += sum(piece.length for piece in write.pieces)
        self._go_on()

    def _require_mine(self) -> Steps[None]:
        """Raise if the stream ended, or was taken over, before its newest chunk was begun: no reader would see it."""
        if not (yield from self._has_it()):
            raise lost(self.stream, "another writer took it over, or ended it")

    def _try(self, line: bytes, write: ChunkLine) -> Steps[Swapped | Lost]:
        register = self._register()
        if self._chunk is not None and self._in_place:
            with suppress(PoisonedError):  # nothing in that log counts: write the known content anew
                outcome = yield from extend(register.key, line, expect=self._version)
                if isinstance(outcome, Swapped):
                    self._see(Cell(self._chunk.with_line(line, write), outcome.version))
                return outcome
        chunk = self._extended(line, write, offset=self.offset)
        outcome = yield from register.swap(chunk, expect=self._version)  # rule: swap-chunk
        if isinstance(outcome, Swapped):
            self._see(Cell(chunk, outcome.version))
        return outcome

    def _extended(self, line: bytes, write: ChunkLine, *, offset: int) -> Chunk:
        """The open chunk with one more line, to replace it; a new chunk if none is begun."""
        if self._chunk is not None:
            header = msgspec.structs.replace(self._chunk.header, nonce=new_nonce())
            return msgspec.structs.replace(self._chunk, header=header, torn=False).with_line(line, write)
        header = ChunkHeader(stream=self.stream, number=self._number, offset=offset, nonce=new_nonce(), ttl=TTL_MS)
        return Chunk(header=header, lines=(line,), writes=(write,))

    def _read_back(self, write: ChunkLine) -> Steps[bool]:
        """After a refusal, return whether the write is stored nevertheless; false: try again.

        Raises:
            StreamLostError: Another writer wrote to the chunk, or the chunk is gone.
        """
        known = len(self._chunk.lines) if self._chunk is not None else 0
        cell = yield from self._register().read()
        if cell.value is None:  # the chunk existed, since the write was refused
            raise lost(self.stream, "it has ended")
        new = cell.value.writes[known:]
        if any(each.writer != self.writer for each in new):  # rule: tell-the-fenced
            raise lost(self.stream, "another writer took it over")
        if not new and cell.version != self._version:  # a chunk only grows: a late write made it anew
            yield from self._require_mine()  # rule: look-behind-late-chunk
        self._see(cell)
        return any(each.by == write.by for each in new)


def lost(stream: str, why: str) -> StreamLostError:
    """The error for a writer that cannot continue a stream."""
    return StreamLostError(
        f"the stream was lost: {why}. stream={stream!r}",
        kind=Kind.STREAM_LOST,
        remedy="look at `open_streams()`, and at the session, which may have the answer",
    )


def _pieces_of(chunk: Chunk | None) -> list[PieceForm]:
    return [piece for write in (chunk.writes if chunk is not None else ()) for piece in write.pieces]


def read_stream(keys: SessionKeys, life: str, stream: str) -> Steps[list[Chunk]]:
    """Read all chunks of a stream: one GET each, and one more if the last one is closed.

    Raises:
        CorruptError: A chunk is damaged.
        UnavailableError: The store does not answer.
    """
    chunks: list[Chunk] = []
    while not chunks or chunks[-1].closed:
        cell = yield from ChunkRegister(keys, life, ChunkName(stream, len(chunks))).read()
        if cell.value is None:
            break
        chunks.append(cell.value)
    return chunks


def sweep_streams(keys: SessionKeys, life: str, look: Callable[[], Steps[Collection[str]]]) -> Steps[int]:
    """Delete the chunks of all streams that the journal does not list as open; return how many were deleted.

    Takes one LIST for each 1,000 chunks. If there are any, it also takes one call of `look`, and a DELETE for each
    1,000 deleted chunks.

    Args:
        keys: The session.
        life: Its life.
        look: Reads the journal, and returns the ids of the open streams.
    """
    found = yield from list_all(keys.streams(life))  # rule: list-then-look
    names = [(entry.key, name) for entry in found if (name := parse_chunk(entry.key))]
    is_open = (yield from look()) if names else ()
    gone = [key for key, name in names if name.stream not in is_open]
    yield from delete_all(gone)
    return len(gone)


def drop_chunks(chunks: Sequence[str]) -> Steps[None]:
    """Delete the chunks of a stream that has ended. If the store does not answer, they are waste."""
    yield (Delete(tuple(chunks)),)
