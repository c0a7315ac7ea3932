"""Our store for Claude's transcripts as a type checker sees it: it goes wherever the SDK takes one. Never run."""

from __future__ import annotations

from claude_agent_sdk import ClaudeAgentOptions, SessionStore, fork_session_via_store, import_session_to_store

import treering
from treering.integrations.claude import TreeringSessionStore

store: SessionStore = TreeringSessionStore(treering.open("agents"))
options = ClaudeAgentOptions(session_store=TreeringSessionStore(treering.aopen("agents"), open_max=10))
TreeringSessionStore("agents")  # type: ignore[arg-type]


async def asynchronous() -> None:
    """What the SDK does with a store, it does with ours."""
    async with TreeringSessionStore(treering.open("agents")) as opened:
        await import_session_to_store("s", opened)
        await fork_session_via_store(opened, "s")
        await opened.append({"project_key": "p", "session_id": "s"}, [{"type": "user"}])
        await opened.append("s", [])  # type: ignore[arg-type]
