"""The examples in docs/reference/format.md are what the code writes, byte by byte.

    python -m tests.format.test_specification

prints them anew.
"""

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from msgspec import Raw

from treering.format import (
    blobs,
    columns,
    erasure,
    frames,
    id_column,
    line,
    parts,
    paths,
    record,
    register,
    segment,
    values,
)
from treering.format.index import FENCE_CHARACTERS, SegmentIndex
from treering.format.paths import SegmentName, SessionKeys, decode_id, encode_id
from treering.format.pieces import UNKNOWN
from treering.format.record import Record, encode_record
from treering.format.register import Card, Tail, TailHeader, decode_tail, encode_latest, encode_tail
from treering.format.segment import build_segment, read_footer, read_segment
from treering.format.values import decode, encode

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "format.md"
ZSTD_OF_THE_PAGE = (1, 5, 7)  # other versions may compress the same content to other bytes
FIRST, SECOND = "01950000000070008000000000000001", "01950000000170008000000000000002"
LINES = [
    encode_record(
        Record(
            at=0,
            by="a1b2c3d4e5f6.1.0",
            type="node",
            kind="message",
            id=FIRST,
            head="main",
            role="user",
            more=True,
            body=Raw(b'{"role":"user","content":"hi"}'),
        )
    ),
    encode_record(Record(at=1, by="a1b2c3d4e5f6.1.0", type="checkpoint", id=SECOND, head="main", target=FIRST)),
]
TAIL = Tail(header=TailHeader(session="demo", life="0a1b2c3d4e5f", base=0, nonce="00ff00ff00ff"), lines=tuple(LINES))
SEGMENT = SessionKeys("", "demo", appends=True).segment("0a1b2c3d4e5f", SegmentName(0, 2, 0, "00ff00ff00ff"))
CARD = Card(session="demo", life="0a1b2c3d4e5f", write="123456789abc", covers=2, head="main", node=FIRST)


def block(name: str) -> str:
    """The fenced block behind the marker of that name on the page."""
    match = re.search(rf"<!-- example: {name} -->\n\n```\w*\n(.*?)```\n", PAGE.read_text(), re.DOTALL)
    assert match, f"the page has no example called {name}"
    return match[1]


def row(offset: int, data: bytes, meaning: str) -> Iterator[str]:
    """One field, 16 bytes a line."""
    for place in range(0, len(data), 16):
        text = meaning if place == 0 else ""
        yield f"{offset + place:04x}  {data[place : place + 16].hex(' '):<47}  {text}".rstrip()


def frame_rows(data: bytes, offset: int) -> Iterator[str]:
    """The parts of a content frame with a single block."""
    header = zstandard.frame_header_size(data)
    size = zstandard.frame_content_size(data)
    block_header = int.from_bytes(data[header : header + 3], "little")
    assert block_header & 1, "example frames have one block"
    kind = ("raw", "run", "compressed")[block_header >> 1 & 3]
    yield from row(offset, data[:4], "frame: magic number")
    yield from row(offset + 4, data[4:5], "  descriptor: with checksum, one segment")
    yield from row(offset + 5, data[5:header], f"  content size: {size}" + (" (256 is added)" if header == 7 else ""))
    yield from row(offset + header, data[header : header + 3], f"  last block, {kind}, {block_header >> 3} bytes")
    yield from row(offset + header + 3, data[header + 3 : -4], "  its bytes")
    yield from row(offset + len(data) - 4, data[-4:], "  lower half of the XXH64 of the content")


def footer_of(data: bytes) -> SegmentIndex:
    """The index of a whole segment."""
    footer = read_footer(data, len(data), key="example")
    assert isinstance(footer, SegmentIndex)
    return footer


def parts_of(data: bytes) -> list[tuple[str, int, int]]:
    """Name, beginning and end of each part of the index."""
    footer = footer_of(data)
    chunks = [("chunk", span.start, span.end) for span in footer.chunks]
    outside = [("references outside", span.start, span.end) for span in footer.outside]
    return [*chunks, *outside, *(("foreign ids", span.start, span.end) for span in footer.foreign)]


def segment_dump(data: bytes) -> str:
    """All bytes of a segment of one frame, with their meaning."""
    start = footer_of(data).frames[0].end
    table = len(data) - 9 - 3 * 12 - 8
    rows = [*frame_rows(data[:start], 0)]
    for name in ("parts of the index", "index", "seek table"):
        size = struct.unpack("<I", data[start + 4 : start + 8])[0]
        rows += row(start, data[start : start + 4], f"{name}: magic number of a skippable frame")
        rows += row(start + 4, data[start + 4 : start + 8], f"  {size} bytes follow")
        if name == "parts of the index":
            for part, first, end in parts_of(data):
                rows += [
                    line.replace("frame: magic", f"{part}: frame: magic") for line in frame_rows(data[first:end], first)
                ]
        elif name == "index":
            rows += row(start + 8, data[start + 8 : start + 12], "  CRC-32 of the rest of the object")
            rows += frame_rows(data[start + 12 : start + 8 + size], start + 12)
        start += 8 + size
    for number, place in enumerate(range(table + 8, len(data) - 9, 12)):
        compressed, content, _ = struct.unpack("<III", data[place : place + 12])
        rows += row(place, data[place : place + 4], f"  entry {number}: {compressed} bytes compressed")
        rows += row(place + 4, data[place + 4 : place + 8], f"    {content} bytes of content")
        rows += row(place + 8, data[place + 8 : place + 12], "    lower half of the XXH64 of the content")
    rows += row(len(data) - 9, data[-9:-5], "  number of entries: 3")
    rows += row(len(data) - 5, data[-5:-4], "  flags: entries have checksums")
    rows += row(len(data) - 4, data[-4:], "  magic number of the seekable format")
    return "\n".join(rows) + "\n"


