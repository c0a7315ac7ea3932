"""Two alternating files for one register, for filesystems that empty a file before they fill it.

A register `key` lies in `key.a` and `key.b`. A write goes to the file that does not hold the current bytes, with the
next generation in its header. So if the write is interrupted, the other file is still whole. The header is one line of
64 ASCII bytes: magic, layout, generation, length and digest of the payload, and a checksum of the header itself.

A slot shorter than its header says, or one whose header is all zeros, is an interrupted write, and is ignored. Any
other mismatch is damage. It is reported, unless the other slot is provably newer.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import NamedTuple

from treering.errors import CorruptError
from treering.storage.requests import ABSENT, Version

ENDINGS = (".a", ".b")
HEADER_BYTES = 64

_START = b"treering-slot 1 "
_DIGEST_BYTES = 8
_CHECKED_BYTES = 55  # of the header


class Slot(NamedTuple):
    """The contents of one of the two files."""

    name: str
    generation: int
    data: bytes | None
    """None if the write was interrupted."""
    version: Version


def encode_slot(generation: int, data: bytes) -> tuple[bytes, Version]:
    """Return the bytes of a slot, and its version."""
    digest = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    front = b"%b%010d %010d %b " % (_START, generation, len(data), digest.encode())
    return b"%b%08x\n%b" % (front, zlib.crc32(front), data), Version(f"{generation}:{digest}")


def decode_slot(name: str, raw: bytes) -> Slot | None:
    """Return the contents of a slot, or None if it is damaged."""
    header, data = raw[:HEADER_BYTES], raw[HEADER_BYTES:]
    if len(header) < HEADER_BYTES or not header.strip(b"\0"):
        return Slot(name, 0, None, ABSENT)
    front, check = header[:_CHECKED_BYTES], header[_CHECKED_BYTES:]
    if not front.startswith(_START) or check != b"%08x\n" % zlib.crc32(front):
        return None
    generation, length = (int(number) for number in front[len(_START) :].split()[:2])
    if len(data) < length:
        return Slot(name, generation, None, ABSENT)
    whole, version = encode_slot(generation, data)
    return Slot(name, generation, data, version) if whole == raw else None


def payload_bytes(file_bytes: int) -> int:
    """Return how many of a slot's bytes are payload."""
    return max(0, file_bytes - HEADER_BYTES)


class Register(NamedTuple):
    """The state of one register, from its two slots."""

    current: Slot | None
    """The slot with the current bytes; None if the register does not exist."""
    target: str
    """The name of the slot to write next."""
    generation: int
    """The generation to write next."""
    names: tuple[str, ...]
    """The slots that exist, the current one last: if they are deleted in this order, no older bytes come back."""


def read_register(key: str, raw: dict[str, bytes]) -> Register:
    """Decide which slot is current, given the bytes of the existing slots by name.

    Raises:
        CorruptError: A damaged slot may hold the bytes that were acknowledged last.
    """
    slots = {name: decode_slot(name, data) for name, data in raw.items()}
    readable = [slot for slot in slots.values() if slot is not None]
    whole = sorted((slot for slot in readable if slot.data is not None), key=lambda slot: slot.generation)
    current = whole[-1] if whole else None
    for name, slot in slots.items():
        if slot is None and not (current and _is_older(raw[name], current)):
            raise CorruptError("register is damaged in a slot that may be its newest", key=name)
    newest = max((slot.generation for slot in readable), default=0)
    names = [key + ending for ending in ENDINGS]
    target = next(name for name in names if current is None or name != current.name)
    existing = sorted(raw, key=lambda name: current is not None and name == current.name)
    return Register(current, target, newest + 1, tuple(existing))


def _is_older(raw: bytes, current: Slot) -> bool:
    """Return whether a damaged slot still shows that it is older: by one generation, as slots alternate."""
    return raw.startswith(b"%b%010d " % (_START, current.generation - 1))
