"""How many processes share the tests out between them, and in which order they take the files.

A file is run by one process (`--dist=loadfile`), so what its fixtures make is made once, and a process is not sent one
test at a time: 11,000 tests that do nothing take 33 seconds of a processor so, and 48 one at a time. A server that
several files need is started once in each process.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence

import pytest

PROCESSES_MAX = 4
"""More cost more in collecting tests and starting servers than they save."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Start one more than there are cores for `-n auto`: tests wait for servers, browsers and processes they kill."""
    return min((os.cpu_count() or 1) + 1, PROCESSES_MAX)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what lives to the end: each look at 600,000 objects takes most of a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # behind those that leave tests out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files for a process that shares them with others."""
    if hasattr(config, "workerinput"):
        items[:] = slow_first(items)


def slow_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Put files with a test marked `slow` in front: whatever is begun last is what all the others wait for."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    return sorted(items, key=lambda item: item.path not in slow)
