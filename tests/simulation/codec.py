"""Make schedules fast and repeatable: objects are not encoded, and a seed determines the clock and all random numbers.

Encoding and compression take most of the time of a real append, and no rule under test is about them. So the journal's
coders are replaced by ones that return tokens: bytes that are as long as the encoded lines, with the value attached.
Some schedules keep the real coders, to make sure that nothing depends on the difference.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec

import treering.ids
from treering.format import record, register, segment
from treering.format.columns import Columns, pack
from treering.format.frames import LEVEL, decompress_frame, walk
from treering.format.index import TIME_MAX, ChunkSpan, ForeignSpan, FrameSpan, OutsideSpan, SegmentIndex
from treering.format.paths import parse_segment
from treering.format.record import Skeleton, decode_record, skeleton_of
from treering.format.references import MASK_ALL
from treering.format.register import Card, Latest, Tail
from treering.journal import cover, erase, merge, read, register as registers
from treering.session import loader
from treering.store import catalogue, copying

MAGIC = b"\x28\xb5\x2f\xfd"  # the first bytes of a zstd frame
TEXT = re.compile(rb"text \d+(?!\d)")
"""A text that an agent records."""


class Token(bytes):
    """Bytes that have a value attached, in place of its encoded form."""

    value: Any

    @classmethod
    def of(cls, value: object, size: int) -> Token:
        token = cls(size)
        token.value = value
        return token


def _encode_tail(tail: Tail, *, compressed: bool) -> bytes:
    if not compressed:
        return register.encode_tail(tail, compressed=False)
    return Token.of(tail, 60 + sum(map(len, tail.lines)))


def _decode_tail(data: bytes, *, key: str, compressed: bool) -> Tail:
    if isinstance(data, Token):
        tail: Tail = data.value
        return tail
    return _decode_real_tail(data, key=key, compressed=compressed)


_decode_real_tail = lru_cache(maxsize=1000)(register.decode_tail)  # safe, since the value is immutable


def _encode_latest(card: Card, lines: Sequence[bytes]) -> bytes:
    latest = Latest(card=msgspec.structs.replace(card, lines=len(lines)), lines=tuple(lines))
    return Token.of(latest, 60 + sum(map(len, lines)))


def _decode_latest(data: bytes, *, key: str) -> Latest:
    if isinstance(data, Token):
        latest: Latest = data.value
        return latest
    return register.decode_latest(data, key=key)


def _decode_card(prefix: bytes, *, key: str) -> Card:
    if isinstance(prefix, Token):
        card: Card = prefix.value.card
        return card
    return register.decode_card(prefix, key=key)


def _build_segment(
    lines: Sequence[bytes],
    *,
    key: str,
    skeletons: Sequence[Skeleton] | None = None,
    doubtful: bool = False,
    level: int = LEVEL,
) -> bytes:
    return Token.of(tuple(lines), sum(map(len, lines)))


def _read_segment(data: bytes, *, key: str) -> list[bytes]:
    return list(data.value) if isinstance(data, Token) else segment.read_segment(data, key=key)


def _read_footer(suffix: bytes, size: int, *, key: str) -> SegmentIndex | int:
    if not isinstance(suffix, Token):
        return segment.read_footer(suffix, size, key=key)
    lines = suffix.value
    rows = len(lines)
    return SegmentIndex(
        key=key,
        version=1,
        first=skeleton_of(lines[0]).at,
        frames=(FrameSpan(0, size, 0, rows, size, 0),),
        chunks=(ChunkSpan(0, 0, 0, rows, 0, TIME_MAX, MASK_ALL, 0),),
        outside=(OutsideSpan(0, 0, 0, "", 0),),
        foreign=(ForeignSpan(0, 0, 0, 0, 0),),
        odd=False,
        columns=_columns(lines),
    )


@lru_cache(maxsize=1000)
def _columns(lines: tuple[bytes, ...]) -> Columns:
    return pack([skeleton_of(line) for line in lines])


def _read_frame(data: bytes, span: FrameSpan, *, key: str) -> list[bytes]:
    return list(data.value) if isinstance(data, Token) else segment.read_frame(data, span, key=key)


def _frame_content(data: bytes, span: FrameSpan, *, key: str) -> bytes:
    return b"".join(data.value) if isinstance(data, Token) else segment.frame_content(data, span, key=key)


_CODERS: dict[str, Any] = {
    "encode_tail": _encode_tail,
    "decode_tail": _decode_tail,
    "encode_latest": _encode_latest,
    "decode_latest": _decode_latest,
    "decode_card": _decode_card,
    "build_segment": _build_segment,
    "read_segment": _read_segment,
    "read_footer": _read_footer,
    "read_frame": _read_frame,
    "frame_content": _frame_content,
}
_DECODERS = (decode_record, skeleton_of, parse_segment, decompress_frame)
"""Decoders whose results are cached: in one schedule, the same lines are decoded hundreds of times."""
_USERS = (cover, erase, merge, read, registers, loader, catalogue, copying)


def parse_tail(data: bytes, *, key: str, appends: bool) -> Tail:
    """Decode a tail, whichever coder wrote it."""
    return _decode_tail(data, key=key, compressed=not appends)


def parse_latest(data: bytes, *, key: str) -> Latest:
    """Decode `latest`, whichever coder wrote it."""
    return _decode_latest(data, key=key)


def parse_segment_lines(data: bytes, *, key: str) -> list[bytes]:
    """Return the lines of a segment, whichever coder wrote it."""
    return _read_segment(data, key=key)


def content_of(data: bytes) -> bytes:
    """Return everything that an object holds as plain bytes, whichever coder wrote it."""
    if not isinstance(data, Token):
        if not data.startswith(MAGIC):
            return data
        spans = [span for span in walk(data, key="") if span.content_size is not None]
        return data + b"".join(decompress_frame(data, span, key="") for span in spans)
    value = data.value
    if isinstance(value, Tail):
        return msgspec.json.encode(value.header) + b"".join(value.lines)
    if isinstance(value, Latest):
        return msgspec.json.encode(value.card) + b"".join(value.lines)
    return b"".join(value)


class Chance:
    """Replaces `os` and `time` in the modules that make ids, so that a seed determines the ids."""

    rng: ClassVar[random.Random] = random.Random(0)
    now_ns: ClassVar[int] = 0

    @classmethod
    def begin(cls, seed: int) -> None:
        cls.rng = random.Random(f"ids {seed}")
        cls.now_ns = 1_700_000_000_000_000_000
        treering.ids._clock._last = 0

    @classmethod
    def urandom(cls, size: int) -> bytes:
        return cls.rng.randbytes(size)

    @classmethod
    def time_ns(cls) -> int:
        cls.now_ns += 1_000_000
        return cls.now_ns

    @classmethod
    def monotonic(cls) -> float:
        return cls.now_ns / 1e9


@cache
def _remembering() -> list[tuple[Any, str, Any]]:
    """Return decoders that cache their results, which are immutable, for each module that uses them."""
    users = [user for name, user in sys.modules.items() if name.startswith(("treering.", "tests.simulation."))]
    return [
        (user, decoder.__name__, remembering)
        for decoder, remembering in [(decoder, lru_cache(maxsize=10_000)(decoder)) for decoder in _DECODERS]
        for user in users
        if vars(user).get(decoder.__name__) is decoder and user is not record
    ]


@contextmanager
def repeatable(*, tokens: bool) -> Iterator[None]:
    """Take ids and times from `Chance` inside the block; with `tokens`, registers and segments are tokens."""
    changes: list[tuple[Any, str, Any]] = [
        (treering.ids, "os", SimpleNamespace(urandom=Chance.urandom)),
        (treering.ids, "time", SimpleNamespace(time_ns=Chance.time_ns, monotonic=Chance.monotonic)),
        *_remembering(),
    ]
    if tokens:
        changes += [(user, name, coder) for user in _USERS for name, coder in _CODERS.items() if hasattr(user, name)]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    last = treering.ids._clock._last
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        treering.ids._clock._last = last
