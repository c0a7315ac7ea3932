"""Messages of Operator-Use: their `contents` are blocks with special field names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from treering.messages import Fields, listed

_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "text": {"content": "text"},
    "thinking": {"content": "thinking"},
    "tool_result": {"id": "tool_call_id"},
}
"""By type of a block: fields that have another name in the common format."""
_MEDIA_TYPES: Final = {"/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}
"""Media types by the first characters of an image in base64."""


def is_of(message: Fields) -> bool:
    """Tell whether a message is one of Operator's."""
    return "contents" in message and "content" not in message


def common(message: Fields) -> Fields:
    """Return a message in the common format."""
    rest = {name: value for name, value in message.items() if name != "contents"}
    return {**rest, "content": [block for part in listed(message["contents"]) for block in _blocks(part)]}


def _blocks(part: object) -> Iterator[object]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping):
        yield part
    elif kind == "image":
        yield from map(_image, listed(part.get("images")))
    else:
        names = _NAMES.get(kind, {}) if isinstance(kind, str) else {}
        yield {names.get(name, name): value for name, value in part.items()}


def _image(image: object) -> object:
    """Return an image of Operator, which is base64 or a URL, in the common format."""
    if not isinstance(image, str):
        return {"type": "image", "data": image}
    if image.startswith("data:"):
        kind, _, data = image.removeprefix("data:").partition(";base64,")
        return {"type": "image", "data": data, "mimeType": kind}
    if "://" in image:
        return {"type": "image", "url": image}
    return {"type": "image", "data": image, "mimeType": _MEDIA_TYPES.get(image[:4], "image/png")}
