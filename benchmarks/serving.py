"""Measure the server: a page of 50, memory over many requests, many live streams. `python -m benchmarks.serving`.

A program of its own, since no other store has a server to be measured beside. It starts `treering serve` on a free port
of the loopback, with a store in a temporary folder on disk, and prints what it found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

import treering

WORDS = 20
"""Of a message: some 100 bytes."""


class Api(NamedTuple):
    """Where to ask, and with what."""

    address: str
    headers: dict[str, str]


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, dict[str, str], int]]:
    """Run a server; gives the address of its API, headers with the token, and its process id."""
    command = [sys.executable, "-m", "treering", "--store", str(folder), "serve", "--token", "measured"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().partition("/#")[0]
        try:
            yield f"{address}/api/v1/", {"authorization": "Bearer measured"}, process.pid
        finally:
            process.terminate()


def fill(folder: Path, nodes: int) -> None:
    """Record a session of so many messages."""
    with treering.open(folder).session("long") as session:
        for first in range(0, nodes, 1000):
            texts = (f"{at} " + "word " * WORDS for at in range(first, first + 1000))
            session.append(*map(treering.user, texts), new_ids=True)


def resident_kb(process: int) -> int:
    """Memory of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def pages(address: str, headers: dict[str, str], count: int) -> None:
    """Time pages of 50: the newest again and again, and page after page up the session."""
    with httpx.Client(base_url=address, headers=headers) as api:
        api.get("sessions/long/history")
        newest, upward, before = [], [], ""
        for _ in range(count):
            began = time.perf_counter()
            api.get("sessions/long/history").raise_for_status()
            newest.append(time.perf_counter() - began)
            began = time.perf_counter()
            page = api.get(f"sessions/long/history{before}").raise_for_status().json()
            upward.append(time.perf_counter() - began)
            before = f"?before={page['before']}"
    for name, seconds in (("newest page", newest), ("page after page", upward)):
        ms = sorted(1000 * each for each in seconds)
        print(f"{name}: median {statistics.median(ms):.2f} ms, p95 {ms[int(len(ms) * 0.95)]:.2f} ms of {len(ms)}")


def memory(address: str, headers: dict[str, str], process: int, count: int) -> None:
    """Tell the memory of the server while it answers many requests of several kinds."""
    paths = [
        "sessions",
        "sessions/long/history",
        "sessions/long/path?limit=50",
        "sessions/long/tree?limit=50",
        "sessions/none",
    ]
    with httpx.Client(base_url=address, headers=headers) as api:
        for at in range(count + 1):
            if at % (count // 5) == 0:
                print(f"after {at} requests: {resident_kb(process) / 1024:.1f} MB")
            api.get(paths[at % len(paths)])


async def streams(folder: Path, api: Api, *, count: int, rate: int, seconds: int) -> None:
    """Write many answers at a time, each with a reader over HTTP, and compare what was read with what was written.

    They are written by this process with the library, as an application does that calls models.
    """
    store = treering.aopen(folder)
    begun = time.perf_counter()
    results = await asyncio.gather(*(one_stream(store, api, at, rate=rate, seconds=seconds) for at in range(count)))
    took = time.perf_counter() - begun
    late = [lag for _, lag in results]
    print(f"{count} streams, {rate} pieces a second each, {seconds} s: took {took:.1f} s")
    print(f"read whole, every byte once: {sum(ok for ok, _ in results)} of {count}")
    print(
        f"writers behind their schedule at the end: {statistics.mean(late):.2f} s on average, {max(late):.2f} s at most"
    )


async def one_stream(store: treering.AsyncStore, api: Api, at: int, *, rate: int, seconds: int) -> tuple[bool, float]:
    """Write one answer and read it; whether each byte came once, and how late the last piece was written."""
    async with store.session(f"stream-{at}", shared=True) as session:
        await session.append(f"question {at}")
        await asyncio.sleep(2 * at / 200)  # not all at the same moment
        async with session.stream() as answer:
            path = f"sessions/stream-{at}/streams/{answer.id}/events"
            reading = asyncio.create_task(read(api, path))
            began, written = time.perf_counter(), []
            for piece in range(rate * seconds):
                await asyncio.sleep(max(0.0, began + piece / rate - time.perf_counter()))
                written.append(f"{at}.{piece} ")
                await answer.write(written[-1])
            lag = time.perf_counter() - began - seconds
        return await reading == "".join(written), max(0.0, lag)


async def read(api: Api, path: str) -> str:
    """All text of an answer, as its reader gets it: by hand, since a client needs more time than the server."""
    url, headers = urlsplit(api.address + path), api.headers
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    lines = [
        f"GET {url.path} HTTP/1.1",
        f"Host: {url.netloc}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
    try:
        found = [json.loads(line[len(b"data: ") :]) async for line in reader if line.startswith(b"data: ")]
    finally:
        writer.close()
    return "".join(piece.get("text", "") for piece in found)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=10)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TREERING_BENCH_DIR")) as folder, server(Path(folder)) as there:
        address, headers, process = there
        if asked.nodes:
            fill(Path(folder), asked.nodes)
            pages(address, headers, asked.pages)
            memory(address, headers, process, asked.requests)
        if asked.streams:
            api = Api(address, headers)
            asyncio.run(streams(Path(folder), api, count=asked.streams, rate=asked.rate, seconds=asked.seconds))


if __name__ == "__main__":
    main()
