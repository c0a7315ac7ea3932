"""Everything that reads bytes which others may have written, as functions of bytes, with seeds and allowed errors.

Most bytes of the format are covered by checksums, so a changed byte would only ever try the check. Therefore a decoder
may have a `seal`: it makes the checksums right again around content that was changed, as an attacker would.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from collections.abc import Callable
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw
from tests.format.skeletons import skeletons_of

from treering.checkpoint.checkpoint import BODY, Checkpoint, decode_checkpoint, encode_checkpoint, entry_of, read_form
from treering.checkpoint.context import Context, Item
from treering.checkpoint.resolve import apply_body
from treering.errors import CorruptError, FormatVersionError, NotFoundError
from treering.format import frames, parts, segment, values
from treering.format.chunk import Chunk
from treering.format.index import SegmentIndex
from treering.format.line import close_line, split_lines
from treering.format.parcel import decode_header, decode_parcel
from treering.format.part_lists import Span
from treering.format.paths import decode_id, encode_id, parcel_of, parse_segment, session_of_latest, session_of_tail
from treering.format.record import Record, decode_record, skeleton_of, skeleton_of_record
from treering.format.register import decode_card, decode_latest, decode_tail
from treering.format.salvage import salvage_content, salvage_header, salvage_lines, salvage_segment
from treering.programs.common.lines import read_values
from treering.storage.slots import decode_slot, encode_slot

DATA = Path(__file__).parents[1] / "compat/data/v1"
BOMB = struct.pack("<IB", 0xFD2FB528, 0b11100100) + struct.pack("<Q", 8 << 30) + b"\x01\x00\x00"
"""Asks for 8 GiB."""
RUNS = frames.compress(bytes(1 << 20))
"""A mebibyte in a few dozen bytes."""
DEEP = b"[" * 100_000 + b"]" * 100_000
NUMBERS = b'[1e999999,-0,123456789012345678901234567890e-7,{"$int":"' + b"9" * 10_000 + b'"}]'


class Decoder(NamedTuple):
    """One way to read bytes."""

    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    raises: tuple[type[Exception], ...] = (CorruptError, FormatVersionError)
    seal: Callable[[bytes], bytes] = lambda data: data


def stored(name: str) -> bytes:
    """An object of the first format version."""
    return (DATA / name).read_bytes()


def lines() -> list[bytes]:
    """Record lines of all kinds."""
    return split_lines(stored("tail.jsonl"))[1:]


def content(name: str) -> bytes:
    """What an object decompresses to, index and checks left out."""
    return frames.decompress(stored(name), key="", bytes_max=1 << 20)


def close_lines(data: bytes) -> bytes:
    """Make the checksum of each line right."""
    return b"".join(_close(line) for line in split_lines(data))


def _close(line: bytes) -> bytes:
    fields, found, _ = line.rpartition(b',"_c":"')
    return close_line((fields if found else line.rstrip(b"\n")) + b"}")


def close_frame(data: bytes) -> bytes:
    """Make a register of one frame."""
    return frames.add_check(frames.compress(close_lines(data) or b"\n"))


def close_latest(data: bytes) -> bytes:
    """Make a register of a card and a body."""
    card, _, body = data.partition(b"\n")
    return frames.add_check(frames.compress(_close(card)) + (frames.compress(body) if body else b""))


def close_index(index: bytes) -> bytes:
    """Put another index into a sound segment of version 1."""
    data = stored("segment.jsonl.zst")
    footer = segment.read_footer(data, len(data), key="")
    assert not isinstance(footer, int)
    return _with_index(data, footer, index, [])


def _with_index(data: bytes, footer: SegmentIndex, index: bytes, skipped: list[int]) -> bytes:
    packed = frames.compress(index or b"\0")
    sizes = [(data[span.start : span.end], span.content_size) for span in footer.frames]
    table = segment._encode_table(sizes, [*skipped, 8 + 4 + len(packed)])
    crc = zlib.crc32(packed + table).to_bytes(4, "little")
    before = data[: footer.frames[-1].end + sum(skipped)]
    return before + frames.skippable(segment._INDEX_KIND, crc + packed) + table


def close_index_2(index: bytes) -> bytes:
    """Put another index into a sound segment of version 2."""
    data, footer = segment_2()
    return _with_index(data, footer, index, [footer.foreign[-1].end - footer.frames[-1].end])


@cache
def segment_2() -> tuple[bytes, SegmentIndex]:
    """A segment of version 2 with all kinds of parts."""
    data = segment.build_segment(segment.read_segment(stored("segment.jsonl.zst"), key=""), key="")
    footer = segment.read_footer(data, len(data), key="")
    assert not isinstance(footer, int)
    return data, footer


def parts_2() -> tuple[tuple[Callable[..., object], Span], ...]:
    """One part of each kind, and what reads it."""
    footer = segment_2()[1]
    return (
        (lambda data, span, index: _all_of(parts.read_chunk(data, span, index)), footer.chunks[0]),
        (parts.read_outside, footer.outside[0]),
        (parts.read_foreign, footer.foreign[0]),
    )


def _all_of(chunk: Chunk) -> object:
    rows = [(chunk.skeleton(row), chunk.id(row), chunk.parent_row(row), chunk.target_row(row)) for row in chunk.rows]
    assert [row for row, *_ in rows] == chunk.skeletons()
    return rows, [chunk.referrers(row) for row in chunk.rows], list(chunk.references()), chunk.foreign(), chunk.ids


def close_part(content: bytes) -> bytes:
    """Make a part of an index."""
    return frames.compress(content or b"\0")


def read_part(data: bytes, number: int) -> object:
    """Read the content of a part whose place and checksum are as listed."""
    read, span = parts_2()[number]
    end = span.start + len(data)
    return read(data, msgspec.structs.replace(span, end=end, crc=zlib.crc32(data)), segment_2()[1])


def part_content(number: int) -> bytes:
    """What a part decompresses to."""
    data, (_, span) = segment_2()[0], parts_2()[number]
    return frames.decompress(data[span.start : span.end], key="", bytes_max=1 << 20)


def index_2_content() -> bytes:
    """The index of a sound segment of version 2, as msgpack."""
    data = segment_2()[0]
    index = frames.walk(data, key="")[-2]
    payload = frames.skippable_payload(data, index, segment._INDEX_KIND, key="")[4:]
    return frames.decompress(payload, key="", bytes_max=1 << 20)


def index_content() -> bytes:
    """The index of a sound segment, as msgpack."""
    data = stored("segment.jsonl.zst")
    index = frames.walk(data, key="")[-2]
    payload = frames.skippable_payload(data, index, segment._INDEX_KIND, key="")[4:]
    return frames.decompress(payload, key="", bytes_max=1 << 20)


def _content_list(number: int) -> list[bytes]:
    return [part_content(number)]


def read_segment(data: bytes) -> object:
    """Read a segment whole, and its skeletons alone."""
    footer = segment.read_footer(data, len(data), key="k")
    found = [] if isinstance(footer, int) else skeletons_of(data, footer)
    return found, segment.read_segment(data, key="k")


def read_salvaged(data: bytes) -> object:
    """Read whatever is left in some bytes."""
    return salvage_segment(data, key="k"), salvage_content(data), salvage_lines(data), salvage_header(data)


def read_paths(data: bytes) -> object:
    """Take bytes for a key, and for a name."""
    text = data.decode("latin-1")
    name = decode_id(text)
    assert name is None or encode_id(name) == text
    assert text == "" or "/" not in encode_id(text)
    return parse_segment(text), session_of_latest(text), session_of_tail(text), parcel_of(text, "")


def read_checkpoint(data: bytes) -> object:
    """Take bytes for the body of a checkpoint's record, and for a whole checkpoint."""
    with contextlib.suppress(CorruptError, NotFoundError):
        read_form(data, BODY)
        record = Record(at=1, by="a.1", type="checkpoint", id="c", body=Raw(data))
        entry_of(skeleton_of_record(record, 1))
        apply_body(None, record, lambda _: record)
    return decode_checkpoint(data)


