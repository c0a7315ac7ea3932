"""The body of an imported record: the payload, and the fields of the foreign record that no field here can hold.

    {"$source":{...},"$payload":...}

No payload of a caller can look like that: its keys that start with `$` are escaped.
"""

import msgspec
from msgspec import Raw

_MARK = b'{"$source":'


class _Foreign(msgspec.Struct):
    source: Raw = msgspec.field(name="$source")
    payload: Raw = msgspec.field(name="$payload")


# Made at import: a type that two threads decode for the first time at once crashes msgspec.
_decoder = msgspec.json.Decoder(_Foreign)


def join_source(source: bytes, payload: bytes) -> bytes:
    """Return a body of both; both are JSON."""
    return b'%b%b,"$payload":%b}' % (_MARK, source, payload)


def split_source(body: bytes) -> tuple[bytes | None, bytes]:
    """Return the source of a body, if it has one, and its payload."""
    if not body.startswith(_MARK):
        return None, body
    foreign = _decoder.decode(body)
    return bytes(foreign.source), bytes(foreign.payload)
