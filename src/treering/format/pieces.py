"""Split JSON objects and lists into raw values, which can be read one by one and joined again unchanged.

So fields of a later version are kept when a struct is read and written again. The fields of a foreign record are kept
beside its payload:

    {"$source":{...},"$payload":...}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw
from msgspec.structs import fields as fields_of_struct

Unknown: TypeAlias = tuple[tuple[str, bytes], ...]
"""Fields that this version does not know: names, and values as JSON."""

UNKNOWN: Final = "$unknown"
"""The attribute in which structs keep such fields; it is never stored under this name."""
_SOURCE: Final = b'{"$source":'


def fields_in(data: bytes | Raw) -> dict[str, bytes]:
    """Return the fields of a JSON object, their values as raw JSON."""
    try:
        return {name: bytes(raw) for name, raw in _fields.decode(data).items()}
    except (msgspec.DecodeError, UnicodeDecodeError):  # a key with a lone surrogate
        import json  # slow to import, and resuming a session does not need it

        loaded = json.loads(bytes(data))
        return {name: json.dumps(field, separators=(",", ":")).encode() for name, field in loaded.items()}


def entries_in(data: bytes | Raw) -> list[bytes]:
    """Return the entries of a JSON list as raw JSON."""
    try:
        return [bytes(raw) for raw in _entries.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError):  # text with a lone surrogate
        import json  # slow to import, and resuming a session does not need it

        return [json.dumps(entry, separators=(",", ":")).encode() for entry in json.loads(bytes(data))]


def join_fields(fields: Mapping[str, bytes]) -> bytes:
    """Return a JSON object made of fields whose values are raw JSON."""
    import json  # slow to import, and resuming a session does not need it

    return b"{%b}" % b",".join(b"%b:%b" % (json.dumps(name).encode(), raw) for name, raw in fields.items())


def join_entries(entries: Iterable[bytes]) -> bytes:
    """Return a JSON list made of entries that are raw JSON."""
    return b"[%b]" % b",".join(entries)


def unknown_in(data: bytes, struct: type[msgspec.Struct], *known: str) -> Unknown:
    """Return the fields of a JSON object that neither a struct nor `known` has."""
    names = _names_of(struct)
    return tuple((name, raw) for name, raw in fields_in(data).items() if name not in names and name not in known)


@lru_cache
def _names_of(struct: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in fields_of_struct(struct))


def with_fields(encoded: bytes, fields: Unknown) -> bytes:
    """Return a JSON object with `fields` added behind its own fields."""
    if not fields:
        return encoded
    more = join_fields(dict(fields))[1:]
    return encoded[:-1] + (b"" if encoded == b"{}" else b",") + more


def join_source(source: bytes, payload: bytes) -> bytes:
    """Return the body of an imported record: its payload, and the foreign record's fields that have no place elsewhere.

    No payload of a caller can look like this, since keys that start with `$` are escaped.
    """
    return b'%b%b,"$payload":%b}' % (_SOURCE, source, payload)


def split_source(body: bytes) -> tuple[bytes | None, bytes]:
    """Return the source of a body, if it has one, and its payload."""
    if not body.startswith(_SOURCE):
        return None, body
    fields = fields_in(body)
    return fields["$source"], fields["$payload"]


_fields = msgspec.json.Decoder(dict[str, Raw])
_entries = msgspec.json.Decoder(list[Raw])
