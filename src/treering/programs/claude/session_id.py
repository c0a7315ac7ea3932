"""What Claude Code calls a session."""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID, uuid5


def uuid_of(name: str) -> str:
    """Return the id of a session as a UUID: Claude Code opens no other."""
    try:
        return str(UUID(name))
    except ValueError:
        return str(uuid5(NAMESPACE_URL, name))
