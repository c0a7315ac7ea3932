"""Every driver passes the suite that we ship for other people's drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Driver
from treering.testing.conformance import DriverConformance


class TestMemory(DriverConformance):
    @pytest.fixture
    def driver(self) -> Driver:
        return MemoryDriver()


class TestMemoryWithLogs(DriverConformance):
    @pytest.fixture
    def driver(self) -> Driver:
        return MemoryDriver(appends=True)


class TestCounting(DriverConformance):
    @pytest.fixture
    def driver(self) -> Driver:
        return CountingDriver(MemoryDriver(appends=True))


class TestLocal(DriverConformance):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> Driver:
        return LocalDriver(tmp_path / "store")
