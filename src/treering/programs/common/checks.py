"""Checks of the types of fields, for programs that refuse or skip entries with invalid fields."""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[object], bool]


def is_text(value: object) -> bool:
    """Tell whether a value is a text."""
    return isinstance(value, str)
