"""How far a crew has come, while it works."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.concurrency.worker import read_calls

WAIT_SECONDS_MAX = 60


def acknowledged(folder: Path) -> int:
    """How many appends were acknowledged so far."""
    return sum(call.verb == "append" and call.outcome == "done" for call in read_calls(folder))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, but not for ever."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
