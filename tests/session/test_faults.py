"""A request gets lost, or its reply, or it lands late: whoever asked is told or need not care, and goes on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.session.backends import kill
from tests.session.faults import Unreliable, any_request, latest_write, recorded, says, seen, tail_write

from treering.checkpoint.prune import Keep
from treering.errors import ConflictError, NotFoundError, UnavailableError
from treering.session.blocking import Session
from treering.session.store import Place, Store
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch
from treering.storage.wrapper import DriverWrapper
from treering.transcript.node import Draft, assistant

REQUESTS_MAX = 60  # no verb here sends more


class Stored(NamedTuple):
    """A session with branches, checkpoints, a compaction, a segment and a tail."""

    objects: dict[str, bytes]
    nodes: list[str]
    made: str
    """The first checkpoint."""


class Built(NamedTuple):
    """That session in a new process."""

    session: Session
    nodes: list[str]
    made: str


@functools.cache
def stored(*, appends: bool) -> Stored:
    """Record the session."""
    memory = MemoryDriver(appends=appends)
    session = Store(Place(memory)).session("s")
    nodes = [session.append(f"m{number}") for number in range(4)]
    made = session.commit([assistant("answer")], state={"k": 1}, manager={"m": 1}).checkpoint or ""
    session.branch("other")
    session.append("on the other")
    session.commit(state={"k": 2})
    session.switch("main")
    session.compact("gist")
    session.append("sealed")
    session.seal()
    session.append("tail")
    return Stored(memory.snapshot(), nodes, made)


def build(mode: str, *, appends: bool) -> tuple[Unreliable, Built]:
    """Open the session in a place of its own."""
    there = stored(appends=appends)
    place = Unreliable(appends=appends, holding=there.objects)
    session = place.store.session("s", shared=mode == "shared", durability="turn" if mode == "turn" else "sync")
    if mode == "turn":
        session.append("put off")
    return place, Built(session, there.nodes, there.made)


VERBS: dict[str, Callable[[Built], object]] = {
    "append": lambda built: built.session.append("X"),
    "append large": lambda built: built.session.append("X" + "b" * 300_000),
    "append to a head": lambda built: built.session.append("X", head="other"),
    "commit": lambda built: built.session.commit(["X"], state={"k": 9}),
    "commit context": lambda built: built.session.commit(["X"], context=[built.nodes[0], built.nodes[2]]),
    "compact": lambda built: built.session.compact("X"),
    "compact keeping": lambda built: built.session.compact("X", kept=built.nodes[1]),
    "note": lambda built: built.session.note("todo", {"a": 1}, target=built.nodes[0]),
    "amend": lambda built: built.session.amend(built.session.node or "", {"role": "user", "content": "X"}),
    "amend old": lambda built: built.session.amend(built.nodes[0], {"role": "user", "content": "X"}),
    "retract": lambda built: built.session.retract(built.session.node or ""),
    "checkout": lambda built: built.session.checkout(built.nodes[1]),
    "checkout root": lambda built: built.session.checkout(None),
    "switch": lambda built: built.session.switch("other"),
    "branch": lambda built: built.session.branch("new"),
    "branch at": lambda built: built.session.branch("new", at=built.nodes[2]),
    "branch summary": lambda built: built.session.branch("new", at=built.nodes[2], summary="X"),
    "drop head": lambda built: built.session.drop_head("other"),
    "rewind": lambda built: built.session.rewind(built.made),
    "prune": lambda built: built.session.prune(Keep(last=1)),
    "fork": lambda built: built.session.fork("f"),
    "fork at": lambda built: built.session.fork("f", at=built.nodes[1]),
    "seal": lambda built: built.session.seal(),
    "tidy": lambda built: built.session.tidy(everything=True),
    "refresh": lambda built: built.session.refresh(),
    "history": lambda built: built.session.history(),
}


class Loss(NamedTuple):
    """How a request gets lost."""

    fault: Fault
    lands_first: bool = False
    """A late one takes effect before the session goes on, else behind what it does next."""


LOSSES = {
    "before": Loss(Fault.BEFORE),
    "after": Loss(Fault.AFTER),
    "late": Loss(Fault.LATE, lands_first=True),
    "very late": Loss(Fault.LATE),
}


@pytest.mark.parametrize("appends", [False, True], ids=["objects", "logs"])
@pytest.mark.parametrize("mode", ["exclusive", "shared", "turn"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("verb", VERBS)
def test_any_request_of_any_verb_may_get_lost(verb: str, loss: str, mode: str, *, appends: bool) -> None:
    """Whichever request gets lost: nothing shows as done that failed, the session goes on, and others see the same."""
    for number in range(REQUESTS_MAX):
        place, built = build(mode, appends=appends)
        if not lose_one(place, built, VERBS[verb], LOSSES[loss], number):
            return
        go_on(place, built.session, LOSSES[loss])
        check_stored(place, built.session, verb)
        built.session.close()
    raise AssertionError(f"a verb that never ends. verb={verb!r}")


def lose_one(place: Unreliable, built: Built, verb: Callable[[Built], object], loss: Loss, number: int) -> bool:
    """Lose one request of a verb; false if it does not send so many."""
    before = seen(built.session)
    place.plan.arm(loss.fault, any_request, after=number)
    try:
        verb(built)
        failed = False
    except UnavailableError:
        failed = True
    if place.plan.pending:
        place.plan.disarm()
        return False
    after = seen(built.session)
    if failed and not built.session._reader.put_off and "put off" not in says(built.session):
        assert after == before
    if failed and loss.fault is Fault.BEFORE:
        assert built.session.head == "main"
    if loss.lands_first:
        place.settle()
    return True


def go_on(place: Unreliable, session: Session, loss: Loss) -> None:
    """Record two turns; what was lost and turns up between them changes nothing any more."""
    parent = session.node
    first = session.commit(["NEXT"], label="next").nodes[-1]
    shown = seen(session)
    place.settle()
    if loss.fault is Fault.BEFORE and session.head == "main" and parent is not None:
        assert parent in session.path(first)
    assert says(session)[-1] == "NEXT"
    assert [(item.node, item.message) for item in place.sound.view("s").context_at(first)] == shown["context"]
    second = session.append("LAST")
    session.flush()
    assert session.path(second)[-2:] == (first, second)


def check_stored(place: Unreliable, session: Session, verb: str) -> None:
    """The store holds what the handle shows, each message once, and nothing broken."""
    view = place.sound.view("s")
    assert [(item.node, item.message) for item in view.context_at(session.node or "")] == seen(session)["context"]
    assert not session._reader.options.shared or view.heads == session.heads
    assert session._reader.options.shared or seen(view) == seen(session)
    assert not view.problems()
    texts = recorded(view)
    assert len(set(map(str, texts))) == len(texts)
    assert ("put off" in texts) == (session._reader.options.durability == "turn")
    kinds = {finding.kind for finding in place.sound.verify("s")}
    assert kinds <= ({"waste"} if verb in ("tidy", "prune") else set())
