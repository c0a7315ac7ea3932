"""Stores for the transcripts of the Claude Agent SDK: in memory, on disk, on a real object store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.servers import S3Server, seaweedfs
from tests.session.backends import Backend, local_backend, memory_backend

from treering.integrations.claude import TreeringSessionStore
from treering.storage.retrying import RetryingDriver
from treering.storage.s3 import S3Driver

__all__ = ["seaweedfs"]

S3 = pytest.param("seaweedfs", marks=pytest.mark.s3)
S3_WHOLE = pytest.param("seaweedfs", marks=[pytest.mark.s3, pytest.mark.whole])
"""Where it takes long, and other tests try the same on a server."""


def s3_backend(server: S3Server, place: str = "") -> Backend:
    """A part of a bucket on a server, by default one of its own."""
    prefix = place or f"{server.bucket}/claude-{os.urandom(6).hex()}"

    def driver() -> RetryingDriver:
        return RetryingDriver(S3Driver(prefix, storage_options=server.storage_options))

    return Backend("s3", driver, lambda: server.objects(prefix.partition("/")[2]))


@pytest.fixture
def make_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Backend]:
    """Makes stores of a kind, a new one with each call."""

    def make(kind: str) -> Backend:
        if kind == "seaweedfs":
            return s3_backend(request.getfixturevalue("seaweedfs"))
        return local_backend(tmp_path / os.urandom(4).hex()) if kind == "local" else memory_backend()

    return make


@pytest.fixture(params=["memory", "local", S3])
def backend(request: pytest.FixtureRequest, make_backend: Callable[[str], Backend]) -> Backend:
    """A store of each kind."""
    return make_backend(request.param)


@pytest.fixture(params=["memory", "local"])
def near(request: pytest.FixtureRequest, make_backend: Callable[[str], Backend]) -> Backend:
    """A store in memory, and one on disk."""
    return make_backend(request.param)


def opened(backend: Backend) -> TreeringSessionStore:
    """The store of transcripts, opened by a new process."""
    return TreeringSessionStore(backend.store())
