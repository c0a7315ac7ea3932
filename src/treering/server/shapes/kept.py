"""Data of a user interface that models do not need: kept beside a message's content, so the interface gets it back.

A message from an interface has a field `ui`. It holds the name of the interface, fields of its message that have no
other place, and for each part the difference from the part that is made from the content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

FIELD: Final = "ui"


def difference(wanted: Mapping[str, Any], made: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the change that turns a part made from the content into the received part; None if they are equal.

    Args:
        wanted: The received part.
        made: The part that is made from the content; None if the content has no such part.
    """
    if made is None:
        return {"whole": dict(wanted)}
    given = {name: value for name, value in wanted.items() if name not in made or made[name] != value}
    gone = [name for name in made if name not in wanted]
    return {**({"set": given} if given else {}), **({"drop": gone} if gone else {})} or None


def restored(made: Mapping[str, Any], change: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the received part, from the part that is made from the content."""
    if change is None:
        return dict(made)
    gone = _list(change.get("drop"))
    return {**{name: value for name, value in made.items() if name not in gone}, **_fields(change.get("set"))}


def restored_all(
    made: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Any] | None] | None
) -> list[dict[str, Any]]:
    """Return all received parts in their order, from the parts that are made from the content."""
    left, found = list(made), list[dict[str, Any]]()
    for change in changes or ():
        if change is not None and "whole" in change:
            found.append(_fields(change["whole"]))
        elif left:
            found.append(restored(left.pop(0), change))
    return found + [dict(each) for each in left]


def kept_of(payload: Any, interface: str) -> Mapping[str, Any]:
    """Return the data of an interface that a message keeps; empty if the message is from elsewhere."""
    found = _fields(payload.get(FIELD)) if isinstance(payload, Mapping) else {}
    return found if found.get("of") == interface else {}


def changes_in(kept: Mapping[str, Any]) -> list[Mapping[str, Any] | None]:
    """Return the kept change of each part."""
    return [each if isinstance(each, Mapping) else None for each in _list(kept.get("parts"))]


def _fields(value: object) -> dict[str, Any]:
    return {str(name): each for name, each in value.items()} if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
