"""Fixtures of the storage tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers import moto, seaweedfs

__all__ = ["moto", "seaweedfs"]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on the disk: these tests are about what file systems do. Those of others may be in memory."""
    with tempfile.TemporaryDirectory(prefix="treering-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
