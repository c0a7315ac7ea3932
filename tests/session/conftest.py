"""Fixtures of the session tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import seaweedfs
from tests.session.backends import KINDS, Backend, backend_of

from treering.api.store import Store

__all__ = ["seaweedfs"]


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place for sessions on each kind of driver."""
    return backend_of(request.param, tmp_path / "store")


@pytest.fixture
def store(backend: Backend) -> Store:
    """A store on each kind of driver."""
    return backend.store()
