"""A chunk: one object with pieces of an answer that is being written, beside the journal.

    {"treering":1,"type":"chunk","stream":"0199...","number":0,"offset":0,"nonce":"9c41...","ttl":15000,"_c":"1b4f0a6e"}
    {"by":"5f1c9a....1","pieces":[{"text":"Hel"}],"_c":"90f1c2ab"}
    {"by":"5f1c9a....2","pieces":[{"text":"lo"}],"closed":true,"_c":"07c3f1d2"}

The first line names the stream. Each further line is one write, which exists as a whole or not at all. It names its
writer, and holds the pieces since the previous line. A closed chunk is never written again; the next one has the next
number.

On a disk a chunk is a log that is appended to. Elsewhere it is one object that is replaced, compressed as the tail is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from treering.errors import CorruptError
from treering.format.frames import add_check, compress, first_frame, remove_check, walk
from treering.format.line import (
    check_version,
    close_line,
    decode_object,
    encode_object,
    first_line,
    is_whole,
    split_lines,
)
from treering.kinds import Kind

CHUNK_BYTES_CLOSE: Final = 64 * 1024
"""A write that makes a chunk this large closes it, since on an object store each write sends the chunk again."""
CHUNK_BYTES_MAX: Final = 64 * 1024 * 1024
"""Readers refuse larger chunks. One write holds all pieces that wait to be written, so chunks can be large."""
TEXT, THINKING, TOOL_CALL = "text", "thinking", "tool_call"
"""Kinds of parts."""


class PieceForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Text that continues one part of an answer."""

    part: int = 0
    """Index of the part: 0, 1, ..."""
    kind: str = TEXT
    text: str = ""
    call: str = ""
    """Id of a tool call."""
    name: str = ""
    """Name of the tool."""
    signature: str = ""
    """Signature of thinking, which is known at its end."""
    begins: bool = False
    """The piece is the first one of its part."""

    @property
    def length(self) -> int:
        """How far the piece moves an offset: one for each character, for the beginning of a part, and for a signature.

        The beginning of the first part counts nothing if it is text. So in an answer of one text, offsets are character
        indexes.
        """
        return self.leads + len(self.text) + bool(self.signature)

    @property
    def leads(self) -> int:
        """The length in front of the text: 1 for the beginning of a part that counts, else 0."""
        return int(self.begins and not (self.part == 0 and self.kind == TEXT))

    def behind(self, length: int) -> PieceForm | None:
        """The rest of the piece behind its first `length` places; None if nothing is left."""
        if length <= 0:
            return self
        if length >= self.length:
            return None
        return msgspec.structs.replace(self, begins=False, text=self.text[length - self.leads :])


class ChunkHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="chunk"):
    """First line of a chunk."""

    stream: str
    """The id of the stream, and of the node that it becomes."""
    number: int
    """Number of the chunk, from 0."""
    offset: int
    """Offset of its first piece."""
    nonce: str
    """Random: no two headers are equal."""
    ttl: int
    """Milliseconds without a write after which the writer counts as dead."""


class ChunkLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One write. Without pieces it is a sign of life, or shows that another writer took over."""

    by: str
    """`<writer>.<number>`: random digits of the writer, and its number of the write."""
    pieces: tuple[PieceForm, ...] = ()
    failed: str | None = None
    """The reason why the writer gave up, or None. Another writer may take over."""
    closed: bool = False
    """This is the last line of the chunk; another chunk may follow."""

    @property
    def writer(self) -> str:
        """The random digits of the writer."""
        return self.by.partition(".")[0]


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a chunk."""

    header: ChunkHeader
    lines: Sequence[bytes] = ()
    """The lines behind the header, line breaks included."""
    writes: Sequence[ChunkLine] = ()
    """The decoded lines."""
    torn: bool = False
    """A line at the end of the log was cut off; it was not acknowledged, and is not in `lines`."""

    @property
    def closed(self) -> bool:
        """No line can be added any more."""
        return bool(self.writes) and self.writes[-1].closed

    @property
    def size(self) -> int:
        """Bytes of the lines."""
        return sum(map(len, self.lines))

    def with_line(self, line: bytes, write: ChunkLine) -> Chunk:
        """Return the chunk with one more line."""
        return msgspec.structs.replace(self, lines=(*self.lines, line), writes=(*self.writes, write))


_header_decoder = msgspec.json.Decoder(ChunkHeader)
_line_decoder = msgspec.json.Decoder(ChunkLine)


def encode_write(write: ChunkLine) -> bytes:
    """Return the line of a write."""
    return close_line(encode_object(write))


def encode_chunk(chunk: Chunk, *, compressed: bool) -> bytes:
    """Return the bytes of a chunk."""
    data = first_line(chunk.header) + b"".join(chunk.lines)
    return add_check(compress(data)) if compressed else data


def decode_chunk(data: bytes, *, key: str, compressed: bool) -> Chunk:
    """Decode a chunk.

    Args:
        data: The whole object.
        key: For messages.
        compressed: The object is a frame. Otherwise it is a log, whose torn end is left out, since it was not
            acknowledged.

    Raises:
        CorruptError: Damage.
        FormatVersionError: Written by a newer version.
    """
    content = first_frame(data, key=key, bytes_max=CHUNK_BYTES_MAX) if compressed else data
    first, *rest = split_lines(content) or [b""]
    if not first.endswith(b"\n"):
        raise CorruptError("chunk has no header line", kind=Kind.TRUNCATED, key=key, offset=0)
    check_version(first, key=key)
    if compressed and len(walk(remove_check(data, key=key), key=key)) != 1:
        raise CorruptError("chunk is not a single frame", kind=Kind.FRAME, key=key, offset=0)
    header = decode_object(first, _header_decoder, key=key)
    lines = _whole(rest, key=key, offset=len(first), torn=not compressed)
    writes = tuple(decode_object(line, _line_decoder, key=key) for line in lines)
    return Chunk(header=header, lines=lines, writes=writes, torn=len(lines) < len(rest))


def _whole(lines: Sequence[bytes], *, key: str, offset: int, torn: bool) -> tuple[bytes, ...]:
    """The lines up to a torn end."""
    for index, line in enumerate(lines):
        if is_whole(line):
            offset += len(line)
            continue
        if torn and not any(map(is_whole, lines[index + 1 :])):
            return tuple(lines[:index])
        raise CorruptError("line is damaged: its checksum differs", kind=Kind.CHECKSUM, key=key, offset=offset)
    return tuple(lines)


def joined(pieces: Iterable[PieceForm]) -> list[PieceForm]:
    """Return the same pieces with pieces that continue each other joined, which takes less space."""
    found: list[PieceForm] = []
    texts: list[str] = []
    for piece in pieces:
        if found and found[-1].part == piece.part and not found[-1].signature:
            texts.append(piece.text)
            found[-1] = msgspec.structs.replace(found[-1], signature=piece.signature)
            continue
        if found:
            found[-1] = msgspec.structs.replace(found[-1], text="".join(texts))
        found.append(piece)
        texts = [piece.text]
    if found:
        found[-1] = msgspec.structs.replace(found[-1], text="".join(texts))
    return found


def pieces_behind(pieces: Iterable[PieceForm], at: int, offset: int) -> list[tuple[int, PieceForm]]:
    """Return the pieces, or their parts, that are behind an offset, each with its own offset.

    Args:
        pieces: In their order.
        at: The offset of the first piece.
        offset: The offset to begin at.
    """
    found: list[tuple[int, PieceForm]] = []
    for piece in pieces:
        left = piece.behind(offset - at)
        if left is not None and left.length:
            found.append((max(at, offset), left))
        at += piece.length
    return found
