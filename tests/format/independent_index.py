"""A second reader of the index of a segment, made of docs/reference/format.md; it uses nothing of Treering.

It checks what the page tells readers to check, and reads everything, in the plainest way.
"""

from __future__ import annotations

import struct
import zlib
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import zstandard

WIDTHS = {1: "b", 2: "h", 4: "i", 8: "q"}


class Told(NamedTuple):
    """What the index tells of a segment."""

    head: dict[str, Any]
    rows: list[dict[str, Any]]
    """By row: the fields of its skeleton, and the rows that parent and target mean."""
    referred: list[tuple[int, int, int]]
    """Row that is meant, row that refers, code."""
    outside: list[tuple[str, int, int]]
    foreign: list[tuple[int, int]]


def frame(data: bytes) -> bytes:
    """The content of a frame."""
    return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)


def skippable(data: bytes, magic: int) -> bytes:
    """The payload of a skippable frame that fills `data`."""
    found, size = struct.unpack("<II", data[:8])
    assert (found, size) == (magic, len(data) - 8)
    return data[8:]


def integers(column: bytes) -> list[int]:
    """The items of an integer column."""
    width = column[0]
    count, rest = divmod(len(column) - 1, width)
    assert not rest
    planes = [column[1 + plane * count : 1 + (plane + 1) * count] for plane in range(width)]
    items = b"".join(bytes(each) for each in zip(*planes, strict=True))
    return list(struct.unpack(f"<{count}{WIDTHS[width]}", items))


def differences(column: bytes) -> list[int]:
    """The values of a column of differences."""
    return list(accumulate(integers(column)))


def text(data: bytes) -> str:
    """A text that may have lone surrogates."""
    return data.decode("utf-8", "surrogatepass")


def ids(column: dict[str, Any]) -> list[tuple[str, int]]:
    """The ids, each with the time in it."""
    times, rests = differences(column["times"]), column["rests"]
    ours = [(f"{time:012x}{rests[place * 10 : place * 10 + 10].hex()}", time) for place, time in enumerate(times)]
    foreign = dict(zip(differences(column["foreign_rows"]), column["foreign"], strict=True))
    waiting = iter(ours)
    return [(text(foreign[row]), 0) if row in foreign else next(waiting) for row in range(len(ours) + len(foreign))]


def references(
    column: dict[str, Any], steps: bytes, names: list[str], first: int
) -> list[tuple[str | None, int | None]]:
    """Each reference as id, and the row that it means."""
    outside = zip(ids(column["outside"]), integers(steps), strict=True)
    found: list[tuple[str | None, int | None]] = []
    for row, distance in enumerate(integers(column["distances"])):
        if distance == 0:
            found.append((None, None))
        elif distance == len(names):
            (name, _), back = next(outside)
            found.append((name, first + row - back if back else None))
        else:
            assert 0 <= row - distance < len(names)
            found.append((names[row - distance], first + row - distance))
    return found


def chunk(content: dict[str, Any], first: int) -> tuple[list[dict[str, Any]], list[tuple[int, int, int]]]:
    """The rows of a chunk whose first one is `first`, and what refers to them."""
    columns = content["columns"]
    named = ids(columns["ids"])
    names = [name for name, _ in named]
    parents = references(columns["parents"], content["parents"], names, first)
    targets = references(columns["targets"], content["targets"], names, first)
    times = [time for _, time in named]
    for row, time in zip(differences(columns["time_rows"]), differences(columns["times"]), strict=True):
        times[row] = time
    ends = [0, *accumulate(integers(columns["brief_lengths"]))]
    places = zip(differences(columns["brief_rows"]), ends[:-1], ends[1:], strict=True)
    briefs = {row: columns["briefs"][start:end] for row, start, end in places}
    links = dict(zip(differences(columns["link_rows"]), columns["links"], strict=True))
    rows = []
    for row, (code, length) in enumerate(zip(integers(columns["codes"]), integers(columns["lengths"]), strict=True)):
        *texts, critical = columns["names"][code]
        type_, kind, role, head = map(text, texts)
        pairs = links.get(row)
        rows.append({
            "type": type_, "kind": kind, "role": role, "head": head, "critical": critical, "length": length,
            "id": names[row], "time": times[row], "brief": briefs.get(row, b"{}"),
            "links": None if pairs is None else {text(name): text(value) for name, value in pairs},
            "parent": parents[row][0], "parent_row": parents[row][1],
            "target": targets[row][0], "target_row": targets[row][1],
        })  # fmt: skip
    meant, steps, codes = content["referred"]
    refers = zip(differences(meant), integers(steps), integers(codes), strict=True)
    return rows, [(first + row, first + row + step, code) for row, step, code in refers]


def read_index(data: bytes) -> Told:
    """Read all that is behind the content frames of a segment."""
    count, flags, magic = struct.unpack("<IBI", data[-9:])
    assert (flags, magic) == (0x80, 0x8F92EAB1)
    table = len(data) - 9 - 12 * count - 8
    entries = list(struct.iter_unpack("<III", skippable(data[table:], 0x184D2A5E)[:-9]))
    assert sum(size for size, _, _ in entries) == table
    start = table - entries[-1][0]
    payload = skippable(data[start:table], 0x184D2A54)
    assert payload[:4] == zlib.crc32(data[start + 12 :]).to_bytes(4, "little")
    head = msgspec.msgpack.decode(frame(payload[4:]))
    assert head["treering"] == 2
    place = start - entries[-2][0]
    assert [entry[:2] for entry in entries[:-2]] == [tuple(entry[:2]) for entry in head["frames"]]
    assert all(entry[1:] == (0, 0x51D8E999) for entry in entries[-2:])
    payload = skippable(data[place:start], 0x184D2A55)
    listed = [*head["chunks"], *head["outside"], *head["foreign"]]
    parts = []
    for size, crc, *_ in listed:
        piece, payload = payload[:size], payload[size:]
        assert zlib.crc32(piece) == crc
        parts.append(msgspec.msgpack.decode(frame(piece)))
    assert not payload
    told = Told(head, [], [], [], [])
    for content in parts[: len(head["chunks"])]:
        rows, referred = chunk(content, len(told.rows))
        told.rows.extend(rows)
        told.referred.extend(referred)
    for content in parts[len(head["chunks"]) :]:
        if "ids" in content:
            names = [name for name, _ in ids(content["ids"])]
            told.outside.extend(zip(names, integers(content["rows"]), integers(content["codes"]), strict=True))
        else:
            told.foreign.extend(zip(differences(content["hashes"]), integers(content["rows"]), strict=True))
    return told
