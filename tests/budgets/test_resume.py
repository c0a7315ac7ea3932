"""Resuming costs two requests and the bytes of the working context, however long the session and its history."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from tests.budgets.texts import texts
from tests.drivers import PassingDriver
from tests.sampling import few
from tests.session.backends import Backend, kill, memory_backend

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import AccessError
from treering.journal.limits import TAIL_BYTES_MAX
from treering.storage.counting import CountingDriver
from treering.storage.local import LocalDriver
from treering.storage.open import open_driver
from treering.storage.requests import Answer, Batch, Delete, Driver, Get, List, Request
from treering.store.place import Place

COMPACTIONS, BRANCHES, SEALS = 40, 50, few(300, whole=1000)
KEPT = 20  # messages that a compaction leaves


class SegmentsUnreadable(PassingDriver):
    """A store in which nothing below a `segments/` folder can be read, listed or written."""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        """Refuse what concerns segments."""
        return tuple(
            AccessError("refused", key="segments/")
            if any("/segments/" in f"/{key}" for key in _keys(request))
            else self.inner.execute((request,))[0]
            for request in batch
        )


def _keys(request: Request) -> tuple[str, ...]:
    match request:
        case List():
            return (request.prefix,)
        case Delete():
            return request.keys
        case _:
            return (request.key,)


def build(store: Store, nodes: int) -> Session:
    """Record a session of so many nodes with compactions, branches, seals and merges, and a rewind at its end.

    The session is left as a kill leaves it.
    """
    session = store.session("s")
    said = iter(texts(nodes, 300))
    batch = max(1, nodes // SEALS)
    rounds = nodes // batch
    marks: dict[str, set[int]] = {
        "compact": set(range(rounds // COMPACTIONS, rounds, max(1, rounds // COMPACTIONS))) if nodes > 100 else {5},
        "branch": set(range(1, rounds, max(1, rounds // BRANCHES))) if nodes > 100 else {3},
    }
    for number in range(rounds):
        session.append(*[next(said) for _ in range(batch)])
        if number % 5 == 2:
            state = {"round": number, f"key{number % 7}": "value" * 10}
            session.commit(state=state, manager={"round": number}, context=session.context[-KEPT:])
        if number in marks["compact"]:
            session.compact(f"summary {number}", kept=session.context[-min(KEPT, number)].node)
        if number in marks["branch"]:
            session.branch(f"branch-{number}", node=session.context[-1].node, keep_state=bool(number % 2))
            session.append("on the branch")
            if number % 3:
                session.switch("main")
        session.seal()
        if number % 25 == 24:
            session.optimize()
    entries = session.checkpoints()
    session.append("after the last seal")
    session.rewind(entries[-len(entries) // 3].id)
    kill(session)
    return session


def standing(session: Session) -> tuple[object, ...]:
    """All that resuming restores."""
    return session.context, session.state, session.manager, session.settings, session.head, session.node, session.heads


def resumed(driver: Driver) -> tuple[Session, CountingDriver]:
    """The session in a new process, and what resuming it sent."""
    counts = CountingDriver(driver, keep=True)
    return Store(Place(counts)).session("s", create=False), counts


@pytest.mark.parametrize("nodes", [10, 1000, pytest.param(few(20_000, 100_000), marks=pytest.mark.slow)])
def test_resume_is_two_requests(nodes: int) -> None:
    """After a rewind and a kill two GETs restore all, with `segments/` unreadable too; bytes follow the context."""
    backend = memory_backend()
    was = build(backend.store(), nodes)
    session, counts = resumed(SegmentsUnreadable(backend.driver()))
    assert [type(request) for request in counts.requests] == [Get, Get]
    assert counts.batches == 1
    assert {request.key for request in counts.requests if isinstance(request, Get)} == {
        "latest/s.jsonl.zst",
        "sessions/s/tail.jsonl.zst",
    }
    assert standing(session) == standing(was)
    assert counts.bytes_down <= 1.3 * context_bytes(session) + TAIL_BYTES_MAX
    kill(session)
    view = backend.store().view("s")
    assert len(view.nodes()) >= nodes
    assert view.stored().segments <= 20


@pytest.mark.parametrize("kind", ["logs", "local", "generic"])
def test_resume_is_two_requests_in_every_store(tmp_path: Path, kind: str) -> None:
    """The same holds for logs, on a local disk, and on a filesystem of fsspec."""
    stores: dict[str, Callable[[], Driver]] = {
        "logs": memory_backend(appends=True).driver,
        "local": lambda: LocalDriver(tmp_path),
        "generic": lambda: open_driver(f"file://{tmp_path}", single_writer=True),
    }
    was = build(Store(Place(stores[kind]())), 150)
    session, counts = resumed(SegmentsUnreadable(stores[kind]()))
    assert counts.counts == {"Get": 2}
    assert standing(session) == standing(was)
    kill(session)


def test_bytes_follow_the_context() -> None:
    """With messages as agents write them a closed session reads at most 1.3 times its compressed context."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        for text in texts(400, 2300):
            session.commit([text], context=session.context[-39:], state={"step": len(session.context)})
    session, counts = resumed(backend.driver())
    assert len(session.context) == 40
    assert counts.bytes_down <= 1.3 * context_bytes(session) + tail_bytes(backend)
    kill(session)


def tail_bytes(backend: Backend) -> int:
    """What the tail takes."""
    return len(backend.snapshot()["sessions/s/tail.jsonl.zst"])


def context_bytes(session: Session) -> int:
    """What the working context and the state take compressed."""
    shown = [item.message for item in session.context]
    return len(zstandard.compress(json.dumps([shown, dict(session.state)]).encode(), 3))
