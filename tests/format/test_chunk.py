"""Chunks: rows read one by one, what they point to and what points to them, as a plain model of the records says."""

import zlib

import pytest
from hypothesis import given, strategies as st
from tests.format.test_columns import OURS, Row, rows, skeletons_of

from treering.errors import CorruptError, UsageError
from treering.format.chunk import Chunk, Outside, Referrer
from treering.format.columns import Columns, pack
from treering.format.index import TIME_MAX, ChunkSpan, ForeignSpan, FrameSpan, OutsideSpan, SegmentIndex
from treering.format.parts import read_chunk, read_foreign, read_outside
from treering.format.record import Skeleton
from treering.format.references import MASK_ALL, code_of, reference_of
from treering.ids import time_of

kinds = st.sampled_from(
    [
        *(("node", kind) for kind in ("message", "compaction")),
        *(("note", kind) for kind in ("label", "title")),
        *(("edit", kind) for kind in ("amend", "retract", "prune", "other")),
        *(("checkpoint", ""), ("head", "checkout"), ("new", "")),
    ]
)
records = st.tuples(kinds, rows).map(lambda drawn: (*drawn[0], *drawn[1][2:]))


def index_1(columns: Columns, first: int, count: int) -> SegmentIndex:
    """The index of a segment of version 1, without its frames."""
    return SegmentIndex(
        key="k",
        version=1,
        first=first,
        frames=(FrameSpan(0, 1, 0, count, 1, 0),),
        chunks=(ChunkSpan(0, 0, 0, count, 0, TIME_MAX, MASK_ALL, 0),),
        outside=(OutsideSpan(0, 0, 0, "", 0),),
        foreign=(ForeignSpan(0, 0, 0, 0, 0),),
        odd=False,
        columns=columns,
    )


def meant(skeletons: list[Skeleton], row: int, reference: str | None, size: int) -> int | None:
    """The row that a reference means: the last one in its chunk of `size` rows, else in the segment; never itself."""
    start = row - row % size
    for first, end in ((start, min(start + size, len(skeletons))), (0, len(skeletons))):
        found = [other for other in range(first, end) if skeletons[other].id == reference]
        if found and found[-1] != row:
            return found[-1]
    return None


def walked(skeletons: list[Skeleton], chunk: Chunk, row: int, limit: int) -> tuple[list[Skeleton], int | None]:
    """What a walk from a row upward finds in its chunk, and the row above that."""
    rows = [skeletons[row]]
    while (above := chunk.parent_row(row)) is not None and above in chunk.rows and above < row and len(rows) < limit:
        rows.append(skeletons[above])
        row = above
    return rows, above


def same_as_model(skeletons: list[Skeleton], chunks: list[Chunk], size: int) -> None:
    """Compare chunks of `size` rows with the records they were made of."""
    assert [row for chunk in chunks for row in chunk.rows] == list(range(len(skeletons)))
    expected: dict[int, list[Referrer]] = {row: [] for row in range(len(skeletons))}
    for row, skeleton in enumerate(skeletons):
        code = code_of(skeleton.type, skeleton.kind)
        target = meant(skeletons, row, reference_of(skeleton), size)
        if code is not None and target is not None:
            expected[target].append(Referrer(row, code))
    for chunk in chunks:
        mine = [skeletons[row] for row in chunk.rows]
        assert chunk.skeletons() == mine
        assert chunk.ids == [skeleton.id for skeleton in mine]
        for row in chunk.rows:
            skeleton = skeletons[row]
            assert chunk.skeleton(row) == skeleton
            assert chunk.id(row) == skeleton.id
            assert chunk.parent_row(row) == meant(skeletons, row, skeleton.parent, size)
            for limit in (1, 2, 20):
                assert chunk.climb(row, limit) == walked(skeletons, chunk, row, limit)
            assert chunk.target_row(row) == meant(skeletons, row, skeleton.target, size)
            assert chunk.referrers(row) == expected[row]
            assert chunk.find(skeleton.id) == max(other for other in chunk.rows if skeletons[other].id == skeleton.id)


def outside_of(skeletons: list[Skeleton]) -> list[Outside]:
    """The references to ids that no record has."""
    ids = {skeleton.id for skeleton in skeletons}
    found = [
        Outside(reference, row, code)
        for row, skeleton in enumerate(skeletons)
        if (code := code_of(skeleton.type, skeleton.kind)) is not None
        and (reference := reference_of(skeleton)) is not None
        and reference not in ids
    ]
    return sorted(found)


def foreign_of(skeletons: list[Skeleton]) -> list[tuple[int, int]]:
    """The hashes and rows of the ids that are not ours."""
    found = [(row, skeleton.id) for row, skeleton in enumerate(skeletons) if time_of(skeleton.id) is None]
    return sorted((zlib.crc32(name.encode("utf-8", "surrogatepass")), row) for row, name in found)


@given(st.lists(records, min_size=1, max_size=14), st.integers(0, 2**40))
def test_chunk_of_version_1(drawn: list[Row], first: int) -> None:
    """The columns of a whole segment tell everything, though nothing but the columns is stored."""
    skeletons = skeletons_of(drawn, first)
    index = index_1(pack(skeletons), first, len(skeletons))
    same_as_model(skeletons, [read_chunk(b"", index.chunks[0], index)], len(skeletons))
    assert read_outside(b"", index.outside[0], index) == outside_of(skeletons)
    assert read_foreign(b"", index.foreign[0], index) == foreign_of(skeletons)


def test_rows_that_are_elsewhere() -> None:
    """A row before or behind the chunk is a wrong call: no other row is shown in its place."""
    skeletons = skeletons_of([("node", "", name, None, "", "", None, None, None, b"{}", 1, False) for name in OURS], 0)
    index = index_1(pack(skeletons), 0, len(skeletons))
    chunk = read_chunk(b"", index.chunks[0], index)
    for row in (-1, len(skeletons)):
        for ask in (chunk.id, chunk.skeleton, chunk.parent_row, chunk.target_row, chunk.referrers):
            with pytest.raises(UsageError):
                ask(row)
        with pytest.raises(UsageError):
            chunk.climb(row, 1)
    with pytest.raises(UsageError):
        index.chunk_of(len(skeletons))
    assert chunk.find(OURS[0][:-1]) is None
    assert chunk.find("f" * 32) is None
    with pytest.raises(CorruptError):
        read_chunk(b"more", index.chunks[0], index)


@pytest.mark.parametrize("shift", [1, 3, 4, 5, 6, 7, 9])
def test_ids_that_overlap(shift: int) -> None:
    """The last bytes of an id that occur across two others, with the same time, are not taken for it."""
    ends = bytearray(b"\x70\0\x80" + bytes(7)) * 2
    ends[shift] = 0x71
    ends[shift + 2] = 0x82
    ids = [f"{1:012x}{ends[start : start + 10].hex()}" for start in (0, 10, shift)]
    assert all(time_of(name) == 1 for name in ids)
    made = [("node", "", name, None, "", "", None, None, None, b"{}", 1, False) for name in ids]
    for there in ([0, 1], [0, 1, 2], [2, 0, 1], [0, 1, 0]):
        skeletons = skeletons_of([made[number] for number in there], 0)
        chunk = read_chunk(b"", (index := index_1(pack(skeletons), 0, len(there))).chunks[0], index)
        last = {number: row for row, number in enumerate(there)}
        assert [chunk.find(name) for name in ids] == [last.get(number) for number in range(3)]
