"""Every public verb, with every request it sends, and every fault: one after the other, and nothing by chance.

A verb is run once to see what it sends. Then, for each of these requests and each fault, it is run on a store of its
own, and that request meets the fault. Afterwards the store is what it was, or what the verb makes of it; if the verb
came to its end, the latter.

The suite takes some requests of each verb and the faults in turn. `make matrix` tries all with all.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import pytest
import s3fs
from tests.faultlog import FaultLog
from tests.gateway import Act, Gateway, Seen
from tests.s3faults.faults import ACTS, LAYER, SLOW, Rule, Rules
from tests.s3faults.verbs import READING, SENDS_NOTHING, VERBS, WRITING, Call, Verb, stored
from tests.sampling import few
from tests.servers import S3Server

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.errors import ConflictError, CorruptError, SessionDeletedError, TreeringError, UnavailableError
from treering.format.erasure import Erased
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Found, Get, Put, Written
from treering.storage.retrying import RetryingDriver
from treering.storage.run import checked, list_all, run
from treering.storage.s3 import S3Driver
from treering.store.place import Place
from treering.transcript.node import Node, user

pytestmark = pytest.mark.s3

WHOLE = os.environ.get("TREERING_FAULT_MATRIX") == "whole"
FAULTS = list(ACTS)


BREAKS = {"drop", "lose", "late"}
"""The client sends once more by itself when a connection breaks that was kept open, so that has to fail as well."""
SPOTS = few(2, whole=4)  # of each verb, in the suite
TRIES_MAX = 20

T = TypeVar("T")


class Spot(NamedTuple):
    """One request of a verb: the `after`-th that looks like that."""

    method: str
    path: str
    """A pattern for its path."""
    after: int


class Ground:
    """A place in the bucket for each try, through the gateway and past it."""

    def __init__(self, gateway: Gateway, clients: dict[bool, s3fs.S3FileSystem], behind: S3Server) -> None:
        self.gateway = gateway
        self._clients = clients
        self._past = S3Driver("any", storage_options=behind.storage_options)
        self._root = f"{behind.bucket}/matrix-{os.urandom(6).hex()}"
        self._number = 0

    def lay(self) -> str:
        """Put what is stored into a place of its own; return that."""
        self._number += 1
        path = f"{self._root}/{self._number}"
        answers = self._at(path).execute(tuple(Put(key, data) for key, data in stored().objects.items()))
        assert all(isinstance(answer, Written) for answer in answers)
        return path

    def _at(self, path: str) -> S3Driver:
        return S3Driver(path, fs=self._past._filesystem())

    def store(self, path: str, *, impatient: bool, attempts: int) -> Store:
        """A store through the gateway."""
        fs = self._clients[impatient]
        fs.retries = 1
        return Store(Place(RetryingDriver(S3Driver(path, fs=fs), attempts_max=attempts, sleep=lambda _: None)))

    def objects(self, path: str) -> dict[str, bytes]:
        """All that is stored there when nothing is under way any more."""
        self.gateway.quiet()
        driver = self._at(path)
        keys = [entry.key for entry in run(list_all(""), driver)]
        found = driver.execute(tuple(Get(key) for key in keys))
        return {key: checked(answer, Found).data for key, answer in zip(keys, found, strict=True)}

    def close(self) -> None:
        """Give back connections."""
        self._past.close()


@pytest.fixture(scope="module")
def ground(shared_gateway: Gateway, clients: dict[bool, s3fs.S3FileSystem], seaweedfs: S3Server) -> Iterator[Ground]:
    """Places behind the gateway."""
    made = Ground(shared_gateway, clients, seaweedfs)
    yield made
    made.close()
    shared_gateway.reset()


class Try(NamedTuple):
    """How a verb ended, and what is stored after the session went on."""

    error: TreeringError | None
    result: object
    sent: list[Seen]
    met: int
    """How many requests met the fault."""
    after: dict[str, object]


def attempt(ground: Ground, verb: Verb, spot: Spot | None = None, act: Act = "pass", *, attempts: int = 1) -> Try:
    """Run a verb, of which one request meets a fault, and go on with the session."""
    ground.gateway.reset()
    path = ground.lay()
    store = ground.store(path, impatient=act in SLOW, attempts=attempts)
    session = patiently(lambda: store.session("s", durability=verb.durability))
    call = Call(store, session, stored())
    ground.gateway.seen.clear()
    rules = Rules(Rule(act, *spot, times=2 if act in BREAKS else 1)) if spot is not None else Rules()
    ground.gateway.plan = rules
    error, result = None, None
    try:
        result = verb.call(call)
    except TreeringError as caught:
        error = caught
    sent = ground.gateway.seen[:]
    ground.gateway.plan = lambda _: "pass"
    if error is not None and verb.steps:
        patiently(lambda: call_again(verb, call))
    if not verb.ends:
        patiently(lambda: go_on(session))
    return Try(error, result, sent, rules.met, picture(ground.objects(path)))


def meeting(ground: Ground, verb: Verb, spot: Spot, act: Act) -> Try:
    """Try until the fault was met: on a busy machine an earlier request may get no answer in time."""
    for _ in range(TRIES_MAX):
        done = attempt(ground, verb, spot, act)
        if done.met:
            return done
        assert isinstance(done.error, UnavailableError), f"{spot} is not sent any more. error={done.error!r}"
    raise AssertionError(f"{spot} never came")


def go_on(session: Session) -> None:
    """Record something more, once however often it is called."""
    session.append(user("NEXT", id="next"))
    session.flush()


def patiently(call: Callable[[], T]) -> T:
    """Call until there is an answer: a client that does not wait long may get none on a busy machine."""
    for _ in range(TRIES_MAX):
        with contextlib.suppress(UnavailableError):
            return call()
    raise AssertionError("no answer after many tries")


def call_again(verb: Verb, call: Call) -> None:
    """Call once more, when nothing is wrong; what was done before is no error."""
    with contextlib.suppress(ConflictError, SessionDeletedError):
        verb.call(call)


# what is stored


def picture(objects: dict[str, bytes]) -> dict[str, object]:
    """All sessions of a store, as others see them, without ids and times. Nothing of it is damaged."""
    memory = MemoryDriver()
    memory.execute(tuple(Put(key, data) for key, data in objects.items()))
    store = Store(Place(memory))
    assert [each for _, findings in store.verify_all() for each in findings if each.severity == "damage"] == []
    return {row.id: look(store.view(row.id)) for row in store.each_session()}


def look(view: View) -> tuple[object, ...]:
    """One session."""
    rows = [view.get(row.id) for row in view.nodes()]
    names = {row.id: number for number, row in enumerate(rows)}
    return (
        [(row.kind, said(row), row.label, row.retracted, names.get(row.parent or "")) for row in rows],
        {head: names.get(node or "") for head, node in view.heads.items()},
        view.head,
        [(names[item.node], str(item.message)[:200]) for item in view.context],
        (view.state, view.manager, dict(view.settings), dict(view.usage), sorted(map(str, view.erased_state))),
        [(entry.label, names.get(entry.node or ""), view.checkpoint(entry.id).state) for entry in view.checkpoints()],
        sorted({(note.kind, str(note.brief), str(note.payload)) for note in view.notes() if note.kind != "link"}),
        (view.info.title, view.info.project, view.info.status, view.info.task, view.info.parent_session),
    )


def said(node: Node) -> str:
    """What a node says, without the time it was erased at."""
    return "erased" if isinstance(node.payload, Erased) else str(node.payload)[:200]


class Known(NamedTuple):
    """A verb that meets no fault."""

    spots: list[Spot]
    result: object
    after: dict[str, object]
    """What is stored then, and when the session went on."""


@functools.cache
def known(ground: Ground, name: str) -> Known:
    """What a verb sends, says and does when nothing is wrong."""
    if name:  # proofs of what a server can do are sent once in a process
        known(ground, "")
    done = attempt(ground, VERBS.get(name, NOTHING._replace(ends="the end" in name)))
    assert done.error is None
    return Known(list(spots_of(done.sent)), done.result, done.after)


NOTHING = Verb(lambda _: None)


def before(ground: Ground, verb: Verb) -> dict[str, object]:
    """What is stored if a verb did nothing, and the session went on."""
    return known(ground, "nothing, and the end" if verb.ends else "nothing").after


def spots_of(seen: Sequence[Seen]) -> Iterator[Spot]:
    """The requests, told apart by method and path, and then by their order."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in seen:
        path = re.sub(r"^/[^/]+/matrix-[0-9a-f]+/[0-9]+", "", each.path.partition("&")[0])
        pattern = re.sub(r"[0-9a-f]{6,}", "[0-9a-f]+", re.escape(path)) + r"($|[?&])"
        yield Spot(each.method, pattern, counts[each.method, pattern])
        counts[each.method, pattern] += 1


