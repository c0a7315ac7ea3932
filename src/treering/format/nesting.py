"""Detect values that are nested too deep to be stored, and turn their innermost parts into text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from treering.format.values import DEPTH_MAX

LEVELS_MAX = DEPTH_MAX - 10
"""Greatest nesting depth of a caller's value that is stored inside of another value."""


def is_deeper(value: object, levels: int) -> bool:
    """Return whether some part of a value has more than `levels` containers around it."""
    level = [value]
    for _ in range(levels):
        if not level:
            return False
        level = [part for whole in level for part in _parts(whole)]
    return any(isinstance(part, dict | list) for part in level)


def fold(value: Any, levels: int = LEVELS_MAX) -> Any:
    """Return a value in which containers nested deeper than `levels` are replaced by their JSON text.

    Args:
        value: Any value; parts without a JSON form are written as their `repr`, if they become part of a text.
        levels: How many containers there may be around any part.
    """
    return _folded(value, levels) if is_deeper(value, levels) else value


def _folded(value: object, levels: int) -> object:
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return json.dumps(value, default=repr)
    if isinstance(value, dict):
        return {name: _folded(part, levels - 1) for name, part in value.items()}
    return [_folded(part, levels - 1) for part in value]


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
