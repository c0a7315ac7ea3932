"""Read the remains of damaged objects: every line whose own checksum is right, wherever it is.

Rule 1: a line counts only if it is whole. Its place, its neighbours and damage of the frame around it do not matter,
        since a record contains its own position.
Rule 2: nothing is guessed. A line that is not whole is lost, even if most of it could be read.
Rule 3: an object that names another session as its owner is not damaged: nothing is read from it.
Rule 4: damage must not cost more than a read. How much of one object is decompressed is bounded, whatever it declares.

Only repairs use this. Everything else reads with the strict readers, which notice missing parts.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import zstandard

from treering.errors import CorruptError
from treering.format.frames import CHECKSUM_BYTES, Frame, check_size, decompress_frame, frame_at
from treering.format.index import SegmentIndex
from treering.format.line import is_whole
from treering.format.parts import read_chunk
from treering.format.record import decode_record
from treering.format.register import REGISTER_BYTES_MAX, Card, TailHeader, decode_card
from treering.format.segment import SEGMENT_BYTES_MAX, read_footer, read_frame
from treering.kinds import Kind

_MAGIC: Final = (0xFD2FB528).to_bytes(4, "little")
_STEP_BYTES: Final = 64  # decompressed at a time, so that output before the damage is kept, and bounded
_STARTS_MAX: Final = 16  # candidates tried in one line; each costs a checksum of the rest of the line
_record_start = re.compile(rb'\{"at":[0-9]+,"by":"')
_header_decoder = msgspec.json.Decoder(TailHeader)


class Salvaged(msgspec.Struct, frozen=True):
    """The result of reading one damaged object."""

    lines: dict[int, bytes]
    """Record lines by position."""
    errors: tuple[CorruptError, ...] = ()
    """The errors in it, frame by frame."""
    lost: dict[int, str] = {}
    """Ids of lost records that the index still lists, by position."""


def salvage_lines(content: bytes) -> dict[int, bytes]:
    """Return the whole record lines in some text, by position; if two have one position, the later one.

    A line may stand anywhere: behind a hole, or behind a torn line whose line break is lost.
    """
    found: dict[int, bytes] = {}
    end = tries = 0
    for match in _record_start.finditer(content):
        start = match.start()
        if start >= end:
            end, tries = content.find(b"\n", start) + 1, 0
        tries += 1
        if tries > _STARTS_MAX or not is_whole(line := content[start:end]):
            continue
        tries = _STARTS_MAX  # anything inside that looks like a record is part of this one
        try:
            found[decode_record(line).at] = line
        except CorruptError:  # a whole line that is no record
            continue
    return found


def salvage_header(content: bytes) -> TailHeader | None:
    """Return the header of a tail whose records may be damaged, or None if it is lost itself."""
    line = content[: content.find(b"\n") + 1]
    if not is_whole(line):
        return None
    try:
        return _header_decoder.decode(line)
    except (ValueError, RecursionError):
        return None


def salvage_card(data: bytes, *, key: str) -> Card | None:
    """Return the card of a `latest` whose body is damaged, or None if it is lost itself.

    Raises:
        FormatVersionError: A newer version wrote it.
    """
    try:
        return decode_card(data, key=key)
    except CorruptError:
        return None


def salvage_content(data: bytes, *, bytes_max: int = REGISTER_BYTES_MAX) -> bytes:
    """Return the content that can be decompressed, frame after frame; of a damaged frame the part before the damage.

    Args:
        data: The whole object.
        bytes_max: Most bytes to return.
    """
    parts: list[bytes] = []
    left, offset = bytes_max, data.find(_MAGIC)
    while offset >= 0 and left > 0:
        part, end = _frame_content(data, offset, left)
        parts.append(part)
        left -= len(part)
        offset = data.find(_MAGIC, end)
    return b"\n".join(parts)


def _frame_content(data: bytes, offset: int, bytes_max: int) -> tuple[bytes, int]:
    """Return the content of bytes that look like a frame, and the offset to look for the next one from."""
    try:
        frame = frame_at(data, offset, key="")
    except CorruptError:
        return _beginning(data[offset:], bytes_max), offset + len(_MAGIC)
    try:
        check_size(frame.content_size or 0, bytes_max, key="", offset=offset)
        return decompress_frame(data, frame, key=""), frame.end
    except CorruptError:
        return _beginning(_without_checksum(data, frame), bytes_max), offset + len(_MAGIC)


def _without_checksum(data: bytes, frame: Frame) -> bytes:
    """The bytes of a frame up to its checksum, which would only show that it is damaged."""
    return data[frame.offset : frame.end - CHECKSUM_BYTES]


def _beginning(data: bytes, bytes_max: int) -> bytes:
    """Decompress up to the first error."""
    reader = zstandard.ZstdDecompressor(max_window_size=REGISTER_BYTES_MAX).decompressobj()
    parts: list[bytes] = []
    size = 0
    for start in range(0, len(data), _STEP_BYTES):
        try:
            parts.append(reader.decompress(data[start : start + _STEP_BYTES]))
        except zstandard.ZstdError:
            break
        size += len(parts[-1])
        if size > bytes_max:
            break
    return b"".join(parts)[:bytes_max]


def salvage_segment(data: bytes, *, key: str) -> Salvaged:
    """Return the readable lines of a damaged segment: frame by frame, or line by line if its index is lost.

    Raises:
        FormatVersionError: A newer version wrote it; it may be undamaged.
    """
    try:
        footer = read_footer(data, len(data), key=key)
    except CorruptError as error:
        if error.kind == Kind.OWNER:
            return Salvaged({}, (error,))
        return Salvaged(salvage_lines(salvage_content(data, bytes_max=SEGMENT_BYTES_MAX)), (error,))
    if isinstance(footer, int):
        return Salvaged({}, (CorruptError("object is too short for a segment", key=key, offset=0),))
    lines: dict[int, bytes] = {}
    errors: list[CorruptError] = []
    for span in footer.frames:
        piece = data[span.start : span.end]
        try:
            read = read_frame(piece, span, key=key)
        except CorruptError as error:
            errors.append(error)
            lines |= salvage_lines(salvage_content(piece, bytes_max=SEGMENT_BYTES_MAX))
        else:
            lines |= salvage_lines(b"".join(read))
    ids = _ids(data, footer, errors)
    return Salvaged(lines, tuple(errors), {at: name for at, name in ids.items() if at not in lines})


def _ids(data: bytes, index: SegmentIndex, errors: list[CorruptError]) -> dict[int, str]:
    """Return the ids in the undamaged chunks of an index, by position; adds the errors of the others to `errors`."""
    ids: dict[int, str] = {}
    for span in index.chunks:
        try:
            chunk = read_chunk(data[span.start : span.end], span, index)
            ids.update(enumerate(chunk.ids, chunk.first))
        except CorruptError as error:
            errors.append(error)
    return ids
