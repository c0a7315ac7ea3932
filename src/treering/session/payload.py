"""Between what callers hand in and what a record's body holds: tagged values, blobs, and leftovers of foreign files.

A body is the payload. Where a foreign record says things that have no place here, it is

    {"$source":{...},"$payload":...}

which no payload of a caller looks like: keys that start with `$` are tagged.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from treering.format import blobs, values
from treering.transcript.node import Draft

_MARK = b'{"$source":'


class _Foreign(msgspec.Struct):
    source: Raw = msgspec.field(name="$source")
    payload: Raw = msgspec.field(name="$payload")


def encode_payload(draft: Draft) -> tuple[Raw, dict[str, bytes]]:
    """Return the body of a draft, and the blobs that must be stored before it, by digest.

    Raises:
        UsageError: A value cannot be stored exactly; the message names its path.
    """
    payload = draft.payload
    large: dict[str, bytes] = {}
    body = values.encode(payload)
    if len(body) >= blobs.BASE64_BYTES_MIN:  # smaller ones have no part worth a blob
        payload, large = blobs.extract(payload)
        body = values.encode(payload) if large else body
    if draft.source is not None:
        body = b'%b%b,"$payload":%b}' % (_MARK, values.encode(draft.source), body)
    return Raw(body), large


def decode_payload(body: bytes, stored: Mapping[str, bytes | None]) -> object:
    """Return what the caller handed in; a blob that is missing becomes a text note."""
    payload = values.decode(_foreign(body).payload if body.startswith(_MARK) else body)
    return blobs.restore(payload, stored) if blobs.mentions_blob(body) else payload


def decode_source(body: bytes) -> object | None:
    """Return the fields of a foreign record that have no place of their own, or None."""
    return values.decode(_foreign(body).source) if body.startswith(_MARK) else None


def blobs_in(body: bytes) -> set[str]:
    """Return the digests of the blobs that a body refers to."""
    return blobs.blob_refs_in(body)


def _foreign(body: bytes) -> _Foreign:
    return msgspec.json.decode(body, type=_Foreign)
