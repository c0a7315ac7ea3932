"""Fixtures of the tests with real Strands agents."""

from __future__ import annotations

from tests.servers import seaweedfs

__all__ = ["seaweedfs"]
