"""Write the files of version 2 of the index of segments that every later version must read.

This ran once. Files are created and never replaced: what is here is what users have on disk. Everything else in a store
is of version 1 still, see `make_v1.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.compat import make_v1
from tests.compat.make_v1 import REPLY, USER

from treering.format.index import SegmentIndex
from treering.format.parts import read_chunk, read_foreign, read_outside
from treering.format.record import Record, encode_record
from treering.format.references import MASK_FIRST
from treering.format.segment import build_segment, read_footer

FOLDER = Path(__file__).parent / "data" / "v2"
NODES = 1100  # more than a chunk holds, so that references and referrers cross its end


def our_id(number: int) -> str:
    """One of our ids."""
    return f"{0x0195_0000_0000 + number:012x}7{number % 4096:03x}8{number * 0x9E3779B97F4A7C15 % 2**60:015x}"


def long_lines() -> list[bytes]:
    """A session of two heads with a checkpoint behind each second node, labels, edits, and foreign ids in between."""
    records: list[Record] = []
    tips: dict[str, str | None] = {"main": None, "other": "elsewhere"}

    def add(type_: str, kind: str = "", *, name: str = "", **fields: Any) -> str:
        name = name or our_id(len(records))
        records.append(Record(at=len(records), by=f"w.{len(records)}", type=type_, kind=kind, id=name, **fields))
        return name

    for number in range(NODES):
        head = "other" if number % 5 == 0 else "main"
        foreign = number % 97 == 0
        node = add(
            "node",
            "message",
            name=f"foreign-{number}" if foreign else "",
            parent=tips[head],
            head=head,
            role=("user", "assistant")[number % 2],
            time=1_739_461_754_880 + number if foreign else None,
        )
        tips[head] = node
        if number % 2:
            add("checkpoint", head=head, target=node)
        if number % 100 == 50:
            add(*(("note", "label") if number % 200 == 50 else ("edit", "retract")), target=records[0].id)
    add("note", "usage", target=REPLY)
    add("head", "drop", head="other")
    add("edit", "prune", target=records[2].id)
    assert USER not in {record.id for record in records}
    return [encode_record(record) for record in records]


def told(data: bytes) -> dict[str, object]:
    """All that a segment says of its records besides their lines, as plain JSON."""
    index = read_footer(data, len(data), key="")
    assert isinstance(index, SegmentIndex)
    chunks = [read_chunk(data[span.start : span.end], span, index) for span in index.chunks]
    return {
        "version": index.version,
        "first": index.first,
        "odd": index.odd,
        "chunks": [
            [span.first_row, span.rows, span.least, span.greatest, span.mask & MASK_FIRST] for span in index.chunks
        ],
        "parents": [chunk.parent_row(row) for chunk in chunks for row in chunk.rows],
        "targets": [chunk.target_row(row) for chunk in chunks for row in chunk.rows],
        "referrers": [chunk.referrers(row) for chunk in chunks for row in chunk.rows],
        "outside": [
            entry for span in index.outside for entry in read_outside(data[span.start : span.end], span, index)
        ],
        "foreign": [
            entry for span in index.foreign for entry in read_foreign(data[span.start : span.end], span, index)
        ],
    }


def write(name: str, data: bytes) -> None:
    """Create a file, never replace one."""
    with (FOLDER / name).open("xb") as file:
        file.write(data)


def main() -> None:
    """Create all files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, lines in (("odd", make_v1.lines()), ("long", long_lines())):
        data = build_segment(lines, key="")
        write(f"segment-{name}.jsonl.zst", data)
        write(f"segment-{name}.json", json.dumps(told(data), separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
