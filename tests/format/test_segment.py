"""Segments: readable as a whole, by frames and without bodies, by us and by others; and all damage is found."""

import json
import shutil
import struct
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
import zstandard
from msgspec import Raw
from tests.format.skeletons import skeletons_of
from tests.sampling import few

from treering.errors import CorruptError, FormatVersionError, TreeringError, UsageError
from treering.format import segment as module
from treering.format.frames import add_check, compress, skippable
from treering.format.index import SegmentIndex
from treering.format.parts import read_chunk, read_foreign, read_outside
from treering.format.record import RECORD_BYTES_MAX, Record, decode_record, encode_record, skeleton_of
from treering.format.references import HAS_CHECKPOINT, HAS_CONTEXT_EDIT, HAS_INLINE, MASK_ALL, MASK_FIRST
from treering.format.salvage import salvage_segment
from treering.format.segment import (
    FOOTER_GUESS_BYTES,
    FRAME_BYTES,
    build_segment,
    read_footer,
    read_frame,
    read_segment,
    replace_lines,
)

MS = 1_790_000_000_000


def our_id(number: int) -> str:
    """One of our ids; the random part is a hash, so that it compresses no better than a real one."""
    noise = number * 0x9E3779B97F4A7C15 ^ number << 31
    noise = (noise ^ noise >> 29) * 0xBF58476D1CE4E5B9 & (1 << 62) - 1
    return f"{MS + number * 4321:012x}7{number * 2654435761 >> 7 & 0xFFF:03x}{2 << 62 | noise:016x}"


def turns(messages: int, *, first: int = 0, text: str = "") -> list[bytes]:
    """Lines as a session has them: after every two messages a checkpoint, in one append."""
    lines: list[bytes] = []
    node = checkpoint = None
    for number in range(messages):
        at = first + len(lines)
        body = Raw(b'{"content":"%b %d"}' % (text.encode(), number * number))
        role, append = ("user", "assistant")[number % 2], f"a1b2c3d4e5f6.{number // 2}"
        record = Record(at=at, by=append, type="node", kind="message", id=our_id(at), parent=node, more=True, body=body)
        lines.append(encode_record(msgspec.structs.replace(record, head="main", role=role)))
        node = record.id
        if number % 2:
            at += 1
            record = Record(at=at, by=append, type="checkpoint", id=our_id(at), parent=checkpoint, target=node)
            lines.append(encode_record(record))
            checkpoint = record.id
    return lines


def mixed() -> list[bytes]:
    """A few lines that use every column."""
    fields: list[dict[str, object]] = [
        {"type": "node", "id": our_id(1)},
        {"type": "node", "id": "8f3a", "parent": our_id(1), "time": MS},
        {"type": "node", "id": "8f3a", "parent": "8f3a", "time": MS + 1},
        {"type": "note", "id": our_id(2), "target": our_id(99), "brief": Raw(b'{"label":"x"}'), "critical": True},
        {"type": "head", "id": our_id(3), "head": "main-2", "links": {"copy-of": "\ud800"}, "time": 5},
    ]
    return [encode_record(Record(at=7 + i, by="w.0", **rest)) for i, rest in enumerate(fields)]  # type: ignore[arg-type]


def footer_of(data: bytes) -> SegmentIndex:
    """The footer, from the whole segment."""
    footer = read_footer(data, len(data), key="k")
    assert isinstance(footer, SegmentIndex)
    return footer


def read_by_parts(data: bytes, size: int) -> tuple[object, ...]:
    """Everything that is to be had without reading the segment as a whole."""
    footer = read_footer(data, size, key="k")
    assert isinstance(footer, SegmentIndex)
    lines = [line for span in footer.frames for line in read_frame(data[span.start : span.end], span, key="k")]
    skeletons, rows = [], []
    for span in footer.chunks:
        chunk = read_chunk(data[span.start : span.end], span, footer)
        skeletons += chunk.skeletons()
        rows += [(chunk.parent_row(row), chunk.target_row(row), chunk.referrers(row)) for row in chunk.rows]
    outside = [read_outside(data[span.start : span.end], span, footer) for span in footer.outside]
    foreign = [read_foreign(data[span.start : span.end], span, footer) for span in footer.foreign]
    return footer.first, footer.end, lines, skeletons, rows, outside, foreign


