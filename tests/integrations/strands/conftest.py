"""Fixtures of the tests with real Strands agents."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.servers import seaweedfs
from tests.session.backends import Backend, backend_of

__all__ = ["seaweedfs"]


@pytest.fixture(params=["memory", "local"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A place for sessions, like an object store and like a disk."""
    return backend_of(request.param, tmp_path / "store")
