"""Shared handles that race between any two requests: each continues its own node, and nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.sampling import few
from tests.session.at_rest import Paused, replaces
from tests.session.backends import kill, texts
from tests.session.faults import Meeting, Unreliable, latest_write, recorded, says, seen, tail_write

from treering.api.session import Session
from treering.api.store import Store
from treering.checkpoint.prune import KeepCheckpoints
from treering.erasure.erasing import erase
from treering.errors import NotFoundError, UnavailableError
from treering.journal import append as appending
from treering.session.content import Restored
from treering.session.reader import Reader
from treering.session.verbs import conversation, edits, navigation, notes
from treering.session.writer import Writer
from treering.storage.counting import CountingDriver
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Get, Steps
from treering.storage.run import run
from treering.store.place import Place
from treering.transcript.node import user

HANDLES = 3
VERBS_PER_SCHEDULE = 60
SEEDS = few(6, whole=20)


class Met(NamedTuple):
    """A store that one handle goes through, and a meeting point before its requests."""

    memory: MemoryDriver
    meeting: Meeting
    store: Store
    others: Store


def meet(*, appends: bool = False) -> Met:
    """A place where somebody else can come first."""
    memory = MemoryDriver(appends=appends)
    meeting = Meeting(memory)
    return Met(memory, meeting, Store(Place(meeting)), Store(Place(memory)))


def count_reads(memory: MemoryDriver) -> int:
    """How many requests it takes to resume the session."""
    counts = CountingDriver(memory)
    Store(Place(counts)).view("s")
    return counts.total


def test_what_others_said_while_a_full_tail_was_sealed_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealing finishes an erasure first, and looks: what was planned before hangs beside what that shows."""
    monkeypatch.setattr(appending, "TAIL_BYTES_MAX", 3000)
    rng = random.Random(1)
    place = meet()
    texts_of_some = [rng.randbytes(500).hex() for _ in range(6)]
    session = place.others.session("s", shared=True)
    first = session.append("one").node
    session.append(*texts_of_some[:3])
    Paused(erase(session._reader, first), place.memory, replaces("latest/"))  # for ever
    kill(session)
    handle = place.store.session("s", shared=True)
    other = place.others.session("s", shared=True)

    def speak() -> None:
        other.append("theirs")
        other.seal()
        other.seal()

    place.meeting.before(lambda request: isinstance(request, Get), speak)
    handle.append(*texts_of_some[3:])
    view = place.others.view("s")
    assert handle.head != "main"
    assert texts(view.context_at(view.heads["main"]))[-1] == "theirs"
    assert texts(view.context_at(view.heads[handle.head]))[-3:] == texts_of_some[3:]
    assert handle.context == view.context_at(handle.node)


# schedules


class Running:
    """A verb under way, one request at a time."""

    def __init__(self, verb: str, steps: Steps[object], began_at: str | None) -> None:
        self.verb = verb
        self.began_at = began_at
        self._steps = steps
        self._answers: tuple[Answer, ...] | None = None

    def go_on(self, memory: MemoryDriver) -> bool:
        """Run the next request; true if the verb is done."""
        try:
            batch = next(self._steps) if self._answers is None else self._steps.send(self._answers)
        except StopIteration:
            return True
        self._answers = memory.execute(batch)
        return False


