"""A process sleeps in the middle of a request while others work for an hour, or end the session: it harms nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from tests.faultlog import FaultLog
from tests.gateway import Act, Gateway, Seen
from tests.s3faults.faults import Rule, Rules
from tests.servers import S3Server
from tests.session.faults import recorded
from tests.storage.processes import start

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import ConflictError, SessionDeletedError, SessionHeldError, TreeringError

HOUR_NS = 3600 * 10**9
LAYER = "writers at once"
REQUESTS_MAX = 30  # no verb here sends more

T = TypeVar("T")


class Slept(NamedTuple):
    """What happened around a request that slept."""

    name: str
    others: list[str] | None
    """What others recorded in the session until it woke, what it had before included; None: it is deleted."""
    error: TreeringError | None


class Bed(NamedTuple):
    """A store as a sleeper sees it and as everybody else does."""

    gateway: Gateway
    asleep: Store
    awake: Store

    def sleep(
        self,
        verb: Callable[[Session], object],
        number: int,
        meanwhile: Callable[[Store, str], list[str] | None],
        *,
        shared: bool,
    ) -> Slept | None:
        """Hold one request of a verb back until others are done; None if the verb sends no such request."""
        name = os.urandom(6).hex()
        session = self.asleep.session(name, shared=shared)
        for text in BEFORE:
            session.append(text)
        rules = Rules(Rule("hang", after=number))
        errors: list[TreeringError] = []
        asleep_or_done = threading.Event()

        def plan(seen: Seen) -> Act:
            act = rules(seen)
            if act == "hang":
                asleep_or_done.set()
            return act

        def call() -> None:
            try:
                errors.extend(told(verb, session))
            finally:
                asleep_or_done.set()

        self.gateway.plan = plan
        thread = threading.Thread(target=call)
        thread.start()
        asleep_or_done.wait()
        others = an_hour_later(lambda: meanwhile(self.awake, name)) if rules.met else None
        self.gateway.reset()
        thread.join()
        return Slept(name, others, errors[0] if errors else None) if rules.met else None


def told(verb: Callable[[Session], object], session: Session) -> list[TreeringError]:
    """Call, and return what was raised, if anything."""
    try:
        verb(session)
    except TreeringError as error:
        return [error]
    return []


def an_hour_later(call: Callable[[], T]) -> T:
    """Call while the clock shows an hour more."""
    with pytest.MonkeyPatch.context() as patch:
        now = time.time_ns
        patch.setattr(time, "time_ns", lambda: now() + HOUR_NS)
        return call()


@pytest.fixture(scope="module")
def bed(seaweedfs: S3Server) -> Iterator[Bed]:
    """A store behind a gateway that can hold a request back, and past it."""
    with Gateway(seaweedfs) as gateway:
        url = f"s3://{seaweedfs.bucket}/waking-{os.urandom(6).hex()}"
        stores = [treering.open(url, storage_options=each.storage_options) for each in (gateway.server, seaweedfs)]
        yield Bed(gateway, *stores)
        gateway.reset()
        for store in stores:
            store.close()


VERBS: dict[str, Callable[[Session], object]] = {
    "append": lambda session: session.append("late"),
    "commit": lambda session: session.commit(["late"], state={"k": 1}),
    "seal": Session.seal,
    "optimize": lambda session: session.optimize(everything=True),
    "close": Session.close,
}


BEFORE = ["a", "b", "c"]


def work(store: Store, name: str) -> list[str]:
    """Others append, seal and merge."""
    texts = [f"other {number}" for number in range(8)]
    with store.session(name, shared=True) as session:
        for number, text in enumerate(texts):
            session.append(text)
            if number % 4 == 3:
                session.seal()
        session.optimize(everything=True)
    return [*BEFORE, *texts]


def delete(store: Store, name: str) -> None:
    """Others delete the session."""
    store.delete(name)


def create_again(store: Store, name: str) -> list[str]:
    """Others delete the session and begin another one of that name."""
    store.delete(name)
    with store.session(name) as session:
        session.append("new")
        session.seal()
        session.append("newer")
    return ["new", "newer"]


MEANWHILE: dict[str, Callable[[Store, str], list[str] | None]] = {
    "a request sleeps while others work for an hour": work,
    "a request sleeps while the session is deleted": delete,
    "a request sleeps while the session is created again": create_again,
}


@pytest.mark.s3
@pytest.mark.sampled(3, "verb", "meanwhile")
@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("verb", VERBS)
def test_a_request_that_slept(verb: str, meanwhile: str, bed: Bed, fault_log: FaultLog) -> None:
    """Whichever request is delayed: all records of other writers exist, and its sender learns the outcome.

    Each verb in about one of the three ways here, in all with `make whole`.
    """
    for shared in (False, True):
        for number in range(REQUESTS_MAX):
            slept = bed.sleep(VERBS[verb], number, MEANWHILE[meanwhile], shared=shared)
            if slept is None:
                assert number or (verb == "close" and shared)  # which sends nothing
                break
            check(bed.awake, slept, records=verb in ("append", "commit"), shared=shared)
            told = f"the sleeper is told `{type(slept.error).__name__}`" if slept.error else "the sleeper goes on"
            fault_log.record(LAYER, meanwhile, f"nothing is harmed; {told}")
        else:
            raise AssertionError(f"a verb that never ends. verb={verb!r}")


def check(awake: Store, slept: Slept, *, records: bool, shared: bool) -> None:
    """Hold a sleeper to what others did meanwhile."""
    if slept.others is None:
        assert isinstance(slept.error, SessionDeletedError if records else SessionDeletedError | None)
        with pytest.raises(SessionDeletedError):
            awake.view(slept.name)
        return
    found = [text for text in recorded(awake.view(slept.name)) if text != "late"]
    assert found == slept.others
    assert ("late" in recorded(awake.view(slept.name))) == (records and slept.error is None)
    again = "new" in slept.others
    left = {"waste", "foreign"} if again else {"waste"}  # a segment may come to a life that is over; nobody reads it
    assert {finding.kind for finding in awake.verify(slept.name)} <= left
    if records:
        assert isinstance(slept.error, SessionDeletedError if again else type(None) if shared else ConflictError)
    else:
        assert slept.error is None or isinstance(slept.error, SessionDeletedError if again else ConflictError)


# on a disk, where a session is held


CODE = """
import treering
session = treering.open(sys.argv[1]).session("s", shared=sys.argv[2] == "True")
for line in sys.stdin:
    print(session.append(line.strip()).node, flush=True)
"""


@pytest.mark.parametrize("shared", [False, True], ids=["exclusive", "shared"])
def test_a_stopped_process_on_disk(tmp_path: Path, fault_log: FaultLog, *, shared: bool) -> None:
    """A stopped process keeps its lock; resumed, it continues beside the records of other writers."""
    process = start(CODE, tmp_path, shared)
    store = treering.open(tmp_path)
    append(process, "a")
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(SessionHeldError, match=f"pid {process.pid}"):
        store.delete("s")
    with pytest.raises(SessionHeldError, match=f"pid {process.pid}"):
        store.session("s")
    others = ["b", "c"] if shared else []
    if shared:
        with store.session("s", shared=True) as session:
            for text in others:
                session.append(text)
            session.seal()
    process.send_signal(signal.SIGCONT)
    append(process, "late")
    process.communicate()
    assert recorded(store.view("s")) == ["a", *others, "late"]
    with store.session("s") as session:
        session.append("after")
    fault_log.record(LAYER, "a process is stopped while it holds a session", "others are told, nothing is lost")


def append(process: subprocess.Popen[str], text: str) -> None:
    """Have a process append, and wait for it."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    assert process.stdout.readline()