def read_imported(data: bytes) -> object:
    """Read the lines of a foreign file; all that is wrong with it is reported."""
    reports: list[object] = []

    def report(*found: object) -> None:
        reports.append(found)

    stream = io.BufferedReader(io.BytesIO(data))
    return list(islice(read_values(stream, report, lambda value: isinstance(value, dict)), 10_000)), reports


def bodies() -> list[bytes]:
    """The bodies of checkpoint records, and a whole one."""
    found = [bytes(record.body) for record in map(decode_record, lines()) if record.type == "checkpoint"]
    context = Context((Item("n1"), Item("n2", "summary@1"), Item("n3", message=b'{"role":"user"}')), {"model": "m"})
    whole = Checkpoint(id="c", head="main", node="n3", context=context, state={"k": b"1"}, origins={"k": "c"})
    return [*found, encode_checkpoint(whole), DEEP]


def slots() -> list[bytes]:
    """A slot of a register."""
    return [encode_slot(3, b"data" * 20)[0]]


DECODERS = {
    "record": Decoder(lambda data: (decode_record(data), skeleton_of(data)), lines, seal=_close),
    "value": Decoder(values.decode, lambda: [*split_lines(stored("values.jsonl")), DEEP, NUMBERS]),
    "frames": Decoder(
        lambda data: frames.decompress(data, key="k", bytes_max=1 << 20),
        lambda: [stored("segment.jsonl.zst"), BOMB, RUNS],
    ),
    "log": Decoder(
        lambda data: decode_tail(data, key="k", compressed=False),
        lambda: [stored(name) for name in ("tail.jsonl", "tail-hole.jsonl", "tail-torn.jsonl")],
        seal=close_lines,
    ),
    "raw log": Decoder(
        lambda data: decode_tail(data, key="k", compressed=False),
        lambda: [stored(name) for name in ("tail.jsonl", "tail-hole.jsonl", "tail-torn.jsonl")],
    ),
    "tail": Decoder(
        lambda data: decode_tail(data, key="k", compressed=True), lambda: [content("tail.jsonl.zst")], seal=close_frame
    ),
    "raw tail": Decoder(
        lambda data: decode_tail(data, key="k", compressed=True), lambda: [stored("tail.jsonl.zst"), BOMB, RUNS]
    ),
    "latest": Decoder(
        lambda data: (decode_latest(data, key="k"), decode_card(data, key="k")),
        lambda: [content("latest.jsonl.zst"), content("tombstone.jsonl.zst")],
        seal=close_latest,
    ),
    "parcel": Decoder(
        lambda data: (decode_parcel(data, key="k"), decode_header(data, key="k")),
        lambda: [content("parcel.zst")],
        seal=close_latest,
    ),
    "raw parcel": Decoder(lambda data: decode_parcel(data, key="k"), lambda: [stored("parcel.zst"), BOMB, RUNS]),
    "raw latest": Decoder(lambda data: decode_latest(data, key="k"), lambda: [stored("latest.jsonl.zst"), BOMB, RUNS]),
    "segment index": Decoder(read_segment, lambda: [index_content()], seal=close_index),
    "segment index 2": Decoder(read_segment, lambda: [index_2_content()], seal=close_index_2),
    **{
        name: Decoder(
            partial(read_part, number=number), partial(_content_list, number), seal=close_part
        )
        for number, name in enumerate(("chunk", "block outside", "block of foreign ids"))
    },
    "raw segment 2": Decoder(read_segment, lambda: [segment_2()[0]]),
    "raw segment": Decoder(read_segment, lambda: [stored("segment.jsonl.zst"), BOMB]),
    "salvage": Decoder(
        read_salvaged,
        lambda: [stored(name) for name in ("segment.jsonl.zst", "tail-hole.jsonl", "latest.jsonl.zst")] + [BOMB, RUNS],
        raises=(FormatVersionError,),
    ),
    "paths": Decoder(
        read_paths,
        lambda: [
            b"sessions/=2e=2e=2fetc/tail.jsonl", b"latest/a=2fb.jsonl.zst", b"../../x", b"=h" + b"0" * 64,
            b"000000000000-000000000003-000001-aa.jsonl.zst", b"parcels/a/=2e=2e/c=.zst",
        ],
    ),
    "checkpoint": Decoder(read_checkpoint, bodies),
    "import": Decoder(
        read_imported, lambda: [stored("tail.jsonl"), b'{"a":1}\n{"b":[1e400]}\r\n\xff{"c"', DEEP, NUMBERS], raises=()
    ),
    "slot": Decoder(lambda data: decode_slot("a", data), slots),
}  # fmt: skip
