"""Files of format version 1, written when it was new, must be read by every later version."""

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.format.skeletons import skeletons_of

from treering.format.blobs import BlobRef
from treering.format.index import SegmentIndex
from treering.format.line import split_lines
from treering.format.parcel import Parcel, ParcelHeader, decode_parcel
from treering.format.paths import SegmentName, SessionKeys, namespace_prefix, parcel_key, parse_segment
from treering.format.record import decode_record, skeleton_of
from treering.format.register import Tail, decode_card, decode_latest, decode_tail
from treering.format.segment import read_footer, read_frame, read_segment
from treering.format.values import decode, encode

FOLDER = Path(__file__).parent / "data" / "v1"
VALUES = {
    "plain": {"a": [1, -2.5, True, None, "caf\u00e9"]},
    "negative zero": -0.0,
    "not a number": math.nan,
    "infinite": [math.inf, -math.inf],
    "large integers": [2**53, -(2**70)],
    "bytes": b"\0\xff",
    "surrogate": "a\ud800",
    "tuple": ((), (1, "x")),
    "sets": [{1, 2}, frozenset({"a"})],
    "map": {1: "a", None: 2, (1, 2): 3, "$x": 4, 1.5: 5},
    "times": [
        datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC),
        datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001  # naive ones must come back naive
        datetime(2026, 1, 31, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
        date(2026, 1, 31),
        time(23, 59),
        timedelta(-1, 5, 7),
    ],
    "blobs": [
        BlobRef(sha256="ab" * 32, form="base64", size=3, prefix="data:;base64,"),
        BlobRef(sha256="cd" * 32, form="text", size=300_000),
        BlobRef(sha256="ef" * 32, form="bytes", size=40_000),
    ],
}


def read(name: str) -> bytes:
    """The bytes of one file."""
    return (FOLDER / name).read_bytes()


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """What was written."""
    written: dict[str, Any] = json.loads(read("expected.json"))
    return written


def lines_of(expected: dict[str, Any]) -> list[bytes]:
    """The record lines."""
    return [line.encode() for line in expected["lines"]]


def test_segment(expected: dict[str, Any]) -> None:
    """A segment is read as a whole and by frames."""
    data, lines = read("segment.jsonl.zst"), lines_of(expected)
    assert read_segment(data, key="k") == lines
    footer = read_footer(data, len(data), key="k")
    assert isinstance(footer, SegmentIndex)
    assert (footer.first, footer.end) == (0, len(lines))
    assert [line for f in footer.frames for line in read_frame(data[f.start : f.end], f, key="k")] == lines
    assert skeletons_of(data, footer) == [skeleton_of(line) for line in lines]


def test_records_and_skeletons(expected: dict[str, Any]) -> None:
    """Records say what they said, with or without their bodies."""
    for line, fields in zip(lines_of(expected), expected["skeletons"], strict=True):
        skeleton = msgspec.structs.asdict(skeleton_of(line))
        assert skeleton | {"brief": skeleton["brief"].decode()} == fields
        assert json.loads(bytes(decode_record(line).body)) == json.loads(line)["body"]
    assert decode_record(lines_of(expected)[7]).critical


@pytest.mark.parametrize("name", ["tail.jsonl", "tail-torn.jsonl", "tail-hole.jsonl", "tail.jsonl.zst"])
def test_tail(name: str, expected: dict[str, Any]) -> None:
    """Every form of the tail is read, torn ends left out."""
    tail = decode_tail(read(name), key="k", compressed=name.endswith(".zst"))
    assert isinstance(tail, Tail)
    assert list(tail.lines) == lines_of(expected)
    assert json.loads(json.dumps(msgspec.to_builtins(tail.header))) == expected["header"]
    if not name.endswith(".zst"):
        assert tail.complete == expected["complete"]


def test_latest(expected: dict[str, Any]) -> None:
    """Card and lines are read; the card also alone."""
    data = read("latest.jsonl.zst")
    latest = decode_latest(data, key="k")
    assert json.loads(json.dumps(msgspec.to_builtins(latest.card))) == expected["card"]
    assert list(latest.lines) == [b'{"state":{"step":3}}\n', *lines_of(expected)[:2]]
    assert decode_card(data, key="k") == msgspec.structs.replace(latest.card, erased=())
    assert decode_latest(read("tombstone.jsonl.zst"), key="k").card.dead


def test_parcel() -> None:
    """A parcel is read, and still looked for where it was put."""
    name = "session/org/42 \u00e9\ud800"
    header = ParcelHeader(name=name, size=54, write="123456789abc")
    assert decode_parcel(read("parcel.zst"), key="k") == Parcel(header, b'{"messages": []}\0\xff' * 3)
    assert parcel_key("ns/team/", name) == "ns/team/parcels/session/org/42=20=c3=a9=ed=a0=80=.zst"


def test_values() -> None:
    """Each value comes back, and is still written the same."""
    for line, value in zip(split_lines(read("values.jsonl")), VALUES.values(), strict=True):
        assert repr(decode(line[:-1])) == repr(value)
        assert encode(value) == line[:-1]


def test_keys(expected: dict[str, Any]) -> None:
    """Objects are still looked for where they were put."""
    session = "org/42 \u00e9\ud800"
    keys = SessionKeys(namespace_prefix("", "Team A"), session, appends=False)
    name = SegmentName(0, 9, 2, "00ff")
    assert expected["keys"] == [
        keys.latest,
        keys.tail,
        msgspec.structs.replace(keys, appends=True).tail,
        keys.hold,
        keys.segment("0a1b2c3d4e5f", name),
        keys.blob("0a1b2c3d4e5f", "ab" * 32),
    ]
    assert parse_segment(keys.segment("0a1b2c3d4e5f", name)) == name
