"""Servers of their own, since these tests kill them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster.cluster import Cluster
from tests.servers import SeaweedFS


@pytest.fixture
def mortal() -> Iterator[SeaweedFS]:
    """A SeaweedFS of its own."""
    running = SeaweedFS()
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of six processes; who kills one starts it again."""
    running = Cluster()
    running.start()
    yield running
    running.stop()
