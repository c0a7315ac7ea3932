"""The pages of a server: the viewer with its assets, and documents of the API. They hold no data and ask no token."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path

from treering.server.openapi import document, page
from treering.viewer import HTML, INDEX, Asset, assets


def pages(api: str) -> Sequence[Path]:
    """Return the routes of all pages.

    Args:
        api: The path of the API.
    """
    found = assets()
    described = Asset(msgspec.json.encode(document(api)), "application/json")
    return [
        _page("/", found[INDEX]),
        *(_page(f"/assets/{name}", asset) for name, asset in found.items() if name != INDEX),
        _page(f"{api}/openapi.json", described),
        _page(f"{api}/docs", Asset(page(document(api)).encode(), HTML)),
    ]


def _page(path: str, asset: Asset) -> Path:
    async def answer(_: Request) -> Response:
        return Response(asset.data, media_type=asset.media_type)

    return Path(path, answer, methods=["GET"])
