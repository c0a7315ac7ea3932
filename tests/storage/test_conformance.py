"""Every driver passes the suite that we ship for other people's drivers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import fsspec
import pytest
from tests.sampling import few
from tests.servers import S3Server

from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault, FaultyDriver, scripted_plan
from treering.storage.generic import GenericDriver
from treering.storage.local import LocalDriver
from treering.storage.memory import MemoryDriver
from treering.storage.observing import ObservedDriver
from treering.storage.open import open_driver
from treering.storage.requests import Driver
from treering.storage.retrying import RetryingDriver
from treering.storage.s3 import S3Driver
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


class TestObserved(DriverConformance):
    @pytest.fixture
    def driver(self) -> Driver:
        return ObservedDriver(MemoryDriver(appends=True), lambda _: None)


class TestLocal(DriverConformance):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> Driver:
        return LocalDriver(tmp_path / "store")


class TestFsspecLocal(DriverConformance):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> Driver:
        return open_driver(f"file://{tmp_path}/store", single_writer=True)


class TestFsspecMemory(DriverConformance):
    @pytest.fixture
    def driver(self, tmp_path: Path) -> Driver:
        return GenericDriver(fsspec.filesystem("memory"), f"memory://{tmp_path.name}")


@pytest.mark.s3
class TestFsspecS3(DriverConformance):
    examples = few(2, whole=3)

    @pytest.fixture
    def driver(self, moto: S3Server) -> Driver:
        url = f"s3://{moto.bucket}/through-fsspec"
        return open_driver(url, single_writer=True, storage_options=moto.storage_options)


class TestRetrying(DriverConformance):
    """Every third request is lost, and sent again."""

    @pytest.fixture
    def driver(self) -> Driver:
        plan = scripted_plan(cycle([Fault.NONE, Fault.NONE, Fault.BEFORE]))

        async def askip(seconds: float) -> None:
            """Wait for nothing."""

        return RetryingDriver(FaultyDriver(MemoryDriver(appends=True), plan), sleep=lambda _: None, asleep=askip)


@pytest.mark.s3
class TestMoto(DriverConformance):
    examples = few(4, whole=8)
    races = False

    @pytest.fixture
    def driver(self, moto: S3Server) -> Iterator[Driver]:
        driver = S3Driver(moto.bucket, storage_options=moto.storage_options)
        yield driver
        driver.close()


@pytest.mark.s3
@pytest.mark.slow
class TestSeaweedFS(DriverConformance):
    examples = few(4, whole=8)
    rounds, racers = 2, 3  # who loses a race here may wait for seconds

    @pytest.fixture
    def driver(self, seaweedfs: S3Server) -> Iterator[Driver]:
        driver = S3Driver(f"{seaweedfs.bucket}/some/prefix", storage_options=seaweedfs.storage_options)
        yield driver
        driver.close()
