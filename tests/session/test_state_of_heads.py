"""Which state a head has does not depend on who looks, or when: not on a race, a pruning or an earlier head's name."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import msgspec
import pytest
from tests.sampling import few
from tests.session.at_rest import restored_at
from tests.session.backends import texts
from tests.session.faults import Meeting, tail_write

from treering.api.session import Session
from treering.api.store import Store
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import HeadMovedError, NotFoundError, UsageError
from treering.format.register import Latest
from treering.session.payload import decoded_manager, decoded_state
from treering.session.reader import Readable
from treering.session.snapshot import decode_state
from treering.session.writer import Writer
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Steps
from treering.store.place import Place

HANDLES = 3
VERBS = 40
SEEDS = few(10, whole=25)


def in_hand(session: Session) -> tuple[object, ...]:
    """What the agent of a handle goes on with."""
    return [item.node for item in session.context], dict(session.settings), session.state, session.manager


def found(store: Store, head: str) -> tuple[object, ...]:
    """The state with which a handle continues after a switch to a head."""
    view = store.view("s")
    there = view.perform(restored_at, view.heads[head], head=head)
    state, manager = (there.checkpoint.state, there.checkpoint.manager) if there.checkpoint else ({}, None)
    return list(there.context.nodes), there.context.settings, decoded_state(state), decoded_manager(manager)


def known(reader: Readable) -> Steps[int]:
    """How many records somebody knows, and was shown."""
    yield from ()
    return -1 if isinstance(reader, Writer) and reader.position.behind else reader.replica.state.end


def act(rng: random.Random, session: Session, unique: str) -> None:
    """Do something with a handle, which may not know yet what others did."""
    node = rng.choice([None, *(row.id for row in session.nodes())])
    head = rng.choice([*session.heads, "main"])
    key = rng.choice("xy")
    verbs: dict[str, Callable[[], object]] = {
        "aaaa": lambda: session.append(unique),
        "kkkk": lambda: session.commit(state={key: unique}, manager=rng.choice([None, unique])),
        "mm": lambda: session.commit([unique], state={key: unique}),
        "b": lambda: session.branch(f"branch {rng.randrange(3)}", node=node),
        "c": lambda: session.checkout(node),
        "ss": lambda: session.switch(head),
        "r": lambda: session.rewind(rng.choice(session.checkpoints()).id),
        "d": lambda: session.drop_head(head),
        "ff": session.refresh,
        "l": session.seal,
        "p": lambda: session.prune(KeepCheckpoints(last=1, heads=rng.choice([None, [head]]))),
        "t": lambda: session.optimize(everything=True),
    }
    letter = rng.choice("".join(verbs))
    next(verb for letters, verb in verbs.items() if letter in letters)()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_everybody_agrees_what_a_head_is_like(seed: int) -> None:
    """Handles that were shown all and stand on a head have what a stranger finds there, whatever all of them did."""
    rng = random.Random(seed)
    store = Store(Place(MemoryDriver(appends=seed % 2 == 0)))
    store.session("s", shared=True).commit(state={"x": "first"})
    sessions = [store.session("s", shared=True) for _ in range(HANDLES)]
    for number in range(VERBS):
        session = rng.choice(sessions)
        # Nothing like that is there, or not any more; or what it went by was pruned.
        with contextlib.suppress(NotFoundError, UsageError, HeadMovedError):
            act(rng, session, f"{number}")
        end = store.view("s").perform(known)
        for each in sessions:
            if each.perform(known) == end and each.heads.get(each.head, "") == each.node:
                assert in_hand(each) == found(store, each.head), number


def opened(store: Store, count: int) -> list[Session]:
    """Handles that share a session."""
    return [store.session("s", shared=True) for _ in range(count)]


def test_a_head_beside_others_begins_with_the_state_in_hand() -> None:
    """Whoever loses a race keeps its state, though another head has other state at the node where they part."""
    store = Store(Place(MemoryDriver()))
    store.session("s", shared=True).commit(["a"], state={"who": "main"})
    session, other, third = opened(store, 3)
    session.append("b")
    other.refresh()
    third.refresh()
    third.branch("third")
    third.commit(state={"who": "third"})
    other.append("c")
    session.append("beside")
    assert (session.head, session.state) == ("main-2", {"who": "main"})
    assert in_hand(session) == found(store, "main-2")
    assert len(session.checkpoints()) == 4  # that of the new head, too


def test_a_head_beside_others_needs_no_checkpoint_if_its_node_tells_the_state() -> None:
    """Where nobody else kept anything, a lost race costs a node and nothing more."""
    store = Store(Place(MemoryDriver()))
    store.session("s", shared=True).commit(["a"], state={"who": "main"})
    session, other = opened(store, 2)
    other.append("b")
    session.append("beside")
    assert (session.head, session.state, len(session.checkpoints())) == ("main-2", {"who": "main"}, 1)
    assert in_hand(session) == found(store, "main-2")


def test_a_head_goes_back_to_what_it_was_like() -> None:
    """A checkout of a node that the head came through restores its own state there, not that of a branch made there."""
    store = Store(Place(MemoryDriver()))
    store.session("s", shared=True).commit(["a"], state={"who": "main"})
    session, other = opened(store, 2)
    node = session.append("b").node
    other.refresh()
    other.branch("other")
    other.commit(state={"who": "other"})
    session.append("c")
    session.checkout(node)
    assert session.state == {"who": "main"}
    other.checkout(node)
    assert other.state == {"who": "other"}


def test_a_head_has_nothing_of_an_earlier_one_of_its_name() -> None:
    """A head that was dropped and another one that gets its name are two heads."""
    store = Store(Place(MemoryDriver()))
    store.session("s", shared=True).append("a")
    session, other = opened(store, 2)
    other.append("b")
    session.commit(state={"who": "dropped"})
    assert session.head == "main-2"
    session.switch("main")
    session.commit(state={"who": "main"})
    session.drop_head("main-2")
    other.refresh()
    other.append("c")
    session.append("beside")
    assert (session.head, session.state) == ("main-2", {"who": "main"})
    assert in_hand(session) == found(store, "main-2")


@pytest.mark.parametrize("sealed", ["state", "checkpoint"])
def test_a_handle_that_did_not_see_a_pruning_finds_its_way(sealed: str) -> None:
    """A checkout by somebody who takes a checkpoint for the nearest that is gone, or what it refers to, looks again."""
    store = Store(Place(MemoryDriver()))
    session, other = opened(store, 2)
    node = session.commit(["a"], state={"x": 1}).nodes[-1]
    if sealed == "state":
        session.seal()
    session.checkout(node)  # a whole checkpoint, whose state is in the first one
    session.commit(["b"], state={"x": 2})
    if sealed == "checkpoint":
        session.seal()
        session.append("c")  # the tail holds nothing older any more
    other.refresh()
    other.nodes()
    session.checkout(None)
    session.prune(KeepCheckpoints(last=1))
    other.checkout(node)
    assert (other.node, texts(other.context), other.state) == (node, ["a"], {})


def test_pruning_spares_what_a_head_needs_that_others_made_meanwhile() -> None:
    """What was to be pruned stays if a head begins where it was made before that is recorded; the handle stays, too."""
    memory = MemoryDriver()
    meeting = Meeting(memory)
    store = Store(Place(memory))
    store.session("s", shared=True).commit(["a"], state={"x": 1})
    late, third = opened(store, 2)
    session = Store(Place(meeting)).session("s", shared=True)
    session.commit(["b"], state={"x": 2})
    third.refresh()

    def begin() -> None:
        late.append("beside")
        third.append("c")

    meeting.before(tail_write, begin)
    session.prune(KeepCheckpoints(last=1))
    assert (texts(session.context), session.state) == (["a", "b"], {"x": 2})
    assert in_hand(late) == found(store, late.head)
    assert late.state == {"x": 1}
    assert len(store.view("s").checkpoints()) == 2


@pytest.mark.parametrize("state", [[], ["x"]])
def test_a_handle_on_another_head_goes_on_with_what_erasing_leaves(state: list[str]) -> None:
    """Whoever erases beside others has its own context and state afterwards, without what was erased."""
    store = Store(Place(MemoryDriver()))
    store.session("s", shared=True).commit(["a"], state={"x": 1, "y": 2})
    session, other = opened(store, 2)
    other.commit(["b"], state={"y": 3})
    beside = session.append("beside").node
    session.erase(*([] if state else [beside]), state=state)
    assert texts(session.context) == ["a", "beside" if state else "[erased]"]
    assert session.state == ({"y": 2} if state else {"x": 1, "y": 2})
    assert in_hand(session) == found(store, session.head)


def told(store: Store) -> dict[tuple[str | None, str | None], str | None]:
    """The checkpoint that holds the state at each node, by node and by the head that goes there."""
    view = store.view("s")
    found = {
        (node, head): view.perform(restored_at, node, head=head).checkpoint
        for node in [None, *(row.id for row in view.nodes())]
        for head in [None, "no such head", *view.heads]
    }
    return {place: None if entry is None else entry.id for place, entry in found.items()}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_pruning_changes_only_states_that_it_takes(seed: int) -> None:
    """Wherever the checkpoint that holds the state is kept, it still does; else the nearest kept one above does."""
    rng = random.Random(seed)
    store = Store(Place(MemoryDriver(appends=seed % 2 == 0)))
    store.session("s", shared=True).commit(state={"x": "first"})
    sessions = [store.session("s", shared=True) for _ in range(HANDLES)]
    for number in range(VERBS):
        with contextlib.suppress(NotFoundError, UsageError, HeadMovedError):
            act(rng, rng.choice(sessions), f"{number}")
    before, session = told(store), store.session("s", shared=True)
    session.prune(KeepCheckpoints(last=rng.choice([1, 3])))
    kept = {entry.id: entry.node for entry in session.checkpoints()}
    after = told(store)
    for (node, head), checkpoint in before.items():
        if checkpoint is None or checkpoint in kept:
            assert after[node, head] == checkpoint
        elif head in session.heads:  # for which it may have been pruned before others were made
            assert after[node, head] in {*kept, None}
        else:
            above = [None, *(session.path(node) if node is not None else ())]
            there = [place for place in reversed(above) if place in kept.values()]
            assert [kept.get(after[node, head] or "", "")] == (there[:1] or [""])
    assert told(store) == after
    session.optimize(everything=True)
    assert told(store) == after


def moved_to_another_branch(store: Store) -> tuple[Session, str]:
    """A head that came over to a node of another one, and went on; what it kept at that node was pruned."""
    session = store.session("s", shared=True)
    session.commit(["a"], state={"c": 3}, label="at a")
    session.branch("other")
    node = session.commit(["b"], state={"c": 0}).nodes[-1]
    session.switch("main")
    session.checkout(node)
    session.commit(["c"], state={"c": 5})
    session.prune(KeepCheckpoints(last=1))
    return session, node


def left_behind(store: Store) -> tuple[Session, str]:
    """A head that went on from a node; what it kept there and above was pruned, and not what a branch there kept."""
    session = store.session("s", shared=True)
    session.commit(["a"], state={"c": 1})
    node = session.commit(["b"], state={"c": 0}).nodes[-1]
    session.commit(["c"], state={"c": 2})
    store.session("s", shared=True).branch("other", node=node)
    session.prune(KeepCheckpoints(last=1))
    return session, node


def sealed(session: Session) -> None:
    """Nothing of the session is in the log any more."""
    session.seal()


def merged(session: Session) -> None:
    """There is one segment."""
    session.optimize(everything=True)


@pytest.mark.parametrize("tidy", [Session.refresh, sealed, merged])
@pytest.mark.parametrize("begin", [moved_to_another_branch, left_behind])
def test_where_the_own_checkpoint_was_pruned_another_one_there_tells_the_state(
    begin: Callable[[Store], tuple[Session, str]], tidy: Callable[[Session], None]
) -> None:
    """Not an older one of the same head further up, and not nothing: that was never the state at this node."""
    store = Store(Place(MemoryDriver()))
    session, node = begin(store)
    tidy(session)
    stranger = store.view("s")
    for head in [None, "main", "other"]:
        there = stranger.perform(restored_at, node, head=head)
        assert there.checkpoint is not None
        assert (texts(stranger.context_at(node)), decoded_state(there.checkpoint.state)) == (["a", "b"], {"c": 0})
    session.checkout(node)
    for each in (session, store.session("s", shared=True), store.view("s")):
        assert (texts(each.context), each.state) == (["a", "b"], {"c": 0})


@pytest.mark.parametrize("tidy", [Session.refresh, sealed, merged])
def test_the_state_of_a_head_that_was_given_up_is_gone_for_all(tidy: Callable[[Session], None]) -> None:
    """Whether they had it in memory, read it from `latest`, or look at the graph."""
    store = Store(Place(MemoryDriver()))
    session, other, third = opened(store, 3)
    session.commit(["a"], state={"c": 1})
    other.refresh()
    other.branch("other")
    other.commit(["b"], state={"c": 2})
    third.refresh()
    third.branch("third")
    third.commit(["c"], state={"c": 3})
    session.refresh()
    assert (session.head, other.head, third.head) == ("main", "other", "third")
    third.prune(KeepCheckpoints(last=1, heads=["main"]))
    for each in (session, other):
        each.refresh()
        tidy(each)
    assert {head: found(store, head)[2] for head in session.heads} == {
        "main": {"c": 1},
        "other": {"c": 1},
        "third": {"c": 3},
    }
    assert [each.state for each in (session, other, third)] == [{"c": 1}, {"c": 1}, {"c": 3}]
    stranger = store.session("s", shared=True)
    stranger.switch("other")
    assert stranger.state == {"c": 1}


def test_what_others_keep_later_is_not_the_state_of_a_head_that_was_given_up() -> None:
    """It has what was kept there when its own state was given up, until it keeps something itself."""
    store = Store(Place(MemoryDriver()))
    session, other, third = opened(store, 3)
    session.commit(["a"], state={"c": 1})
    other.refresh()
    other.branch("other")
    other.commit(state={"c": 2})
    third.refresh()
    third.branch("third")
    third.commit(["c"], state={"c": 3})
    third.prune(KeepCheckpoints(last=1, heads=["main"]))
    session.refresh()
    session.commit(state={"c": 5})
    assert {head: found(store, head)[2] for head in session.heads} == {
        "main": {"c": 5},
        "other": {"c": 1},
        "third": {"c": 3},
    }
    other.refresh()
    assert other.state == {"c": 1}


def test_a_session_does_not_give_up_its_own_state() -> None:
    """Nor that of the current head, which who opens the session goes on with."""
    store = Store(Place(MemoryDriver()))
    session, other = opened(store, 2)
    session.commit(["a"], state={"c": 1})
    other.refresh()
    other.branch("other")
    other.commit(["b"], state={"c": 2})
    session.switch("main")
    other.commit(["c"], state={"c": 3})
    session.prune(KeepCheckpoints(last=1, heads=()))
    other.refresh()
    other.prune(KeepCheckpoints(last=1, heads=()))
    assert [each.state for each in (session, other, store.view("s"))] == [{"c": 1}, {"c": 3}, {"c": 1}]
    session.commit(["d"], state={"d": 1})
    assert store.view("s").state == {"c": 1, "d": 1}


@pytest.mark.parametrize("pruned", [False, True])
def test_what_a_node_is_like_is_told_alike_by_all_verbs(*, pruned: bool) -> None:
    """What a model would be sent there, a fork made there, and the state after a checkout, where two heads differ."""
    store = Store(Place(MemoryDriver()))
    session, other = opened(store, 2)
    session.append("a")
    node = session.commit(["b"], state={"c": 1}, context=[]).nodes[-1]
    other.refresh()
    other.branch("other")
    other.commit(state={"c": 2}, context=[])
    session.refresh()
    session.append("c")
    session.switch("main")
    if pruned:
        session.prune(KeepCheckpoints(last=1))
    seen = session.context_at(node)
    session.fork("fork", node=node)
    viewed = store.view("s").context_at(node)
    session.checkout(node)
    fork = store.view("fork")
    assert texts(session.context) == texts(seen) == texts(viewed) == texts(fork.context)
    assert session.state == fork.state
    assert session.context_at(session.node) == session.context


def latest_of(reader: Readable) -> Steps[Latest]:
    """The snapshot that a session was opened from."""
    yield from ()
    return reader.replica.view.latest


def test_a_pruned_checkpoint_in_the_snapshot_of_an_early_version_holds_no_state() -> None:
    """Early versions kept it there, and marked it; the graph tells the state."""
    store = Store(Place(MemoryDriver()))
    with store.session("s") as session:
        session.commit(["a"], state={"c": 1})
        session.seal()
    latest = store.view("s").perform(latest_of)
    told = decode_state(latest, None, key="")
    assert told.checkpoint is not None
    assert not told.adrift
    early = latest.lines[0].rstrip().removesuffix(b"}") + b',"parent_gone":true}'
    marked = decode_state(msgspec.structs.replace(latest, lines=(early, *latest.lines[1:])), None, key="")
    assert marked.checkpoint is None
    assert marked.adrift


def test_a_branch_does_not_tell_the_state_of_the_head_that_it_left() -> None:
    """Where nothing was pruned, what another head kept later at a node says nothing of a head that passed it before."""
    store = Store(Place(MemoryDriver()))
    session = store.session("s", shared=True)
    node = session.append("a").nodes[-1]
    session.append("b")
    other = store.session("s", shared=True)
    other.branch("other", node=node)
    other.commit(state={"c": 1})
    session.refresh()
    session.checkout(node)
    assert session.state == {}