class Schedule:
    """Several shared handles on one session, whose verbs are cut into requests and mixed by chance."""

    def __init__(self, seed: int, *, appends: bool) -> None:
        self.rng = random.Random(seed)
        self.memory = MemoryDriver(appends=appends)
        self.store = Store(Place(self.memory))
        self.handles = [self.store.session("s", shared=True) for _ in range(HANDLES)]
        self.handles[0].commit(["root"], state={"k": 0})
        for handle in self.handles:
            handle.refresh()
        self.running: dict[int, Running] = {}
        self.acknowledged: list[str] = []
        self._begun = 0

    def play(self) -> None:
        """Run verbs until there were enough of them and all are done."""
        while self._begun < VERBS_PER_SCHEDULE or self.running:
            number = self.rng.randrange(HANDLES)
            if number not in self.running:
                if self._begun == VERBS_PER_SCHEDULE:
                    continue
                self._begun += 1
                self._begin(number)
            running = self.running.get(number)
            if running is not None and running.go_on(self.memory):
                del self.running[number]
                self._check(self.handles[number], running)

    def _begin(self, number: int) -> None:
        text = f"{self._begun} by {number}"
        handle = self.handles[number]
        if self.rng.random() < 0.05:
            handle.close()
            self.handles[number] = self.store.session("s", shared=True)
            return
        verb, steps = self._draw(handle._reader, text)
        self.running[number] = Running(verb, steps, handle.node)

    def _draw(self, writer: Writer, text: str) -> tuple[str, Steps[object]]:
        """Any verb, with nodes and heads that the handle knows of."""
        rng, known = self.rng, run(writer.replica.index(), self.memory)
        nodes = [row.id for row in known.graph]
        node, state = rng.choice(nodes), {rng.choice("kz"): text}
        heads = list(writer.replica.state.heads.heads)
        made = list(known.checkpoints)
        drawn: dict[str, Callable[[], Steps[object]]] = {
            "append": lambda: conversation.append(writer, text),
            "commit": lambda: conversation.commit(writer, [text], state=state),
            "commit context": lambda: conversation.commit(writer, [text], context=[node]),
            "compact": lambda: conversation.compact(writer, text),
            "compact keeping": lambda: conversation.compact(writer, text, kept=node),
            "note": lambda: notes.note(writer, "todo", {"a": 1}),
            "amend": lambda: edits.amend(writer, node, {"role": "user", "content": text}),
            "refresh": writer.refresh,
            "seal": writer.upkeep.seal,
            "checkout": lambda: navigation.checkout(writer, node),
            "switch": lambda: navigation.switch(writer, rng.choice(heads)),
            "branch": lambda: navigation.branch(writer, text, node=rng.choice([None, node])),
            "rewind": lambda: navigation.rewind(writer, rng.choice(made)),
        }
        verb = rng.choice(["append", "append", "append", "commit", "commit", *drawn])
        return verb, drawn[verb]()

    def _check(self, handle: Session, done: Running) -> None:
        """The handle stands where it left itself, and shows what the records tell of that place."""
        reader = as_known_to(handle._reader, self.memory)
        if done.verb in ("append", "commit", "commit context", "compact", "compact keeping"):
            node = run(reader.replica.index(), self.memory).graph.node(handle.node or "")
            assert node.parent == done.began_at
            self.acknowledged.append(node.id)
        if done.verb in ("note", "amend", "seal"):
            assert handle.node == done.began_at
        told = run(reader.content.restore(handle.node, head=handle.head), self.memory)
        assert handle.context == reader.content.messages(told.context, told.lines)
        assert handle._reader.replica.state.state == state_of(told)


def as_known_to(writer: Writer, memory: MemoryDriver) -> Reader:
    """A reader that knows exactly the records that a handle knows, but nothing of where it stands."""
    reader = Reader(writer.keys, writer.replica.policy)
    reader.replica.begin(writer.replica.view)
    return reader


def state_of(told: Restored) -> dict[str, bytes]:
    """The agent's state that goes with a place."""
    return told.checkpoint.state if told.checkpoint else {}


