"""An S3 server in front of another one that misbehaves as networks and busy servers do."""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.servers import REGION, S3Server
from tests.storage.processes import WAIT_SECONDS_MAX

Act: TypeAlias = int | str | tuple[int, bytes]
"""What to do with one request.

A status, or a status with a body, is the answer; the request goes nowhere. "pass" does nothing special. Others:

| Act | The request | Its sender |
|---|---|---|
| "drop" | goes nowhere | sees the connection break |
| "lose" | takes effect | sees the connection break |
| "late" | takes effect when `settle` is called or `lands` says so | sees the connection break |
| "fail" | takes effect | is told 500 |
| "hang" | takes effect when `released` is set | sees nothing until then |
| "mute" | takes effect | sees nothing until `released` is set |
| "cut" | takes effect | sees the connection break in the middle of the answer's body |
| "short" | takes effect | gets half of the answer's body, said to be the whole |
"""


class Seen(NamedTuple):
    """One request that came through a gateway."""

    method: str
    path: str
    headers: dict[str, str]


class Sent(NamedTuple):
    """One request, to be passed on."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Gateway:
    """An S3 server in front of another one that can misbehave; signs anew what it passes on.

    Attributes:
        server: How to reach it.
        drops: Names of headers, in lower case, that it forgets to pass on.
        script: What to do with the next requests, in turn.
        plan: What to do with those behind the script; asked from several threads, once for each request.
        lands: Asked before each request is passed on whether the oldest late one takes effect now.
        late: Requests that may still take effect, oldest first.
        released: Set it to let hanging requests end; `quiet` waits until they did.
        meet: If set, requests wait there for each other before they are passed on.
        seen: Every request that arrived, which is what went over the wire.
    """

    def __init__(self, behind: S3Server, *, drops: set[str] | None = None) -> None:
        self.drops = drops or set()
        self.late: deque[Sent] = deque()
        self.released = threading.Event()
        self._served = threading.Condition()
        self._serving = 0
        self.reset()
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

    def reset(self) -> None:
        """Let everything late and hanging end, and do nothing special from now on."""
        self.script: list[Act] = []
        self.plan: Callable[[Seen], Act] = lambda _: "pass"
        self.lands: Callable[[], bool] = lambda: False
        self.meet: threading.Barrier | None = None
        self.seen: list[Seen] = []
        self.settle()
        self.released.set()
        self.released = threading.Event()

    def settle(self) -> None:
        """Let everything late take effect now, in its order."""
        with contextlib.suppress(IndexError):
            while True:
                self.forward(self.late.popleft())

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """One more request is being served."""
        with self._served:
            self._serving += 1
        try:
            yield
        finally:
            with self._served:
                self._serving -= 1
                self._served.notify_all()

    def quiet(self) -> None:
        """Let hanging requests end and late ones take effect, and wait until nothing is under way."""
        self.released.set()
        with self._served:
            assert self._served.wait_for(lambda: not self._serving, WAIT_SECONDS_MAX)
        self.settle()

    def choose(self, seen: Seen) -> Act:
        """Say what to do with a request that arrived."""
        self.seen.append(seen)
        with contextlib.suppress(IndexError):
            return self.script.pop(0)
        return self.plan(seen)

    def pass_on(self, sent: Sent) -> tuple[int, bytes, dict[str, str]]:
        """Send a request to the server behind, perhaps after one that is late."""
        if self.late and self.lands():
            with contextlib.suppress(IndexError):
                self.forward(self.late.popleft())
        if self.meet:
            self.meet.wait(WAIT_SECONDS_MAX)
        return self.forward(sent)

    def forward(self, sent: Sent) -> tuple[int, bytes, dict[str, str]]:
        """Send a request to the server behind and return its status, body and headers."""
        kept = {name: value for name, value in sent.headers.items() if name not in self.drops | _NOT_PASSED_ON}
        request = AWSRequest(sent.method, self._behind.endpoint + sent.path, kept, sent.body)
        request.headers["x-amz-content-sha256"] = "UNSIGNED-PAYLOAD"
        S3SigV4Auth(Credentials(self._behind.key, self._behind.secret), "s3", REGION).add_auth(request)
        connection = http.client.HTTPConnection(urlsplit(self._behind.endpoint).netloc, timeout=20)
        with contextlib.closing(connection):
            connection.request(sent.method, sent.path, sent.body, dict(request.headers))
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
    disable_nagle_algorithm = True  # or the body of an answer waits for its head to be acknowledged
    server: _Listener

    def _serve(self) -> None:
        with self.server.gateway.serving():
            self._serve_one()

    def _serve_one(self) -> None:
        gateway = self.server.gateway
        released = gateway.released
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        sent = Sent(self.command, self.path, headers, body)
        act = gateway.choose(Seen(self.command, self.path, headers))
        if isinstance(act, int | tuple):
            self._answer(*(act if isinstance(act, tuple) else (act, error_body(act))))
            return
        if act == "late":
            gateway.late.append(sent)
        if act in ("late", "drop"):
            self._break()
            return
        if act == "hang":
            released.wait()
        status, found, passed_on = gateway.pass_on(sent)
        if act == "mute":
            released.wait()
        if act == "lose":
            self._break()
        elif act == "fail":
            self._answer(500, error_body(500))
        else:
            self._answer(status, found[: len(found) // 2] if act == "short" else found, passed_on, cut=act == "cut")

    def _break(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

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


def error_body(status: int) -> bytes:
    """What S3 says with a status that is an error."""
    codes = {403: "AccessDenied", 409: "ConditionalRequestConflict", 500: "InternalError", 503: "SlowDown"}
    return f"<Error><Code>{codes[status]}</Code><Message>as told</Message></Error>".encode()
