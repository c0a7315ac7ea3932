"""Fixtures of the storage tests."""

from __future__ import annotations

from tests.servers import moto, seaweedfs

__all__ = ["moto", "seaweedfs"]