@pytest.mark.parametrize("appends", [False, True], ids=["objects", "logs"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_handles_that_meet_between_requests(seed: int, *, appends: bool) -> None:
    """Three handles mixed request by request: each goes on below its own node, sees its own context, loses nothing."""
    schedule = Schedule(seed, appends=appends)
    schedule.play()
    view = schedule.store.view("s")
    assert {row.id for row in view.nodes()} >= set(schedule.acknowledged)
    assert not view.problems()
    # Of two that seal at once, the segment of one is not needed.
    assert {finding.kind for finding in schedule.store.verify("s")} <= {"waste"}
    reader = view._reader
    told = run(reader.content.restore(reader.replica.state.tip, head=reader.replica.state.head), schedule.memory)
    assert view.context == reader.content.messages(told.context, told.lines)
    assert reader.replica.state.state == state_of(told)


# one meeting


MOVES: dict[str, tuple[Callable[[Session, str], object], str, list[str]]] = {
    "checkout": (Session.checkout, "main-2", ["a", "on"]),  # `main` stays with what the other recorded on it
    "switch": (lambda session, _: session.switch("other"), "other", ["a", "o", "on"]),
    "branch": (lambda session, first: session.branch("new", node=first), "new", ["a", "on"]),
}
"""A move, the head it leads to, and the context behind the next message there."""


@pytest.mark.parametrize("move", MOVES)
def test_another_records_while_a_handle_goes_elsewhere(move: str) -> None:
    """A move that lost a race arrives where it was to go, and what is appended next continues from there."""
    call, head, expected = MOVES[move]
    met = meet()
    session = met.store.session("s", shared=True)
    first = session.append("a").node
    session.append("b")
    session.branch("other", node=first)
    session.append("o")
    session.switch("main")
    other = met.others.session("s", shared=True)
    met.meeting.before(tail_write, lambda: other.append("theirs"))
    call(session, first)
    assert session.head == head
    assert says(session) == expected[:-1]
    session.append("on")
    assert session.head == head
    assert says(session) == says(met.others.view("s")) == expected
    assert "theirs" in recorded(met.others.view("s"))


@pytest.mark.parametrize("move", ["switch", "branch"])
def test_a_move_that_failed_leaves_a_shared_handle_where_it_is(move: str) -> None:
    """After a move whose request was lost, appends, pages and a refresh go on on the old head."""
    place = Unreliable()
    session = place.store.session("s", shared=True)
    session.append("a")
    session.branch("other")
    session.append("o")
    session.switch("main")
    place.fails(Fault.BEFORE, lambda: session.switch("other") if move == "switch" else session.branch("new"))
    assert session.head == "main"
    session.append("b")
    session.append("c")
    assert says(session) == says(place.sound.view("s")) == ["a", "b", "c"]
    assert [row.node.payload["content"] for row in session.history().rows] == ["c", "b", "a"]
    session.refresh()
    assert says(session) == ["a", "b", "c"]


def test_a_head_that_another_made_the_current_one_can_be_dropped() -> None:
    """Dropping the session's current head leaves each handle on its own, and a fresh look on one that exists."""
    store = Store(Place(MemoryDriver()))
    session = store.session("s", shared=True)
    session.commit(["a"], state={"x": "main"})
    other = store.session("s", shared=True)
    other.branch("alt")
    other.commit(state={"x": "alt"})
    session.refresh()
    session.drop_head("alt")
    for _ in range(2):
        view = store.view("s")
        assert (view.head, session.head) == ("main", "main")
        assert view.state == session.state
        assert session.state["x"] == "main"
        session.commit(state={"y": 1})


def test_a_view_is_of_the_moment_of_its_registers_though_the_head_moves_on_meanwhile() -> None:
    """Its context is looked up in the graph, while another writer replaces the tail and goes on."""
    _, meeting, store, sound = meet(appends=False)
    session, other = (sound.session("s", shared=True) for _ in range(2))
    session.commit(["a"], state={"x": 1})
    session.seal()
    other.refresh()
    other.branch("alt")
    session.refresh()
    session.switch("main")
    other.switch("alt")
    session.drop_head("alt")
    looks = iter((True,))  # both registers were read before

    def goes_on() -> None:
        session.seal()
        session.commit(["b"], state={"x": 2})
        session.append("c")

    meeting.before(
        lambda request: isinstance(request, Get) and "/segments/" in request.key and next(looks, False), goes_on
    )
    before = seen(sound.view("s"))
    view = store.view("s")
    assert (says(view), view.state) == (["a"], {"x": 1})
    assert seen(view) == before
    assert (says(sound.view("s")), sound.view("s").state) == (["a", "b", "c"], {"x": 2})


def test_what_is_kept_before_the_first_node_beside_others_is_on_a_head_of_its_own() -> None:
    """A handle that keeps state while another one records the first message stands on a head, and finds it again."""
    store = Store(Place(MemoryDriver()))
    session, other = (store.session("s", shared=True) for _ in range(2))
    other.append("a")
    session.commit(state={"x": 1})
    assert (session.head, session.node) == ("main-2", None)
    assert session.heads == {"main": other.node, "main-2": None}
    assert (store.view("s").head, store.view("s").state) == ("main", {})
    session.switch("main")
    assert session.state == {}
    session.switch("main-2")
    assert session.state == {"x": 1}


def test_a_note_does_not_take_a_handle_along() -> None:
    """A note beside what another appended leaves the handle on its node; a refresh takes it to the head's."""
    store = Store(Place(MemoryDriver()))
    session = store.session("s", shared=True)
    session.commit(["a"], state={"k": 1})
    node = session.node
    other = store.session("s", shared=True)
    theirs = other.append("b").node
    session.record_usage(input=3)
    assert (session.node, says(session), session.state) == (node, ["a"], {"k": 1})
    session.refresh()
    assert (session.node, says(session), session.state) == (theirs, ["a", "b"], {"k": 1})
    assert [row.node.id for row in session.history().rows] == [theirs, node]


def test_a_compaction_that_lost_a_race_shows_what_it_keeps() -> None:
    """A compaction that brings a node back and has to be recorded anew shows that node, at once and in two reads."""
    met = meet()
    session = met.store.session("s", shared=True)
    session.append("a")
    kept = session.append("b").node
    session.compact("gist")
    session.append("c")
    other = met.others.session("s", shared=True)
    met.meeting.before(tail_write, lambda: other.append("theirs"))
    made = session.compact("second gist", kept=kept).node
    assert [text for text in texts(session.context) if "gist" not in text] == ["b", "c"]
    assert met.others.view("s").context_at(made) == session.context
    assert count_reads(met.memory) == 2
    session.append("d")
    assert [text for text in texts(session.context) if "gist" not in text] == ["b", "c", "d"]


def test_another_records_while_a_context_is_brought_back() -> None:
    """A commit overtaken while it was planned is planned again: below the handle's own node, on a new head."""
    met = meet()
    session = met.store.session("s", shared=True)
    first = session.append("a").node
    node = session.compact("gist").node
    session.seal()
    session = met.store.session("s", shared=True)
    other = met.others.session("s", shared=True)

    def overtake() -> None:
        other.append("theirs")
        other.seal()

    met.meeting.before(latest_write, overtake)
    (made,) = session.commit(["mine"], context=[first]).nodes
    view = met.others.view("s")
    assert session.head != "main"
    assert view.heads == {"main": other.node, session.head: made}
    assert view.path(made)[-2:] == (node, made)
    assert says(session) == ["a", "mine"]
    assert view.context_at(made) == session.context


@pytest.mark.parametrize("appends", [False, True])
def test_whatever_shared_handles_do_two_reads_resume(*, appends: bool) -> None:
    """Side branches, seals, moves and rewinds of several handles never make a resume longer than two reads."""
    memory = MemoryDriver(appends=appends)
    store = Store(Place(memory))
    session = store.session("s", shared=True)
    first = session.append("a").node
    made = session.commit(["b"], state={"k": 1}, manager={"m": 1}).checkpoint or ""
    session.commit(["c"], state={"k": 2})
    session.compact("gist")
    other = store.session("s", shared=True)
    steps: list[Callable[[], object]] = [
        lambda: other.append("theirs"),
        lambda: session.append("side"),
        lambda: session.commit(["side 2"], state={"k": 3}),
        session.seal,
        lambda: session.checkout(first),
        lambda: session.append("again"),
        other.seal,
        lambda: session.rewind(made),
    ]
    for step in steps:
        step()
        assert count_reads(memory) == 2
    assert session.head != "main"
    assert session.state == store.view("s").state == {"k": 1}


def test_a_rewind_to_what_another_prunes_is_refused() -> None:
    """A checkpoint pruned between look and append cannot be gone back to; the session goes on, all of it readable."""
    met = meet()
    session = met.store.session("s", shared=True)
    made = session.commit(["a"], state={"k": 1}).checkpoint or ""
    for number in range(3):
        session.commit([f"b{number}"], state={"k": number + 10})
    session.seal()
    session.append("c")
    other = met.others.session("s", shared=True)
    met.meeting.before(tail_write, lambda: other.prune(KeepCheckpoints(last=1)))
    with pytest.raises(NotFoundError, match="pruned"):
        session.rewind(made)
    assert session.state == {"k": 12}
    session.seal()
    session.commit(["d"], state={"z": 1})
    session.seal()
    kill(session)
    view = met.others.view("s")
    assert view.state == {"k": 12, "z": 1}
    for entry in view.checkpoints():
        assert view.checkpoint(entry.id).state["k"] == 12


def test_a_checkpoint_that_another_labels_during_a_prune_stays() -> None:
    """The prune looks for labels again before it records, and says what it pruned."""
    met = meet()
    session = met.store.session("s", shared=True)
    made = [session.commit([f"a{step}"], state={"k": step}).checkpoint or "" for step in range(4)]
    other = met.others.session("s", shared=True)
    met.meeting.before(tail_write, lambda: other.label(made[1], "keep me"))
    plan = session.prune(KeepCheckpoints(last=1)).plan
    assert plan.pruned == (made[0], made[2])
    assert plan.kept == (made[1], made[3]) == tuple(entry.id for entry in met.others.view("s").checkpoints())
    other.rewind(made[1])
    assert other.state == {"k": 1}


@pytest.mark.parametrize("sealed", [False, True])
def test_a_rewind_by_another_is_followed_by_all(*, sealed: bool) -> None:
    """A rewind to state that nobody holds any more reaches views and copies; other handles keep their own state."""
    store = Store(Place(MemoryDriver()))
    session = store.session("s", shared=True)
    made = session.commit(["a"], state={"k": 1}, manager={"m": 1}).checkpoint or ""
    session.commit(["b"], manager={"m": 2})
    if sealed:
        session.seal()
    view, other = store.view("s"), store.session("s", shared=True)
    session.rewind(made)
    for _ in range(2):
        view.refresh()
        assert (says(view), view.state, view.manager) == (["a"], {"k": 1}, {"m": 1})
    for text in ("c", "d"):
        other.append(text)
        assert other.manager == {"m": 2}
    assert says(other) == ["a", "b", "c", "d"]
    store.copy("s", name="copy")
    assert seen(store.view("copy")) == seen(store.view("s"))


@pytest.mark.parametrize("appends", [False, True])
def test_an_append_that_turns_out_to_have_landed_moves_the_handle_back_to_its_checkpoint(*, appends: bool) -> None:
    """The handle was refreshed while the outcome was unknown, and stood on another branch by then."""
    place = Unreliable(appends=appends)
    other = place.sound.session("s", shared=True)
    first = other.commit(["one"], state={"n": 1}).checkpoint
    session = place.store.session("s", shared=True)
    other.commit(["two"], state={"n": 2})
    place.plan.arm(Fault.AFTER, tail_write, after=1)
    with pytest.raises(UnavailableError):
        session.append("mine")
    session.refresh()
    assert session.state == {"n": 2}
    session.append("more")
    assert says(session) == ["one", "mine", "more"]
    assert session.state == {"n": 1}
    session.rewind(first or "")
    assert says(session) == ["one"]


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize("appends", [False, True])
def test_a_call_that_only_finds_out_about_an_append_shows_its_context(*, appends: bool, flushes: bool) -> None:
    """Not the one that the handle was refreshed to meanwhile, on another branch."""
    place = Unreliable(appends=appends)
    other = place.sound.session("s", shared=True)
    other.commit(["one"], state={"n": 1})
    session = place.store.session("s", shared=True)
    other.commit(["two"], state={"n": 2})
    mine = user("mine", id="m")
    place.plan.arm(Fault.AFTER, tail_write, after=1)
    with pytest.raises(UnavailableError):
        session.append(mine)
    session.refresh()
    assert says(session) == ["one", "two"]
    if flushes:
        session.flush()
    else:
        session.append(mine)
    assert says(session) == ["one", "mine"]
    assert session.state == {"n": 1}
