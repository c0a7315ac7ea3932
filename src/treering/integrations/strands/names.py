"""Which session of a store keeps what of a Strands session.

A Strands session is a bracket around agents and orchestrators; each of them has a session of its own here:

    <session id>                          the agent with Strands' default id, so that most users see the name they chose
    <session id>/<agent id>               any other agent
    <session id>/multi/<orchestrator id>  a graph or a swarm, and below it its nodes

Neither id may hold a `/`, so no two of them have one name.
"""

from __future__ import annotations

import os
from typing import Final

DEFAULT_AGENT: Final = "default"
"""The id that Strands gives to an agent which was given none."""
EXTRA: Final = "strands"
"""Where the card of a session says what it keeps."""


def require_session_id(session_id: str) -> str:
    """Return `session_id` if it can be one.

    Raises:
        ValueError: It is blank, a relative folder, or holds a separator; Strands' own managers raise that, too.
    """
    if not session_id.strip() or session_id in (".", "..") or os.path.basename(session_id) != session_id:
        raise ValueError(f"not a session id: it is empty or holds a path. session_id={session_id!r}")
    if "\\" in session_id:
        raise ValueError(f"not a session id: it holds a path separator. session_id={session_id!r}")
    return session_id


def agent_session(session_id: str, agent_id: str) -> str:
    """The name of the session that keeps an agent."""
    return session_id if agent_id == DEFAULT_AGENT else f"{session_id}/{agent_id}"


def belongs_to(session_id: str, name: str) -> bool:
    """Whether a session of the store keeps something of a Strands session."""
    return name == session_id or name.startswith(f"{session_id}/")
