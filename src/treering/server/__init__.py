"""Serve a store over HTTP: an ASGI application that runs alone or is mounted into another application.

It needs the extra `server`. `treering serve` runs it.
"""

from treering.server.app import app

__all__ = ["app"]
