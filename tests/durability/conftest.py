"""Sizes for the tests of durability."""

from __future__ import annotations

import pytest

from treering.session import upkeep


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a close does to many sealed records it does to a few."""
    monkeypatch.setattr(upkeep, "SEALED_BYTES_DROP", 1)
