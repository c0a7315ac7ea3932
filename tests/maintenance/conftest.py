"""Fixtures of the tests of maintenance."""

from __future__ import annotations

from tests.session.conftest import backend

__all__ = ["backend"]
