"""Serve a store over HTTP: an ASGI application that stands alone or is mounted into another one.

It needs the extra `server`. `treering serve` runs it.
"""

from treering.server.app import app

__all__ = ["app"]
