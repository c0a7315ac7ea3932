"""Google's Agent Development Kit on Treering; see `docs/how-to/adk.md`."""

from __future__ import annotations

try:
    from treering.integrations.adk.artifacts import TreeringArtifactService
    from treering.integrations.adk.memory import TreeringMemoryService
    from treering.integrations.adk.sessions import TreeringSessionService
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "google":
        raise
    raise ImportError("Google ADK is not installed; pip install 'treering[adk]'") from error

__all__ = ["TreeringArtifactService", "TreeringMemoryService", "TreeringSessionService"]
