"""Strands Agents on Treering."""

try:
    import strands as _strands
except ModuleNotFoundError as error:
    if error.name != "strands":
        raise
    raise ImportError("Strands Agents is not installed; pip install 'treering[strands]'") from error

from treering.integrations.strands.storage import TreeringStorage

del _strands

__all__ = ["TreeringStorage"]
