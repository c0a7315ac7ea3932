"""Fixtures of the concurrency tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.concurrency.crew import Crew
from tests.servers import S3Server, seaweedfs

__all__ = ["seaweedfs"]


@pytest.fixture
def on_disk(tmp_path: Path) -> Crew:
    """One process on a disk, to be replaced in part."""
    return Crew(url=f"{tmp_path / 'store'}", folder=f"{tmp_path / 'calls'}", processes=1, shared=False, appends=1)


@pytest.fixture
def on_s3(tmp_path: Path, seaweedfs: S3Server) -> Crew:
    """One process on a place of its own on SeaweedFS, to be replaced in part."""
    return Crew(
        url=f"s3://{seaweedfs.bucket}/crew-{os.urandom(6).hex()}",
        storage_options=seaweedfs.storage_options,
        folder=f"{tmp_path / 'calls'}",
        processes=1,
        shared=False,
        appends=1,
    )
