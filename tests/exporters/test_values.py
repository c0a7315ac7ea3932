"""Values that JSON lacks: files of other programs are JSON, so something else is in their place, which is told."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.programs.common.target import targets
from treering.programs.common.writing import lacked_by_json, plain

LACKED: list[tuple[Any, Any]] = [
    (float("nan"), None),
    (float("-inf"), None),
    (b"\x00\xff", "AP8="),
    ({2, 1}, [1, 2]),
    (frozenset({"b", "a"}), ["a", "b"]),
    (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
    (date(2026, 1, 2), "2026-01-02"),
    (time(3, 4), "03:04:00"),
    (timedelta(seconds=1.5), 1.5),
    ({5: "x"}, {"5": "x"}),
    ({None: 1}, {"null": 1}),
    ({True: 1}, {"true": 1}),
    ({(1, 2): 3}, {"[1,2]": 3}),
]
HELD: list[tuple[Any, Any]] = [((1, (2,)), [1, [2]]), (2**70, 2**70), ({"$bytes": "x"}, {"$bytes": "x"}), (1.5, 1.5)]


@pytest.mark.parametrize(("value", "written"), LACKED + HELD)
def test_a_value_becomes_json(value: object, written: object) -> None:
    """Each has one form in JSON; what is JSON is the same object, so that nothing is copied."""
    assert plain({"x": [value]}) == {"x": [written]}
    assert lacked_by_json({"x": [value]}) == ((value, written) in LACKED)
    assert plain(written) is written


@pytest.mark.parametrize("format_", targets())
@pytest.mark.parametrize(("value", "written"), LACKED + HELD)
def test_a_value_that_json_lacks_is_told(value: object, written: object, format_: str, tmp_path: Path) -> None:
    """The file has a value that other programs can read, without tags of the store, and the export claims no more."""
    store = treering.open(f"memory://values-{new_nonce()}")
    with store.session("s", cwd="/work") as session:
        call = {"type": "tool_use", "id": "c", "name": "f", "input": {"x": value}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
        session.append("go", {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}, "on")
    done = export(store.view("s"), tmp_path / "file", format=format_)
    told = [(left.kind, left.count, left.seen) for left in done.left_out]
    assert told == ([("value", 1, True)] if (value, written) in LACKED else [])
    assert done.same_context == (not told)
    text = (tmp_path / "file").read_text().replace("\\", "").replace(" ", "").replace("\n", "")
    assert f'"x":{json.dumps(written, separators=(",", ":"))}' in text
