"""Savers in memory, on disk and on a real object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integrations.claude.conftest import S3, make_backend
from tests.servers import seaweedfs
from tests.session.backends import Backend, backend_of

__all__ = ["make_backend", "seaweedfs"]


@pytest.fixture(params=["memory", "local"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store in memory, like an object store, and one on disk."""
    return backend_of(request.param, tmp_path / "store")


@pytest.fixture(params=["memory", "local", pytest.param(*S3.values, marks=[*S3.marks, pytest.mark.thinned(2)])])
def anywhere(request: pytest.FixtureRequest, make_backend: Callable[[str], Backend]) -> Backend:
    """A store of each kind; on a server every other test of a file here, all with `make whole`."""
    return make_backend(request.param)
