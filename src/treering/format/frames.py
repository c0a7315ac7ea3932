"""Zstandard frames. All reads go through one strict parser of frame headers.

Rule 1: no library function looks for the end of a frame. Stream readers of python-zstandard accept every truncation
        without an error, and its one-shot `decompress` drops all frames after the first. Here the block headers are
        walked (RFC 8878, section 3.1.1), and each frame is decompressed alone, from exactly its bytes.
Rule 2: a declared size is compared with a limit before memory is allocated. A header of 16 bytes may declare 8 GiB.
Rule 3: a frame without the size and the checksum of its content is refused, since we write no such frame. Some readers
        take a leading skippable frame for empty content, so the first frame is never skippable.

Some flipped bits do not change the content (padding of the entropy coder). An object that ends in a check frame, a
skippable frame with the CRC-32 of all bytes before it, reveals such bits as well.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec
import zstandard

from treering._late import Kind
from treering.errors import CorruptError

LEVEL: Final = 3
LEVEL_MERGED: Final = 6
"""For merged segments, which are written once and kept long: 8 % fewer bytes for 3 times the compressor's work."""
CHECKSUM_BYTES: Final = 4

_MAGIC: Final = 0xFD2FB528
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # to 0x184D2A5F
_HEADER_BYTES: Final = 8  # of a skippable frame: its magic number and its length
_HEADER_BYTES_MAX: Final = 18
_CHECK_KIND: Final = 3
_CHECK_BYTES: Final = _HEADER_BYTES + 4
_BLOCK_HEADER_BYTES: Final = 3
_RAW, _RUN, _COMPRESSED = range(3)  # block types; 3 is reserved
# In the frame header descriptor: the unused and reserved bits must be 0, the checksum bit set, the dictionary bits 0.
_DESCRIPTOR_MASK: Final = 0b11111
_DESCRIPTOR: Final = 0b00100


class Frame(msgspec.Struct, frozen=True):
    """The place of one frame."""

    offset: int
    size: int
    """Bytes of the whole frame."""
    content_size: int | None
    """Bytes it decompresses to, as declared; None for a skippable frame."""

    @property
    def end(self) -> int:
        """Offset of the first byte behind the frame."""
        return self.offset + self.size


def compress(data: bytes, level: int = LEVEL) -> bytes:
    """Return `data`, which must not be empty, as one frame with content size and checksum."""
    # A compressor must not be shared between threads, and a new one costs some ten microseconds.
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
    return compressor.compress(data)


def skippable(number: int, payload: bytes) -> bytes:
    """Return the skippable frame of one of the 16 kinds (0 to 15) around `payload`."""
    return (_SKIPPABLE_MAGIC + number).to_bytes(4, "little") + len(payload).to_bytes(4, "little") + payload


def skippable_payload(data: bytes, frame: Frame, number: int, *, key: str) -> bytes:
    """Return the payload of a skippable frame of the given kind.

    Raises:
        CorruptError: The frame is of another kind.
    """
    if data[frame.offset : frame.offset + 4] != skippable(number, b"")[:4]:
        raise CorruptError("frame is not of the expected kind", kind=Kind.FRAME, key=key, offset=frame.offset)
    return data[frame.offset + _HEADER_BYTES : frame.end]


def add_check(data: bytes) -> bytes:
    """Return `data` with a check frame behind it."""
    return data + skippable(_CHECK_KIND, zlib.crc32(data).to_bytes(4, "little"))


def remove_check(data: bytes, *, key: str) -> bytes:
    """Return `data` without its check frame.

    Raises:
        CorruptError: The bytes differ from what `add_check` returned.
    """
    checked = data[:-_CHECK_BYTES]
    if add_check(checked) != data:
        raise CorruptError("object is damaged: its checksum differs", kind=Kind.CHECKSUM, key=key, offset=0)
    return checked


def walk(data: bytes, *, key: str) -> list[Frame]:
    """Return all frames of `data`, which they must fill to the last byte.

    Raises:
        CorruptError: Bytes are left over, or a frame violates rule 3. Nothing was decompressed.
    """
    frames: list[Frame] = []
    while (offset := frames[-1].end if frames else 0) < len(data):
        frames.append(frame_at(data, offset, key=key))
    if not frames or frames[0].content_size is None:
        raise CorruptError("object does not begin with a frame of content", kind=Kind.FRAME, key=key, offset=0)
    return frames


