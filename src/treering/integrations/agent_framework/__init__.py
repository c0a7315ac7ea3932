"""Microsoft Agent Framework on Treering; see `docs/how-to/agent-framework.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering._late import late

if TYPE_CHECKING:
    from treering.integrations.agent_framework.session_store import TreeringSessionStore

try:
    from treering.integrations.agent_framework.checkpoint_storage import TreeringCheckpointStorage
    from treering.integrations.agent_framework.history_provider import TreeringHistoryProvider
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "agent_framework":
        raise
    raise ImportError("Microsoft Agent Framework is not installed; pip install 'treering[agent-framework]'") from error

__all__ = ["TreeringCheckpointStorage", "TreeringHistoryProvider", "TreeringSessionStore"]

__getattr__ = late(__name__, {"TreeringSessionStore": f"{__name__}.session_store"})  # whose base warns where it is used
