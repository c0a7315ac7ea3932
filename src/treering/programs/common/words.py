"""What files say whose messages have no ids: such a file is told by its words."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from treering.format import values
from treering.format.values import Fields

WORDS: Final = "words"
"""In the source of a header: the digest of all messages. Some may stand in other words in the session then."""
SPELLED: Final = "spelled"
"""There, too: by number, the bytes of messages that an export would write in other ones."""


def digest_of(messages: Sequence[Fields]) -> str:
    """Return what tells a list of messages from another one; the order of fields does not count."""
    return blake2b(b"\n".join(map(sorted_fields, messages)), digest_size=16).hexdigest()


def sorted_fields(message: Fields) -> bytes:
    """Return what is the same for messages that differ in the order of fields alone."""
    return msgspec.json.encode(values.decode(values.encode(message)), order="deterministic")
