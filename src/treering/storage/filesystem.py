"""Checks of fsspec filesystems that callers pass."""

from __future__ import annotations

from typing import Any

from fsspec.asyn import AsyncFileSystem

from treering.errors import UsageError
from treering.kinds import Kind


def usable(fs: Any) -> Any:
    """Return `fs` if it can serve threads and event loops alike.

    Raises:
        UsageError: It was made for one event loop.
    """
    if getattr(fs, "asynchronous", False):
        remedy = "pass one made without asynchronous=True; async callers are served by it as well"
        raise UsageError("an asynchronous filesystem belongs to one event loop", kind=Kind.TARGET, remedy=remedy)
    return fs


def in_this_process(fs: Any) -> Any:
    """Return `fs`, or a new one with the same options if it was made before a fork, as it has no event loop then."""
    if isinstance(fs, AsyncFileSystem):
        try:
            _ = fs.loop
        except RuntimeError:
            return type(fs)(*fs.storage_args, **fs.storage_options)
    return fs
