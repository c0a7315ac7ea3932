"""LangGraph on Treering; see `docs/how-to/langgraph.md`."""

from __future__ import annotations

try:
    from treering.integrations.langgraph.saver import TreeringSaver
    from treering.integrations.langgraph.store import TreeringStore
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("langchain_core", "langgraph", "ormsgpack"):
        raise
    raise ImportError("LangGraph is not installed; pip install 'treering[langgraph]'") from error

__all__ = ["TreeringSaver", "TreeringStore"]
