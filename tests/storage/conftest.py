"""Fixtures of the storage tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("treering.testing.conformance")
