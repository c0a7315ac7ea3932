"""A record: one line of a journal.

    {"at":7,"by":"a1b2c3d4e5f6.3.6","type":"node","kind":"message",...,"brief":{...},"body":{...},"_c":"90f1c2ab"}

The envelope comes first, in the order of `Record`'s fields, and the body last. So everything but the body (the
skeleton) is read by cutting the line at the first `,"body":`. That cut is exact: inside a JSON string the quotes would
be escaped, and inside a nested object at least one brace stays open. Then the part before the cut fails to parse, and
the whole line is parsed.

Callers keep lines, not records. Lines are never encoded again, so unknown fields are kept.
"""

import re
import zlib
from typing import Annotated, Final

import msgspec
from msgspec import Raw

from treering._late import Kind
from treering.errors import CorruptError, UsageError
from treering.format.line import CHECKSUM_BYTES, check_line, close_line, encode_object
from treering.format.values import decode, fields_of
from treering.ids import time_of

RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Longest line. Large parts of payloads are blobs; a register must hold several of the remaining lines."""
BRIEF_BYTES_MAX: Final = 512
"""A brief is part of every skeleton, so a session of 100,000 nodes pays for it in memory."""
BODY_BYTES_MAX: Final = RECORD_BYTES_MAX - RECORD_BYTES_MAX // 16
"""Largest body with which a record stays within the limit, whatever its other fields are."""
TIME_MS_MAX: Final = 2**53 - 1
"""Greatest integer that every JSON reader keeps (RFC 8259, section 6)."""

EMPTY: Final = Raw(b"{}")
_BODY: Final = b',"body":'
_RAWS: Final = ("brief", "body")

_Time = Annotated[int, msgspec.Meta(ge=-TIME_MS_MAX, le=TIME_MS_MAX)]
_At = Annotated[int, msgspec.Meta(ge=0, le=TIME_MS_MAX)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that every reader understands. Their order is the order in the line."""

    at: _At
    """Position in the journal, counted from 0."""
    by: str
    """The append that wrote the record: `<writer's nonce>.<number>.<position of the append's first record>`."""
    type: str
    """`node`, `note`, `head`, `edit`, `checkpoint`, or an unknown type."""
    kind: str = ""
    """The subtype, for example `message` or `label`."""
    id: str = ""
    parent: str | None = None
    head: str = ""
    """The head that it moves or belongs to."""
    role: str = ""
    target: str | None = None
    """The id of the record that this one is about."""
    time: _Time | None = None
    """Milliseconds since 1970; None if `id` is one of ours, which contains the time."""
    links: dict[str, str] | None = None
    critical: bool = False
    """A reader that does not know the type and kind may skip the record; such a writer must not seal it."""
    more: bool = False
    """The next record belongs to the same append: either both exist or neither does."""


class Record(Envelope, frozen=True, kw_only=True, omit_defaults=True):
    """One event, at one position of one journal."""

    brief: Raw = EMPTY
    """A small JSON object that is part of the skeleton, at most `BRIEF_BYTES_MAX`."""
    body: Raw = EMPTY
    """JSON without line breaks."""


class Skeleton(msgspec.Struct, frozen=True, gc=False):
    """A record without its body."""

    at: int
    type: str
    kind: str
    id: str
    parent: str | None
    head: str
    role: str
    target: str | None
    time: int
    """Milliseconds since 1970: the record's time, else the time in its id, else 0."""
    links: dict[str, str] | None
    brief: bytes
    """JSON object; `{}` if there is none."""
    length: int
    """Bytes of the whole line, line break included."""
    critical: bool


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_envelope_decoder = msgspec.json.Decoder(Envelope)
_json_checker = msgspec.json.Decoder(Raw)
_by: Final = rb'\{"at":[0-9]+,"by":"([ !#-\[\]-~]*)"'  # characters that JSON writes unescaped


def read_brief(skeleton: Skeleton) -> dict[str, object]:
    """Return the brief of a record; a foreign brief that is not an object counts as empty."""
    return fields_of(decode(skeleton.brief))


