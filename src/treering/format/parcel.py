"""A parcel: bytes that another program stores under a name of its own choice.

    frame with the first line | frame with the bytes, if there are any | check frame

The first line holds the name, for parcels that were moved or whose name did not fit into a key; the size; and a random
id of the write, by which a writer that got no answer recognises its own write.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from treering.errors import CorruptError, UsageError
from treering.format.frames import add_check, check_size, compress, decompress_frame, first_frame, remove_check, walk
from treering.format.line import check_version, decode_object, first_line
from treering.kinds import Kind

PARCEL_BYTES_MAX: Final = 256 * 1024 * 1024
"""Parcels are written and read whole, in memory."""
NAME_BYTES_MAX: Final = 4096
"""Bytes of UTF-8; ten times the length of names made of ids."""
FRONT_BYTES_MAX: Final = 16 * 1024
"""Limit for the first frame, which is read to learn a parcel's name; JSON may make the name longer."""

_FRONT_CONTENT_BYTES_MAX: Final = 64 * 1024


class ParcelHeader(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="parcel"):
    """First line of a parcel."""

    name: str
    size: int
    """Bytes of the content."""
    write: str
    """Random id of this write."""


class Parcel(NamedTuple):
    """The contents of a parcel."""

    header: ParcelHeader
    content: bytes


_decoder = msgspec.json.Decoder(ParcelHeader)


def encode_parcel(name: str, content: bytes, *, write: str) -> bytes:
    """Return the bytes of a parcel.

    Raises:
        UsageError: The name or the content is too long, or the name cannot be written as JSON.
    """
    if len(content) > PARCEL_BYTES_MAX:
        raise UsageError(f"parcel is too large. bytes={len(content)}, max={PARCEL_BYTES_MAX}", kind=Kind.TOO_LARGE)
    if (size := len(name.encode("utf-8", "surrogatepass"))) > NAME_BYTES_MAX:
        raise UsageError(f"name of a parcel is too long. bytes={size}, max={NAME_BYTES_MAX}", kind=Kind.TOO_LARGE)
    front = compress(first_line(ParcelHeader(name=name, size=len(content), write=write)))
    return add_check(front + (compress(content) if content else b""))


def decode_header(front: bytes, *, key: str) -> ParcelHeader:
    """Return the first line from the first `FRONT_BYTES_MAX` bytes of a parcel, or from all of it.

    Raises:
        CorruptError: Damage.
        FormatVersionError: Written by a newer version.
    """
    line = first_frame(front, key=key, bytes_max=_FRONT_CONTENT_BYTES_MAX)
    check_version(line, key=key)
    return decode_object(line, _decoder, key=key)


def decode_parcel(data: bytes, *, key: str) -> Parcel:
    """Decode a parcel.

    Raises:
        CorruptError: Damage.
        FormatVersionError: Written by a newer version.
    """
    header = decode_header(data, key=key)
    frames = walk(remove_check(data, key=key), key=key)[1:]
    check_size(sum(frame.content_size or 0 for frame in frames), PARCEL_BYTES_MAX, key=key, offset=0)
    content = b"".join(decompress_frame(data, frame, key=key) for frame in frames)
    if len(content) != header.size:
        raise CorruptError(f"parcel has another size. expected={header.size}, got={len(content)}", key=key)
    return Parcel(header, content)
