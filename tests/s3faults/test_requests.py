"""Every fault with every kind of request: what the sender is told, what is stored then, and that it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import s3fs
from tests.faultlog import FaultLog
from tests.gateway import Gateway
from tests.s3faults.faults import ACTS, LAYER, SLOW, TAKES_EFFECT

from treering.errors import ConflictError, TreeringError, UnavailableError
from treering.storage.requests import (
    ABSENT,
    Answer,
    Delete,
    Deleted,
    Found,
    Get,
    List,
    Listed,
    Put,
    Request,
    Version,
    Written,
)
from treering.storage.retrying import ATTEMPTS_MAX, RetryingDriver
from treering.storage.s3 import S3Driver
from treering.testing.conformance import ask_any

pytestmark = pytest.mark.s3

OLD = b"old" * 1000
BREAKS = {"drop", "lose", "late"}
"""aiohttp sends once more by itself when a connection breaks that was kept open."""
BEFORE = {"a": OLD, "b": b"b", "c": b"c"}


class Case(NamedTuple):
    """A request to a store that holds `BEFORE`."""

    request: Callable[[Version], Request]
    """Made from the version of `a`."""
    answer: type[Answer]
    after: dict[str, bytes]
    """What is stored when it was done."""
    conditional: bool = False


CASES = {
    "get": Case(lambda _: Get("a"), Found, BEFORE),
    "get a part": Case(lambda _: Get("a", -1000), Found, BEFORE),
    "list": Case(lambda _: List(""), Listed, BEFORE),
    "create": Case(lambda _: Put("n", b"new", ABSENT), Written, {**BEFORE, "n": b"new"}, conditional=True),
    "swap": Case(lambda version: Put("a", b"new", version), Written, {**BEFORE, "a": b"new"}, conditional=True),
    "put": Case(lambda _: Put("n", b"new"), Written, {**BEFORE, "n": b"new"}),
    "delete one": Case(lambda _: Delete(("a",)), Deleted, {"b": b"b", "c": b"c"}),
    "delete a version": Case(
        lambda version: Delete(("a",), version), Deleted, {"b": b"b", "c": b"c"}, conditional=True
    ),
    "delete two": Case(lambda _: Delete(("b", "c")), Deleted, {"a": OLD}),
}


class Broken(NamedTuple):
    """A store behind a gateway that is about to go wrong."""

    gateway: Gateway
    driver: S3Driver
    path: str

    def begin(self, case: Case) -> Request:
        """Fill the store and make the request, while nothing is wrong."""
        answers = self.driver.execute(tuple(Put(key, data) for key, data in BEFORE.items()))
        self.gateway.seen.clear()
        return case.request(next(answer.version for answer in answers if isinstance(answer, Written)))

    def stored(self) -> dict[str, bytes]:
        """All objects, read when nothing is wrong any more."""
        self.gateway.plan = lambda _: "pass"
        prefix = self.path.partition("/")[2] + "/"
        return {key.removeprefix(prefix): data for key, data in self.gateway.server.objects(prefix).items()}


@pytest.fixture
def broken(gateway: Gateway, path: str, clients: dict[bool, s3fs.S3FileSystem], fault: str) -> Broken:
    """A place of its own, and a client that waits no longer than it must for this fault."""
    fs = clients[ACTS[fault] in SLOW]
    fs.retries = 1
    return Broken(gateway, S3Driver(path, fs=fs), path)


def is_harmless(case: Case, fault: str) -> bool:
    """Half of nothing is nothing: an answer without a body cannot be halved."""
    return ACTS[fault] in ("cut", "short") and case.answer in (Written, Deleted) and "b" in case.after


@pytest.mark.sampled(3, "name", "fault")
@pytest.mark.parametrize("fault", ACTS)
@pytest.mark.parametrize("name", CASES)
def test_one_fault_is_told_as_what_it_is(name: str, fault: str, broken: Broken, fault_log: FaultLog) -> None:
    """Without sending again the sender is told what to do next, and what is stored is the old or the new state."""
    case, act = CASES[name], ACTS[fault]
    request = broken.begin(case)
    broken.gateway.plan = lambda _: act
    answer = ask_any(broken.driver, request)
    if act == "short" and name == "get":
        assert isinstance(answer, Found)
        assert answer.data == OLD[: len(OLD) // 2]  # only what is in it can tell: see the tests of sessions
        return
    expected: type[Answer] = case.answer if is_harmless(case, fault) else UnavailableError
    assert type(answer) is expected
    if act in SLOW:
        assert isinstance(answer, TreeringError)
        assert answer.kind == "timeout"
    if act == "late":
        broken.gateway.settle()
    assert broken.stored() == (case.after if act in TAKES_EFFECT or act == "late" else BEFORE)
    told = f"`{expected.__name__}`" if isinstance(answer, TreeringError) else "no difference"
    fault_log.record(LAYER, fault, f"not repeated: {told}")


@pytest.mark.sampled(3, "name", "fault")
@pytest.mark.parametrize("fault", ACTS)
@pytest.mark.parametrize("name", CASES)
def test_a_request_that_met_one_fault_is_sent_again(name: str, fault: str, broken: Broken, fault_log: FaultLog) -> None:
    """One fault is survived; only a conditional write cannot tell its own success from somebody else's."""
    case, act = CASES[name], ACTS[fault]
    request = broken.begin(case)
    broken.gateway.script = [act]
    answer = ask_any(RetryingDriver(broken.driver, sleep=lambda _: None), request)
    broken.gateway.settle()
    refused = case.conditional and act in TAKES_EFFECT and not is_harmless(case, fault)
    assert isinstance(answer, ConflictError if refused else case.answer)
    if isinstance(answer, Found) and not (act == "short" and name == "get"):
        assert answer.data == (OLD if name == "get" else OLD[-1000:])
    assert broken.stored() == case.after
    fault_log.record(LAYER, fault, "repeated: refused, so its sender looks" if refused else "repeated: done")


@pytest.mark.sampled(3, "fault")
@pytest.mark.parametrize("fault", [fault for fault in ACTS if ACTS[fault] != "short"])
@pytest.mark.parametrize("name", ["get", "swap", "delete two"])
def test_a_lasting_fault_ends(name: str, fault: str, broken: Broken, fault_log: FaultLog) -> None:
    """However long a fault lasts, the number of requests is bounded, and the sender is told."""
    case, act = CASES[name], ACTS[fault]
    request = broken.begin(case)
    waited: list[float] = []
    broken.gateway.plan = lambda _: act
    answer = ask_any(RetryingDriver(broken.driver, sleep=waited.append), request)
    if is_harmless(case, fault):
        return
    assert type(answer) is UnavailableError
    assert len(waited) == ATTEMPTS_MAX - 1
    sent = len(broken.gateway.seen)
    assert sent == ATTEMPTS_MAX or (act in BREAKS and sent <= 2 * ATTEMPTS_MAX)
    fault_log.record(LAYER, fault, f"lasting: `UnavailableError` after {ATTEMPTS_MAX} attempts")
