"""The ids that Claude Code gives to sessions."""

from __future__ import annotations

from uuid import NAMESPACE_URL, UUID

from treering.programs.common.named_uuid import named_uuid


def uuid_of(name: str) -> str:
    """Return the id of a session as a UUID: Claude Code opens no session with another id."""
    try:
        return str(UUID(name))
    except ValueError:
        return named_uuid(NAMESPACE_URL, name)
