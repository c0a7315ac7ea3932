"""Keep the transcripts of the Claude Agent SDK in a store of Treering; see `docs/how-to/claude-agent-sdk.md`."""

from __future__ import annotations

from treering.integrations.claude.store import TreeringSessionStore

__all__ = ["TreeringSessionStore"]
