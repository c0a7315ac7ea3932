"""Remove the images from messages in any format: images are recognized by their bytes."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from treering.format.blobs import read_base64
from treering.format.media import media_type_of

CHARACTERS_MIN: Final = 64
"""The least characters of an image in base64; a shorter text is no visible image."""
_data_url: Final = re.compile(r"data:(image/[\w.+-]{1,100})[;,]")
_base64: Final = re.compile(rb"[A-Za-z0-9+/]{%d}|data:image/" % CHARACTERS_MIN)


def without_images(data: bytes) -> bytes:
    """Return JSON in which `{"$left_out": "image/png", "size": 1234}` replaces the base64 of each image.

    Args:
        data: Stored JSON.
    """
    if _base64.search(data) is None:
        return data
    return msgspec.json.encode(_without(msgspec.json.decode(data)))


def is_image(data: bytes) -> bool:
    """Tell whether some bytes are an image."""
    return media_type_of(data).startswith("image/") or data.lstrip()[:5].lower() in (b"<svg ", b"<svg>")


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return _left_out(value) or value
    if isinstance(value, list):
        return [_without(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and isinstance(value.get("$bytes"), str):
        return _left_out(value["$bytes"]) or value
    return {key: _without(item) for key, item in value.items()}


def _left_out(text: str) -> dict[str, object] | None:
    """Return the replacement of a text that is an image; None for any other text."""
    url = _data_url.match(text)
    if url is not None:
        return {"$left_out": url[1], "size": len(text)}
    if len(text) < CHARACTERS_MIN or (found := read_base64(text)) is None or not is_image(found[0]):
        return None
    return {"$left_out": media_type_of(found[0]), "size": len(found[0])}
