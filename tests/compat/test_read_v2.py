"""Segments with an index of version 2, written when it was new, must be read by every later version."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.compat.make_v1 import lines
from tests.compat.make_v2 import long_lines, told
from tests.format.skeletons import skeletons_of

from treering.format.index import SegmentIndex
from treering.format.record import skeleton_of
from treering.format.references import MASK_ALL, MASK_FIRST
from treering.format.segment import read_footer, read_segment

FOLDER = Path(__file__).parent / "data" / "v2"


@pytest.mark.parametrize(("name", "made"), [("odd", lines), ("long", long_lines)])
def test_segment(name: str, made: Any) -> None:
    """The lines, the skeletons, and all that points where are as they were."""
    data = (FOLDER / f"segment-{name}.jsonl.zst").read_bytes()
    expected = json.loads((FOLDER / f"segment-{name}.json").read_bytes())
    written = made()
    assert read_segment(data, key="k") == written
    index = read_footer(data, len(data), key="k")
    assert isinstance(index, SegmentIndex)
    assert (index.version, index.end) == (2, len(written))
    assert all(span.mask & ~MASK_FIRST == MASK_ALL & ~MASK_FIRST for span in index.chunks)  # its writer did not know
    assert skeletons_of(data, index) == [skeleton_of(line) for line in written]
    found = json.loads(json.dumps(told(data)))
    assert found == expected


def test_there_is_one_of_everything() -> None:
    """The files hold several chunks, references across their ends, and both kinds of blocks."""
    expected = json.loads((FOLDER / "segment-long.json").read_bytes())
    (first, rows, *_), second = expected["chunks"]
    assert (first, rows) == (0, 1024)
    ends = [second[0] - 1, second[0]]
    across = [row for row, parent in enumerate(expected["parents"]) if parent is not None and parent <= ends[0] < row]
    assert across
    assert {code for row in expected["referrers"] for _, code in row} == {0, 1, 2, 5, 6}
    assert {code for *_, code in expected["outside"]} == {0, 3}
    assert len(expected["foreign"]) == 12
    assert not expected["odd"]
    assert json.loads((FOLDER / "segment-odd.json").read_bytes())["odd"]
