"""The proxy counts what goes over the wire, and changes nothing of it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from benchmarks.proxy import Proxy, body_bytes


class _Echo(BaseHTTPRequestHandler):
    """Answers with what it got."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_PUT(self) -> None:  # the base class looks for this name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT  # noqa: N815  # likewise

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the base class's
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """Where a server listens that answers with what it gets."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def send(connection: http.client.HTTPConnection, method: str, body: bytes) -> bytes:
    """Send a request and return the body of its answer."""
    connection.request(method, "/key", body, {"Content-Length": str(len(body))})
    return connection.getresponse().read()


def test_requests_and_bytes_are_counted(port: int) -> None:
    """Every request of a kept connection counts once, with its head, in both directions; bodies pass unchanged."""
    with Proxy("127.0.0.1", port) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port)
        bodies = [b"", b"x" * 10, b"GET / HTTP/1.1\r\n\r\n" * 3, bytes(range(256)) * 1000]
        for body in bodies:
            assert send(connection, "PUT", body) == body
        assert send(connection, "GET", b"") == b""
        connection.close()
        assert proxy.methods == {"PUT": 4, "GET": 1}
        sent = sum(map(len, bodies))
        assert proxy.wire.requests == 5
        assert sent + 5 * 40 < proxy.wire.up < sent + 5 * 200
        assert sent + 5 * 30 < proxy.wire.down < sent + 5 * 200
        proxy.reset()
        assert proxy.wire == (0, 0, 0)


def test_every_request_waits(port: int) -> None:
    """With a latency no request is quicker than that, and those of several connections wait at the same time."""
    with Proxy("127.0.0.1", port, latency=0.05) as proxy:
        connections = [http.client.HTTPConnection("127.0.0.1", proxy.port) for _ in range(4)]
        begun = time.monotonic()
        for connection in connections:
            connection.request("GET", "/key", b"", {"Content-Length": "0"})
        for connection in connections:
            connection.getresponse().read()
            connection.close()
        assert time.monotonic() - begun >= 0.05
        assert proxy.wire.requests == 4


def test_a_request_that_hides_its_length_is_refused() -> None:
    """Where a body ends must be known, or the next request would not be counted."""
    assert body_bytes(b"PUT /k HTTP/1.1\r\nHost: x\r\nCONTENT-length: 12\r\n\r\n") == 12
    assert body_bytes(b"GET /k HTTP/1.1\r\nHost: x\r\n\r\n") == 0
    with pytest.raises(ValueError, match="length"):
        body_bytes(b"PUT /k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
