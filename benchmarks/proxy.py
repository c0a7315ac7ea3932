"""A proxy that counts what goes over the wire to an S3 server, and may delay it as a network does.

It passes on bytes as they come, so signatures stay valid, and what is counted is what was sent: heads, retries, LISTs
in XML and all. It lives in a thread; those who are measured are other processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from typing import NamedTuple, Self

CHUNK_BYTES = 1 << 16
HEAD_BYTES_MAX = 1 << 16
GONE = (ConnectionError, asyncio.IncompleteReadError)


class Wire(NamedTuple):
    """What went over the wire."""

    requests: int = 0
    up: int = 0
    """Bytes to the server, heads included."""
    down: int = 0
    """Bytes from the server, heads included."""


class Proxy:
    """Passes on what it gets to one server.

    Attributes:
        latency: Seconds that every request waits before it is passed on.
        methods: Requests by HTTP method, since the last reset.
        port: Where it listens, on the loopback interface.
    """

    def __init__(self, host: str, port: int, *, latency: float = 0) -> None:
        self.latency = latency
        self.reset()
        self._behind = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX), self._loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def reset(self) -> None:
        """Count from zero."""
        self.methods: Counter[str] = Counter()
        self._up = self._down = 0

    @property
    def wire(self) -> Wire:
        """What was sent since the last reset."""
        return Wire(self.methods.total(), self._up, self._down)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*GONE, asyncio.CancelledError):
            server, to_server = await asyncio.open_connection(*self._behind, limit=HEAD_BYTES_MAX)
            answers = asyncio.create_task(self._answers(server, to_client))
            try:
                await self._requests(client, to_server)
            finally:
                answers.cancel()
                to_server.close()
                to_client.close()

    async def _requests(self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        while True:
            head = await client.readuntil(b"\r\n\r\n")
            self.methods[head.partition(b" ")[0].decode()] += 1
            if self.latency:
                await asyncio.sleep(self.latency)
            self._up += len(head)
            to_server.write(head)
            left = body_bytes(head)
            while left:
                data = await client.readexactly(min(left, CHUNK_BYTES))
                self._up += len(data)
                left -= len(data)
                to_server.write(data)
                await to_server.drain()

    async def _answers(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*GONE):
            while data := await server.read(CHUNK_BYTES):
                self._down += len(data)
                to_client.write(data)
                await to_client.drain()
        to_client.close()


def body_bytes(head: bytes) -> int:
    """Return how many bytes follow the head of a request.

    Raises:
        ValueError: The head does not say. None of the clients here does that.
    """
    lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in lines}
    if b"transfer-encoding" in headers:
        raise ValueError(f"a request does not say its length. head={head[:200]!r}")
    return int(headers.get(b"content-length", 0))
