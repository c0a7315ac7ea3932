"""Strands Agents on Treering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import strands as _strands
except ModuleNotFoundError as error:
    if error.name != "strands":
        raise
    raise ImportError("Strands Agents is not installed; pip install 'treering[strands]'") from error

if TYPE_CHECKING:
    from treering.integrations.strands.repository import TreeringSessionRepository
    from treering.integrations.strands.session_manager import TreeringSessionManager
    from treering.integrations.strands.storage import TreeringStorage

del _strands

# Each class is imported on first use, so that a program loads only those that it needs.
_MODULES = {
    "TreeringSessionManager": "treering.integrations.strands.session_manager",
    "TreeringSessionRepository": "treering.integrations.strands.repository",
    "TreeringStorage": "treering.integrations.strands.storage",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


__all__ = ["TreeringSessionManager", "TreeringSessionRepository", "TreeringStorage"]
