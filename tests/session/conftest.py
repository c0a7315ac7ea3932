"""Fixtures of the session tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import seaweedfs
from tests.session.backends import Backend, local_backend, memory_backend

from treering.session.store import Store

__all__ = ["seaweedfs"]


@pytest.fixture(params=["memory", "logs", "local"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """A place for sessions on each kind of driver."""
    if request.param == "local":
        yield local_backend(tmp_path / "store")
    else:
        yield memory_backend(appends=request.param == "logs")


@pytest.fixture
def store(backend: Backend) -> Store:
    """A store on each kind of driver."""
    return backend.store()