@pytest.mark.parametrize("lines", [turns(1), turns(40, first=5), mixed()], ids=["one", "turns", "mixed"])
def test_round_trip(lines: list[bytes]) -> None:
    """All lines come back, as a whole and by frames, and the skeletons are those of the lines."""
    data = build_segment(lines, key="k")
    assert read_segment(data, key="k") == lines
    skeletons = [skeleton_of(line) for line in lines]
    assert read_by_parts(data, len(data))[:4] == (skeletons[0].at, skeletons[-1].at + 1, lines, skeletons)


def large(monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, list[bytes]]:
    """A segment of many frames, because frames are made small."""
    monkeypatch.setattr(module, "FRAME_BYTES", 4000)
    lines = turns(80, first=100)
    return build_segment(lines, key="k"), lines


def test_each_record_by_its_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any record is read from one frame, found by its position."""
    data, lines = large(monkeypatch)
    footer = footer_of(data)
    assert len(footer.frames) > 3
    for at, line in enumerate(lines, 100):
        span = footer.frame_of(at)
        assert read_frame(data[span.start : span.end], span, key="k")[at - footer.first - span.first_row] == line
    for at in (99, footer.end):
        with pytest.raises(UsageError):
            footer.frame_of(at)


def test_frames_hold_whole_lines() -> None:
    """A frame ends before the line that would burst it; a longer line has a frame to itself."""
    sizes = [FRAME_BYTES * 2, FRAME_BYTES // 2, FRAME_BYTES // 2 - 500, 900, FRAME_BYTES * 2, 10, 10]
    lines = [
        encode_record(Record(at=at, by="w.0", type="node", body=Raw(b'"' + b"x" * size + b'"')))
        for at, size in enumerate(sizes)
    ]
    footer = footer_of(build_segment(lines, key="k"))
    assert [span.rows for span in footer.frames] == [1, 2, 1, 1, 2]
    assert [span.content_size for span in footer.frames[1:3]] == [len(lines[1] + lines[2]), len(lines[3])]


def test_footer_from_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too short a suffix is answered by the length that is needed; in at most two steps it is enough."""
    data, _ = large(monkeypatch)
    monkeypatch.setattr(module, "FOOTER_GUESS_BYTES", 10)
    whole = footer_of(data)
    for length in range(len(data) + 1):
        needed, steps = length, 0
        while isinstance(footer := read_footer(data[len(data) - needed :], len(data), key="k"), int):
            assert needed < footer <= len(data)
            needed, steps = footer, steps + 1
        assert footer == whole
        assert steps <= (3 if length < 9 else 2)


def test_guess_holds_the_footer_of_a_thousand_messages() -> None:
    """The first read from the end is enough for 1,000 messages and 500 checkpoints."""
    data = build_segment(turns(1000), key="k")
    assert isinstance(read_footer(data[-FOOTER_GUESS_BYTES:], len(data), key="k"), SegmentIndex)


SMALL = build_segment(mixed(), key="k")
SPAN = footer_of(SMALL).frames[0]
CHUNK = footer_of(SMALL).chunks[0]
OUTSIDE = footer_of(SMALL).outside[0]
FOREIGN = footer_of(SMALL).foreign[0]
PARTS = FOREIGN.end  # where the parts of the index end


def damaged(data: bytes) -> Sequence[bytes]:
    """Every single flipped bit of `data`."""
    return [data[:i] + bytes([data[i] ^ 1 << bit]) + data[i + 1 :] for i in range(len(data)) for bit in range(8)]


