"""Patches: the changes inside a large value of the state.

In place of a value a delta may hold a patch of the parent checkpoint's value, as JSON in UTF-8:

    {"$patch":["<sha256>",[12,0,",3"],[40,6,"done"]]}

The digest is the SHA-256 of the new value. It detects a patch of a different value, and names the value when it is
erased. Each splice `[start, deleted, text]` replaces bytes of the old value, at ascending places that do not overlap,
each on a border of characters. Readers that do not know patches refuse a patch as a value with an unknown tag.

A list that grows, a map with a changed entry and a text with a changed word are found in linear time: equal ends are
cut off, and the rest is compared in pieces that end with commas, as contexts are compared item by item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from treering._late import Kind
from treering.digests import sha256
from treering.errors import CorruptError
from treering.format.splices import splice_diff
from treering.format.values import is_patch

VALUE_BYTES_MIN: Final = 256
"""Smaller values are written whole."""
ALIGNED_BYTES_MAX: Final = 256 * 1024
"""Larger changes are one splice: finding equal pieces in them would take longer than writing them."""
_BLOB: Final = b'"$blob"'
_decoder = msgspec.json.Decoder(dict[str, list[str | tuple[int, int, str]]])


def digest_of_value(value: bytes) -> str:
    """Return the SHA-256 of a value, or of the value that a patch makes."""
    if not is_patch(value):
        return sha256(value)
    digest = _decoder.decode(value)["$patch"][0]
    return digest if isinstance(digest, str) else ""


def make_patch(old: bytes, new: bytes) -> bytes | None:
    """Return the patch that turns a value into another, or None if it would save less than half of its bytes.

    References to blobs have to be found in the records that hold them, so a value with one is never patched.
    """
    if len(new) < VALUE_BYTES_MIN or _BLOB in new:
        return None
    try:
        splices = [(start, deleted, text.decode()) for start, deleted, text in _splices(old, new)]
    except UnicodeDecodeError:  # another program wrote it
        return None
    patch = msgspec.json.encode({"$patch": [sha256(new), *splices]})
    return patch if 2 * len(patch) <= len(new) else None


def apply_patch(old: bytes | None, patch: bytes) -> bytes:
    """Return the value that a patch makes of an old one.

    Raises:
        CorruptError: The patch is of another value, or there is no old value.
    """
    try:
        digest, *splices = _decoder.decode(patch)["$patch"]
        new = b"" if old is None else _applied(old, splices)
    except (msgspec.DecodeError, ValueError, TypeError, KeyError) as error:
        raise CorruptError(f"patch of a value is not readable. problem={str(error)!r}", kind=Kind.SHAPE) from error
    if old is None or sha256(new) != digest:
        raise CorruptError("patch is of another value than that of the checkpoint before", kind=Kind.SHAPE)
    return new


def _applied(old: bytes, splices: Sequence[Any]) -> bytes:
    parts: list[bytes] = []
    done = 0
    for start, deleted, text in splices:
        if not done <= start <= start + deleted <= len(old):
            raise ValueError(f"splice {(start, deleted)} lies outside of the value")
        parts += old[done:start], text.encode()
        done = start + deleted
    return b"".join([*parts, old[done:]])


def _splices(old: bytes, new: bytes) -> list[tuple[int, int, bytes]]:

    start = _common(old, new)
    while start and start < len(old) and _continues(old[start]):
        start -= 1
    ends = old[start:][::-1], new[start:][::-1]
    end = _common(*ends)
    while end and _continues(old[len(old) - end]):
        end -= 1
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if not old or not new or len(old) + len(new) > ALIGNED_BYTES_MAX:
        return [(start, len(old), new)]
    before, after = _pieces(old), _pieces(new)
    places = [start]
    for piece in before:
        places.append(places[-1] + len(piece))
    return [
        (places[index], places[index + deleted] - places[index], b"".join(pieces))
        for index, deleted, pieces in splice_diff(before, after)
    ]


def _pieces(data: bytes) -> list[bytes]:
    *whole, last = data.split(b",")
    return [*(piece + b"," for piece in whole), last]


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes at the beginning are the same, by bisection, since comparing slices is fast."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _continues(byte: int) -> bool:
    """Whether a byte of UTF-8 is not the first one of its character."""
    return byte & 0xC0 == 0x80
