"""Fixtures of the storage tests."""

from __future__ import annotations

import pytest
from tests.servers import moto, seaweedfs

pytest.register_assert_rewrite("treering.testing.conformance")

__all__ = ["moto", "seaweedfs"]
