"""A line: one JSON object that ends in a checksum of itself.

    {"treering":1,...,"_c":"1b4f0a6e"}

Every record, header and card is such a line. The checksum is the CRC-32 (as in zlib and PNG) of all bytes before
`,"_c":"`, as eight lower-case hex digits. It is the last field, so that it can be checked without parsing.

Strings may hold lone surrogates (JavaScript cuts strings in the middle of a character). msgspec refuses these, so the
few lines with lone surrogates are read with the standard library.
"""

import re
import zlib
from typing import Final, TypeVar

import msgspec

from treering._late import Kind
from treering.errors import CorruptError, FormatVersionError, UsageError

FORMAT_VERSION: Final = 1
"""The version in the first line of each register; greater versions are refused."""
CHECKSUM_BYTES: Final = len(b',"_c":"00000000"}\n')

T = TypeVar("T")

_surrogate_pair = "[\ud800-\udbff][\udc00-\udfff]"
_encoder = msgspec.json.Encoder()


class _Version(msgspec.Struct):
    treering: int


_version_decoder = msgspec.json.Decoder(_Version)


def close_line(fields: bytes) -> bytes:
    """Return the JSON object `fields` as a line: with its checksum as last field and a line break."""
    open_object = fields[:-1]
    return b'%b,"_c":"%08x"}\n' % (open_object, zlib.crc32(open_object))


def is_whole(line: bytes) -> bool:
    """Return whether `line` ends in the checksum of its other bytes, and a line break."""
    return line[-CHECKSUM_BYTES:] == b',"_c":"%08x"}\n' % zlib.crc32(line[:-CHECKSUM_BYTES])


def check_line(line: bytes, *, key: str = "", offset: int = 0) -> None:
    """Raise CorruptError unless `line` is as `close_line` made it."""
    if not is_whole(line):
        raise CorruptError("line is damaged: its checksum differs", kind=Kind.CHECKSUM, key=key, offset=offset)


def check_version(line: bytes, *, key: str, offset: int = 0) -> None:
    """Check the version in the first line of a register, before any other field is decoded.

    Raises:
        CorruptError: The line is damaged or states no version.
        FormatVersionError: It was written by a newer version.
    """
    check_line(line, key=key, offset=offset)
    try:
        version = _version_decoder.decode(line).treering
    except (ValueError, RecursionError):
        version = _version_slowly(line, key=key, offset=offset)
    if version > FORMAT_VERSION:
        message = f"format version is newer than ours. ours={FORMAT_VERSION}, got={version}"
        raise FormatVersionError(message, key=key, remedy="upgrade treering")
    if version < 1:
        raise CorruptError("line states no format version", key=key, offset=offset)


def _version_slowly(line: bytes, *, key: str, offset: int) -> int:
    import json  # slow to import, and resuming a session does not need it

    try:
        version = json.loads(line)["treering"]
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
    if type(version) is not int:
        raise CorruptError("line states no format version", key=key, offset=offset)
    return version


def split_lines(data: bytes) -> list[bytes]:
    """Split at line breaks (the byte 0x0A and no other), which stay at the ends. The last line may lack one."""
    lines = [piece + b"\n" for piece in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def encode_object(value: msgspec.Struct) -> bytes:
    """Encode a struct as a JSON object, with lone surrogates as escapes.

    Raises:
        UsageError: A string holds a surrogate pair as two characters, which JSON cannot tell from the character meant.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        import json  # slow to import, and resuming a session does not need it

        text = json.dumps(msgspec.to_builtins(value), separators=(",", ":"), ensure_ascii=False)
    if re.search(_surrogate_pair, text):
        raise UsageError("a string holds a surrogate pair as two characters")
    return text.encode("utf-8", "backslashreplace")  # JSON writes surrogates in the same way


def first_line(value: msgspec.Struct | bytes) -> bytes:
    """Return the first line of an object: the format version, then the fields of `value`."""
    encoded = value if isinstance(value, bytes) else encode_object(value)
    return close_line(b'{"treering":%d,%b' % (FORMAT_VERSION, encoded[1:]))


def decode_object(line: bytes, decoder: msgspec.json.Decoder[T], *, key: str, offset: int = 0) -> T:
    """Decode a line whose checksum was checked; it may hold lone surrogates.

    Raises:
        CorruptError: It is not JSON, or a field is missing or of another shape.
    """
    try:
        return decoder.decode(line)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        pass
    import json  # slow to import, and resuming a session does not need it

    try:
        return msgspec.convert(json.loads(line), decoder.type)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"line is not understood: {error}", kind=Kind.SHAPE, key=key, offset=offset) from error
