"""Digests of messages, by which a file is recognised whose messages have no ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from treering.format import values
from treering.format.values import Fields

WORDS: Final = "words"
"""In the source of a header: the digest of all messages, some of which may have other contents in the session."""
SPELLED: Final = "spelled"
"""In the source of a header: by number, the bytes of messages that an export would write differently."""


def digest_of(messages: Sequence[Fields]) -> str:
    """Return a digest of a list of messages that does not depend on the order of fields."""
    return blake2b(b"\n".join(map(sorted_fields, messages)), digest_size=16).hexdigest()


def sorted_fields(message: Fields) -> bytes:
    """Encode a message independently of the order of its fields."""
    plain = values.decode(values.encode(message))
    try:
        return msgspec.json.encode(plain, order="deterministic")
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(plain, sort_keys=True).encode()
