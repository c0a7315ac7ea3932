"""Segments whose index is of version 1: read through the same interface, all damage found, and told from version 2."""

import msgspec
import pytest
from tests.format.segment_v1 import build_segment_1
from tests.format.skeletons import skeletons_of
from tests.format.test_segment import SMALL, damaged, mixed, read_by_parts, rebuilt, turns

from treering.errors import CorruptError
from treering.format import segment
from treering.format.columns import pack
from treering.format.index import SegmentIndex
from treering.format.record import skeleton_of
from treering.format.salvage import salvage_segment
from treering.format.segment import build_segment, read_footer, read_segment

LINES = mixed()
EARLY = build_segment_1(LINES)
COLUMNS = pack([skeleton_of(line) for line in LINES])
OTHER = pack([skeleton_of(line) for line in LINES[:-1]])


def footer_of(data: bytes) -> SegmentIndex:
    """The index of a whole segment."""
    footer = read_footer(data, len(data), key="k")
    assert isinstance(footer, SegmentIndex)
    return footer


SPAN = footer_of(EARLY).frames[0]


@pytest.mark.parametrize("lines", [turns(1), turns(40, first=5), mixed()], ids=["one", "turns", "mixed"])
def test_both_versions_say_the_same(lines: list[bytes]) -> None:
    """What version 2 stores is what is computed for version 1."""
    early, late = build_segment_1(lines), build_segment(lines, key="k")
    assert read_segment(early, key="k") == lines
    assert [footer_of(data).version for data in (early, late)] == [1, 2]
    first, second = read_by_parts(early, len(early)), read_by_parts(late, len(late))
    assert first[:5] == second[:5]
    for before, after in zip(first[5:], second[5:], strict=True):
        assert [entry for block in before for entry in block] == [entry for block in after for entry in block]  # type: ignore[attr-defined]


def test_every_flip_is_found() -> None:
    """Each flipped bit is a CorruptError with key and offset."""
    for bad in damaged(EARLY):
        for read in (lambda data: read_segment(data, key="k"), lambda data: read_by_parts(data, len(data))):
            with pytest.raises(CorruptError) as caught:
                read(bad)
            assert caught.value.key == "k"
            assert caught.value.offset is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"first": 8},
        {"first": -1},
        {"columns": OTHER},
        {"columns": msgspec.structs.replace(COLUMNS, lengths=b"")},
        {"columns": msgspec.structs.replace(COLUMNS, lengths=b"\3")},
        {"columns": msgspec.structs.replace(COLUMNS, codes=COLUMNS.codes[:-1] + b"\x7f")},
        {"columns": msgspec.structs.replace(COLUMNS, brief_rows=b"\1\x7f")},
        {"columns": msgspec.structs.replace(COLUMNS, link_rows=b"\1\xff")},
        {"columns": msgspec.structs.replace(COLUMNS, link_rows=b"\1\x7f")},
        {"columns": msgspec.structs.replace(COLUMNS, ids=OTHER.ids)},
        {"columns": msgspec.structs.replace(COLUMNS, targets=OTHER.parents)},
        {"frames": []},
        {"frames": [(SPAN.end, SPAN.content_size, 4, SPAN.crc)]},
        {"frames": [(SPAN.end, SPAN.content_size, 6, SPAN.crc)]},
        {"frames": [(SPAN.end, SPAN.content_size + 1, 5, SPAN.crc)]},
        {"frames": [(SPAN.end, SPAN.content_size, 5, SPAN.crc ^ 1)]},
    ],
)
def test_index_that_lies(changes: dict[str, object]) -> None:
    """An index that contradicts the records, or itself, is found although its checksum is right."""
    data = build_segment_1(LINES, **changes)
    with pytest.raises(CorruptError):
        read_segment(data, key="k")


@pytest.mark.parametrize("columns", [OTHER, msgspec.structs.replace(COLUMNS, link_rows=b"\1\xff")])
def test_columns_that_lie_alone(columns: object) -> None:
    """Columns of another number of rows, or with a row that is not there, are found without the frames."""
    data = build_segment_1(LINES, columns=columns)
    with pytest.raises(CorruptError, match="contradicts itself"):
        skeletons_of(data, footer_of(data))


def test_a_version_says_which_fields_there_are() -> None:
    """An index with the fields of one version and the number of the other is damage."""
    for data in (build_segment_1(LINES, treering=2), rebuilt(SMALL, treering=1)):
        with pytest.raises(CorruptError, match="not understood"):
            read_footer(data, len(data), key="k")


def test_salvage() -> None:
    """Records are saved from a damaged one, and the ids of lost ones told."""
    broken = bytearray(EARLY)
    broken[SPAN.end - 20] ^= 1
    saved = salvage_segment(bytes(broken), key="k")
    assert len(saved.errors) == 1
    assert {*saved.lines, *saved.lost} == set(range(7, 12))


def test_version_1_is_not_written() -> None:
    """New segments have the new index."""
    assert footer_of(build_segment(LINES, key="k")).version == segment.INDEX_VERSION == 2
