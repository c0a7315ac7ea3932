"""Pydantic AI on Treering; see `docs/how-to/pydantic-ai.md`."""

from __future__ import annotations

try:
    from treering.integrations.pydantic_ai.media_store import TreeringMediaStore
    from treering.integrations.pydantic_ai.message_history import TreeringMessageHistory
    from treering.integrations.pydantic_ai.step_store import TreeringStepStore
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("pydantic_ai", "pydantic_ai_harness"):
        raise
    raise ImportError("Pydantic AI and its harness are not installed; pip install 'treering[pydantic-ai]'") from error

__all__ = ["TreeringMediaStore", "TreeringMessageHistory", "TreeringStepStore"]
