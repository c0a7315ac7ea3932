"""What a session says may be more than `latest` has room for: nothing of it is lost, and nothing is stuck.

Limits are made small here, so that a few messages are more than there is room for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sampling import few
from tests.session.backends import KINDS, Backend, backend_of, kill, memory_backend
from tests.session.test_many_verbs import Walk, all_of

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.checkpoint import delta
from treering.checkpoint.prune import KeepCheckpoints
from treering.format import record, register
from treering.journal import append, limits, merge
from treering.storage.run import run
from treering.store.place import Place

ROOM = 24 * 1024


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a register hold 24 KiB and a few, and a record 6 KiB."""
    monkeypatch.setattr(register, "REGISTER_BYTES_MAX", ROOM + 8 * 1024)
    monkeypatch.setattr(register, "RESERVE_BYTES", 8 * 1024)
    monkeypatch.setattr(register, "ROOM_BYTES", ROOM)
    monkeypatch.setattr(record, "RECORD_BYTES_MAX", 6 * 1024)
    monkeypatch.setattr(delta, "BODY_BYTES_MAX", 6 * 1024 * 15 // 16)
    monkeypatch.setattr(append, "TAIL_BYTES_MAX", 8 * 1024)
    monkeypatch.setattr(append, "APPEND_BYTES_MAX", 16 * 1024)
    monkeypatch.setattr(limits, "TAIL_BYTES_SEAL", 4 * 1024)


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind."""
    return backend_of(request.param, tmp_path)


def text(number: int, size: int = 2000) -> str:
    """A message that says which one it is; it compresses well."""
    return f"message {number} " + "x" * size


WAYS_OUT: dict[str, Callable[[Session], Any]] = {
    "append": lambda session: session.append("one more"),
    "commit": lambda session: session.commit([treering.user("a turn")]),
    "state": lambda session: session.commit(state={"step": 1}),
    "compact": lambda session: session.compact("all of it"),
    "empty context": lambda session: session.commit([treering.user("hi")], context=[]),
    "smaller context": lambda session: session.commit(context=[item.node for item in session.context][-2:]),
    "checkout nothing": lambda session: session.checkout(None),
    "checkout first": lambda session: session.checkout(session.path()[0]),
    "branch": lambda session: session.branch("aside", node=session.path()[3]),
    "branch here": lambda session: session.branch("beside"),
    "rewind": lambda session: session.rewind(session.checkpoints()[0].id),
    "retract": lambda session: session.retract(session.path()[3]),
    "amend": lambda session: session.amend(session.path()[3], {"role": "user", "content": "other words"}),
    "erase": lambda session: session.erase(session.path()[3]),
    "label": lambda session: session.label(session.path()[3], "a place"),
    "set_status": lambda session: session.set_status("done"),
    "seal": lambda session: session.seal(),
    "optimize": lambda session: session.optimize(everything=True),
    "fork": lambda session: session.fork("fork"),
    "close": lambda session: session.close(),
}


def filled(backend: Backend, count: int = 40) -> list[str]:
    """Record more than there is room for, and let go of the session as a kill does."""
    session = backend.store().session("s")
    session.commit([treering.user(text(0))], state={"plan": "long"}, label="first")
    for number in range(1, count):
        session.append(treering.user(text(number)))
    said = [item.message["content"] for item in session.context]
    kill(session)
    return said


def shown(session: Any) -> list[str]:
    """What the model sees."""
    return [item.message["content"] for item in session.context]


def test_unresolved_effects_have_room(backend: Backend) -> None:
    """They are told after a resume, where there is room for neither the state nor the context."""
    session = backend.store().session("s")
    session.append("pay")
    session.effect("call", about="20 of them")
    for number in range(8):
        session.commit([text(number)], state={f"key {number}": "y" * 5000})
    session.seal()
    kill(session)
    view = backend.store().view("s")
    assert [effect.about for effect in view.unresolved_effects()] == ["20 of them"]
    assert len(view.state) == 8


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_context_larger_than_the_room_does_not_block_anything(backend: Backend, way: str) -> None:
    """Every verb does what it always does, and others see it."""
    said = filled(backend)
    assert len(said) == 40
    assert sum(map(len, said)) > 2 * ROOM
    store = backend.store()
    assert shown(store.view("s")) == said
    session = store.session("s")
    assert shown(session) == said
    assert session.state == {"plan": "long"}
    WAYS_OUT[way](session)
    if way != "close":
        session.append("goes on")
    context = shown(session) if way != "close" else said
    state = session.state if way != "close" else {"plan": "long"}
    session.close()
    assert [found.message for found in backend.store().verify("s") if found.severity == "damage"] == []
    assert shown(backend.store().view("s")) == context
    assert backend.store().view("s").state == state


def test_a_session_goes_on_in_the_same_handle(backend: Backend) -> None:
    """Copies and repairs have all of it; after a compaction two reads resume it again."""
    session = backend.store().session("s")
    for number in range(60):
        session.append(treering.user(text(number)))
    session.seal()
    assert len(shown(session)) == 60
    session.close()
    backend.store().copy("s", name="copy")
    backend.store().repair("s", into="mended")
    for name in ("s", "copy", "mended"):
        assert shown(backend.store().view(name)) == [text(number) for number in range(60)]
    again = backend.store().session("s")
    again.compact("short")
    again.close()
    store, counting = backend.counted()
    assert len(shown(store.view("s"))) == 1
    assert counting.counts == {"Get": 2}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_state_larger_than_the_room_does_not_block_anything(backend: Backend, way: str) -> None:
    """Likewise where `latest` has no room for the newest checkpoint."""
    session = backend.store().session("s")
    state = {f"key {number}": text(number, 3000) for number in range(12)}
    for number, (key, value) in enumerate(state.items()):
        session.commit([treering.user(f"said {number}")], state={key: value})
    kill(session)
    assert backend.store().view("s").state == state
    session = backend.store().session("s")
    WAYS_OUT[way](session)
    if way == "close":
        session = backend.store().session("s")
    session.append("goes on")
    context, kept = shown(session), session.state
    session.close()
    assert [found.message for found in backend.store().verify("s") if found.severity == "damage"] == []
    assert shown(backend.store().view("s")) == context
    assert backend.store().view("s").state == kept


def test_a_policy_is_found_where_there_is_no_room_for_the_checkpoint_that_names_it(backend: Backend) -> None:
    """A session goes on with the policy it was written with."""
    session = backend.store().session("s", policy="pi-1.5")
    for number in range(12):
        session.commit(state={f"key {number}": text(number, 3000)})
    session.append("behind the last checkpoint")
    session.close()
    again = backend.store().session("s")
    assert again._known.replica.policy.name == "pi-1.5"
    again.commit([treering.user("more")], label="made by the same rules")
    again.erase(again.path()[0])  # `latest` is written anew of what it says itself
    kill(again)
    assert backend.store().view("s")._reader.replica.policy.name == "pi-1.5"


def test_too_much_for_one_append_is_refused_before_anything_is_stored(backend: Backend) -> None:
    """Also where it would be the first record; the error says what to do."""
    session = backend.store().session("s")
    before = backend.snapshot()
    many = [treering.user(text(number)) for number in range(20)]
    with pytest.raises(treering.UsageError, match="append some of the messages") as caught:
        session.commit(many)
    assert caught.value.kind == "append_too_large"
    assert backend.snapshot() == before
    session.commit(many[:8])
    session.commit(many[8:16])
    with pytest.raises(treering.UsageError):
        session.append(*many)
    assert len(shown(session)) == 16
    session.close()
    assert len(shown(backend.store().view("s"))) == 16


def test_what_compresses_well_is_sealed_before_the_tail_is_full(backend: Backend) -> None:
    """Its text fills the tail long before its bytes make anybody seal."""
    session = backend.store().session("s")
    for number in range(100):
        session.append(treering.user(text(number, 4000)))
        assert sum(map(len, session._known.replica.view.tail.lines)) <= ROOM
    kill(session)
    assert len(shown(backend.store().view("s"))) == 100


TEXTS = ("append", "append large", "commit", "commit context", "compact", "compact keeping", "amend", "extension")
SIZES = (10, 100, 1000, 3000, 5000)


class Large(Walk):
    """A walk whose texts are large: each fits into a record, and all of them are far beyond the room."""

    def step(self, number: int) -> None:
        """Do one verb; none is refused."""
        weights = self.verbs
        name = self.rng.choices(list(weights), [weight for weight, _ in weights.values()])[0]
        self.text = f"text {number}{'x' * (self.rng.choice(SIZES) if name in TEXTS else 0)}"
        weights[name][1]()
        self.check()

    def check(self) -> None:
        """A new process sees what this one sees."""
        assert all_of(Store(Place(self.memory)).view("s")) == all_of(self.session)


@pytest.mark.parametrize("appends", [False, True], ids=["objects", "logs"])
@pytest.mark.parametrize("seed", range(few(6, whole=12)))
def test_whatever_is_larger_than_the_room_nothing_is_lost_or_refused(seed: int, *, appends: bool) -> None:
    """Verbs by chance with large texts: others see the same, and all records make the same."""
    walk = Large(seed, appends=appends)
    for number in range(50):
        walk.step(number)
    walk.check_replay()


def test_a_checkpoint_too_large_for_a_record_is_recorded_in_steps(backend: Backend) -> None:
    """State, context and all; the steps are no checkpoints that a list shows. A value too large alone is refused."""
    session = backend.store().session("s")
    nodes = [session.append(f"said {number}").node for number in range(200)]
    assert session.checkpoints() == ()
    assert session.commit([treering.user("a turn")]).checkpoint is None
    state = {f"key {number}": text(number, 1500) for number in range(4)}
    made = session.commit(state=state, manager={"seen": text(0, 3000)}, label="all").checkpoint
    assert [each.id for each in session.checkpoints()] == [made]
    with pytest.raises(treering.UsageError, match=r"state\['plan'\] is too large"):
        session.commit(state={"plan": text(0, 6000)})
    again = backend.store().view("s")
    assert (again.state, again.manager, len(again.context)) == (state, {"seen": text(0, 3000)}, 201)
    session.branch("aside", node=nodes[7], keep_state=True)
    session.append("beside")
    session.rewind(made or "")
    session.optimize(everything=True)
    session.close()
    view = backend.store().view("s")
    assert (view.state, len(view.context)) == (state, 201)
    assert view.context_at(nodes[7])
    assert not backend.store().verify("s")


def test_a_context_too_large_for_an_append_is_refused_and_can_be_made_smaller(backend: Backend) -> None:
    """Messages are appended, and turns end; what needs a checkpoint of all of it is refused, with what to do."""
    session = backend.store().session("s")
    for start in range(0, 1200, 60):
        session.append(*[f"said {start + number}" for number in range(60)])
    session.commit([treering.user("a turn")])
    with pytest.raises(treering.UsageError, match="compact it") as caught:
        session.commit(state={"step": 1})
    assert caught.value.kind == "append_too_large"
    session.append("goes on")
    session.retract(session.path()[3])
    assert len(shown(backend.store().view("s"))) == 1201
    session.compact("all of it")
    session.commit(state={"step": 1})
    session.close()
    assert backend.store().view("s").state == {"step": 1}


def test_a_card_that_would_be_too_large_is_refused_before_it_is_acknowledged(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever makes it so: facts, titles, the name of a head or of a node. What came by itself has room kept."""
    monkeypatch.setattr(record, "RECORD_BYTES_MAX", 20 * 1024)
    monkeypatch.setattr(delta, "BODY_BYTES_MAX", 20 * 1024 * 15 // 16)
    rng = random.Random(1)
    store = backend.store()
    session = store.session("s")
    session.append("hello")
    long = rng.randbytes(8500).hex()
    refused: dict[str, Callable[[], Any]] = {
        "extra": lambda: session.note("card", payload={"mine": {"fact": long}}),
        "head": lambda: session.branch(long),
        "node": lambda: session.append(treering.user("x", id=long)),
        "name": lambda: store.session("other", title=long).append("hello"),
    }
    for name, verb in refused.items():
        with pytest.raises(treering.UsageError, match="longest=") as caught:
            verb()
        assert caught.value.kind == "card_too_large", name
        session.append(f"behind {name}")
    session.note("card", payload={"mine": {"fact": long[:6000]}})
    session.commit(["a turn"], state={"step": 1})
    session.set_model("m", provider="p")
    session.set_status("done")
    session.set_title("short")
    session.seal()
    session.close()
    assert shown(backend.store().view("s")) == ["hello", *(f"behind {name}" for name in refused), "a turn"]
    assert not store.view("s").problems()
    assert [row.id for row in store.sessions().rows] == ["s"]


def for_long(verb: Callable[[int], object]) -> None:
    """Do something again and again."""
    for number in range(1000):
        verb(number)


def numbers(number: int) -> dict[str, Any]:
    """What was used, under a long name of its own."""
    return {f"name {number} {'x' * 300}": 1}


def test_more_heads_than_there_is_room_for_are_refused(backend: Backend) -> None:
    """What is there goes on, and dropping heads makes room again; names of usage likewise."""
    session = backend.store().session("s")
    session.append("hello")
    with pytest.raises(treering.UsageError, match="drop heads") as caught:
        for_long(lambda number: session.branch(f"head {number} {'x' * 40}"))
    assert caught.value.kind == "too_many_heads"
    count = len(session.heads)
    assert 50 < count < 1000
    session.append("goes on")
    session.commit(["a turn"], state={"step": 1})
    session.seal()
    session.compact("short")
    session.checkout(None)
    session.append("again")
    session.close()
    session = backend.store().session("s")
    assert len(session.heads) == count
    session.drop_head(next(head for head in session.heads if head != session.head))
    session.branch("fits")
    with pytest.raises(treering.UsageError) as caught:
        for_long(lambda number: session.record_usage(**numbers(number)))
    assert caught.value.kind == "too_many_heads"
    session.append("goes on")
    session.close()
    assert not backend.store().verify("s")


def test_a_list_of_what_was_erased_that_is_too_long_is_refused(backend: Backend) -> None:
    """Before anything is erased; the session goes on."""
    session = backend.store().session("s")
    nodes = session.append(*[f"said {number}" for number in range(80)]).nodes
    with pytest.raises(treering.UsageError, match="copy the session") as caught:
        for_long(lambda number: session.erase(nodes[number], reason="x" * 200))
    assert caught.value.kind == "too_many_erased"
    session.append("goes on")
    session.close()
    assert not backend.store().verify("s")
    assert len(shown(backend.store().view("s"))) == 81


def test_segments_are_merged_up_to_a_size_of_their_text(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """However small they are as stored; nothing is merged again and again."""
    monkeypatch.setattr(merge, "MERGED_TEXT_BYTES_MAX", 8 * 1024)
    session = backend.store().session("s")
    for number in range(30):
        session.append(treering.user(text(number)))
        session.seal()
    session.optimize(everything=True)
    names = sorted(name for name in backend.snapshot() if "/segments/" in name)
    assert 7 <= len(names) <= 11
    session.prune(KeepCheckpoints(last=1))
    session.close()
    assert len(shown(backend.store().view("s"))) == 30
    assert not backend.store().verify("s")


def test_what_was_put_off_may_be_more_than_an_append_holds(backend: Backend) -> None:
    """It is recorded in several; and what could never be recorded is refused at once, and does not wait for ever."""
    session = backend.store().session("s", durability="turn")
    said = [text(number) for number in range(30)]
    for words in said:
        session.append(treering.user(words))
    for refused in ({"role": "user", "content": object()}, {"role": "user", "content": text(0, 7000)}):
        with pytest.raises(treering.UsageError):
            session.append(refused)
    session.commit(["a turn"], state={"step": 1})
    session.append("put off")
    session.close()
    view = backend.store().view("s")
    assert shown(view) == [*said, "a turn", "put off"]
    assert view.state == {"step": 1}


def test_at_its_true_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 64 MiB of messages are recorded, resumed, edited, compacted and closed like any others."""
    monkeypatch.undo()
    backend = memory_backend()
    assert register.ROOM_BYTES == 56 * 1024 * 1024
    session = backend.store().session("s")
    words = "words and " * 25_000
    nodes: list[str] = []
    for start in range(0, 280, 40):
        session.append(*[f"{start + number} {words}" for number in range(40)])
    kill(session)
    session = backend.store().session("s")
    assert len(session.context) == 280
    nodes = [item.node for item in session.context]
    session.retract(nodes[7])
    session.commit(["a turn"], state={"step": 1})
    session.close()
    session = backend.store().session("s")
    assert [item.node for item in session.context][:280] == [*nodes[:7], *nodes[8:], session.node]
    session.branch("aside", node=nodes[200])
    session.compact("all of it")
    session.close()
    store, counting = backend.counted()
    assert len(store.view("s").context) == 1
    assert counting.counts == {"Get": 2}


@pytest.mark.parametrize("seed", range(few(5, whole=10)))
def test_shared_sessions_beyond_the_room(backend: Backend, seed: int) -> None:
    """Handles that seal, edit and move beside each other: all that was acknowledged is there, and each sees its own."""
    rng = random.Random(seed)
    handles = [backend.store().session("s", shared=True) for _ in range(2)]
    said: list[str] = []
    for number in range(50):
        session = rng.choice(handles)
        verb = rng.choice(["append"] * 4 + ["commit", "amend", "retract", "checkout", "branch", "seal", "refresh"])
        words = text(number, rng.choice([10, 2000, 4000]))
        nodes = [row.id for row in session.nodes()]
        if verb == "append" or not nodes:
            said.append(session.append(words).node)
        elif verb == "commit":
            said += session.commit([words], state={rng.choice("xyz"): text(number, 3000)}).nodes
        elif verb == "amend":
            session.amend(rng.choice(nodes), {"role": "user", "content": words})
        elif verb == "retract":
            session.retract(rng.choice(nodes))
        elif verb == "checkout":
            session.checkout(rng.choice(nodes))
        elif verb == "branch":
            session.branch(f"{verb} {number}", node=rng.choice(nodes))
        else:
            getattr(session, verb)()
        assert len(session.context) == len(session.context_at(session.node)) if session.node else True
    for session in handles:
        session.refresh()
        told = [(item.node, item.message) for item in session.context]
        assert told == [(item.node, item.message) for item in session.context_at(session.node)]
        session.close()
    assert set(said) <= {row.id for row in backend.store().view("s").nodes()}
    assert [found.message for found in backend.store().verify("s") if found.severity == "damage"] == []


def test_what_is_left_out_is_found_by_its_position(backend: Backend) -> None:
    """A resume reads the segments that hold it, however many others there are."""
    session = backend.store().session("s")
    for number in range(40):
        session.append(f"before {number}")
        session.seal()
    session.compact("all of that")
    for number in range(20):
        session.append(treering.user(text(number)))
    session.close()
    store, counting = backend.counted()
    said = shown(store.view("s"))
    assert said[1:] == [text(number) for number in range(20)]
    held = counting.counts["Get"]
    assert counting.counts["List"] == 0  # `latest` names the segments
    assert held < 25
    session = store.session("s")
    counting.reset()
    session.append("more")
    session.seal()
    assert counting.counts["Get"] <= 1
    kill(session)
    assert shown(backend.store().view("s")) == [*said, "more"]


def test_messages_that_could_not_be_read_are_read_by_the_next_look(backend: Backend) -> None:
    """Another handle sealed, so the context is read again; that fails; the error says so, and `refresh` mends it."""
    ours, theirs = (backend.store().session("s", shared=True) for _ in range(2))
    for number in range(20):
        ours.append(treering.user(text(number)))
    theirs.refresh()
    theirs.branch("aside")
    theirs.seal()
    theirs.append("beside")
    reader = ours._known
    run(reader.replica.catch_up(), backend.driver())
    assert reader.replica.state.lacks_lines
    with pytest.raises(treering.UnavailableError, match="refresh"):
        _ = ours.context
    ours.refresh()
    assert len(ours.context) == 20


def test_a_session_that_is_loaded_may_be_larger_than_the_room(backend: Backend) -> None:
    """As one that was recorded here."""
    store = backend.store()
    nodes = [f"n{number}" for number in range(40)]
    parents = [None, *nodes]
    drafts = [treering.user(text(number), id=node, parent=parents[number]) for number, node in enumerate(nodes)]
    store.load("loaded", drafts, leaf=lambda: nodes[-1])
    session = store.session("loaded")
    session.commit(["a turn"], state={"step": 1})
    session.close()
    assert shown(backend.store().view("loaded")) == [*(text(number) for number in range(40)), "a turn"]
    assert not store.verify("loaded")


def test_state_beyond_the_room_is_pruned_erased_copied_and_repaired(backend: Backend) -> None:
    """What maintenance does with a `latest` that lacks the checkpoint."""
    session = backend.store().session("s")
    for number in range(40):
        session.commit([text(number)], state={"key": text(number, 3000), f"key {number}": text(number, 700)})
    session.prune(KeepCheckpoints(last=2))
    session.erase(state=["key"])
    session.close()
    store = backend.store()
    view = store.view("s")
    assert view.state == {f"key {number}": text(number, 700) for number in range(40)}
    store.copy("s", name="copy")
    store.repair("s", into="mended")
    assert [store.view(name).state for name in ("copy", "mended")] == [view.state, view.state]
    assert [shown(store.view(name)) for name in ("copy", "mended")] == [shown(view), shown(view)]
    assert not store.verify("s")
