"""A segment: an immutable object with sealed records, readable as a whole, by frames, or without the bodies.

    frame | frame | ... | parts of the index (skippable frame) | index (skippable frame) | seek table (skippable frame)

Rule 1: frames hold whole lines, up to about 1 MiB of them, so `zstdcat | jq .` and any seekable reader can use them.
Rule 2: the parts hold the skeletons of all records, by chunks, and the references between them; the index holds the
        place of each frame and each part. They are at the end of the object, so a graph can be read without any body,
        and a page of it without the rest of the graph.
Rule 3: checksums cover every byte. The index carries a CRC-32 of each compressed frame and each part; a CRC-32 before
        it covers the index and the seek table; the sizes must add up to the size of the object. The eight bytes before
        the parts, which only other programs read, are compared when the whole segment is read.

The seek table is the one of zstd's "seekable format" 0.1.0 (facebook/zstd, contrib/seekable_format), with checksums.
It lists the parts and the index, too, as frames without content.

In version 1 the index itself holds the columns of all records, and there are no parts.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from treering.errors import CorruptError, FormatVersionError, UsageError
from treering.format.columns import Columns
from treering.format.copies import may_hold_messages
from treering.format.frames import (
    CHECKSUM_BYTES,
    LEVEL,
    check_size,
    compress,
    decompress_frame,
    frame_at,
    skippable,
    skippable_payload,
)
from treering.format.index import TIME_MAX, ChunkSpan, ForeignSpan, FrameSpan, OutsideSpan, SegmentIndex
from treering.format.line import split_lines
from treering.format.part_lists import ChunkEntry, ForeignEntry, Lists, OutsideEntry, Span, lists_of, spans_of
from treering.format.parts import check, pack_parts, repack_chunk
from treering.format.paths import owner_of, require_owner
from treering.format.record import RECORD_BYTES_MAX, Skeleton, decode_record, skeleton_of_record
from treering.format.references import MASK_ALL, MASK_FIRST
from treering.kinds import Kind

FRAME_BYTES: Final = 1024 * 1024
"""Most content of a frame of several lines. Smaller frames compress worse; in larger ones reading a line costs more."""
SEGMENT_BYTES_MAX: Final = 256 * 1024 * 1024
"""Most content of a segment; a merge or a read of the whole segment holds that much in memory."""
FOOTER_GUESS_BYTES: Final = 32 * 1024
"""Bytes to read first from the end: the index, and the parts that describe the last 2,000 records or so."""
ROW_GUESS_BYTES: Final = 36
"""Bytes to read per record for all parts; these take 14 to 32 bytes, and 50 in segments of a few rows."""

_INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
INDEX_VERSION: Final = 2
"""Version of the index alone; everything else in a segment is as in version 1."""
_INDEX_KIND: Final = 4
_PARTS_KIND: Final = 5
_TABLE_KIND: Final = 14
_TABLE_MAGIC: Final = 0x8F92EAB1
_WITH_CHECKSUMS: Final = 0x80
_TABLE_ENTRY: Final = struct.Struct("<III")  # compressed size, content size, checksum
_TABLE_FOOTER: Final = struct.Struct("<IBI")  # number of entries, flags, magic
_SKIPPABLE_HEADER_BYTES: Final = 8
_EMPTY_CHECKSUM: Final = 0x51D8E999  # lower half of the XXH64 of empty content


class _FrameEntry(NamedTuple):
    """One frame as the index lists it."""

    size: int
    content_size: int
    rows: Annotated[int, msgspec.Meta(ge=1)]
    crc: int


class _Version(msgspec.Struct):
    treering: int


class _Index1(msgspec.Struct, kw_only=True):
    """The index in version 1: one chunk, without references."""

    treering: int
    first: int
    owner: str | UnsetType = UNSET
    """See `owner_of`; unset in segments of early versions."""
    frames: list[_FrameEntry]
    columns: Columns


class _Index(msgspec.Struct, kw_only=True):
    """The index in version 2."""

    treering: int
    first: Annotated[int, msgspec.Meta(ge=0)]
    owner: str | UnsetType = UNSET
    odd: bool
    told: Annotated[int, msgspec.Meta(ge=0)] = MASK_FIRST
    """The bits of `ChunkEntry.mask` that its writer knew."""
    frames: list[_FrameEntry]
    chunks: list[ChunkEntry]
    outside: list[OutsideEntry]
    foreign: list[ForeignEntry]


# Made at import: a type that two threads decode for the first time at once crashes msgspec.
_version_decoder = msgspec.msgpack.Decoder(_Version)
_index_decoder_1 = msgspec.msgpack.Decoder(_Index1)
_index_decoder = msgspec.msgpack.Decoder(_Index)


def build_segment(
    lines: Sequence[bytes],
    *,
    key: str,
    skeletons: Sequence[Skeleton] | None = None,
    doubtful: bool = False,
    level: int = LEVEL,
) -> bytes:
    """Return the segment of record lines at consecutive positions.

    Args:
        lines: At least one.
        key: The segment's key. The segment stores its owner, so that it is refused under the key of another session.
        skeletons: The skeletons of the lines, if the caller made both from the same records; by default each line is
            checked and decoded.
        doubtful: An id of these records may occur in other segments of the session as well.
        level: Compression level for the lines.

    Raises:
        UsageError: There are no lines, they have too many bytes, or their positions do not follow each other.
        CorruptError: A line is damaged; `offset` counts from the first line.
    """
    if not lines or sum(map(len, lines)) > SEGMENT_BYTES_MAX:
        raise UsageError(f"a segment holds 1 to {SEGMENT_BYTES_MAX} bytes. got={sum(map(len, lines))}")
    skeletons = _skeletons(lines) if skeletons is None else skeletons
    first = skeletons[0].at
    if [skeleton.at for skeleton in skeletons] != list(range(first, first + len(lines))):
        raise UsageError(f"positions do not follow each other. first={first}, records={len(lines)}")
    groups = list(_groups(lines))
    contents = [b"".join(group) for group in groups]
    frames = [compress(content, level) for content in contents]
    parts, lists, odd = pack_parts(skeletons, _inline(lines, skeletons))
    index = _Index(
        treering=INDEX_VERSION,
        first=first,
        owner=owner_of(key) or UNSET,
        odd=odd or doubtful,
        told=MASK_ALL,
        frames=[
            _FrameEntry(len(frame), len(content), len(group), zlib.crc32(frame))
            for group, content, frame in zip(groups, contents, frames, strict=True)
        ],
        chunks=lists.chunks,
        outside=lists.outside,
        foreign=lists.foreign,
    )
    joined = skippable(_PARTS_KIND, b"".join(parts))
    sizes = zip(frames, map(len, contents), strict=True)
    return b"".join(frames) + joined + _encode_footer(index, sizes, [len(joined)])


def replace_lines(
    data: bytes, index: SegmentIndex, changed: Mapping[int, Callable[[bytes], bytes]], *, key: str
) -> bytes:
    """Return a segment with new lines at some positions. Only the frames and chunks that hold them are made anew.

    Args:
        data: The whole segment.
        index: Its index, of version 2.
        changed: Functions that return the new lines, by position. Only brief and body may differ.
        key: The key of the new segment, which may be in another session.

    Raises:
        CorruptError: A frame or part is damaged; also raised for those that are copied unchanged.
    """
    touched = {index.frame_of(at): None for at in changed}
    rows: dict[int, Skeleton] = {}
    inline: list[int] = []
    frames: list[tuple[bytes | memoryview, _FrameEntry]] = []
    view = memoryview(data)  # unchanged frames are many megabytes: copy them only once
    for span in index.frames:
        frame: bytes | memoryview = view[span.start : span.end]
        size, crc = span.content_size, span.crc
        if span in touched:
            lines = read_frame(bytes(frame), span, key=index.key)
            for number, at in enumerate(range(index.first + span.first_row, index.first + span.first_row + span.rows)):
                if at in changed:
                    lines[number] = changed[at](lines[number])
                    rows[at] = _skeletons([lines[number]], key=index.key)[0]
                    inline += [at] if may_hold_messages(rows[at].type, lines[number]) else []
            if any(row.at != at for at, row in rows.items()):
                raise _corrupt("frame and index differ in positions", index.key, span.start)
            content = b"".join(lines)
            frame, size = compress(content), len(content)
            crc = zlib.crc32(frame)
        elif zlib.crc32(frame) != crc:
            raise _corrupt("frame is damaged: its checksum differs", index.key, span.start)
        frames.append((frame, _FrameEntry(len(frame), size, span.rows, crc)))
    parts, lists = _with_rows(data, index, rows, inline)
    new = _Index(
        treering=index.version,
        first=index.first,
        owner=owner_of(key) or UNSET,
        odd=index.odd,
        told=MASK_ALL,
        frames=[entry for _, entry in frames],
        chunks=lists.chunks,
        outside=lists.outside,
        foreign=lists.foreign,
    )
    joined = skippable(_PARTS_KIND, b"".join(parts))
    sizes = [(frame, entry.content_size) for frame, entry in frames]
    return b"".join([*(frame for frame, _ in frames), joined, _encode_footer(new, sizes, [len(joined)])])


def _with_rows(
    data: bytes, index: SegmentIndex, rows: Mapping[int, Skeleton], inline: Collection[int]
) -> tuple[list[bytes], Lists]:
    """Return the parts of an index with new briefs and lengths at some positions, and their entries."""
    lists = lists_of(index)
    touched = {index.chunk_of(at): None for at in rows}
    parts: list[bytes] = []
    spans: list[Span] = [*index.chunks, *index.outside, *index.foreign]
    for number, span in enumerate(spans):
        part = data[span.start : span.end]
        if isinstance(span, ChunkSpan) and span in touched:
            part, lists.chunks[number] = repack_chunk(part, span, index, rows, inline)
        elif zlib.crc32(part) != span.crc:
            raise _corrupt("part of the index is damaged: its checksum differs", index.key, span.start)
        parts.append(part)
    return parts, lists


def _skeletons(lines: Iterable[bytes], *, key: str = "") -> list[Skeleton]:
    skeletons: list[Skeleton] = []
    offset = 0
    for line in lines:
        skeletons.append(skeleton_of_record(decode_record(line, key=key, offset=offset), len(line)))
        offset += len(line)
    return skeletons


def _inline(lines: Sequence[bytes], skeletons: Sequence[Skeleton]) -> list[int]:
    """Return the rows of checkpoints that may have messages in them."""
    pairs = zip(lines, skeletons, strict=True)
    return [row for row, (line, skeleton) in enumerate(pairs) if may_hold_messages(skeleton.type, line)]


def _groups(lines: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    """Yield the lines of each frame; a line longer than `FRAME_BYTES` has a frame of its own."""
    start = size = 0
    for row, line in enumerate(lines):
        if size and size + len(line) > FRAME_BYTES:
            yield lines[start:row]
            start, size = row, 0
        size += len(line)
    yield lines[start:]


def _encode_footer(
    index: msgspec.Struct, frames: Iterable[tuple[bytes | memoryview, int]], skipped: Sequence[int]
) -> bytes:
    """Return index and seek table.

    Args:
        index: The index.
        frames: The frames before it, with the sizes of their contents.
        skipped: The sizes of frames without content between these frames and the index.
    """
    packed = compress(msgspec.msgpack.encode(index))
    index_size = _SKIPPABLE_HEADER_BYTES + CHECKSUM_BYTES + len(packed)
    table = _encode_table(frames, [*skipped, index_size])
    crc = zlib.crc32(packed + table)
    return skippable(_INDEX_KIND, crc.to_bytes(CHECKSUM_BYTES, "little") + packed) + table


def _encode_table(frames: Iterable[tuple[bytes | memoryview, int]], skipped: Iterable[int]) -> bytes:
    """Return the seek table for frames, given with their content sizes, and for skippable frames of some sizes."""
    entries = [  # a frame ends in the lower half of the XXH64 of its content
        _TABLE_ENTRY.pack(len(frame), size, int.from_bytes(frame[-CHECKSUM_BYTES:], "little")) for frame, size in frames
    ]
    entries += [_TABLE_ENTRY.pack(size, 0, _EMPTY_CHECKSUM) for size in skipped]
    return skippable(_TABLE_KIND, b"".join(entries) + _TABLE_FOOTER.pack(len(entries), _WITH_CHECKSUMS, _TABLE_MAGIC))


def read_footer(suffix: bytes, size: int, *, key: str) -> SegmentIndex | int:
    """Decode the footer of a segment, or return how many of its last bytes are needed for that.

    Args:
        suffix: The last bytes of the segment, preferably `FOOTER_GUESS_BYTES` or more; the whole segment if it is
            shorter.
        size: Bytes of the whole segment.
        key: For messages.

    Raises:
        CorruptError: Damage, or bytes are missing, or it is the segment of another session (`Kind.OWNER`).
        FormatVersionError: Written by a newer version.
    """
    table_size = _table_size(suffix, size, key)
    if table_size > len(suffix):
        return min(size, table_size + FOOTER_GUESS_BYTES)
    table = suffix[-table_size:]
    entries = _decode_table(table, size - table_size, key)
    footer_size = table_size + entries[-1][0]
    if footer_size > len(suffix):
        return footer_size
    index = _decode_index(suffix[-footer_size:-table_size], table, size - footer_size, key)
    if index.owner is not UNSET:
        require_owner(index.owner, key=key)
    frames = _frame_spans(index.frames)
    if isinstance(index, _Index1):
        found = _index_1(index, frames, key)
        skipped = []
    else:
        found = _index_2(index, frames, key, size - footer_size)
        skipped = [(_parts_size(found), 0)]
    listed = [(frame.size, frame.content_size) for frame in index.frames] + skipped
    if listed != [entry[:2] for entry in entries[:-1]]:
        raise _corrupt("index and seek table differ", key, size - table_size)
    return found


def _frame_spans(entries: Sequence[_FrameEntry]) -> tuple[FrameSpan, ...]:
    ends = accumulate(entry.size for entry in entries)
    rows = accumulate(entry.rows for entry in entries)
    return tuple(
        [
            FrameSpan(end - frame.size, end, row - frame.rows, frame.rows, frame.content_size, frame.crc)
            for end, row, frame in zip(ends, rows, entries, strict=True)
        ]
    )


def _parts_size(index: SegmentIndex) -> int:
    """Return the bytes of the frame that holds all parts of an index."""
    spans: list[Span] = [*index.chunks, *index.outside, *index.foreign]
    return spans[-1].end - index.frames[-1].end


def _index_1(index: _Index1, frames: tuple[FrameSpan, ...], key: str) -> SegmentIndex:
    """Return an index of version 1: all rows are one chunk, from which the other parts are computed on demand."""
    rows = sum(frame.rows for frame in frames)
    foreign = bool(index.columns.ids.foreign)
    return SegmentIndex(
        key=key,
        version=index.treering,
        first=index.first,
        frames=frames,
        chunks=(ChunkSpan(0, 0, 0, rows, 0, TIME_MAX, MASK_ALL, 0),),
        outside=(OutsideSpan(0, 0, 0, "", 0),),
        foreign=(ForeignSpan(0, 0, 0, 0, 0),) if foreign else (),
        odd=foreign,
        columns=index.columns,
    )


def _index_2(index: _Index, frames: tuple[FrameSpan, ...], key: str, offset: int) -> SegmentIndex:
    rows = sum(frame.rows for frame in frames)
    if not rows or sum(chunk.rows for chunk in index.chunks) != rows:
        raise _corrupt("index contradicts itself: chunks and frames differ in the number of records", key, offset)
    try:
        chunks = [entry._replace(mask=entry.mask | (MASK_ALL & ~index.told)) for entry in index.chunks]
        spans = spans_of(Lists(chunks, index.outside, index.foreign), frames[-1].end + _SKIPPABLE_HEADER_BYTES)
    except ValueError as error:
        raise _corrupt(f"index contradicts itself: {error}", key, offset) from error
    return SegmentIndex(
        key=key, version=index.treering, first=index.first, frames=frames, odd=index.odd, **spans._asdict()
    )


def _corrupt(message: str, key: str, offset: int) -> CorruptError:
    return CorruptError(message, kind=Kind.SEGMENT, key=key, offset=offset)


def _table_size(suffix: bytes, size: int, key: str) -> int:
    """Return the bytes of the seek table with its frame header."""
    if len(suffix) < _TABLE_FOOTER.size:
        if len(suffix) < size:
            return _TABLE_FOOTER.size
        raise _corrupt("object is too short for a segment", key, 0)
    count, flags, magic = _TABLE_FOOTER.unpack(suffix[-_TABLE_FOOTER.size :])
    table_size = _table_bytes(count)
    if (flags, magic) != (_WITH_CHECKSUMS, _TABLE_MAGIC) or count < 2 or table_size > size:
        raise _corrupt("object does not end in a seek table", key, size - _TABLE_FOOTER.size)
    return table_size


def _table_bytes(entries: int) -> int:
    return _SKIPPABLE_HEADER_BYTES + entries * _TABLE_ENTRY.size + _TABLE_FOOTER.size


def _decode_table(table: bytes, offset: int, key: str) -> list[tuple[int, int, int]]:
    """Return the entries of the seek table: compressed size, content size, checksum. The last one is the index."""
    entries = list(_TABLE_ENTRY.iter_unpack(table[_SKIPPABLE_HEADER_BYTES : -_TABLE_FOOTER.size]))
    if sum(entry[0] for entry in entries) != offset:
        raise _corrupt("seek table does not fit the object", key, offset)
    return entries


def _decode_index(frame: bytes, table: bytes, offset: int, key: str) -> _Index1 | _Index:
    span = frame_at(frame, 0, key=key)
    payload = skippable_payload(frame, span, _INDEX_KIND, key=key)
    crc, packed = payload[:CHECKSUM_BYTES], payload[CHECKSUM_BYTES:]
    if span.end != len(frame) or crc != zlib.crc32(packed + table).to_bytes(CHECKSUM_BYTES, "little"):
        raise _corrupt("index is damaged: its checksum differs", key, offset)
    inner = frame_at(packed, 0, key=key)
    check_size(inner.content_size or 0, _INDEX_BYTES_MAX, key=key, offset=offset)
    content = decompress_frame(packed, inner, key=key)
    try:
        version = _version_decoder.decode(content).treering
        if version > INDEX_VERSION:
            message = f"format version is newer than ours. ours={INDEX_VERSION}, got={version}"
            raise FormatVersionError(message, key=key, remedy="upgrade treering")
        return (_index_decoder if version == INDEX_VERSION else _index_decoder_1).decode(content)
    except msgspec.MsgspecError as error:
        raise _corrupt(f"index is not understood: {error}", key, offset) from error


def read_frame(data: bytes, span: FrameSpan, *, key: str) -> list[bytes]:
    """Return the lines of one frame, line breaks included; arguments and errors are those of `frame_content`."""
    return frame_lines(frame_content(data, span, key=key), span, key=key)


def frame_lines(content: bytes, span: FrameSpan, *, key: str) -> list[bytes]:
    """Return the lines of the content of a frame, line breaks included.

    Raises:
        CorruptError: The number of lines differs from the index.
    """
    lines = split_lines(content)
    if len(lines) != span.rows or not content.endswith(b"\n"):
        raise _corrupt("frame and index differ in the number of records", key, span.start)
    return lines


def frame_content(data: bytes, span: FrameSpan, *, key: str) -> bytes:
    """Return the content of one frame: whole lines.

    Args:
        data: The bytes of the segment from `span.start` to `span.end`.
        span: From the footer of the same segment.
        key: For messages.

    Raises:
        CorruptError: Damage.
    """
    if zlib.crc32(data) != span.crc:
        raise _corrupt("frame is damaged: its checksum differs", key, span.start)
    check_size(span.content_size, RECORD_BYTES_MAX, key=key, offset=span.start)
    frame = frame_at(data, 0, key=key)
    if (frame.end, frame.content_size) != (len(data), span.content_size):
        raise _corrupt("frame and index differ in size", key, span.start)
    return decompress_frame(data, frame, key=key)


def read_segment(data: bytes, *, key: str) -> list[bytes]:
    """Return all lines of a segment, after its frames, index and seek table were checked against each other.

    Raises:
        CorruptError: Damage, with the offset of the frame it is in.
        FormatVersionError: Written by a newer version.
    """
    footer = read_footer(data, len(data), key=key)
    if isinstance(footer, int):
        raise _corrupt("object is too short for a segment", key, 0)
    check_size(sum(span.content_size for span in footer.frames), SEGMENT_BYTES_MAX, key=key, offset=0)
    frames = [data[span.start : span.end] for span in footer.frames]
    lines = [
        line for frame, span in zip(frames, footer.frames, strict=True) for line in read_frame(frame, span, key=key)
    ]
    skeletons = _skeletons(lines, key=key)
    check(data, footer, skeletons, _inline(lines, skeletons))
    start = footer.frames[-1].end
    skipped = [_parts_size(footer)] if footer.version > 1 else []
    parts = data[start : start + sum(skipped)]
    if skipped and parts != skippable(_PARTS_KIND, parts[_SKIPPABLE_HEADER_BYTES:]):
        raise _corrupt("frame around the parts of the index is damaged", key, start)
    index_size = len(data) - start - len(parts) - _table_bytes(len(frames) + len(skipped) + 1)
    sizes = ((frame, span.content_size) for frame, span in zip(frames, footer.frames, strict=True))
    if not data.endswith(_encode_table(sizes, [*skipped, index_size])):
        raise _corrupt("seek table and frames differ", key, start + len(parts) + index_size)
    return lines