def encode_record(record: Record) -> bytes:
    """Return the line of a record, line break included.

    Raises:
        UsageError: Body or brief is not JSON on one line, or too long; or the time is out of range.
    """
    if len(record.body) > RECORD_BYTES_MAX:  # before it is validated
        raise _too_large(record, len(record.body))
    _check_json(record.body, "body")
    _check_json(record.brief, "brief")
    return encode_checked(record)


def encode_checked(record: Record) -> bytes:
    """Like `encode_record`, for a body and brief made by `format.values`, which are not validated again."""
    if record.brief is not EMPTY:
        _check_brief(bytes(record.brief))
    links, time = record.links, record.time
    texts: list[object] = [record.type, record.kind, record.id, record.head, record.role]
    texts += [each for each in (record.parent, record.target) if each is not None]
    if links:
        texts += [*links, *links.values()]
    # No reader would accept the line, and callers are not always type-checked.
    if not all([isinstance(each, str) for each in texts]) or not (time is None or type(time) is int):  # noqa: C419
        raise _mistyped(record)
    if time is not None and abs(time) > TIME_MS_MAX:
        raise UsageError(f"time is out of range. ms={time}")
    try:
        fields = _encoder.encode(record)
    except UnicodeEncodeError:
        fields = _encode_slowly(record)
    if record.body is EMPTY:  # msgspec left it out, but a line always has a body to cut at
        fields = fields[:-1] + b',"body":{}}'
    line = close_line(fields)
    if len(line) > RECORD_BYTES_MAX:
        raise _too_large(record, len(line))
    return line


def _mistyped(record: Record) -> UsageError:
    names = ("type", "kind", "id", "parent", "head", "role", "target", "time", "links")
    fields = ", ".join(f"{name}={getattr(record, name)!r}" for name in names)
    return UsageError(
        f"a field of a record has a wrong type. {fields}",
        kind=Kind.VALUE,
        remedy="the time is a whole number of milliseconds, links are texts by name, and all others are texts",
    )


def _too_large(record: Record, length: int) -> UsageError:
    return UsageError(
        f"record is too large. id={record.id!r}, bytes={length}, max={RECORD_BYTES_MAX}",
        kind=Kind.TOO_LARGE,
        remedy="store large parts as blobs or files and refer to them",
    )


def _check_json(raw: Raw, name: str) -> None:
    if raw is EMPTY:
        return
    data = bytes(raw)
    if b"\n" in data:
        raise UsageError(f"{name} has a line break; it must be JSON on one line")
    try:
        _json_checker.decode(data)
        data.decode()  # msgspec skips strings without looking at their encoding
    except (ValueError, RecursionError):
        _check_json_slowly(data, name)


def _check_json_slowly(data: bytes, name: str) -> None:
    import json  # slow to import, and resuming a session does not need it

    try:
        json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from error


def _check_brief(data: bytes) -> None:
    if len(data) > BRIEF_BYTES_MAX or data[:1] != b"{":
        raise UsageError(f"brief must be a JSON object of at most {BRIEF_BYTES_MAX} bytes. got={data[:80]!r}")


def _encode_slowly(record: Record) -> bytes:
    """Encode a record whose strings hold lone surrogates; Raw parts stay as they are."""
    envelope = Envelope(**{name: getattr(record, name) for name in Envelope.__struct_fields__})
    fields = encode_object(envelope)[:-1]
    for name in _RAWS:
        if (raw := getattr(record, name)) is not EMPTY:
            fields += f',"{name}":'.encode() + bytes(raw)
    return fields + b"}"


def decode_record(line: bytes, *, key: str = "", offset: int = 0) -> Record:
    """Return the record of a line. Its body is not parsed, since the checksum covers it.

    Args:
        line: Line break included.
        key: For messages: the object the line was read from.
        offset: For messages: the line's place in it.

    Raises:
        CorruptError: The checksum differs, or the envelope is not understood.
    """
    check_line(line, key=key, offset=offset)
    return decode_checked(line, key=key, offset=offset)


