"""Write many answers over HTTP, a piece at a time, while each is read over HTTP; every character is counted.

    python -m benchmarks.live --streams 200 --rate 20 --seconds 10
    python -m benchmarks.live --streams 1 --rate 50 --seconds 60 --cuts 1000

It starts `treering serve` with a store in a temporary folder. Writers and readers are one other process, as an
application would be. With `--cuts` each reader is cut off so often, also in the middle of a message, and attaches again
with `Last-Event-ID`. `--requests` sends each piece as a request of its own, instead of a line of one request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from benchmarks.serving import Api, server


class Load(NamedTuple):
    """What to write, and how often to cut readers off."""

    streams: int
    rate: float
    """Pieces a second, of each."""
    seconds: float
    cuts: int = 0
    requests: bool = False
    """A request for each piece."""

    def words(self, at: int) -> list[str]:
        """The pieces of an answer."""
        return [f"{at}.{piece} " for piece in range(int(self.rate * self.seconds))]


class Done(NamedTuple):
    """What came of an answer."""

    ok: bool
    """Its reader has every character once, and so has the message that was recorded."""
    cuts: int
    lag: float
    """How many seconds behind its schedule the last piece was sent."""


class Connection:
    """A connection to the server, for one request at a time; by hand, since clients take more time than servers."""

    def __init__(self, api: Api) -> None:
        self._url, self._headers = urlsplit(api.address), api.headers
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def begin(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> asyncio.StreamReader:
        """Send a request, or its beginning; returns what reads the answer."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        lines = [f"{method} {self._url.path}{path} HTTP/1.1", f"Host: {self._url.netloc}"]
        lines += [f"{name}: {value}" for name, value in {**self._headers, **headers}.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return self._reader

    def chunk(self, body: bytes) -> None:
        """Send a part of the body of a request that was begun; nothing ends it."""
        assert self._writer is not None
        self._writer.write(b"%x\r\n%s\r\n" % (len(body), body))

    async def answer(self) -> Any:
        """Read the answer."""
        assert self._reader is not None
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length:"))
        found = json.loads(await self._reader.readexactly(int(length)))
        if "error" in found:
            raise RuntimeError(found["error"]["message"])
        return found

    async def post(self, path: str, body: object) -> Any:
        """Send JSON and return the answer."""
        data = json.dumps(body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(data))}
        await self.begin("POST", path, headers, data)
        return await self.answer()

    def close(self) -> None:
        """End the connection at once."""
        if self._writer is not None:
            self._writer.close()


async def each(load: Load, at: int, lags: list[float]) -> AsyncIterator[str]:
    """Give the pieces of an answer when it is their time."""
    began = time.perf_counter()
    for number, word in enumerate(load.words(at)):
        await asyncio.sleep(max(0.0, began + number / load.rate - time.perf_counter()))
        lags.append(time.perf_counter() - began - number / load.rate)
        yield word


async def write(api: Api, load: Load, at: int, path: str) -> float:
    """Write an answer; returns how late its last piece was."""
    connection, offset = Connection(api), 0
    lags: list[float] = []
    if load.requests:
        async for word in each(load, at, lags):
            offset = (await connection.post(f"{path}/pieces", {"offset": offset, "text": word}))["offset"]
    else:
        headers = {"content-type": "application/x-ndjson", "transfer-encoding": "chunked"}
        await connection.begin("POST", f"{path}/lines?offset=0", headers)
        async for word in each(load, at, lags):
            connection.chunk(json.dumps({"text": word}).encode() + b"\n")
        connection.chunk(b"")
        await connection.answer()
    await connection.post(f"{path}/end", {})
    connection.close()
    return lags[-1]


async def read(api: Api, path: str, cuts: int) -> tuple[str, int]:
    """All text of an answer as its reader gets it, and how often it was cut off."""
    text, last, cut, chance = "", "0", 0, random.Random(path)
    while True:
        left = chance.randrange(1, 800) if cut < cuts else sys.maxsize
        connection = Connection(api)
        reader, rest = await connection.begin("GET", f"{path}/events", {"last-event-id": last}), b""
        while left > 0:
            found = await reader.read(min(left, 65536))
            if not found:
                break
            left -= len(found)
            *messages, rest = (rest + found).split(b"\n\n")
            for message in messages:
                fields = dict(line.split(b": ", 1) for line in message.splitlines() if b": " in line)
                if b"data" not in fields:
                    continue
                if fields[b"event"] == b"end":
                    connection.close()
                    return text, cut
                text, last = text + json.loads(fields[b"data"])["text"], fields[b"id"].decode()
        connection.close()
        cut += 1


async def begin(api: Api, at: int) -> str:
    """Begin an answer in a session of its own; returns its path."""
    connection = Connection(api)
    await connection.post("sessions", {"id": f"live-{at}"})
    await connection.post(f"sessions/live-{at}/messages", {"messages": [f"question {at}"]})
    stream = (await connection.post(f"sessions/live-{at}/streams", {}))["id"]
    connection.close()
    return f"sessions/live-{at}/streams/{stream}"


async def one(api: Api, load: Load, at: int, path: str) -> Done:
    """Write an answer, read it meanwhile, and compare both with what was recorded."""
    (text, cuts), lag = await asyncio.gather(read(api, path, load.cuts), write(api, load, at, path))
    connection = Connection(api)
    await connection.begin("GET", path.replace("/streams/", "/nodes/"), {})
    recorded = (await connection.answer())["payload"]["content"]
    connection.close()
    return Done(text == recorded == "".join(load.words(at)), cuts, lag)


async def run(api: Api, load: Load, ready: Callable[[], None] = lambda: None) -> list[Done]:
    """Write and read all answers at once; `ready` is called when all have begun."""
    paths = [await begin(api, at) for at in range(load.streams)]
    ready()
    return await asyncio.gather(*(one(api, load, at, path) for at, path in enumerate(paths)))


def processor_seconds(process: int) -> float:
    """What a process has taken of the processors."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--cuts", type=int, default=0)
    parser.add_argument("--requests", action="store_true")
    load = Load(**vars(parser.parse_args()))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TREERING_BENCH_DIR")) as folder, server(Path(folder)) as there:
        address, headers, process = there
        begun: list[tuple[float, float]] = []

        def ready() -> None:
            begun.append((time.perf_counter(), processor_seconds(process)))

        done = asyncio.run(run(Api(address, headers), load, ready))
        took, server_used = time.perf_counter() - begun[0][0], processor_seconds(process) - begun[0][1]
    pieces = load.streams * int(load.rate * load.seconds)
    print(f"{load.streams} streams, {load.rate:g} pieces a second each for {load.seconds:g} s: took {took:.1f} s")
    print(f"{pieces / took:.0f} pieces a second; the server took {server_used / took:.2f} processors")
    print(f"every character once: {sum(each.ok for each in done)} of {load.streams}")
    print(f"readers cut off: {sum(each.cuts for each in done)} times")
    lags = [each.lag for each in done]
    print(f"the last piece behind its time: {statistics.mean(lags):.2f} s on average, {max(lags):.2f} s at most")
    return 0 if all(each.ok for each in done) else 1


if __name__ == "__main__":
    sys.exit(main())
