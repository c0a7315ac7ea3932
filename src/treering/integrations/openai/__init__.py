"""The OpenAI Agents SDK on Treering; see `docs/how-to/openai-agents.md`."""

from __future__ import annotations

try:
    from treering.integrations.openai.session import TreeringSession
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "agents":
        raise
    raise ImportError("the OpenAI Agents SDK is not installed; pip install 'treering[openai]'") from error

__all__ = ["TreeringSession"]
