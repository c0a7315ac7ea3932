"""Parts of the index: they say what a plain model of the records says, and nothing wrong passes the whole check."""

import zlib
from unittest import mock

import msgspec
import pytest
from hypothesis import given, strategies as st
from tests.format.test_chunk import foreign_of, outside_of, records, same_as_model
from tests.format.test_columns import OURS, Row, skeletons_of

from treering.errors import CorruptError
from treering.format import parts
from treering.format.frames import compress, decompress
from treering.format.index import FrameSpan, SegmentIndex, hash_of
from treering.format.integers import pack_differences, pack_integers
from treering.format.part_lists import spans_of
from treering.format.parts import check, pack_parts, read_chunk, read_foreign, read_outside
from treering.format.record import Skeleton
from treering.format.references import mask_of
from treering.ids import time_of


def packed(skeletons: list[Skeleton], *, size: int = 1024) -> tuple[bytes, SegmentIndex]:
    """The parts for some records, in chunks and blocks of `size`, as they lie in a segment; and the index of it."""
    with mock.patch.multiple(parts, CHUNK_ROWS=size, OUTSIDE_ENTRIES=size, FOREIGN_ENTRIES=size):
        data, lists, odd = pack_parts(skeletons)
    index = SegmentIndex(
        key="k",
        version=2,
        first=skeletons[0].at,
        frames=(FrameSpan(0, 10, 0, len(skeletons), 10, 0),),
        odd=odd,
        **spans_of(lists, 18)._asdict(),
    )
    return bytes(18) + b"".join(data), index


@given(st.lists(records, min_size=1, max_size=16), st.integers(1, 6), st.integers(0, 2**40))
def test_parts_say_what_the_records_say(drawn: list[Row], size: int, first: int) -> None:
    """Rows, references, referrers, both tables and all that is listed, of records that may be as odd as they like."""
    skeletons = skeletons_of(drawn, first)
    data, index = packed(skeletons, size=size)
    check(data, index, skeletons)
    same_as_model(skeletons, [read_chunk(data[span.start : span.end], span, index) for span in index.chunks], size)
    for span in index.chunks:
        mine = skeletons[span.first_row : span.first_row + span.rows]
        times = [time for each in mine if (time := time_of(each.id)) is not None]
        assert (span.least, span.greatest) == (min(times, default=-1), max(times, default=-1))
        assert span.mask == mask_of(mine)
    outside = [read_outside(data[span.start : span.end], span, index) for span in index.outside]
    assert [entry for block in outside for entry in block] == outside_of(skeletons)
    foreign = [read_foreign(data[span.start : span.end], span, index) for span in index.foreign]
    assert [entry for block in foreign for entry in block] == foreign_of(skeletons)
    assert all(0 < len(block) <= size for block in outside)
    assert all(0 < len(block) <= size for block in foreign)
    assert index.odd == is_odd(skeletons)


def is_odd(skeletons: list[Skeleton]) -> bool:
    """Whether an id occurs twice, or a node is not behind its parent, or that is no node."""
    ids = [each.id for each in skeletons]
    nodes = {each.id for each in skeletons if each.type == "node"}
    if any(each.type == "node" and each.parent in ids and each.parent not in nodes for each in skeletons):
        return True
    late = any(each.type == "node" and each.parent in ids[row:] for row, each in enumerate(skeletons))
    return late or len(set(ids)) < len(ids)


@given(st.lists(records, min_size=1, max_size=16), st.integers(1, 4))
def test_blocks_are_found(drawn: list[Row], size: int) -> None:
    """What the index says of its parts leads to every record and every reference, and to few others."""
    skeletons = skeletons_of(drawn, 0)
    data, index = packed(skeletons, size=size)
    for row, skeleton in enumerate(skeletons):
        spans = index.chunks_with(skeleton.id)
        if time_of(skeleton.id) is None:
            assert not spans
            blocks = [
                read_foreign(data[span.start : span.end], span, index) for span in index.foreign_with(skeleton.id)
            ]
            assert (hash_of(skeleton.id), row) in [entry for block in blocks for entry in block]
        else:
            assert index.chunk_of(row) in spans
            assert not index.foreign_with(skeleton.id)
    for entry in outside_of(skeletons):
        blocks_outside = [
            read_outside(data[span.start : span.end], span, index) for span in index.outside_with(entry.id)
        ]
        assert entry in [found for block in blocks_outside for found in block]


