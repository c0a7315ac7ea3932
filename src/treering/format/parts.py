"""The parts of a segment's index that can be read alone: chunks of rows, and two tables for finding rows.

    chunk | chunk | ... | block of references outside | ... | block of foreign ids | ...

Rule 1: a part is one frame. The index lists its place and its CRC-32.
Rule 2: the records are the truth. All parts are computed from them, and `check` computes them again, since a checksum
        does not detect a column that was already wrong when it was written.

References outside are references to ids that no record of the segment has; finding the referrers of a record takes few
blocks of each segment. Foreign ids were not made by Treering. They contain no time by which a chunk could be chosen, so
they are found by a hash. For our ids the index lists the range of times in each chunk.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from treering.errors import CorruptError
from treering.format.chunk import CONTRADICTIONS, Back, Chunk, Outside, PackedReferred, Referred
from treering.format.columns import Columns, Rows, pack
from treering.format.frames import check_size, compress, decompress_frame, frame_at
from treering.format.id_column import IdColumn, Ids, encode_text, pack_ids
from treering.format.index import FENCE_CHARACTERS, HASH_MAX, ChunkSpan, ForeignSpan, OutsideSpan, SegmentIndex, hash_of
from treering.format.integers import pack_differences, pack_integers, unpack_differences, unpack_integers
from treering.format.part_lists import ChunkEntry, ForeignEntry, Lists, OutsideEntry, Span
from treering.format.record import RECORD_BYTES_MAX, Skeleton
from treering.format.references import CHILD, CODES, HAS_INLINE, MASK_FIRST, code_of, mask_of, rows_meant
from treering.ids import time_of
from treering.kinds import Kind

CHUNK_ROWS: Final = 1024
"""Most rows of a chunk. Smaller chunks compress worse, larger ones take longer to decode for one page."""
OUTSIDE_ENTRIES: Final = 1024
FOREIGN_ENTRIES: Final = 4096
TEXT_MAX: Final = 1024 * 1024
"""A chunk or block ends early behind this many characters of ids, briefs and links, which bounds its size."""
PART_BYTES_MAX: Final = 2 * RECORD_BYTES_MAX
"""Most content of a part: `TEXT_MAX` characters, and one record that is longer than that."""

T = TypeVar("T")


class _Chunk(msgspec.Struct, frozen=True):
    """The content of a chunk."""

    columns: Columns
    parents: bytes
    """For each of `columns.parents.outside`, the number of rows back to its row in this segment; 0 if it has none."""
    targets: bytes
    """The same for `columns.targets.outside`."""
    referred: PackedReferred


class _Outside(msgspec.Struct, frozen=True):
    """The content of a block of references outside."""

    ids: Ids
    rows: bytes
    codes: bytes


class _Foreign(msgspec.Struct, frozen=True):
    """The content of a block of foreign ids."""

    hashes: bytes
    """Hashes, as differences."""
    rows: bytes


# Made at import: a type that two threads decode for the first time at once crashes msgspec.
_chunk_decoder = msgspec.msgpack.Decoder(_Chunk)
_outside_decoder = msgspec.msgpack.Decoder(_Outside)
_foreign_decoder = msgspec.msgpack.Decoder(_Foreign)


class Derived(NamedTuple):
    """The contents of the parts other than the skeletons, computed from the skeletons."""

    parents: list[int | None]
    """By row, the row of its parent; see `rows_meant`."""
    targets: list[int | None]
    referred: list[Referred]
    """References inside the segment, by chunk."""
    outside: list[Outside]
    """References outside, in order."""
    foreign: list[tuple[int, int]]
    """Hash and row, in order."""
    odd: bool
    """An id occurs twice, or the parent of a node is the node itself, behind it, or not a node."""


def derive(skeletons: Sequence[Skeleton], chunks: Sequence[tuple[int, int]]) -> Derived:
    """Compute the contents of the parts from the records.

    Args:
        skeletons: The skeletons of all records of a segment.
        chunks: First row and end of each chunk.
    """
    ids = [skeleton.id for skeleton in skeletons]
    known = set(ids)
    parents = rows_meant([skeleton.parent for skeleton in skeletons], ids, chunks)
    targets = rows_meant([skeleton.target for skeleton in skeletons], ids, chunks)
    inside: list[tuple[int, int, int]] = []
    outside: list[Outside] = []
    odd = len(known) < len(ids)
    for row, skeleton in enumerate(skeletons):
        code = code_of(skeleton.type, skeleton.kind)
        reference, target = (skeleton.parent, parents[row]) if code == CHILD else (skeleton.target, targets[row])
        if code is None or reference is None:
            continue
        if target is not None:
            inside.append((target, row, code))
            odd = odd or (code == CHILD and (target > row or skeletons[target].type != "node"))
        elif reference not in known:
            outside.append(Outside(reference, row, code))
        else:
            odd = odd or code == CHILD  # its own parent
    return Derived(
        parents,
        targets,
        _by_chunk(sorted(inside), chunks),
        sorted(outside),
        sorted((hash_of(name), row) for row, name in enumerate(ids) if time_of(name) is None),
        odd,
    )


def _by_chunk(inside: list[tuple[int, int, int]], chunks: Sequence[tuple[int, int]]) -> list[Referred]:
    referred: list[Referred] = []
    for start, end in chunks:
        here = inside[bisect_left(inside, (start,)) : bisect_left(inside, (end,))]
        targets, distances = [target - start for target, _, _ in here], [row - target for target, row, _ in here]
        referred.append(Referred(targets, distances, [code for *_, code in here]))
    return referred


def pack_parts(skeletons: Sequence[Skeleton], inline: Sequence[int] = ()) -> tuple[list[bytes], Lists, bool]:
    """Return the parts for some records in the order of the object, their entries in the index, and `Derived.odd`.

    Args:
        skeletons: The skeletons of the records.
        inline: Rows of checkpoints that may hold messages themselves, in order.
    """
    spans = _cut([_text_size(skeleton) for skeleton in skeletons], CHUNK_ROWS)
    derived = derive(skeletons, spans)
    chunks = [
        _pack_chunk(skeletons[start:end], derived, referred, start, has_inline=_among(inline, start, end))
        for (start, end), referred in zip(spans, derived.referred, strict=True)
    ]
    sizes = [len(each.id) for each in derived.outside]
    outside = [_pack_outside(derived.outside[start:end]) for start, end in _cut(sizes, OUTSIDE_ENTRIES)]
    found = derived.foreign
    foreign = [_pack_foreign(found[start:end]) for start, end in _cut([0] * len(found), FOREIGN_ENTRIES)]
    lists = Lists([entry for _, entry in chunks], [entry for _, entry in outside], [entry for _, entry in foreign])
    return [data for data, _ in (*chunks, *outside, *foreign)], lists, derived.odd


def _text_size(skeleton: Skeleton) -> int:
    links = sum(len(name) + len(value) for name, value in skeleton.links.items()) if skeleton.links else 0
    names = len(skeleton.type) + len(skeleton.kind) + len(skeleton.role) + len(skeleton.head)
    ids = len(skeleton.id) + len(skeleton.parent or "") + len(skeleton.target or "")
    return ids + names + links + len(skeleton.brief)


def _cut(sizes: Sequence[int], count_max: int) -> list[tuple[int, int]]:
    """Return the beginnings and ends of runs of at most `count_max` items; runs end early behind `TEXT_MAX`."""
    runs: list[tuple[int, int]] = []
    start = size = 0
    for place, each in enumerate(sizes):
        if place - start == count_max or size > TEXT_MAX:
            runs.append((start, place))
            start, size = place, 0
        size += each
    return [*runs, (start, len(sizes))] if sizes else []


def _pack_chunk(
    skeletons: Sequence[Skeleton], derived: Derived, referred: Referred, first_row: int, *, has_inline: bool
) -> tuple[bytes, ChunkEntry]:
    parents = [skeleton.parent for skeleton in skeletons]
    targets = [skeleton.target for skeleton in skeletons]
    content = _Chunk(
        columns=pack(skeletons),
        parents=pack_integers(_steps_back(parents, derived.parents, first_row)),
        targets=pack_integers(_steps_back(targets, derived.targets, first_row)),
        referred=referred.pack(),
    )
    return _packed_chunk(content, skeletons, has_inline=has_inline)


def _packed_chunk(content: _Chunk, skeletons: Sequence[Skeleton], *, has_inline: bool) -> tuple[bytes, ChunkEntry]:
    data, crc = _pack(content)
    mask = mask_of(skeletons) | (has_inline and HAS_INLINE)
    return data, ChunkEntry(len(data), crc, len(skeletons), *IdColumn(content.columns.ids).bounds, mask)


def repack_chunk(
    data: bytes, span: ChunkSpan, index: SegmentIndex, changed: Mapping[int, Skeleton], inline: Collection[int]
) -> tuple[bytes, ChunkEntry]:
    """Return a chunk in which only the briefs and lengths of some records differ.

    Args:
        data: The bytes of the chunk, of version 2.
        span: One of `index.chunks`.
        index: The index of the segment.
        changed: The new skeletons, by position.
        inline: Positions of changed records that may be checkpoints with messages in them.

    Raises:
        CorruptError: Damage, or the columns contradict each other.
    """
    try:
        content = _unpack(data, span, index, _chunk_decoder)
        chunk = _chunk_of(content, span, index)
    except CONTRADICTIONS as error:
        raise _contradiction(error, index, span.start) from error
    skeletons = [changed.get(row.at, row) for row in chunk.skeletons()]
    content = msgspec.structs.replace(content, columns=pack(skeletons))
    has_inline = bool(span.mask & HAS_INLINE) or any(row.at in inline for row in skeletons)
    return _packed_chunk(content, skeletons, has_inline=has_inline)


def _among(rows: Sequence[int], start: int, end: int) -> bool:
    place = bisect_left(rows, start)
    return place < len(rows) and rows[place] < end


def _steps_back(references: Sequence[str | None], meant: Sequence[int | None], first_row: int) -> list[int]:
    """Return the numbers of rows back for the references of a chunk to rows outside of it."""
    steps: list[int] = []
    end = first_row + len(references)
    for row, reference in enumerate(references, first_row):
        target = meant[row]
        if reference is not None and (target is None or not first_row <= target < end):
            steps.append(0 if target is None else row - target)
    return steps


def _pack_outside(entries: Sequence[Outside]) -> tuple[bytes, OutsideEntry]:
    ids, rows, codes = zip(*entries, strict=True)
    data, crc = _pack(_Outside(ids=pack_ids(ids), rows=pack_integers(rows), codes=pack_integers(codes)))
    return data, OutsideEntry(len(data), crc, len(entries), encode_text(ids[0][:FENCE_CHARACTERS]))


def _pack_foreign(entries: Sequence[tuple[int, int]]) -> tuple[bytes, ForeignEntry]:
    hashes, rows = zip(*entries, strict=True)
    data, crc = _pack(_Foreign(hashes=pack_differences(hashes), rows=pack_integers(rows)))
    return data, ForeignEntry(len(data), crc, len(entries), hashes[0])


def _pack(content: msgspec.Struct) -> tuple[bytes, int]:
    data = compress(msgspec.msgpack.encode(content))
    return data, zlib.crc32(data)


def read_chunk(data: bytes, span: ChunkSpan, index: SegmentIndex) -> Chunk:
    """Decode one chunk.

    Args:
        data: The bytes of the segment from `span.start` to `span.end`; none if these are equal.
        span: One of `index.chunks`.
        index: That of the segment.

    Raises:
        CorruptError: Damage, or the columns contradict each other.
    """
    try:
        if index.columns:
            _require_size(data, span, index)
            return _chunk(Rows(index.columns, span.rows), None, None, span, index)
        return _chunk_of(_unpack(data, span, index, _chunk_decoder), span, index)
    except CONTRADICTIONS as error:
        raise _contradiction(error, index, span.start) from error


def _chunk_of(content: _Chunk, span: ChunkSpan, index: SegmentIndex) -> Chunk:
    rows = Rows(content.columns, span.rows)
    if rows.ids.bounds != (span.least, span.greatest):
        raise ValueError("times of a chunk are not as listed")
    return _chunk(rows, Back(content.parents, content.targets), content.referred, span, index)


def _chunk(
    rows: Rows, back: Back | None, referred: PackedReferred | None, span: ChunkSpan, index: SegmentIndex
) -> Chunk:
    """The chunk with these rows; version 1 has neither `back` nor `referred`."""
    return Chunk(
        rows,
        first_row=span.first_row,
        first=index.first + span.first_row,
        back=back,
        referred=referred,
        total=index.rows,
        key=index.key,
        offset=span.start,
    )


def read_outside(data: bytes, span: OutsideSpan, index: SegmentIndex) -> list[Outside]:
    """Return the references of one block to ids that no record of the segment has, ordered by (id, row).

    Args:
        data: The bytes of the segment from `span.start` to `span.end`; none if these are equal.
        span: One of `index.outside`.
        index: That of the segment.

    Raises:
        CorruptError: Damage.
    """
    if index.columns:
        _require_size(data, span, index)
        return _outside_of(read_chunk(b"", index.chunks[0], index))
    try:
        stored = _unpack(data, span, index, _outside_decoder)
        ids = IdColumn(stored.ids, span.entries).texts()
        rows, codes = unpack_integers(stored.rows, len(ids)), unpack_integers(stored.codes, len(ids))
        found = [Outside(*entry) for entry in zip(ids, rows, codes, strict=True)]
        if found != sorted(found) or ids[0][:FENCE_CHARACTERS] != span.first:
            raise ValueError("references are not as listed, or out of order")
        _require_range(rows, index.rows)
        _require_range(codes, len(CODES))
    except CONTRADICTIONS as error:
        raise _contradiction(error, index, span.start) from error
    return found


def _outside_of(chunk: Chunk) -> list[Outside]:
    """Return the references of a whole segment to ids that it does not have."""
    ids = set(chunk.ids)
    unmet = [each for each in chunk.references() if each.target is None]
    found = [Outside(chunk.reference(each.row, each.code), each.row, each.code) for each in unmet]
    return sorted(each for each in found if each.id not in ids)


def read_foreign(data: bytes, span: ForeignSpan, index: SegmentIndex) -> list[tuple[int, int]]:
    """Return (hash of the id, row) of the records with foreign ids in one block, in order.

    Args:
        data: The bytes of the segment from `span.start` to `span.end`; none if these are equal.
        span: One of `index.foreign`.
        index: That of the segment.

    Raises:
        CorruptError: Damage.
    """
    if index.columns:
        _require_size(data, span, index)
        return sorted((zlib.crc32(text), row) for row, text in read_chunk(b"", index.chunks[0], index).foreign())
    try:
        stored = _unpack(data, span, index, _foreign_decoder)
        hashes = unpack_differences(stored.hashes, span.entries)
        rows = unpack_integers(stored.rows, span.entries)
        found = list(zip(hashes, rows, strict=True))
        if found != sorted(found) or hashes[0] != span.first:
            raise ValueError("foreign ids are not as listed, or out of order")
        _require_range(hashes, HASH_MAX + 1)
        _require_range(rows, index.rows)
    except CONTRADICTIONS as error:
        raise _contradiction(error, index, span.start) from error
    return found


def _require_range(values: Sequence[int], end: int) -> None:
    if not 0 <= min(values) <= max(values) < end:
        raise ValueError("entry is out of range")


def _unpack(data: bytes, span: Span, index: SegmentIndex, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Decode a part, after checking its bytes against the index."""
    _require_size(data, span, index)
    if zlib.crc32(data) != span.crc:
        raise CorruptError(
            "part of the index is damaged: its checksum differs", kind=Kind.CHECKSUM, key=index.key, offset=span.start
        )
    frame = frame_at(data, 0, key=index.key)
    if frame.end != len(data) or frame.content_size is None:
        raise _contradiction("a part is not one frame", index, span.start)
    check_size(frame.content_size, PART_BYTES_MAX, key=index.key, offset=span.start)
    return decoder.decode(decompress_frame(data, frame, key=index.key))


