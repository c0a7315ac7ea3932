"""UUIDs that are made of names which other programs gave."""

from __future__ import annotations

from hashlib import sha1
from uuid import UUID


def named_uuid(space: UUID, name: str) -> str:
    """Return the UUID of a name (RFC 9562, version 5); `uuid.uuid5` refuses names with lone surrogates."""
    data = space.bytes + name.encode("utf-8", "surrogatepass")
    return str(UUID(bytes=sha1(data, usedforsecurity=False).digest()[:16], version=5))