def test_every_flip_is_found() -> None:
    """Each flipped bit is a CorruptError with key and offset, when read as a whole and when read by parts.

    Of the eight bytes around the parts, which say where other programs go on reading, only the whole is a witness.
    """
    header = range(8 * SPAN.end, 8 * CHUNK.start)
    assert len(header) == 64
    for number, bad in enumerate(damaged(SMALL)):
        if (number + number // 8) % few(8, whole=1):  # else one bit of each byte, another one each time
            continue
        readers: list[Callable[[bytes], object]] = [lambda data: read_segment(data, key="k")]
        if number not in header:
            readers.append(lambda data: read_by_parts(data, len(data)))
        for read in readers:
            with pytest.raises(CorruptError) as caught:
                read(bad)
            assert caught.value.key == "k"
            assert caught.value.offset is not None
        if number in header:
            assert read_by_parts(bad, len(bad)) == read_by_parts(SMALL, len(SMALL))


def test_every_truncation_is_found() -> None:
    """A segment cut at any length, at its end or its beginning, is a CorruptError."""
    for cut in range(len(SMALL)):
        for bad in (SMALL[:cut], SMALL[cut + 1 :]):
            with pytest.raises(CorruptError):
                read_segment(bad, key="k")
            with pytest.raises(CorruptError):
                read_footer(SMALL[cut + 1 :], len(SMALL) - cut - 1, key="k")
    for bad in (SMALL + b"\0", b"\0" + SMALL, SMALL + SMALL):
        with pytest.raises(CorruptError):
            read_segment(bad, key="k")


def test_flips_in_the_footer_alone() -> None:
    """With nothing but the last bytes at hand, each flipped bit in them is found as well."""
    for bad in damaged(SMALL[PARTS:]):
        try:
            footer = read_footer(bad, len(SMALL), key="k")
        except CorruptError:
            continue
        assert isinstance(footer, int)  # a size that asks for more bytes, which then do not fit:
        with pytest.raises(CorruptError):
            read_footer(SMALL[:PARTS] + bad, len(SMALL), key="k")


def test_frame_of_another_segment() -> None:
    """A frame that is whole, but another one than the footer means, is found."""
    other = build_segment(turns(4), key="k")
    span = footer_of(SMALL).frames[0]
    with pytest.raises(CorruptError):
        read_frame(other[: footer_of(other).frames[0].end], span, key="k")


def rebuilt(data: bytes, **changes: object) -> bytes:
    """The segment with an index that says something else, and all checksums right."""
    footer = footer_of(data)
    frames = [data[span.start : span.end] for span in footer.frames]
    fields = {
        "treering": 2,
        "first": footer.first,
        "odd": footer.odd,
        "told": MASK_ALL,
        "frames": [(span.end - span.start, span.content_size, span.rows, span.crc) for span in footer.frames],
        "chunks": [
            (span.end - span.start, span.crc, span.rows, span.least, span.greatest, span.mask) for span in footer.chunks
        ],
        "outside": [(span.end - span.start, span.crc, span.entries, span.first.encode()) for span in footer.outside],
        "foreign": [(span.end - span.start, span.crc, span.entries, span.first) for span in footer.foreign],
    }
    index = module._Index(**(fields | changes))  # type: ignore[arg-type]
    frames = frames[: len(index.frames)]
    sizes = [(frame, entry[1]) for frame, entry in zip(frames, index.frames, strict=True)]
    start, end = footer.frames[-1].end, footer.foreign[-1].end
    return b"".join(frames) + data[start:end] + module._encode_footer(index, sizes, [end - start])


def resigned(data: bytes, footer_start: int) -> bytes:
    """The segment with the checksum of its index and seek table made right again."""
    return (
        data[: footer_start + 8]
        + zlib.crc32(data[footer_start + 12 :]).to_bytes(4, "little")
        + data[footer_start + 12 :]
    )


def test_rebuilding_changes_nothing() -> None:
    """The index is rebuilt for the tests below as it was."""
    assert rebuilt(SMALL) == SMALL == resigned(SMALL, PARTS)


def test_what_a_writer_did_not_know_may_occur() -> None:
    """In a segment whose writer did not tell of inline messages, every chunk may have some."""
    before = rebuilt(SMALL, told=MASK_FIRST)
    assert not CHUNK.mask & (HAS_CONTEXT_EDIT | HAS_INLINE)
    assert [span.mask for span in footer_of(before).chunks] == [CHUNK.mask | HAS_CONTEXT_EDIT | HAS_INLINE]
    assert read_segment(before, key="k") == read_segment(SMALL, key="k")


def shortened(line: bytes) -> bytes:
    """The line with another body and brief."""
    record = decode_record(line)
    body = Raw(b'{"message":1}' if record.type == "checkpoint" else b"{}")
    return encode_record(msgspec.structs.replace(record, body=body, brief=Raw(b'{"erased":true}')))


def test_lines_are_replaced_without_the_others() -> None:
    """A segment with other lines in place of some is the same in all frames and chunks that hold none of them."""
    lines = turns(6_000, text="x" * 500)
    data = build_segment(lines, key="k")
    footer = footer_of(data)
    places = [4_000, 4_001, 8_999]
    new = replace_lines(data, footer, dict.fromkeys(places, shortened), key=footer.key)
    expected = [shortened(line) if at in places else line for at, line in enumerate(lines)]
    assert read_segment(new, key="k") == expected
    now = footer_of(new)
    assert (now.odd, now.first, now.rows) == (footer.odd, 0, len(lines))
    for kind, same in (("frames", 2), ("chunks", 2), ("outside", 0), ("foreign", 0)):
        before, after = getattr(footer, kind), getattr(now, kind)
        pieces = [
            (data[old.start : old.end], new[span.start : span.end]) for old, span in zip(before, after, strict=True)
        ]
        assert sum(old != piece for old, piece in pieces) == same
    assert [span.mask for span in now.chunks if span.mask & HAS_INLINE] == 2 * [HAS_CHECKPOINT | HAS_INLINE]


@pytest.mark.parametrize("kind", ["frames", "chunks"])
def test_damage_is_not_written_again(kind: str) -> None:
    """Lines of a damaged segment are not replaced, wherever the damage is."""
    data = build_segment(turns(6_000, text="x" * 500), key="k")
    footer = footer_of(data)
    for span in getattr(footer, kind):
        damaged = bytearray(data)
        damaged[span.start + 20] ^= 1
        with pytest.raises(CorruptError):
            replace_lines(bytes(damaged), footer, {4_000: shortened}, key=footer.key)


def chunk_entry(**changes: int) -> dict[str, object]:
    """A list of chunks that says something else."""
    fields = {"size": CHUNK.end - CHUNK.start, "crc": CHUNK.crc, "rows": 5, "least": CHUNK.least}
    fields |= {"greatest": CHUNK.greatest, "mask": CHUNK.mask} | changes
    return {"chunks": [tuple(fields.values())]}


def block_entry(name: str, **changes: object) -> dict[str, object]:
    """A list of blocks that says something else."""
    span, first = (OUTSIDE, OUTSIDE.first.encode()) if name == "outside" else (FOREIGN, FOREIGN.first)
    fields = {"size": span.end - span.start, "crc": span.crc, "entries": span.entries, "first": first} | changes
    return {name: [tuple(fields.values())]}


@pytest.mark.parametrize(
    "changes",
    [
        {"first": 8},
        {"first": -1},
        {"odd": False},
        {"frames": []},
        {"frames": [(SPAN.end, SPAN.content_size, 4, SPAN.crc)]},
        {"frames": [(SPAN.end, SPAN.content_size, 6, SPAN.crc)]},
        {"frames": [(SPAN.end, SPAN.content_size, 0, SPAN.crc)]},
        {"frames": [(SPAN.end, SPAN.content_size + 1, 5, SPAN.crc)]},
        {"frames": [(SPAN.end, SPAN.content_size, 5, SPAN.crc ^ 1)]},
        {"chunks": []},
        chunk_entry(size=CHUNK.end - CHUNK.start + 1),
        chunk_entry(size=0),
        chunk_entry(crc=CHUNK.crc ^ 1),
        chunk_entry(rows=4),
        chunk_entry(rows=6),
        chunk_entry(least=CHUNK.least - 1),
        chunk_entry(least=-1),
        chunk_entry(greatest=CHUNK.greatest + 1),
        chunk_entry(least=-1, greatest=-1),
        chunk_entry(mask=CHUNK.mask ^ 1),
        {"outside": []},
        block_entry("outside", size=OUTSIDE.end - OUTSIDE.start - 1),
        block_entry("outside", crc=OUTSIDE.crc ^ 1),
        block_entry("outside", entries=2),
        block_entry("outside", entries=0),
        block_entry("outside", first=b"0"),
        block_entry("outside", first=b"\xff"),
        {"foreign": []},
        block_entry("foreign", crc=FOREIGN.crc ^ 1),
        block_entry("foreign", entries=1),
        block_entry("foreign", first=FOREIGN.first + 1),
        block_entry("foreign", first=-1),
        block_entry("foreign", first=1 << 32),
    ],
)
def test_index_that_lies(changes: dict[str, object]) -> None:
    """An index that contradicts the records, or itself, is found although its checksum is right."""
    with pytest.raises(CorruptError) as caught:
        read_segment(rebuilt(SMALL, **changes), key="k")
    assert caught.value.key == "k"
    assert caught.value.offset is not None


def test_doubt_is_kept() -> None:
    """Who builds a segment may know more about its ids than its records show."""
    lines = turns(4)
    assert not footer_of(build_segment(lines, key="k")).odd
    doubted = build_segment(lines, key="k", doubtful=True)
    assert footer_of(doubted).odd
    assert read_segment(doubted, key="k") == lines


def test_index_and_table_of_different_sizes() -> None:
    """Index and seek table are compared before a frame is read."""
    with pytest.raises(CorruptError, match="index and seek table differ"):
        footer_of(rebuilt(SMALL, frames=[(SPAN.end - 1, SPAN.content_size, 5, SPAN.crc)]))


def test_frame_with_other_lines_than_expected() -> None:
    """A frame that holds more or fewer lines than the index says is not cut to measure."""
    for rows in (4, 6):
        with pytest.raises(CorruptError, match="number of records"):
            read_frame(SMALL[: SPAN.end], msgspec.structs.replace(SPAN, rows=rows), key="k")


def test_seek_table_that_lies() -> None:
    """Each flipped bit of the seek table is found even with a right checksum: other tools rely on the table alone."""
    table = len(SMALL) - 9 - 3 * 12 - 8
    for bad in damaged(SMALL[table:]):
        with pytest.raises(CorruptError):
            read_segment(resigned(SMALL[:table] + bad, PARTS), key="k")


def test_newer_version() -> None:
    """An index of a newer version is told as such, also if its fields have changed shape."""
    for data in (rebuilt(SMALL, treering=3), rebuilt(SMALL, treering=4, chunks={"new": 1})):
        with pytest.raises(FormatVersionError):
            read_footer(data, len(data), key="k")
        with pytest.raises(FormatVersionError):
            read_segment(data, key="k")


def test_other_objects_are_no_segments() -> None:
    """Whatever else may lie under a segment's key is a CorruptError."""
    frame = compress(b"{}\n")
    table = struct.pack("<III", len(frame), 3, 0) + struct.pack("<IBI", 1, 0x80, 0x8F92EAB1)
    for data in (
        b"",
        b"x" * 100,
        frame,
        add_check(frame),
        frame + skippable(14, table),
        SMALL[-9:],
        skippable(14, b""),
    ):
        with pytest.raises(CorruptError):
            read_segment(data, key="k")
    for data in (b"x" * 100, add_check(frame) * 5, *(SMALL[:-5] + bad for bad in damaged(SMALL[-5:]))):
        with pytest.raises(CorruptError, match="does not end in a seek table"):
            read_footer(data, len(data), key="k")


def test_bombs() -> None:
    """Sizes beyond the limits are refused before anything is allocated, in frames and in the index."""
    bomb = b"\x28\xb5\x2f\xfd\xe4" + (8 << 30).to_bytes(8, "little") + b"\x01\0\0" + b"\0\0\0\0"
    huge = msgspec.structs.replace(SPAN, content_size=RECORD_BYTES_MAX + 1)
    with pytest.raises(CorruptError, match="too large"):
        read_frame(SMALL[: SPAN.end], huge, key="k")
    frame = (SMALL[: SPAN.end], SPAN.content_size)
    index = skippable(4, b"\0\0\0\0" + bomb)
    data = resigned(frame[0] + index + module._encode_table([frame], [len(index)]), SPAN.end)
    with pytest.raises(CorruptError, match="too large"):
        read_segment(data, key="k")
    for span, read in ((CHUNK, read_chunk), (OUTSIDE, read_outside), (FOREIGN, read_foreign)):
        longer = msgspec.structs.replace(span, end=span.start + len(bomb), crc=zlib.crc32(bomb))
        with pytest.raises(CorruptError, match="too large"):
            read(bomb, longer, footer_of(SMALL))  # type: ignore[arg-type]


@pytest.mark.parametrize("lines", [[], [turns(2)[1], turns(2)[0]], [turns(2)[0], turns(2)[2]], [turns(1)[0]] * 2])
def test_what_is_no_segment_is_not_built(lines: list[bytes]) -> None:
    """Lines must be there, and their positions follow each other."""
    with pytest.raises(UsageError):
        build_segment(lines, key="k")


def test_damaged_lines_are_not_sealed() -> None:
    """A damaged line is found before it is sealed in behind good checksums."""
    lines = turns(4)
    assert b"assistant" in lines[1]
    lines[1] = lines[1].replace(b"assistant", b"assistent")
    with pytest.raises(CorruptError) as caught:
        build_segment(lines, key="k")
    assert caught.value.offset == len(lines[0])


def test_seek_table_by_its_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader written from the description of the seekable format finds every frame and its checksum."""
    data, lines = large(monkeypatch)
    count, flags, magic = struct.unpack("<IBI", data[-9:])
    assert (flags, magic) == (0x80, 0x8F92EAB1)
    start = len(data) - 9 - 12 * count - 8
    assert struct.unpack("<II", data[start : start + 8]) == (0x184D2A5E, 12 * count + 9)
    offset, contents = 0, []
    for compressed, content, checksum in struct.iter_unpack("<III", data[start + 8 : -9]):
        frame = data[offset : offset + compressed]
        if content:
            contents.append(zstandard.ZstdDecompressor().decompress(frame))
            assert len(contents[-1]) == content
            assert frame[-4:] == checksum.to_bytes(4, "little")  # the half XXH64 that ends a frame
        offset += compressed
    assert offset == start
    assert b"".join(contents) == b"".join(lines)


def test_seek_table_by_another_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The seekable reader of pyzstd reads any part of a segment."""
    pyzstd = pytest.importorskip("pyzstd", reason="pyzstd is not installed")
    data, lines = large(monkeypatch)
    file = tmp_path / "segment.zst"
    file.write_bytes(data)
    content = b"".join(lines)
    with pyzstd.SeekableZstdFile(file, "r") as reader:
        for place in range(0, len(content), 997):
            reader.seek(place)
            assert reader.read(50) == content[place : place + 50]


@pytest.mark.tools
def test_command_line_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`zstdcat FILE | jq .` prints the records, and `zstd -t` finds the file whole."""
    tools = {name: shutil.which(name) for name in ("zstd", "zstdcat", "jq")}
    if missing := [name for name, path in tools.items() if path is None]:
        pytest.skip(f"not installed: {missing}")
    data, lines = large(monkeypatch)
    file = tmp_path / "segment.jsonl.zst"
    file.write_bytes(data)
    subprocess.run(["zstd", "-q", "-t", file], check=True)
    plain = subprocess.run(["zstdcat", file], check=True, capture_output=True).stdout
    assert plain == b"".join(lines)
    printed = subprocess.run(["jq", "-c", "."], input=plain, check=True, capture_output=True).stdout
    assert [json.loads(line) for line in printed.splitlines()] == [json.loads(line) for line in lines]


def test_budget_of_the_index() -> None:
    """Skeletons of 100,000 messages and 50,000 checkpoints: at most 20 bytes a message, and under 100 MB of memory.

    Of 30,000 messages here, in as much less.
    """
    messages, step = few(30_000, whole=100_000), 10_000
    total = 0
    segments = []
    for first in range(0, messages, step):
        data = build_segment(turns(step, first=first * 3 // 2), key="k")
        footer = footer_of(data)
        total += len(data) - footer.frames[-1].end
        segments.append(data)
    assert total <= 20 * messages
    tracemalloc.start()
    skeletons = [skeleton for data in segments for skeleton in skeletons_of(data, footer_of(data))]
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(skeletons) == messages * 3 // 2
    assert held < 600 * messages
    assert peak < 1000 * messages


def test_salvage_needs_no_index() -> None:
    """Whatever bit behind the frames is flipped, every record is saved; a damaged chunk is told."""
    lines = dict(enumerate(mixed(), 7))
    for place in range(SPAN.end, len(SMALL)):
        bad = SMALL[:place] + bytes([SMALL[place] ^ 16]) + SMALL[place + 1 :]
        saved = salvage_segment(bad, key="k")
        assert saved.lines == lines
        assert not saved.lost
        assert bool(saved.errors) or not CHUNK.start <= place < CHUNK.end
    both = bytearray(SMALL)
    both[SPAN.end - 20] ^= 1
    saved = salvage_segment(bytes(both), key="k")
    assert {*saved.lines, *saved.lost} == set(range(7, 12))
    both[CHUNK.start + 30] ^= 1
    assert len(salvage_segment(bytes(both), key="k").errors) == 2


def test_errors_are_typed() -> None:
    """Random bytes in the place of any object give a typed error and nothing else."""
    for seed in range(300):
        noise = bytes((seed * 7919 + i * i * 31) >> 3 & 255 for i in range(seed))
        for bad in (noise, SMALL[: len(SMALL) // 2] + noise, noise + SMALL[-60:], SMALL[: -len(noise) or None] + noise):
            if bad != SMALL:
                with pytest.raises(TreeringError):
                    read_segment(bad, key="k")
