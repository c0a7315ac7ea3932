"""A server for tests: in this process, or a real one on a free loopback port."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from starlette.testclient import TestClient

import treering
from treering.server import app

TOKEN = "a-token-of-a-test"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
API = "/api/v1"


def client(target: Any, **options: Any) -> TestClient:
    """A client of a server in this process, which brings the token; errors that are not ours are raised."""
    options = {"token": TOKEN, "hosts": [], **options}
    store = treering.aopen(target) if isinstance(target, str | Path) else target
    return TestClient(app(store, **options), base_url=f"http://127.0.0.1{API}/", headers=HEADERS)


class Serving(NamedTuple):
    """A process that serves."""

    address: str
    token: str
    process: subprocess.Popen[str]

    @property
    def api(self) -> httpx.Client:
        """A client that brings the token."""
        return httpx.Client(base_url=f"{self.address}{API}/", headers={"authorization": f"Bearer {self.token}"})


@contextlib.contextmanager
def serving(target: str | Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[Serving]:
    """Run `treering serve` until the block ends, and stop it by its own process id."""
    command = [sys.executable, "-m", "treering", "--store", str(target), "serve", *options]
    surroundings = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"(http://\S+)/#token=(\S+)\n", line)
        assert found, (line, process.stderr.read() if process.stderr is not None and process.poll() else "")
        yield Serving(found[1], found[2], process)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def messages(*texts: str) -> list[dict[str, str]]:
    """Messages, by turns of the user and of the model."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
