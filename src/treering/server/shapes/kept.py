"""What a user interface has in a message and no model needs: kept beside the content, so it gets back what it sent.

A message that came from an interface has a field `ui`: the interface, the fields of its message that are not here, and
for each of its parts what the part made of the content lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

FIELD: Final = "ui"


def difference(wanted: Mapping[str, Any], made: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what turns a part that was made of the content into the one that came; None if they are equal.

    Args:
        wanted: The part that came.
        made: The part that is made of the content; None: it is not in the content at all.
    """
    if made is None:
        return {"whole": dict(wanted)}
    given = {name: value for name, value in wanted.items() if name not in made or made[name] != value}
    gone = [name for name in made if name not in wanted]
    return {**({"set": given} if given else {}), **({"drop": gone} if gone else {})} or None


def restored(made: Mapping[str, Any], change: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the part that came, from the one that is made of the content."""
    if change is None:
        return dict(made)
    gone = _list(change.get("drop"))
    return {**{name: value for name, value in made.items() if name not in gone}, **_fields(change.get("set"))}


def restored_all(
    made: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Any] | None] | None
) -> list[dict[str, Any]]:
    """Return all parts that came, from those that are made of the content, in their order."""
    left, found = list(made), list[dict[str, Any]]()
    for change in changes or ():
        if change is not None and "whole" in change:
            found.append(_fields(change["whole"]))
        elif left:
            found.append(restored(left.pop(0), change))
    return found + [dict(each) for each in left]


def kept_of(payload: Any, interface: str) -> Mapping[str, Any]:
    """Return what is kept of a message for an interface; nothing if it came from elsewhere."""
    found = _fields(payload.get(FIELD)) if isinstance(payload, Mapping) else {}
    return found if found.get("of") == interface else {}


def changes_in(kept: Mapping[str, Any]) -> list[Mapping[str, Any] | None]:
    """Return what is kept for each part."""
    return [each if isinstance(each, Mapping) else None for each in _list(kept.get("parts"))]


def _fields(value: object) -> dict[str, Any]:
    return {str(name): each for name, each in value.items()} if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