def node(name: str, parent: str | None = None, brief: bytes = b"{}") -> Row:
    """A message."""
    return ("node", "message", name, parent, "main", "user", None, None, None, brief, 1, False)


@pytest.mark.parametrize("long", [64, 65, 100_000])
def test_long_ids_are_found(long: int) -> None:
    """References to ids that differ only behind what the index shows of them are all found."""
    wanted = ["x" * long + end for end in ("", "a", "a", "b", "c", "\ud800", "\U0001f600")]
    skeletons = skeletons_of([node(f"n{row}", parent) for row, parent in enumerate([*wanted, "w", "y"])], 0)
    data, index = packed(skeletons, size=2)
    assert len(msgspec.msgpack.encode(index.outside)) < 2000
    for name in {*wanted, "w", "y", "x"}:
        spans = index.outside_with(name)
        found = [entry for span in spans for entry in read_outside(data[span.start : span.end], span, index)]
        assert [entry.row for entry in found if entry.id == name] == [
            row for row, each in enumerate(skeletons) if each.parent == name
        ]


def test_long_texts_end_a_chunk() -> None:
    """A chunk, and a block of references, ends early behind long texts: what is decompressed for a page stays small."""
    long = "x" * (parts.TEXT_MAX // 4)
    skeletons = skeletons_of([node(f"{long}{row}", f"{long} {row}") for row in range(12)], 0)
    data, index = packed(skeletons)
    assert [span.rows for span in index.chunks] == [2] * 6
    assert [span.entries for span in index.outside] == [4, 4, 4]
    check(data, index, skeletons)


def test_a_chunk_is_full() -> None:
    """Rows go on in the next chunk behind the greatest number."""
    skeletons = skeletons_of([node(f"{row}") for row in range(2 * parts.CHUNK_ROWS + 1)], 0)
    data, index = packed(skeletons)
    assert [span.rows for span in index.chunks] == [1024, 1024, 1]
    check(data, index, skeletons)


RECORDS = skeletons_of(
    [
        node(OURS[0]),
        node(OURS[1], OURS[0]),
        ("checkpoint", "", OURS[2], None, "main", "", OURS[1], None, None, b"{}", 1, False),
        node("foreign", OURS[0]),
        node(OURS[3], OURS[0]),
        ("note", "label", OURS[4], None, "", "", "gone", None, None, b"{}", 1, False),
    ],
    5,
)
DATA, INDEX = packed(RECORDS, size=3)


def lying(kind: str, number: int = 0, **changes: object) -> tuple[bytes, SegmentIndex]:
    """The parts with one that says something else, and all checksums right."""
    spans = list(getattr(INDEX, kind))
    span = spans[number]
    content = msgspec.msgpack.decode(decompress(DATA[span.start : span.end], key="k", bytes_max=1 << 20))
    changed = compress(msgspec.msgpack.encode(content | changes))
    moved = len(changed) - (span.end - span.start)
    data = DATA[: span.start] + changed + DATA[span.end :]
    replace = msgspec.structs.replace
    index = INDEX
    for name in ("chunks", "outside", "foreign"):
        shifted = tuple(
            [
                replace(each, start=each.start + moved, end=each.end + moved) if each.start > span.start else each
                for each in getattr(INDEX, name)
            ]
        )
        index = replace(index, **{name: shifted})
    spans = list(getattr(index, kind))
    spans[number] = replace(span, end=span.end + moved, crc=zlib.crc32(changed))
    return data, replace(index, **{kind: tuple(spans)})


def test_lying_changes_nothing_by_itself() -> None:
    """The parts are rebuilt for the tests below as they were."""
    assert lying("chunks") == lying("chunks", 1) == lying("outside") == lying("foreign") == (DATA, INDEX)
    check(DATA, INDEX, RECORDS)


REFERRED = [pack_differences([0, 0, 0, 1]), pack_integers([1, 3, 4, 1]), pack_integers([0, 0, 0, 1])]


def integers(*values: int) -> bytes:
    """An integer column."""
    return pack_integers(values)


@pytest.mark.parametrize(
    ("kind", "number", "changes"),
    [
        ("chunks", 1, {"parents": integers(3, 3)}),
        ("chunks", 1, {"parents": integers(3, 0)}),
        ("chunks", 1, {"parents": integers(3, 5)}),
        ("chunks", 1, {"parents": integers(3, -2)}),
        ("chunks", 1, {"parents": integers(3)}),
        ("chunks", 1, {"parents": integers(3, 4, 0)}),
        ("chunks", 1, {"parents": b""}),
        ("chunks", 1, {"targets": integers(1)}),
        ("chunks", 1, {"targets": integers()}),
        ("chunks", 0, {"referred": [integers(), integers(), integers()]}),
        ("chunks", 0, {"referred": [REFERRED[0], integers(1, 4, 3, 1), REFERRED[2]]}),
        ("chunks", 0, {"referred": [REFERRED[0], integers(1, 3, 3, 1), REFERRED[2]]}),
        ("chunks", 0, {"referred": [REFERRED[0], integers(1, 3, 4, 5), REFERRED[2]]}),
        ("chunks", 0, {"referred": [REFERRED[0], integers(-1, 3, 4, 1), REFERRED[2]]}),
        ("chunks", 0, {"referred": [REFERRED[0], REFERRED[1], integers(0, 0, 0, 2)]}),
        ("chunks", 0, {"referred": [REFERRED[0], REFERRED[1], integers(0, 0, 0, 8)]}),
        ("chunks", 0, {"referred": [REFERRED[0], REFERRED[1], integers(0, 0, 0)]}),
        ("chunks", 0, {"referred": [pack_differences([0, 0, 0, 3]), REFERRED[1], REFERRED[2]]}),
        ("chunks", 0, {"referred": [pack_differences([0, 0, 1, 0]), REFERRED[1], REFERRED[2]]}),
        ("chunks", 0, {"columns": {}}),
        ("outside", 0, {"rows": integers(4)}),
        ("outside", 0, {"rows": integers(6)}),
        ("outside", 0, {"rows": integers(-1)}),
        ("outside", 0, {"codes": integers(3)}),
        ("outside", 0, {"codes": integers(8)}),
        ("outside", 0, {"codes": integers(2, 2)}),
        ("foreign", 0, {"rows": integers(4)}),
        ("foreign", 0, {"rows": integers(6)}),
        ("foreign", 0, {"rows": integers(3, 3)}),
        ("foreign", 0, {"hashes": integers(hash_of("foreign") + 1)}),
        ("foreign", 0, {"hashes": integers()}),
    ],
)
def test_a_part_that_lies_is_found(kind: str, number: int, changes: dict[str, object]) -> None:
    """A part that contradicts the records, or itself, is found although its checksum is right."""
    data, index = lying(kind, number, **changes)
    assert data != DATA
    with pytest.raises(CorruptError) as caught:
        check(data, index, RECORDS)
    assert caught.value.key == "k"
    assert caught.value.offset == getattr(index, kind)[number].start or "differ" in str(caught.value)


def test_columns_of_other_records() -> None:
    """Sound columns of other records are found by their records alone."""
    other = [msgspec.structs.replace(each, role="tool") for each in RECORDS]
    data, index = packed(other, size=3)
    with pytest.raises(CorruptError, match="index and records differ"):
        check(data, index, RECORDS)


def test_what_is_no_part() -> None:
    """Bytes of the right checksum that are no frame, two frames, or another message, are damage."""
    span = INDEX.chunks[0]
    whole = DATA[span.start : span.end]
    for bad in (b"", b"x", whole + whole, whole[:-1], compress(b"\xc1"), compress(msgspec.msgpack.encode([1])) * 2):
        changed = msgspec.structs.replace(span, end=span.start + len(bad), crc=zlib.crc32(bad))
        with pytest.raises(CorruptError):
            read_chunk(bad, changed, INDEX)
    with pytest.raises(CorruptError, match="not as long"):
        read_chunk(whole[:-1], span, INDEX)