def frame_at(data: bytes, offset: int, *, key: str) -> Frame:
    """Return the frame that begins at `offset`. Only its header and the headers of its blocks are checked.

    Raises:
        CorruptError: No whole frame begins there, or it violates rule 3.
    """
    magic, size = (int.from_bytes(data[at : at + 4], "little") for at in (offset, offset + 4))
    if magic == _MAGIC:
        content_size, end = _content_frame(data, offset, key)
    elif magic & ~0xF == _SKIPPABLE_MAGIC:
        content_size, end = None, offset + _HEADER_BYTES + size
    else:
        raise CorruptError("no zstd frame begins here", kind=Kind.FRAME, key=key, offset=offset)
    if end > len(data):
        raise CorruptError("object ends inside a frame", kind=Kind.TRUNCATED, key=key, offset=offset)
    return Frame(offset, end - offset, content_size)


def _content_frame(data: bytes, offset: int, key: str) -> tuple[int, int]:
    """Return the declared content size, and the end of the frame, which may lie beyond the data."""
    header = data[offset : offset + _HEADER_BYTES_MAX]
    try:
        parameters = zstandard.get_frame_parameters(header)
    except zstandard.ZstdError as error:
        raise CorruptError(f"frame header is damaged: {error}", kind=Kind.FRAME, key=key, offset=offset) from error
    if header[4] & _DESCRIPTOR_MASK != _DESCRIPTOR:
        raise CorruptError(
            "frame lacks a checksum, or uses an unsupported option", kind=Kind.FRAME, key=key, offset=offset
        )
    if parameters.content_size in (0, zstandard.CONTENTSIZE_UNKNOWN):
        raise CorruptError("frame does not state the size of its content", kind=Kind.FRAME, key=key, offset=offset)
    place = offset + zstandard.frame_header_size(header)
    return parameters.content_size, _blocks_end(data, place, key) + CHECKSUM_BYTES


def _blocks_end(data: bytes, place: int, key: str) -> int:
    last = 0
    while not last and place < len(data):
        header = int.from_bytes(data[place : place + _BLOCK_HEADER_BYTES], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind > _COMPRESSED:
            raise CorruptError("block is of an unknown type", kind=Kind.FRAME, key=key, offset=place)
        place += _BLOCK_HEADER_BYTES + (1 if kind == _RUN else size)
    return place


def decompress_frame(data: bytes, frame: Frame, *, key: str) -> bytes:
    """Return the content of one frame. This allocates the declared size, so compare it with a limit first.

    Raises:
        CorruptError: The frame is damaged: sizes or checksum differ.
    """
    piece = data[frame.offset : frame.end]
    try:
        content = zstandard.ZstdDecompressor().decompress(piece, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptError(f"frame is damaged: {error}", kind=Kind.CHECKSUM, key=key, offset=frame.offset) from error
    if len(content) != frame.content_size:
        raise CorruptError("content is not as long as declared", kind=Kind.CHECKSUM, key=key, offset=frame.offset)
    return content


def first_frame(data: bytes, *, key: str, bytes_max: int) -> bytes:
    """Return the content of the first frame. It states the version, which determines whether other frames must follow.

    Raises:
        CorruptError: The frame is damaged, too large, or skippable.
    """
    frame = frame_at(data, 0, key=key)
    if frame.content_size is None:
        raise CorruptError("object does not begin with a frame of content", kind=Kind.FRAME, key=key, offset=0)
    check_size(frame.content_size, bytes_max, key=key, offset=0)
    return decompress_frame(data, frame, key=key)


def decompress(data: bytes, *, key: str, bytes_max: int) -> bytes:
    """Return the content of all frames of `data`, joined; skippable frames have no content.

    Args:
        data: Whole frames, the first of them not skippable.
        key: For messages.
        bytes_max: Most bytes to return; checked against the declared sizes before anything is allocated.

    Raises:
        CorruptError: Anything is damaged, missing or too large.
    """
    frames = walk(data, key=key)
    check_size(sum(frame.content_size or 0 for frame in frames), bytes_max, key=key, offset=0)
    return b"".join(decompress_frame(data, frame, key=key) for frame in frames if frame.content_size is not None)


def check_size(declared: int, bytes_max: int, *, key: str, offset: int) -> None:
    """Raise CorruptError if a declared size is beyond the limit."""
    if declared > bytes_max:
        message = f"declared content is too large. bytes={declared}, max={bytes_max}"
        raise CorruptError(message, kind=Kind.TOO_LARGE, key=key, offset=offset)
