"""Valid ids of Strands sessions, and the names of the sessions of a store that belong to a Strands session."""

from __future__ import annotations

import os
from typing import Final

EXTRA: Final = "strands"
"""The field of a card with the facts of this integration."""


def require_session_id(session_id: str) -> str:
    """Return `session_id` if it is valid.

    Raises:
        ValueError: It is blank, a relative folder, or holds a separator; Strands' own managers raise the same error.
    """
    if not session_id.strip() or session_id in (".", "..") or os.path.basename(session_id) != session_id:
        raise ValueError(f"not a session id: it is empty or holds a path. session_id={session_id!r}")
    if "\\" in session_id:
        raise ValueError(f"not a session id: it holds a path separator. session_id={session_id!r}")
    return session_id


def belongs_to(session_id: str, name: str) -> bool:
    """Tell whether a session of the store is part of a Strands session."""
    return name == session_id or name.startswith(f"{session_id}/")