# the matrix


def chosen(ground: Ground, name: str) -> list[tuple[Spot, str]]:
    """The requests of a verb and the faults they meet: all with all, or a few, with the faults in turn."""
    spots = known(ground, name).spots
    if WHOLE:
        return [(spot, fault) for spot in spots for fault in FAULTS]
    few = spots[:: -(-len(spots) // SPOTS) or 1]
    start = SPOTS * list(VERBS).index(name)
    return [(spot, FAULTS[number % len(FAULTS)]) for number, spot in enumerate(few, start)]


def is_told(error: TreeringError, act: Act) -> bool:
    """Whether an error is the one that says what to do about a fault."""
    return isinstance(error, UnavailableError) or (act == "short" and isinstance(error, CorruptError))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", WRITING)
@pytest.mark.slow
def test_each_request_of_each_verb_that_writes(name: str, ground: Ground, fault_log: FaultLog) -> None:
    """What was acknowledged is there; what was not is there whole or not at all, or whole once it was called again.

    One verb in four here, all with `make whole`; all faults at all requests with `make matrix`.
    """
    verb = VERBS[name]
    for spot, fault in chosen(ground, name):
        done = meeting(ground, verb, spot, ACTS[fault])
        where = f"{spot}, {fault}, {done.error!r}"
        assert done.error is None or is_told(done.error, ACTS[fault]), where
        landed = done.after == known(ground, name).after
        if done.error is None:
            assert landed, where
            outcome = "acknowledged, and done"
        elif verb.steps:
            assert landed, where
            outcome = "an error; done when called again"
        else:
            assert landed or done.after == before(ground, verb), where
            outcome = f"an error; {'done' if landed else 'nothing of it done'}"
        fault_log.record(LAYER, fault, f"each request of each writing verb, not repeated: {outcome}")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", READING)
def test_each_request_of_each_verb_that_reads(name: str, ground: Ground, fault_log: FaultLog) -> None:
    """It says what is there, or that it could not be read.

    One verb in six here, all with `make whole`; all faults at all requests with `make matrix`.
    """
    verb, expected = VERBS[name], known(ground, name)
    for spot, fault in chosen(ground, name):
        done = meeting(ground, verb, spot, ACTS[fault])
        where = f"{spot}, {fault}, {done.error!r}"
        assert done.after == before(ground, verb), where
        if done.error is None:
            assert done.result == expected.result or ACTS[fault] == "short", where
            outcome = "right" if done.result == expected.result else "what is damaged is told in its place"
        else:
            assert is_told(done.error, ACTS[fault]), where
            outcome = "an error"
        fault_log.record(LAYER, fault, f"each request of each reading verb, not repeated: {outcome}")


def test_every_public_verb_is_in_the_matrix() -> None:
    """A verb that is added has to be tried as well."""
    public = {name for kind in (Session, Store) for name in dir(kind) if not name.startswith("_")}
    assert {name.partition(",")[0] for name in VERBS} == public - SENDS_NOTHING
    assert not SENDS_NOTHING - public
