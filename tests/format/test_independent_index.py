"""Who knows the page on the format and nothing else reads of an index what its records say."""

import re
import zlib
from collections.abc import Callable

import msgspec
import pytest
from tests.compat.make_v1 import lines
from tests.compat.make_v2 import long_lines
from tests.format.independent_index import read_index
from tests.format.test_segment import mixed, turns

from treering.format.record import skeleton_of
from treering.format.segment import build_segment

CODES = {("node", ""): 0, ("checkpoint", ""): 1, ("note", "label"): 2, ("note", ""): 3, ("edit", "amend"): 4}
CODES |= {("edit", "retract"): 5, ("edit", "prune"): 6, ("edit", ""): 7}


@pytest.mark.parametrize("made", [long_lines, lines, mixed, lambda: turns(2500)], ids=["long", "odd", "mixed", "turns"])
def test_the_page_is_enough(made: Callable[[], list[bytes]]) -> None:
    """Rows, what they mean, what refers to them, and both tables: all by a reader that was made of the page."""
    records = made()
    told = read_index(build_segment(records, key="k"))
    skeletons = [msgspec.structs.asdict(skeleton_of(line)) for line in records]
    assert told.head["first"] == skeletons[0]["at"]
    assert told.head["told"] == 1023
    names = [skeleton["id"] for skeleton in skeletons]
    referred, outside = [], []
    for row, (found, skeleton) in enumerate(zip(told.rows, skeletons, strict=True)):
        skeleton.pop("at")
        assert {name: found[name] for name in skeleton} == skeleton
        code = CODES.get((skeleton["type"], skeleton["kind"]), CODES.get((skeleton["type"], "")))
        field = "parent" if code == 0 else "target"
        if code is None or skeleton[field] is None:
            continue
        meant = found[f"{field}_row"]
        if meant is not None:
            assert names[meant] == skeleton[field]
            referred.append((meant, row, code))
        elif skeleton[field] not in names:
            outside.append((skeleton[field], row, code))
    assert told.referred == sorted(referred)
    assert told.outside == sorted(outside)
    ours = re.compile("[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}")
    foreign = [
        (name.encode("utf-8", "surrogatepass"), row) for row, name in enumerate(names) if not ours.fullmatch(name)
    ]
    assert told.foreign == sorted((zlib.crc32(name), row) for name, row in foreign)
