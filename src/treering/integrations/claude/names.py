"""Where the transcripts of the Claude Agent SDK are: its keys, and the namespaces and names of sessions.

A project key is a namespace. A session id is the name of a session in it. A transcript of a subagent is a session
beside it, named `<session id>/<subpath>`. What would make that ambiguous, a `/` in a session id, is escaped; real ids
are UUIDs and have none.
"""

from __future__ import annotations

from typing import NamedTuple

from claude_agent_sdk import SessionKey


class Address(NamedTuple):
    """One transcript."""

    project: str
    session: str
    subpath: str = ""
    """Empty for the conversation itself."""

    @property
    def name(self) -> str:
        """The name of its session in the namespace of the project."""
        own = _escape(self.session)
        return f"{own}/{self.subpath}" if self.subpath else own


def address_of(key: SessionKey) -> Address:
    """Return what a key of the SDK names."""
    return Address(key["project_key"], key["session_id"], key.get("subpath") or "")


def parse_name(project: str, name: str) -> Address:
    """Return the transcript that a session of this name holds."""
    own, _, subpath = name.partition("/")
    return Address(project, _unescape(own), subpath)


def _escape(session: str) -> str:
    return session.replace("%", "%25").replace("/", "%2F")


def _unescape(own: str) -> str:
    return own.replace("%2F", "/").replace("%25", "%")