def _require_size(data: bytes, span: Span, index: SegmentIndex) -> None:
    if len(data) != span.end - span.start:
        raise _contradiction("a part is not as long as listed", index, span.start)


def _contradiction(problem: object, index: SegmentIndex, offset: int) -> CorruptError:
    return CorruptError(f"index contradicts itself: {problem}", kind=Kind.INDEX, key=index.key, offset=offset)


def check(data: bytes, index: SegmentIndex, skeletons: Sequence[Skeleton], inline: Sequence[int] = ()) -> None:
    """Compare all parts of a segment with its records.

    Args:
        data: The whole segment.
        index: Its index.
        skeletons: The skeletons of its records.
        inline: Rows of checkpoints that may hold messages themselves, in order.

    Raises:
        CorruptError: A part is damaged, or differs from the records.
    """
    spans = [(span.first_row, span.first_row + span.rows) for span in index.chunks]
    derived = derive(skeletons, spans)
    for span, (start, end), referred in zip(index.chunks, spans, derived.referred, strict=True):
        chunk, mine = read_chunk(_piece(data, span), span, index), skeletons[start:end]
        if chunk.skeletons() != mine:
            raise _differs(index, span)
        if index.columns:  # nothing else is stored
            return
        parents, targets = map(chunk.parent_row, chunk.rows), map(chunk.target_row, chunk.rows)
        mask = mask_of(mine) | (_among(inline, start, end) and HAS_INLINE)
        found = list(parents), list(targets), chunk.referred, span.mask & MASK_FIRST
        if found != (derived.parents[start:end], derived.targets[start:end], referred, mask & MASK_FIRST):
            raise _differs(index, span)
        if mask & ~span.mask:
            raise _differs(index, span)
    outside = [entry for span in index.outside for entry in read_outside(_piece(data, span), span, index)]
    foreign = [entry for span in index.foreign for entry in read_foreign(_piece(data, span), span, index)]
    if (outside, foreign) != (derived.outside, derived.foreign) or (derived.odd and not index.odd):
        raise _differs(index, index.chunks[-1])


def _piece(data: bytes, span: Span) -> bytes:
    return data[span.start : span.end]


def _differs(index: SegmentIndex, span: Span) -> CorruptError:
    return CorruptError("index and records differ", kind=Kind.SEGMENT, key=index.key, offset=span.start)
