"""What the row of a session says about an error that stopped the work on it, in a run over many sessions."""

from __future__ import annotations

from treering.errors import TreeringError


def text_of(error: Exception) -> str:
    """The message of an error; with its type where the message alone would not explain it. Never empty."""
    return str(error) if isinstance(error, TreeringError) else f"{type(error).__name__}: {error}"
