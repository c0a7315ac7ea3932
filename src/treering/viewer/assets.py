"""The files of the viewer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

HTML: Final = "text/html; charset=utf-8"
TYPES: Final[Mapping[str, str]] = {
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
"""Media types of the viewer's files, by the ends of their names."""
INDEX: Final = "index.html"


class Asset(msgspec.Struct, frozen=True):
    """A file of the viewer."""

    data: bytes
    media_type: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files of the viewer by name. They are read once, so no part of a URL becomes part of a path."""
    found: dict[str, Asset] = {}
    for each in files("treering.viewer").iterdir():
        kind = next((kind for end, kind in TYPES.items() if each.name.endswith(end)), None)
        if kind is not None and each.is_file():
            found[each.name] = Asset(each.read_bytes(), kind)
    return found
