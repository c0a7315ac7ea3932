"""A store with one session, and a client of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.server.clients import client
from tests.servers import seaweedfs

import treering

__all__ = ["seaweedfs"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with the session `trip`: two answers to one question, on two heads, and a checkpoint."""
    store = treering.open(tmp_path / "store")
    with store.session("trip", title="A trip", project="travel") as session:
        session.append({"role": "user", "content": "where to?"})
        session.commit([treering.assistant("to the sea")], state={"step": 1})
        session.branch("mountains", node=session.path()[0])
        session.commit([treering.assistant("to the mountains")], state={"step": 2})
        session.switch("main")
    return tmp_path / "store"


@pytest.fixture
def api(folder: Path) -> TestClient:
    """A client of a server of this store."""
    return client(folder)
