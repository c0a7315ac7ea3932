"""A request or its reply is lost, or it lands late: the caller gets an error or the result, and can continue."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.session.backends import kill
from tests.session.faults import Unreliable, any_request, latest_write, recorded, says, seen, tail_write

from treering.api.session import Session
from treering.api.store import Store
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import AccessError, ConflictError, NotFoundError, UnavailableError
from treering.kinds import Kind
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Batch, Get
from treering.storage.wrapper import DriverWrapper
from treering.store.place import Place
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
    nodes = [session.append(f"m{number}").node for number in range(4)]
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
    "branch at": lambda built: built.session.branch("new", node=built.nodes[2]),
    "branch summary": lambda built: built.session.branch("new", node=built.nodes[2], summary="X"),
    "drop head": lambda built: built.session.drop_head("other"),
    "rewind": lambda built: built.session.rewind(built.made),
    "prune": lambda built: built.session.prune(KeepCheckpoints(last=1)),
    "fork": lambda built: built.session.fork("f"),
    "fork at": lambda built: built.session.fork("f", node=built.nodes[1]),
    "seal": lambda built: built.session.seal(),
    "optimize": lambda built: built.session.optimize(everything=True),
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


@pytest.mark.sampled(10, "verb", "loss", "mode")
@pytest.mark.parametrize("appends", [False, True], ids=["objects", "logs"])
@pytest.mark.parametrize("mode", ["exclusive", "shared", "turn"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("verb", VERBS)
def test_any_request_of_any_verb_may_get_lost(verb: str, loss: str, mode: str, *, appends: bool) -> None:
    """Whichever request is lost: no failed call shows as done, the session continues, and other handles see the same.

    One combination in ten here, with each verb, loss and mode; all with `make whole`.
    """
    for number in range(REQUESTS_MAX):
        place, built = build(mode, appends=appends)
        if not lose_one(place, built, VERBS[verb], LOSSES[loss], number):
            return
        go_on(place, built.session, LOSSES[loss])
        check_stored(place, built.session, verb)
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
    if failed and not built.session._reader.appender.unrecorded and "put off" not in says(built.session):
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
    second = session.append("LAST").node
    session.flush()
    assert session.path(second)[-2:] == (first, second)


def check_stored(place: Unreliable, session: Session, verb: str) -> None:
    """The store holds what the handle shows, each message once, and nothing broken."""
    view = place.sound.view("s")
    assert [(item.node, item.message) for item in view.context_at(session.node or "")] == seen(session)["context"]
    if session._reader.options.shared:
        assert view.heads == session.heads
    else:
        assert seen(view) == seen(session)
    assert not view.problems()
    texts = recorded(view)
    assert len({str(text) for text in texts}) == len(texts)
    assert ("put off" in texts) == (session._reader.options.durability == "turn")
    # A merge that was cut off leaves its inputs beside its output.
    kinds = {finding.kind for finding in place.sound.verify("s")}
    assert kinds <= ({"waste"} if verb in ("optimize", "prune") else set())


# what callers do next


def test_a_flush_is_not_forgotten_when_its_request_was_lost() -> None:
    """Messages put off stay in the context after a flush that failed; flushing or closing again records them."""
    for again in (Session.flush, Session.close):
        place = Unreliable()
        session = place.store.session("s", durability="turn")
        session.commit(["a"])
        session.append("b")
        place.fails(Fault.BEFORE, session.flush)
        assert says(session) == ["a", "b"]
        again(session)
        assert says(place.sound.view("s")) == ["a", "b"]


def test_a_prompt_stays_in_front_of_its_answer() -> None:
    """A turn that got lost and is tried again records the prompt that was put off before the answer."""
    place = Unreliable()
    session = place.store.session("s", durability="turn")
    session.commit(["a"])
    session.append("prompt")
    place.fails(Fault.BEFORE, lambda: session.commit([assistant("lost answer")]))
    session.commit([assistant("answer")])
    assert says(session) == says(place.sound.view("s")) == ["a", "prompt", "answer"]


@pytest.mark.parametrize("appends", [False, True])
def test_a_late_append_is_never_there_twice(*, appends: bool) -> None:
    """A flush that may land any time is settled for good: it cannot land beside what was recorded in its place."""
    place = Unreliable(appends=appends)
    session = place.store.session("s", durability="turn")
    session.commit(["a"])
    session.append("prompt")
    place.fails(Fault.LATE, session.flush)
    # The next call finds that it did not land, and is lost itself.
    place.fails(Fault.BEFORE, lambda: session.commit(["second"]))
    place.settle()
    session.commit(["third"])
    view = place.sound.view("s")
    assert recorded(view).count("prompt") == 1
    assert says(view) == says(session)
    assert says(view)[-1] == "third"
    assert not view.problems()


@pytest.mark.parametrize("appends", [False, True])
def test_what_turned_out_not_to_be_recorded_never_is(*, appends: bool) -> None:
    """Once a session looked and went on without an append, that append cannot land any more, however late it comes."""
    place = Unreliable(appends=appends)
    session = place.store.session("s")
    session.append("a")
    place.fails(Fault.LATE, lambda: session.append("b"))
    session.flush()
    place.settle()
    assert says(session) == says(place.sound.view("s")) == ["a"]


class Interrupted(DriverWrapper):
    """Is interrupted from the keyboard in the middle of a request that records."""

    def __init__(self, memory: MemoryDriver) -> None:
        super().__init__(memory)
        self.when = ""

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        when = self.when if any(tail_write(request) for request in batch) else ""
        if not when:
            return self.inner.execute(batch)
        self.when = ""
        if when == "after":
            self.inner.execute(batch)
        raise KeyboardInterrupt

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)


@pytest.mark.parametrize("leave", ["with", "close"])
@pytest.mark.parametrize(("when", "expected"), [("before", ["a", "b"]), ("after", ["a", "b", "answer"])])
def test_an_interrupt_loses_nothing_that_was_put_off(when: str, expected: list[str], leave: str) -> None:
    """Interrupted in a commit, a session that is closed afterwards records what was put off, once."""
    driver = Interrupted(MemoryDriver())
    session = Store(Place(driver)).session("s", durability="turn")
    session.commit(["a"])

    def turn() -> None:
        session.append("b")
        driver.when = when
        session.commit([assistant("answer")])

    def turn_in_with() -> None:
        with session:
            turn()

    with pytest.raises(KeyboardInterrupt):
        (turn_in_with if leave == "with" else turn)()
    session.close()
    view = Store(Place(driver.inner)).view("s")
    assert says(view) == expected
    assert not view.problems()


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER, Fault.LATE])
@pytest.mark.parametrize("appends", [False, True])
def test_a_lost_creation_can_be_tried_again(fault: Fault, *, appends: bool) -> None:
    """A session whose creation had no answer is recognized as our own, and holds the message once."""
    place = Unreliable(appends=appends)
    session = place.store.session("s")
    place.fails(fault, lambda: session.append("a"), latest_write)
    place.settle()
    session.append("a again")
    assert says(session) == says(place.sound.view("s")) == ["a again"]


def test_a_shared_append_that_landed_stays_ours_although_another_went_on_behind_it() -> None:
    """An append without an answer that did land is the parent of the next, beside what another hung below it."""
    place = Unreliable()
    session = place.store.session("s", shared=True)
    session.append("a")
    place.fails(Fault.AFTER, lambda: session.append("b"))
    with place.sound.session("s", shared=True) as other:
        other.append("below b")
    session.commit(["c"], state={"k": 1})
    session.append("d")
    assert says(session) == ["a", "b", "c", "d"]
    assert session.head != "main"
    assert sorted(map(str, recorded(place.sound.view("s")))) == ["a", "b", "below b", "c", "d"]


def test_an_exclusive_session_in_doubt_is_over_when_another_went_on() -> None:
    """An exclusive handle without an answer that was overtaken gets an error at each call, and writes nothing."""
    place = Unreliable()
    session = place.store.session("s")
    session.append("a")
    place.fails(Fault.AFTER, lambda: session.append("b"))
    kill(session)
    other = place.sound.session("s")
    other.append("below b")
    for text in ("c", "d"):
        with pytest.raises(ConflictError):
            session.append(text)
    other.append("more")
    assert says(place.sound.view("s")) == says(other) == ["a", "b", "below b", "more"]


class Expiring(DriverWrapper):
    """Lets an append land, answers as to a request that was sent again, and refuses to read from then on."""

    armed = expired = False

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        if self.expired and any(isinstance(request, Get) for request in batch):
            return tuple(AccessError("token expired", kind=Kind.ACCESS) for _ in batch)
        answers = self.inner.execute(batch)
        if self.armed and any(map(tail_write, batch)):
            self.armed, self.expired = False, True
            return tuple(ConflictError("sent again") for _ in batch)
        return answers

    async def aexecute(self, batch: Batch) -> tuple[Answer, ...]:
        return self.execute(batch)


@pytest.mark.parametrize("appends", [False, True])
def test_an_append_that_cannot_be_read_back_has_an_unknown_outcome(*, appends: bool) -> None:
    """Whoever is told that access was refused would take the message for unrecorded, and send it again."""
    driver = Expiring(MemoryDriver(appends=appends))
    session = Store(Place(driver)).session("s")
    session.append("a")
    driver.armed = True
    with pytest.raises(UnavailableError, match="token expired") as caught:
        session.append("b")
    assert caught.value.kind == Kind.ACCESS
    with pytest.raises(AccessError):
        session.flush()
    driver.expired = False
    session.flush()
    assert says(session) == ["a", "b"]
    session.append("c")
    assert says(Store(Place(driver.inner)).view("s")) == ["a", "b", "c"]


class Covered(NamedTuple):
    """A handle with an append in doubt, beside others that cover what they wrote, or what it did."""

    place: Unreliable
    session: Session


def cover_up(fault: Fault, *theirs: str, appends: bool, erases_first: bool, looks: bool) -> Covered:
    """Let an exclusive handle have no answer, and others write, seal and erase before it asks again."""
    place = Unreliable(appends=appends)
    with place.sound.session("s") as session:
        first = session.append("a").node
    session = place.store.session("s")
    place.fails(fault, lambda: session.append("b"))
    kill(session)
    with place.sound.session("s", shared=True) as other:
        for text in theirs:
            other.append(text)
        steps: list[Callable[[], object]] = [other.seal, lambda: other.erase(first)]
        for step in reversed(steps) if erases_first else steps:
            step()
    if looks:
        with contextlib.suppress(ConflictError):
            session.optimize()
        assert session._reader.replica.view.epoch == 1
    return Covered(place, session)


@pytest.mark.parametrize("appends", [False, True])
@pytest.mark.parametrize("erases_first", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_an_append_that_landed_is_ours_although_others_sealed_and_erased(
    *, appends: bool, erases_first: bool, looks: bool
) -> None:
    """An exclusive handle does not take its own records, covered by `latest` since, for those of another writer."""
    place, session = cover_up(Fault.AFTER, appends=appends, erases_first=erases_first, looks=looks)
    session.append("c")
    assert says(session)[1:] == says(place.sound.view("s"))[1:] == ["b", "c"]


@pytest.mark.parametrize("appends", [False, True])
@pytest.mark.parametrize("erases_first", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_what_another_wrote_in_place_of_an_append_is_told_although_it_was_sealed_and_erased(
    *, appends: bool, erases_first: bool, looks: bool
) -> None:
    """An exclusive handle is told, whether it was settling its own append or only looking."""
    place, session = cover_up(Fault.BEFORE, "theirs", appends=appends, erases_first=erases_first, looks=looks)
    for text in ("c", "d"):
        with pytest.raises(ConflictError, match="another writer is writing"):
            session.append(text)
    assert says(place.sound.view("s"))[1:] == ["theirs"]


def test_who_was_shown_what_others_wrote_goes_on_behind_an_append_that_was_overtaken() -> None:
    """A refresh is leave to go on, also where an append in doubt turns out not to be recorded."""
    place = Unreliable()
    session = place.store.session("s")
    session.append("a")
    place.fails(Fault.BEFORE, lambda: session.append("b"))
    kill(session)
    with place.sound.session("s") as other:
        other.append("theirs")
    assert session.refresh()
    session.append("c")
    assert says(session) == says(place.sound.view("s")) == ["a", "theirs", "c"]


def test_an_unknown_head_is_refused() -> None:
    """A typing error in the name of a head makes no head."""
    session = Unreliable().store.session("s")
    session.append("a")
    with pytest.raises(NotFoundError, match="typo"):
        session.append("b", head="typo")
    assert list(session.heads) == ["main"]


def test_a_context_may_name_messages_that_were_put_off() -> None:
    """What `context` shows can be handed back as it is, messages put off included."""
    place = Unreliable()
    session = place.store.session("s", durability="turn")
    session.commit(["a"])
    session.append("b")
    session.commit([assistant("answer")], context=list(session.context))
    assert says(session) == says(place.sound.view("s")) == ["a", "b", "answer"]


def test_a_node_is_restored_beside_an_append_that_turned_out_to_have_landed() -> None:
    """Taking a retraction back after a call without an answer shows the node and the message of that call."""
    place = Unreliable()
    session = place.store.session("s")
    first = session.append("a").node
    session.append("b")
    session.retract(first)
    place.fails(Fault.AFTER, lambda: session.append("c"))
    session.unretract(first)
    assert says(session) == says(place.sound.view("s")) == ["a", "b", "c"]


def test_a_branch_begins_where_a_call_without_an_answer_left_the_session() -> None:
    """A branch from here begins behind an append that turned out to have landed."""
    place = Unreliable()
    session = place.store.session("s")
    session.append("a")
    place.fails(Fault.AFTER, lambda: session.append("b"))
    session.branch("new")
    assert says(session) == says(place.sound.view("s")) == ["a", "b"]
    assert session.heads["new"] == session.heads["main"]


def test_an_explicit_context_holds_behind_a_call_without_an_answer() -> None:
    """The model sees exactly the context that was handed in, also if an append before it landed after all."""
    place = Unreliable()
    session = place.store.session("s")
    session.append("a")
    place.fails(Fault.AFTER, lambda: session.append("b"))
    session.commit([assistant("answer")], context=list(session.context))
    assert says(session) == says(place.sound.view("s")) == ["a", "answer"]
    assert recorded(place.sound.view("s")) == ["a", "b", "answer"]
    assert len(session.path()) == 3


@pytest.mark.parametrize("wanted", range(4))
def test_a_refresh_that_fails_half_way_shows_nothing_wrong(wanted: int) -> None:
    """After an interrupted refresh an overtaken handle still raises errors, and never records at a wrong place."""
    place = Unreliable()
    session = place.store.session("s")
    nodes = [session.append(text).node for text in "ab"]
    session.compact("gist")
    kill(session)
    other = place.sound.session("s")
    other.compact("other gist", kept=nodes[0])
    other.append("theirs")
    place.plan.arm(Fault.BEFORE, any_request, after=wanted)
    with contextlib.suppress(UnavailableError):
        session.refresh()
    place.plan.disarm()
    with contextlib.suppress(ConflictError):
        node = session.append("ours").node
        assert session.context == place.sound.view("s").context_at(node)
        assert says(session)[-2:] == ["theirs", "ours"]
    assert not place.sound.view("s").problems()


def test_the_same_message_put_off_twice_is_recorded_once() -> None:
    """A draft with an id of its own that is already put off is not put off again."""
    place = Unreliable()
    session = place.store.session("s", durability="turn")
    draft = Draft(role="user", payload={"role": "user", "content": "a"}, id="mine")
    assert session.append(draft).node == session.append(draft).node == "mine"
    session.commit([assistant("answer")])
    view = place.sound.view("s")
    assert says(view) == ["a", "answer"]
    assert not view.problems()