def decode_checked(line: bytes, *, key: str = "", offset: int = 0) -> Record:
    """Like `decode_record`, for a line whose checksum was checked."""
    cut = line.find(_BODY)
    if cut > 0:
        try:
            record = _decoder.decode(line[:cut] + b"}")
        except (ValueError, RecursionError):
            pass
        else:
            # No other code has this record yet, so it may still be changed; `replace` would cost as much as the decode.
            msgspec.structs.force_setattr(record, "body", Raw(line[cut + len(_BODY) : -CHECKSUM_BYTES]))
            return record
    return _decode_slowly(line, key=key, offset=offset)


def body_of(line: bytes) -> bytes:
    """Return the body of the record of a line.

    Raises:
        CorruptError: The checksum differs, or the envelope is not understood.
    """
    check_line(line)
    cut = line.find(_BODY)
    if cut > 0 and line.count(b"{", 0, cut) == 1:  # no inner object before it, so the name is not inside of one
        return line[cut + len(_BODY) : -CHECKSUM_BYTES]
    return bytes(decode_checked(line).body)


def has_body(line: bytes, body: bytes) -> bool:
    """Return whether a line's body is `body`, which is JSON, without decoding the line.

    The match is the last field of the outermost object: behind a field of an inner object a brace would follow.
    """
    return line.endswith(_BODY + body, 0, -CHECKSUM_BYTES)


def _decode_slowly(line: bytes, *, key: str, offset: int) -> Record:
    """Decode field by field with the standard library: for lone surrogates, or a `body` inside brief or links."""
    import json  # slow to import, and resuming a session does not need it

    try:
        spans = _spans(line.decode("utf-8", "surrogateescape"))
        brief, body = (Raw(spans.pop(name, "{}").encode("utf-8", "surrogateescape")) for name in _RAWS)
        fields = {name: json.loads(span) for name, span in spans.items()}
        envelope = msgspec.convert(fields, _envelope_decoder.type)
    except (ValueError, IndexError, RecursionError) as error:  # msgspec.ValidationError is a ValueError
        raise CorruptError(f"record is not understood: {error}", kind=Kind.SHAPE, key=key, offset=offset) from error
    return Record(**msgspec.structs.asdict(envelope), brief=brief, body=body)


def _spans(text: str) -> dict[str, str]:
    """Return the text of each field of a JSON object without white space between its tokens."""
    import json  # slow to import, and resuming a session does not need it

    scanner = json.JSONDecoder()
    spans: dict[str, str] = {}
    place = 1
    while text[place - 1] in "{,":
        name, place = scanner.raw_decode(text, place)
        if type(name) is not str:
            raise ValueError("a name is no text")
        start = place + 1
        _, place = scanner.raw_decode(text, start)
        spans[name] = text[start:place]
        place += 1
    return spans


def mark_of(by: str) -> str:
    """Return the mark of the position after records of the append `by`: 8 hex digits.

    Diverged copies of a session have different marks at every position after the last record that they share.
    """
    return f"{zlib.crc32(by.encode('utf-8', 'surrogatepass')):08x}"


def mark_behind(line: bytes) -> str:
    """Return the mark of the position after a line whose checksum was checked."""
    match = re.match(_by, line)
    return mark_of(match[1].decode() if match else _decode_slowly(line, key="", offset=0).by)


def skeleton_of(line: bytes) -> Skeleton:
    """Return the skeleton of a line whose checksum was checked.

    Raises:
        CorruptError: The envelope is not understood.
    """
    try:
        return skeleton_of_record(_decoder.decode(line[: line.index(_BODY)] + b"}"), len(line))
    except (ValueError, RecursionError):  # msgspec's errors, too, are ValueErrors
        return skeleton_of_record(_decode_slowly(line, key="", offset=0), len(line))


def skeleton_of_record(record: Record, length: int) -> Skeleton:
    """Return the skeleton of a record whose line has `length` bytes, line break included."""
    time = record.time
    if time is None:
        time = time_of(record.id) or 0
    return Skeleton(
        record.at,
        record.type,
        record.kind,
        record.id,
        record.parent,
        record.head,
        record.role,
        record.target,
        time,
        record.links,
        bytes(record.brief),
        length,
        record.critical,
    )
