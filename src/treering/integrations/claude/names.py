"""Keys of the Claude Agent SDK, and the namespaces and names of the sessions that hold the transcripts.

A project key is a namespace. A session id is the name of a session in it. The transcript of a subagent is a session in
the same namespace, named `<session id>/<subpath>`. A `/` in a session id would make that ambiguous and is escaped; real
ids are UUIDs without `/`.
"""

from __future__ import annotations

from typing import NamedTuple

from claude_agent_sdk import SessionKey

from treering.integrations.keys import escaped, unescaped


class Address(NamedTuple):
    """One transcript."""

    project: str
    session: str
    subpath: str = ""
    """Empty for the conversation itself."""

    @property
    def name(self) -> str:
        """The name of its session in the namespace of the project."""
        own = escaped(self.session)
        return f"{own}/{self.subpath}" if self.subpath else own


def address_of(key: SessionKey) -> Address:
    """Return the transcript of a key of the SDK."""
    return Address(key["project_key"], key["session_id"], key.get("subpath") or "")


def parse_name(project: str, name: str) -> Address:
    """Return the transcript that a session of this name holds."""
    own, _, subpath = name.partition("/")
    return Address(project, unescaped(own), subpath)
