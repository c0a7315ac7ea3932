"""Servers in processes of their own that are forked from one that has loaded all they need.

Tests of the viewer start forty. By itself each would take half a second of a processor to load the same modules.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from tests.server.clients import Serving, printed

from treering.cli import main

LOADED = [__name__, "treering.cli.serving", "treering.api.async_store", "uvicorn"]
STOP_SECONDS_MAX = 20


@contextlib.contextmanager
def serving(target: str | Path, *options: str) -> Iterator[Serving]:
    """Run `treering serve` until the block ends."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    receiver, sender = context.Pipe(duplex=False)
    arguments = ["--store", str(target), "serve", *options]
    process = context.Process(target=_serve, args=(arguments, dict(os.environ), sender), daemon=True)
    process.start()
    sender.close()
    try:
        with receiver, open(receiver.fileno(), closefd=False) as out:
            line = out.readline()
        yield printed(line)
    finally:
        process.terminate()
        process.join(STOP_SECONDS_MAX)


def _serve(arguments: list[str], surroundings: dict[str, str], out: Connection) -> None:
    os.environ.clear()
    os.environ.update(surroundings)
    os.dup2(out.fileno(), 1)
    out.close()
    main(arguments)
