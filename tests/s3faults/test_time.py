"""However a server fails, a request ends: attempts are bounded in number and in time, and so is each of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import s3fs
from tests.faultlog import FaultLog
from tests.gateway import Act, Gateway, Seen
from tests.s3faults.faults import LAYER
from tests.servers import REGION

import treering
from treering.errors import UnavailableError, UsageError
from treering.storage import s3
from treering.storage.requests import Get, List, Put, Request
from treering.storage.retrying import ATTEMPTS_MAX, SECONDS_MAX, RetryingDriver
from treering.storage.s3 import S3Driver
from treering.testing.conformance import ask_any

pytestmark = pytest.mark.s3


class Clock:
    """Time that passes when a request is answered, and while somebody waits."""

    def __init__(self, answer_seconds: float) -> None:
        self.now = 0.0
        self.begun: list[float] = []
        self._answer_seconds = answer_seconds

    def refuse(self, seen: Seen) -> Act:
        """A server that takes its time to say that it is busy."""
        self.begun.append(self.now)
        self.now += self._answer_seconds
        return 503

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        """Wait on an event loop."""
        self.now += seconds


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("answer_seconds", [0, 3, 4.9, 6.6, 9.9, 13, 19.95, 60])
def test_no_attempt_begins_too_late(
    answer_seconds: float, gateway: Gateway, clients: dict[bool, s3fs.S3FileSystem], path: str, *, blocking: bool
) -> None:
    """However long each answer takes, attempts are few and none begins after the time is up."""
    clock = Clock(answer_seconds)
    gateway.plan = clock.refuse
    fs = clients[False]
    fs.retries = 1
    driver = RetryingDriver(S3Driver(path, fs=fs), sleep=clock.sleep, asleep=clock.asleep, clock=lambda: clock.now)
    batch = (Get("a"),)
    (answer,) = driver.execute(batch) if blocking else asyncio.run(driver.aexecute(batch))
    assert isinstance(answer, UnavailableError)
    assert len(gateway.seen) == len(clock.begun) <= ATTEMPTS_MAX
    assert clock.begun[-1] <= SECONDS_MAX
    assert clock.now <= SECONDS_MAX + answer_seconds
    assert len(clock.begun) == ATTEMPTS_MAX if answer_seconds < 4 else len(clock.begun) < ATTEMPTS_MAX + 1


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is over after a moment, whatever its size."""
    monkeypatch.setattr(s3, "REQUEST_SECONDS_MAX", 0.3)
    monkeypatch.setattr(s3, "PUT_SECONDS_MAX", 0.3)
    monkeypatch.setattr(s3, "BYTES_PER_SECOND_MIN", 10**9)


@contextlib.contextmanager
def server(serve: Callable[[socket.socket, threading.Event], None], *, pace: float = 1.0) -> Iterator[S3Driver]:
    """A driver for a server that does with each connection what it is told, until the test is over."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while not over.is_set():
                    connection, _ = listener.accept()
                    with connection:
                        serve(connection, over)

        thread = threading.Thread(target=listen)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        options = {"endpoint_url": url, "region_name": REGION}
        driver = S3Driver("bucket", storage_options={"key": "k", "secret": "s", "client_kwargs": options}, pace=pace)
        yield driver
        driver.close()
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def read_nothing(connection: socket.socket, over: threading.Event) -> None:
    """Take the connection and leave it."""
    over.wait()


def trickle(connection: socket.socket, over: threading.Event) -> None:
    """Send a byte of the body now and then, for ever."""
    connection.recv(65536)
    with contextlib.suppress(OSError):
        connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 100000\r\n\r\n')
        while not over.wait(0.02):
            connection.sendall(b"x")


def trickle_head(connection: socket.socket, over: threading.Event) -> None:
    """Send a byte of the head now and then, for ever."""
    connection.recv(65536)
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nETag: ")
        while not over.wait(0.02):
            connection.sendall(b"x")


@pytest.mark.parametrize(
    ("serve", "request_", "fault"),
    [
        (read_nothing, Put("a", bytes(20_000_000)), "upload that nobody reads"),
        (trickle, Get("a"), "answer that trickles"),
        (trickle_head, Get("a"), "answer that trickles"),
    ],
)
@pytest.mark.usefixtures("patience")
def test_a_request_without_end_is_given_up(
    serve: Callable[[socket.socket, threading.Event], None], request_: Request, fault: str, fault_log: FaultLog
) -> None:
    """A server that is connected and gets nowhere is unavailable after a while, although no timeout of its own runs."""
    with server(serve) as driver:
        answer = ask_any(driver, request_)
    assert isinstance(answer, UnavailableError)
    assert answer.kind == "timeout"
    fault_log.record(LAYER, fault, "given up after a minute and what a slow line takes: `UnavailableError`")


def test_times_are_those_that_the_caller_allows() -> None:
    """All limits of a store follow its `timeout`; by default they are those of the driver. No time is refused."""
    options = {"key": "k", "secret": "s", "client_kwargs": {"region_name": REGION}}
    for timeout, (silence, connect, last) in ((30.0, (10, 3, 20)), (6.0, (2, 0.6, 4))):
        with treering.open("s3://bucket", storage_options=options, timeout=timeout) as store:
            retrying: Any = store.place.driver
            config = retrying.inner._filesystem().config_kwargs
            assert (config["read_timeout"], config["connect_timeout"]) == pytest.approx((silence, connect))
            assert retrying._seconds_max == pytest.approx(last)
            assert retrying.inner._pace == pytest.approx(timeout / 30)
    for wrong in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="timeout"):
            treering.open("memory://", timeout=wrong)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("request_", [Get("a"), Put("a", b"x"), List("a/")])
def test_a_silent_server_is_given_up(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of request ends with the time of its store, though the limits of the driver are far away."""
    for name, limit in (("REQUEST_SECONDS_MAX", 3e12), ("PUT_SECONDS_MAX", 3e6), ("_SILENCE_SECONDS_MAX", 3e6)):
        monkeypatch.setattr(s3, name, limit)
    with server(read_nothing, pace=1e-7) as driver:
        assert isinstance(ask_any(driver, request_), UnavailableError)


def test_waiting_for_a_connection_takes_none_of_the_time(
    gateway: Gateway, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time limits of queued requests begin when they are sent."""
    options = {**gateway.server.storage_options, "config_kwargs": {"max_pool_connections": 1}}
    driver = S3Driver(path, storage_options=options)
    driver.execute((Put("a", b"x"),))
    monkeypatch.setattr(s3, "REQUEST_SECONDS_MAX", 1.0)
    pause = threading.Event()

    def slowly(_: Seen) -> Act:
        pause.wait(0.1)
        return "pass"

    gateway.plan = slowly
    answers = driver.execute((Get("a"),) * 15)
    assert not [answer for answer in answers if isinstance(answer, UnavailableError)]
    driver.close()
