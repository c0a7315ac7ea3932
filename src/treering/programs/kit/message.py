"""Messages of kit: the data of their `parts` are nested one level deeper."""

from __future__ import annotations

from collections.abc import Mapping

from treering.messages import Fields, listed


def is_of(message: Fields) -> bool:
    """Tell whether a message is one of kit's."""
    return "parts" in message and message.keys().isdisjoint(("content", "contents"))


def common(message: Fields) -> Fields:
    """Return a message in the common format."""
    rest = {name: value for name, value in message.items() if name != "parts"}
    return {**rest, "content": [_flat(part) for part in listed(message["parts"])]}


def _flat(part: object) -> object:
    """Return a part with the fields of its `data` merged in; the mark at the end of a turn has no content."""
    data = part.get("data") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(data, Mapping):
        return part
    return None if part.get("type") == "finish" else {**data, "type": part.get("type")}