def content_of(packed: bytes) -> dict[str, Any]:
    """The map in a frame."""
    found: dict[str, Any] = msgspec.msgpack.decode(frames.decompress(packed, key="example", bytes_max=1 << 20))
    return found


def index_dump(data: bytes) -> str:
    """What the index of a segment and its parts hold; byte strings in hex."""
    end = parts_of(data)[-1][2]
    index = content_of(data[end + 12 : len(data) - 9 - 3 * 12 - 8])
    dumps = ["{\n" + "\n".join(f" {json.dumps(name)}: {shown(value)}," for name, value in index.items()) + "\n}\n"]
    for part, first, last in parts_of(data):
        content = content_of(data[first:last])
        columns_ = content.pop("columns", {})
        inner = "\n".join(f"  {json.dumps(name)}: {shown(value)}," for name, value in columns_.items())
        fields = [f' "columns": {{\n{inner}\n }},'] if columns_ else []
        fields += [f" {json.dumps(name)}: {shown(value)}," for name, value in content.items()]
        dumps.append(f"{part}: {{\n" + "\n".join(fields) + "\n}\n")
    return "".join(dumps)


def shown(value: object) -> str:
    """JSON with byte strings as `<hex>`."""
    if isinstance(value, bytes):
        return f"<{value.hex(' ')}>"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {shown(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return json.dumps(value)


def undump(text: str) -> bytes:
    """The bytes of a dump."""
    return b"".join(bytes.fromhex(shown_row[6:53]) for shown_row in text.splitlines())


def examples() -> dict[str, str]:
    """All examples on the page, as the code writes them now."""
    data = build_segment(LINES, key=SEGMENT)
    return {
        "tail": encode_tail(TAIL, compressed=False).decode(),
        "card": frames.decompress(encode_latest(CARD, []), key="", bytes_max=1 << 20).decode(),
        "segment": segment_dump(data),
        "index": index_dump(data),
    }


@pytest.mark.parametrize("name", ["tail", "card", "segment", "index"])
def test_examples_are_what_is_written(name: str) -> None:
    """Each example on the page is what the code writes."""
    if name in {"segment", "index"} and zstandard.ZSTD_VERSION != ZSTD_OF_THE_PAGE:
        pytest.skip(f"another version of zstd than that of the page: {zstandard.ZSTD_VERSION}")
    assert block(name) == examples()[name]


def test_examples_are_read() -> None:
    """The bytes on the page are read as what the page says they are."""
    assert read_segment(undump(block("segment")), key="example") == LINES
    assert decode_tail(block("tail").encode(), key="example", compressed=False).lines == tuple(LINES)


def test_names_on_the_page() -> None:
    """The table of names in keys is what the encoder returns."""
    rows = re.findall(r"^\| `(.+?)` +\| `(.+?)` +\|$", block_of_table("Names"), re.MULTILINE)
    assert len(rows) >= 6
    for identifier, name in rows:
        text = json.loads(f'"{identifier}"')
        assert encode_id(text) == name
        assert decode_id(name) == text


def block_of_table(heading: str) -> str:
    """The text of one section of the page."""
    return PAGE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_tags_on_the_page() -> None:
    """Each tag in the table of values is read, and written again as it stands there; no tag is missing."""
    shown_tags = re.findall(r"^\| `(\{\"\$.+?\})`", block_of_table("Values"), re.MULTILINE)
    for shown_tag in shown_tags:
        assert encode(decode(shown_tag.encode())).decode() == shown_tag
    known = {*values._untaggers, "$blob"}
    assert {next(iter(json.loads(shown_tag))) for shown_tag in shown_tags} == known


def test_fields_on_the_page() -> None:
    """Every field of records, header and card, and every column, is explained on the page."""
    page = PAGE.read_text()
    for struct_ in (
        record.Record,
        register.TailHeader,
        erasure.Erasure,
        register.Card,
        columns.Columns,
        id_column.Ids,
        columns.References,
        parts._Chunk,
        parts._Outside,
        parts._Foreign,
        segment._Index,
    ):
        for field in {*struct_.__struct_encode_fields__} - {UNKNOWN}:
            assert f"| `{field}`" in page, f"{struct_.__name__}.{field}"


@pytest.mark.parametrize(
    "limit",
    [
        record.RECORD_BYTES_MAX,
        record.BRIEF_BYTES_MAX,
        register.REGISTER_BYTES_MAX,
        register.ROOM_BYTES,
        register.CARD_BYTES_MAX,
        register.FIRST_PROMPT_BYTES_MAX,
        segment.FRAME_BYTES,
        segment.SEGMENT_BYTES_MAX,
        blobs.BASE64_BYTES_MIN,
        blobs.TEXT_BYTES_MIN,
        paths.NAME_CHARS_MAX,
        values.DEPTH_MAX,
        line.FORMAT_VERSION,
        segment.INDEX_VERSION,
        parts.CHUNK_ROWS,
        parts.FOREIGN_ENTRIES,
        parts.PART_BYTES_MAX,
        FENCE_CHARACTERS,
    ],
)
def test_limits_on_the_page(limit: int) -> None:
    """Every limit is stated on the page, in the list of limits."""
    assert f" {limit:,} " in block_of_table("Limits").replace("|", " ")


if __name__ == "__main__":
    for name_, text_ in examples().items():
        print(f"<!-- example: {name_} -->\n\n```\n{text_}```\n")  # noqa: T201
