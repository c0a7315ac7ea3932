"""Keep the transcripts of the Claude Agent SDK in a store of Treering; see `docs/how-to/claude-agent-sdk.md`."""

from __future__ import annotations

try:
    from treering.integrations.claude.store import TreeringSessionStore
except ModuleNotFoundError as error:
    if error.name != "claude_agent_sdk":
        raise
    raise ImportError("the Claude Agent SDK is not installed; pip install 'treering[claude]'") from error

__all__ = ["TreeringSessionStore"]
