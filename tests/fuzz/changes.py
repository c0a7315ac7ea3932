"""Bytes made of others by the kinds of change that break decoders."""

from __future__ import annotations

import random
from collections.abc import Sequence

BYTES_MAX = 1 << 18
CHANGES_MAX = 6
TOKENS = (
    b"\0", b"\xff" * 4, b"\xff" * 8, b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\n", b'"', b"{", b"}", b"[", b",",
    b"0",
    b"-1", b"1e400", b"9007199254740993", b"null", b"true", b'{"$', b'"$blob":', b'\\ud800', b'"_c":"00000000"}\n',
    b'"more":true,', b'"critical":true,', b'"treering":2,', b"\xed\xa0\x80", b"[" * 200, b"9" * 400,
    b"\x7f\xff\xff\xff",
)  # fmt: skip


def changed(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds, changed in a few places."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, CHANGES_MAX)):
        change = rng.choice((flip, put, put, drop, double, cut, splice, number))
        data = change(rng, data, seeds)
    return bytes(data[:BYTES_MAX])


def _place(rng: random.Random, data: bytearray) -> int:
    return rng.randrange(len(data) + 1)


def flip(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    """Another bit."""
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def put(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    """A piece that means something, put in or over."""
    at, token = _place(rng, data), rng.choice(TOKENS)
    data[at : at + rng.choice((0, len(token)))] = token
    return data


def drop(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    """A part left out."""
    at = _place(rng, data)
    del data[at : at + rng.choice((1, 4, 40, 400))]
    return data


def double(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    """A part twice."""
    at = _place(rng, data)
    data[at:at] = data[at : at + rng.choice((1, 10, 100, 1000))]
    return data


def cut(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    """The end left out."""
    return data[: _place(rng, data)] if rng.random() < 0.3 else data


def splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    """The beginning of one and the end of another."""
    other = rng.choice(seeds)
    return data[: _place(rng, data)] + other[rng.randrange(len(other) + 1) :] if rng.random() < 0.3 else data


def number(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> bytearray:
    """Another integer, where one may stand as bytes."""
    if len(data) >= 8:
        at, size = rng.randrange(len(data) - 7), rng.choice((1, 2, 4, 8))
        value = rng.choice((0, 1, -1, 1 << (8 * size - 1), rng.getrandbits(8 * size))) % (1 << 8 * size)
        data[at : at + size] = value.to_bytes(size, rng.choice(("little", "big")))
    return data
