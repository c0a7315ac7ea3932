"""A server for tests: in this process, or a real one on a free loopback port."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from starlette.testclient import TestClient
from tests.session.faults import Meeting

import treering
from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.server import app
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

TOKEN = "a-token-of-a-test"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
API = "/api/v1"


def client(target: Any, **options: Any) -> TestClient:
    """A client of a server in this process, which brings the token; errors that are not ours are raised."""
    options = {"token": TOKEN, "hosts": [], **options}
    store = treering.aopen(target) if isinstance(target, str | Path) else target
    return TestClient(app(store, **options), base_url=f"http://127.0.0.1{API}/", headers=HEADERS)


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A process that serves."""

    address: str
    token: str

    @property
    def api(self) -> httpx.Client:
        """A client that brings the token."""
        return httpx.Client(base_url=f"{self.address}{API}/", headers={"authorization": f"Bearer {self.token}"})


@dataclass(frozen=True, kw_only=True)
class ServingProcess(Serving):
    """One that a test may end."""

    process: subprocess.Popen[str]


def printed(line: str) -> Serving:
    """The server whose address a line shows."""
    found = re.fullmatch(r"(http://\S+)/#token=(\S+)\n", line)
    assert found, line
    return Serving(address=found[1], token=found[2])


@contextlib.contextmanager
def serving(target: str | Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[ServingProcess]:
    """Run `treering serve` until the block ends, and stop it by its own process id."""
    command = [sys.executable, "-m", "treering", "--store", str(target), "serve", *options]
    surroundings = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line or process.stderr is None, process.stderr.read()
        found = printed(line)
        yield ServingProcess(address=found.address, token=found.token, process=process)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def messages(*texts: str) -> list[dict[str, str]]:
    """Messages, by turns of the user and of the model."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]


class Workers(NamedTuple):
    """Two workers of one store in memory, which holds the session `trip`."""

    meeting: Meeting
    """What the first one asks the store; another call may come before a chosen request."""
    store: Store
    first: TestClient
    other: TestClient


def two_workers() -> Workers:
    """Serve one store by two workers."""
    meeting = Meeting(MemoryDriver())
    store = Store(Place(meeting))
    trip(store)
    return Workers(meeting, store, client(AsyncStore(Place(meeting))), client(AsyncStore(Place(meeting.inner))))


def trip(store: treering.Store) -> None:
    """Record the session `trip`: two answers to one question, on two heads, and a checkpoint."""
    with store.session("trip", title="A trip", project="travel") as session:
        session.append({"role": "user", "content": "where to?"})
        session.commit([treering.assistant("to the sea")], state={"step": 1})
        session.branch("mountains", node=session.path()[0])
        session.commit([treering.assistant("to the mountains")], state={"step": 2})
        session.switch("main")
