"""Stores in memory, on disk and on a real object store."""

from __future__ import annotations

from tests.integrations.claude.conftest import make_backend
from tests.integrations.langgraph.conftest import anywhere, backend
from tests.servers import seaweedfs

__all__ = ["anywhere", "backend", "make_backend", "seaweedfs"]
