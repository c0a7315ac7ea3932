"""Servers of their own, since these tests kill them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers import SeaweedFS


@pytest.fixture
def mortal() -> Iterator[SeaweedFS]:
    """A SeaweedFS of its own."""
    running = SeaweedFS()
    running.start()
    yield running
    running.stop()
