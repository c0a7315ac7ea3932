"""A store with one session, and a client of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.server.clients import client, trip
from tests.servers import seaweedfs

import treering

__all__ = ["seaweedfs"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with the session `trip`: two answers to one question, on two heads, and a checkpoint."""
    trip(treering.open(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def api(folder: Path) -> TestClient:
    """A client of a server of this store."""
    return client(folder)
