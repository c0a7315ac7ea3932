from contextlib import suppress
from typing import Any

import pytest
import zstandard
from hypothesis import given, strategies as st

from treering.errors import CorruptError
from treering.format.frames import compress, decompress, skippable, walk

LIMIT = 1 << 20
DATA = b"all that happened, " * 40


@given(st.lists(st.binary(min_size=1, max_size=2000), min_size=1, max_size=5))
def test_round_trip(parts: list[bytes]) -> None:
    """Joined frames give the joined content."""
    data = b"".join(compress(part) for part in parts)
    assert decompress(data, key="k", bytes_max=LIMIT) == b"".join(parts)
    assert [frame.content_size for frame in walk(data, key="k")] == [len(part) for part in parts]


def test_large_content_of_many_blocks() -> None:
    """Frames of many blocks, of all block types, are walked to their end."""
    noise = bytes(i * i * 2654435761 >> 13 & 255 for i in range(300_000))
    data = compress(noise + bytes(300_000) + DATA * 100) + compress(b"x")
    assert [frame.content_size for frame in walk(data, key="k")] == [600_000 + len(DATA) * 100, 1]


def test_skippable_frames_have_no_content() -> None:
    """A skippable frame behind the first frame is passed over."""
    data = compress(b"one") + skippable(4, b"notes") + compress(b"two")
    assert decompress(data, key="k", bytes_max=LIMIT) == b"onetwo"
    assert [frame.content_size for frame in walk(data, key="k")] == [3, None, 3]


def plain_frame(**options: Any) -> bytes:
    """A frame with other flags than ours."""
    return zstandard.ZstdCompressor(**options).compress(DATA)


DICTIONARY = zstandard.train_dictionary(1024, [b"%d some words %d" % (i, i * i) for i in range(999)])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "begin"),
        (b"\x28\xb5\x2f\xfd", "header"),
        (skippable(4, b"notes") + compress(DATA), "begin"),
        (skippable(4, b"notes"), "begin"),
        (plain_frame(write_content_size=True, write_checksum=False), "lacks a checksum"),
        (plain_frame(write_content_size=False, write_checksum=True), "size of its content"),
        (compress(b""), "size of its content"),
        (compress(DATA) + compress(b""), "size of its content"),
        (compress(DATA) + b"\0", "no zstd frame"),
        (compress(DATA) + b"garbage behind", "no zstd frame"),
        (compress(DATA)[:-1], "ends inside"),
        (compress(DATA) + skippable(4, b"notes")[:-1], "ends inside"),
        (compress(DATA)[:4] + bytes([compress(DATA)[4] | 0b10000]) + compress(DATA)[5:], "unsupported option"),
        (compress(DATA)[:7] + bytes([compress(DATA)[7] | 0b110]) + compress(DATA)[8:], "unknown type"),
        (zstandard.ZstdCompressor(dict_data=DICTIONARY, write_checksum=True).compress(DATA), "unsupported option"),
    ],
)
def test_foreign_and_broken_layouts(data: bytes, message: str) -> None:
    """What is not made of frames as we write them is damage."""
    with pytest.raises(CorruptError, match=message) as caught:
        decompress(data, key="k", bytes_max=LIMIT)
    assert caught.value.key == "k"
    assert caught.value.offset is not None


def test_bomb_of_16_bytes() -> None:
    """A header that declares 8 GiB is refused before memory is asked for."""
    bomb = b"\x28\xb5\x2f\xfd" + b"\xe4" + (8 << 30).to_bytes(8, "little") + b"\x01\0\0"
    assert len(bomb) == 16
    assert zstandard.frame_content_size(bomb) == 8 << 30
    for data in (bomb, bomb + b"\0\0\0\0", compress(DATA) + bomb + b"\0\0\0\0"):
        with pytest.raises(CorruptError):
            decompress(data, key="k", bytes_max=LIMIT)
    with pytest.raises(CorruptError, match="too large"):
        decompress(bomb + b"\0\0\0\0", key="k", bytes_max=LIMIT)


def test_size_limit() -> None:
    """Content of exactly the limit is read; one byte more is refused, also when frames add up to it."""
    data = compress(DATA) + compress(DATA)
    assert decompress(data, key="k", bytes_max=2 * len(DATA)) == 2 * DATA
    with pytest.raises(CorruptError, match="too large"):
        decompress(data, key="k", bytes_max=2 * len(DATA) - 1)


def test_damage_is_found_or_harmless() -> None:
    """Every truncation is found, and no flipped bit changes the content unnoticed."""
    data = compress(DATA) + compress(DATA[::-1])
    content = DATA + DATA[::-1]
    boundary = len(compress(DATA))
    for cut in (cut for cut in range(len(data)) if cut != boundary):
        with pytest.raises(CorruptError):
            decompress(data[:cut], key="k", bytes_max=LIMIT)
    for place in range(len(data)):
        for bit in range(8):
            bad = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
            with suppress(CorruptError):
                assert decompress(bad, key="k", bytes_max=LIMIT) == content
