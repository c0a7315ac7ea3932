"""The pages of a server: the viewer with its assets, and documents of the API. They hold no data and ask no token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path

from treering.server.openapi import document, page

TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
"""Files of the viewer that are served, by the end of their names."""
ASSET_BYTES_MAX: Final = 4 * 1024 * 1024
INDEX: Final = "index.html"


class Asset(msgspec.Struct, frozen=True):
    """A file of the viewer."""

    data: bytes
    media_type: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files of the viewer by name, read once: no part of a URL becomes part of a path."""
    found: dict[str, Asset] = {}
    folder = files("treering.server").joinpath("viewer")
    for each in folder.iterdir() if folder.is_dir() else ():
        kind = next((kind for end, kind in TYPES.items() if each.name.endswith(end)), None)
        if kind is not None and each.is_file():
            found[each.name] = Asset(each.read_bytes(), kind)
    return found


def pages(api: str) -> Sequence[Path]:
    """Return the routes of all pages.

    Args:
        api: The path of the API.
    """
    found = assets()
    first = found.get(INDEX) or Asset(_plain(api).encode(), TYPES[".html"])
    described = Asset(msgspec.json.encode(document(api)), "application/json")
    return [
        _page("/", first),
        *(_page(f"/assets/{name}", asset) for name, asset in found.items() if name != INDEX),
        _page(f"{api}/openapi.json", described),
        _page(f"{api}/docs", Asset(page(document(api)).encode(), TYPES[".html"])),
    ]


def _page(path: str, asset: Asset) -> Path:
    async def answer(_: Request) -> Response:
        return Response(asset.data, media_type=asset.media_type)

    return Path(path, answer, methods=["GET"])


def _plain(api: str) -> str:
    """The first page of an installation without the viewer."""
    base = escape(api.lstrip("/"))
    links = "".join(f'<li><a href="{base}/{name}">{said}</a>' for name, said in _LINKS.items())
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Treering</title><h1>Treering</h1><ul>{links}</ul>'
    )


_LINKS: Final = {"docs": "What can be asked", "openapi.json": "The same for programs (OpenAPI)"}
