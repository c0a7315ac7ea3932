"""State is part of what is acknowledged: a commit goes on from the state that its caller saw, or not upon that head."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.session.at_rest import restored_at
from tests.session.backends import Backend, kill, texts
from tests.session.faults import Meeting, tail_write

import treering
from treering import KeepCheckpoints
from treering.api.session import Session
from treering.api.store import Store
from treering.errors import HeadMovedError
from treering.session.payload import decoded_state
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

COUNTS = 30
SEEDS = 20


def pair(store: Store, **state: object) -> tuple[Session, Session]:
    """Two handles that share a session which holds one message and that state."""
    with store.session("s", shared=True) as session:
        session.commit(["hi"], state=state)
    return store.session("s", shared=True), store.session("s", shared=True)


def states(store: Store) -> dict[str, Mapping[str, object]]:
    """The state of every head, as somebody finds it who goes there."""
    view, found = store.view("s"), {}
    for head, node in view.heads.items():
        newest = view.perform(restored_at, node, head=head).checkpoint
        found[head] = decoded_state(newest.state) if newest else {}
    return found


def test_two_that_count_do_not_lose_one(backend: Backend) -> None:
    """Both saw 10 and commit 11: one of them does so on a new head, and each continues its own head."""
    first, second = pair(backend.store(), count=10)
    first.commit(state={"count": first.state["count"] + 1})
    second.commit(state={"count": second.state["count"] + 1})
    assert (first.head, second.head) == ("main", "main-2")
    second.commit(state={"count": second.state["count"] + 1})
    assert states(backend.store()) == {"main": {"count": 11}, "main-2": {"count": 12}}
    assert backend.store().view("s").head == "main"
    assert backend.store().verify("s") == []


def test_state_alone_is_not_lost_either(backend: Backend) -> None:
    """Where nothing was said yet there is no head that others could have moved, and one begins all the same."""
    with backend.store().session("s", shared=True) as session:
        session.commit(state={"count": 10})
    first, second = (backend.store().session("s", shared=True) for _ in range(2))
    first.commit(state={"count": 11})
    second.commit(state={"count": 11, "by": "second"})
    assert (second.head, second.state) == ("main-2", {"count": 11, "by": "second"})
    first.commit(state={"count": 12})
    assert second.refresh()
    assert second.state == {"count": 11, "by": "second"}
    view = backend.store().view("s")
    assert (view.head, view.state, view.heads) == ("main", {"count": 12}, {"main": None, "main-2": None})
    second.append("hello")
    first.append("hi")
    assert states(backend.store()) == {"main": {"count": 12}, "main-2": {"count": 11, "by": "second"}}
    assert backend.store().verify("s") == []


def test_state_before_the_first_message_has_a_head(backend: Backend) -> None:
    """A session that begins with its state has a head, to which other branches are as at any other time."""
    store = backend.store()
    with store.session("s", shared=True) as session:
        session.commit(state={"b": 3})
    session, other, third = (store.session("s", shared=True) for _ in range(3))
    other.commit(state={"a": 4})
    third.checkout(None, keep_state=True)  # beside: it was not shown what the other one committed
    session.commit(state={"a": 5})
    assert states(store) == {"main": {"b": 3, "a": 4}, "main-2": {"b": 3}, "main-3": {"b": 3, "a": 5}}


@pytest.mark.parametrize("summary", [None, "what was done"])
def test_a_branch_leaves_the_state_before_the_first_message(backend: Backend, summary: str | None) -> None:
    """The way back is open, also where nothing was said yet."""
    store = backend.store()
    with store.session("s") as session:
        session.commit(state={"a": 1})
        session.branch("other", summary=summary)
        session.commit(state={"a": 2})
        session.switch("main")
        assert session.state == {"a": 1}
    assert states(store) == {"main": {"a": 1}, "other": {"a": 2}}


@pytest.mark.parametrize("expect", ["node", "checkpoint"])
def test_who_expects_what_was_seen_is_told(backend: Backend, expect: str) -> None:
    """`expect` and `expect_checkpoint` speak of the state, too: nothing is recorded, and a refresh shows why."""
    first, second = pair(backend.store(), count=10)
    first.commit(state={"count": 11})
    asked: dict[str, Any] = {"expect": second.node} if expect == "node" else {"expect_checkpoint": second.checkpoint_id}
    before = backend.snapshot()
    with pytest.raises(HeadMovedError, match="refresh"):
        second.commit(state={"count": 11}, **asked)
    assert backend.snapshot() == before
    assert (second.head, second.state) == ("main", {"count": 10})
    assert second.refresh()
    assert second.state == {"count": 11}
    asked = {"expect": second.node} if expect == "node" else {"expect_checkpoint": second.checkpoint_id}
    second.commit(state={"count": 12}, **asked)
    assert states(backend.store()) == {"main": {"count": 12}}


@pytest.mark.parametrize("state", [None, {"count": 11}])
@pytest.mark.parametrize("messages", [[], ["mine"]])
def test_of_two_who_expect_one_checkpoint_one_commits(
    backend: Backend, messages: list[str], state: dict[str, int] | None
) -> None:
    """The expectation is compared before a moved head is left: else both would record, the second one on a new head."""
    first, second = pair(backend.store(), count=10)
    seen = second.checkpoint_id
    first.commit(["theirs"], state={"count": 11}, expect_checkpoint=seen)
    before = backend.snapshot()
    with pytest.raises(HeadMovedError, match="newest checkpoint"):
        second.commit(messages, state=state, label="mine", expect_checkpoint=seen)
    assert backend.snapshot() == before
    assert states(backend.store()) == {"main": {"count": 11}}


def test_a_message_alone_does_not_break_what_is_expected_of_the_checkpoint(backend: Backend) -> None:
    """The state is the one that was used, so the commit is recorded: beside the other message, as always."""
    first, second = pair(backend.store(), count=10)
    seen = second.checkpoint_id
    first.append("theirs")
    second.commit(["mine"], state={"count": 11}, expect_checkpoint=seen)
    assert states(backend.store()) == {"main": {"count": 10}, "main-2": {"count": 11}}


PRUNED: dict[str, Callable[[Session], object]] = {
    "commit": lambda session: session.commit(["mine"], state={"k": 1}),
    "commit of a message": lambda session: session.commit(["mine"]),
    "append": lambda session: session.append("mine"),
    "branch": lambda session: session.branch("b", keep_state=True),
    "switch": lambda session: session.switch("main", keep_state=True),
    "checkout": lambda session: session.checkout(session.node, keep_state=True),
    "fork": lambda session: session.fork("copy"),
}


@pytest.mark.parametrize("said", [["more"], []], ids=["moved", "at the same node"])
def test_notes_are_recorded_whatever_was_pruned(backend: Backend, said: list[str]) -> None:
    """They are in no state, and begin no head."""
    first, second = pair(backend.store(), plan=1)
    first.commit(said, state={"plan": 2})
    first.prune(KeepCheckpoints(last=1))
    second.set_title("T")
    second.label(second.path()[0], "here")
    second.record_usage(cost=1.0)
    second.note("mine", {"a": 1})
    view = backend.store().view("s")
    assert (view.info.title, view.labels(), view.usage["cost"]) == ("T", {second.path()[0]: "here"}, 1.0)
    assert list(view.heads) == ["main"]


@pytest.mark.parametrize("verb", PRUNED)
@pytest.mark.parametrize("said", [["more"], []], ids=["moved", "at the same node"])
def test_state_that_is_in_no_record_any_more_is_not_left_out(backend: Backend, verb: str, said: list[str]) -> None:
    """Whoever stands on a pruned checkpoint is told; else what it records would be without the state that it shows."""
    first, second = pair(backend.store(), plan=1)
    first.commit(said, state={"plan": 2})
    first.prune(KeepCheckpoints(last=1))
    assert second.state == {"plan": 1}
    before = backend.store().view("s").stored().records
    if not said and verb in {"append", "commit of a message"}:  # the newest state of this very place stands
        PRUNED[verb](second)
    else:
        with pytest.raises(HeadMovedError, match="pruned"):
            PRUNED[verb](second)
        assert backend.store().view("s").stored().records == before + (verb == "fork")  # its link
        assert [info.id for info in backend.store().each_session()] == ["s"]
    assert states(backend.store()) == {"main": {"plan": 2}}
    second.refresh()
    assert second.state == {"plan": 2}


def test_nobody_has_a_state_that_is_made_of_two(backend: Backend) -> None:
    """What each said of several keys is found together."""
    first, second = pair(backend.store(), c="old", d="old")
    first.commit(state={"c": "first", "d": "first"})
    second.commit(state={"c": "second"})
    assert states(backend.store()) == {"main": {"c": "first", "d": "first"}, "main-2": {"c": "second", "d": "old"}}


def test_independent_keys_may_be_merged(backend: Backend) -> None:
    """Who says so sets a key in whatever the state is by now; and has seen it all afterwards."""
    first, second = pair(backend.store(), c="old")
    first.commit(state={"a": 1})
    second.commit(state={"b": 2}, merge=True)
    assert second.state == {"c": "old", "a": 1, "b": 2}
    first.commit(state={"a": 3}, drop=["c"], merge=True)
    assert first.state == {"a": 3, "b": 2}
    assert states(backend.store()) == {"main": {"a": 3, "b": 2}}
    assert backend.store().verify("s") == []


def test_merged_keys_follow_the_head(backend: Backend) -> None:
    """State alone that may be merged goes where the head stands; with messages it is part of what they continue."""
    first, second = pair(backend.store())
    third = backend.store().session("s", shared=True)
    first.commit(["more"], state={"a": 1})
    second.commit(state={"b": 2}, merge=True)
    assert (second.head, second.node, texts(second.context)) == ("main", first.node, ["hi", "more"])
    third.commit(["beside"], state={"c": 3}, merge=True)
    assert texts(third.context) == ["hi", "beside"]
    assert states(backend.store()) == {"main": {"a": 1, "b": 2}, "main-2": {"c": 3}}


def test_messages_are_in_nobodys_way(backend: Backend) -> None:
    """A commit without state continues the head; a later one with state still needs a refresh first."""
    first, second = pair(backend.store(), count=10)
    first.commit(state={"count": 11})
    second.append("a")
    made = second.commit(["b"]).checkpoint
    assert (second.head, second.state) == ("main", {"count": 10})
    assert made is not None
    assert backend.store().view("s").checkpoint(made).state == {"count": 11}
    second.commit(state={"count": 11})
    assert (second.head, second.state) == ("main-2", {"count": 11})
    assert states(backend.store()) == {"main": {"count": 11}, "main-2": {"count": 11}}
    first.refresh()
    assert texts(first.context) == ["hi", "a", "b"]


@pytest.mark.parametrize(
    "say",
    [
        lambda session: session.commit(manager={"mine": 1}),
        lambda session: session.commit(context=[]),
        lambda session: session.commit(label="here"),
        lambda session: session.commit(step=3),
        lambda session: session.commit(drop=["count"]),
        lambda session: session.compact("brief", state={"other": 1}),
        lambda session: session.checkout(session.node, keep_state=True),
    ],
    ids=["manager", "context", "label", "step", "drop", "compact", "checkout"],
)
def test_what_is_said_of_the_state_stands_on_what_was_seen(backend: Backend, say: Callable[[Session], object]) -> None:
    """Values, what the model sees, a name for all of it: none of that is said of a state that nobody looked at."""
    first, second = pair(backend.store(), count=10)
    first.commit(state={"count": 11})
    say(second)
    assert second.head == "main-2"
    assert second.state.get("count", 10) == 10
    assert states(backend.store())["main"] == {"count": 11}
    assert backend.store().verify("s") == []


def test_a_message_that_is_shown_again_comes_with_the_newest_state(backend: Backend) -> None:
    """To take back a retraction says nothing of the state."""
    first, second = pair(backend.store(), count=10)
    node = second.append("there").node
    first.refresh()
    second.retract(node)
    first.refresh()
    first.commit(state={"count": 11})
    second.unretract(node)
    assert (second.head, second.state) == ("main", {"count": 10})
    assert texts(second.context) == texts(backend.store().view("s").context) == ["hi", "there"]
    assert states(backend.store()) == {"main": {"count": 11}}


@pytest.mark.parametrize(
    "repeat",
    [
        lambda session: session.checkout(session.node),
        lambda session: session.commit(label="a good place"),
        lambda session: session.commit(state=session.state),
    ],
    ids=["checkout", "label", "state"],
)
def test_what_others_only_repeated_is_no_news(backend: Backend, repeat: Callable[[Session], object]) -> None:
    """A newer checkpoint with the same state is no conflict."""
    first, second = pair(backend.store(), count=10)
    repeat(first)
    second.commit(state={"count": 11}, expect=second.node)
    assert (second.head, states(backend.store())) == ("main", {"main": {"count": 11}})


def test_who_goes_elsewhere_sees_what_is_there(backend: Backend) -> None:
    """A checkout of the head's node loads the state that other writers committed there."""
    first, second = pair(backend.store(), count=10)
    first.commit(state={"count": 11})
    second.checkout(second.node)
    assert second.state == {"count": 11}
    second.commit(state={"count": 12})
    assert states(backend.store()) == {"main": {"count": 12}}


def test_a_branch_begins_with_the_state_in_hand(backend: Backend) -> None:
    """Also if others committed at its node since."""
    first, second = pair(backend.store(), count=10)
    first.commit(state={"count": 11})
    second.set_title("a look at what they did")
    second.branch("mine")
    assert second.state == {"count": 10}
    assert states(backend.store()) == {"main": {"count": 11}, "mine": {"count": 10}}


def test_what_is_shown_changes_when_it_is_looked_at(backend: Backend) -> None:
    """A call that meets what others committed leaves the state in hand alone, and `latest` as everybody folds it."""
    first, second = pair(backend.store(), count=10)
    first.commit(state={"count": 11})
    calls: tuple[Callable[[], object], ...] = (
        lambda: second.append("a"), lambda: second.set_title("b"), second.seal, second.nodes, second.checkpoints,
    )  # fmt: skip
    for call in calls:
        call()
        assert (second.state, second.head) == ({"count": 10}, "main")
        assert states(backend.store()) == {"main": {"count": 11}}
    second.close()
    assert backend.store().view("s").state == {"count": 11}
    assert backend.store().verify("s") == []


def test_what_is_expected_may_have_been_seen_elsewhere(backend: Backend) -> None:
    """Who names the newest checkpoint and node knows them, whatever the handle stood on."""
    store = backend.store()
    first, second = pair(store, count=10)
    first.commit(["more"], state={"count": 11})
    view = store.view("s")
    second.commit(["again"], state={"count": 12}, expect=view.node, expect_checkpoint=view.checkpoint_id)
    assert (second.head, second.state, texts(second.context)) == ("main", {"count": 12}, ["hi", "more", "again"])
    assert list(store.view("s").heads) == ["main"]


def test_state_that_was_pruned_is_not_gone_on_from(backend: Backend) -> None:
    """A handle whose checkpoint was pruned raises an error; its state is not merged into another one."""
    first, second = pair(backend.store(), count=10)
    for count in (11, 12):
        first.commit(state={"count": count})
    assert second.checkpoint_id in first.prune(KeepCheckpoints(last=1, heads=())).plan.pruned
    first.optimize(everything=True)
    with pytest.raises(HeadMovedError, match="pruned"):
        second.commit(state={"count": 11})
    second.append("still there")
    second.refresh()
    assert second.state == {"count": 12}
    second.commit(state={"count": 13})
    assert states(backend.store()) == {"main": {"count": 13}}


def test_one_that_is_overtaken_while_it_says_so_does_not_win() -> None:
    """The other's commit comes between the look and the append."""
    memory = MemoryDriver()
    meeting = Meeting(memory)
    first, second = pair(Store(Place(meeting)), count=10)
    kill(second)
    other = Store(Place(memory)).session("s", shared=True)
    meeting.before(tail_write, lambda: other.commit(state={"count": 11}))
    first.commit(state={"count": 11})
    assert (first.head, other.head) == ("main-2", "main")


def act(rng: random.Random, session: Session, unique: str) -> None:
    """Do something with a handle that may not know what others did."""
    more: dict[str, object] = {"count": session.state["count"] + 1}
    does: tuple[Callable[[], object], ...] = (
        lambda: session.commit(state=more), lambda: session.commit([unique], state=more),
        lambda: session.commit([unique]), lambda: session.append(unique), lambda: session.set_title(unique),
        session.refresh, session.seal,
    )  # fmt: skip
    rng.choice(does)()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_count_is_lost_however_handles_meet(seed: int) -> None:
    """On every head each commit counts one more than the one before it, or than where the head began."""
    rng = random.Random(seed)
    store = Store(Place(MemoryDriver(appends=seed % 2 == 0)))
    store.session("s", shared=True).commit(["hi"], state={"count": 0})
    sessions = [store.session("s", shared=True) for _ in range(3)]
    for number in range(COUNTS):
        session = rng.choice(sessions)
        act(rng, session, f"{number}")
    view = store.view("s")
    entries = {entry.id: entry for entry in view.checkpoints()}
    counts = {name: view.checkpoint(name).state["count"] for name in entries}
    newest: dict[str, str] = {}
    for entry in entries.values():
        before = newest.get(entry.head) or entry.parent
        assert before is None or counts[entry.id] - counts[before] in (0, 1), entry
        assert before is None or entry.head not in newest or entry.parent in (before, None)
        newest[entry.head] = entry.id
    assert not [finding for finding in store.verify("s") if finding.severity != "oddity"]


async def test_asynchronous_sessions_do_the_same(backend: Backend) -> None:
    """The same rules, awaited."""
    store = backend.async_store()
    async with await store.session("s", shared=True) as first:
        await first.commit([treering.user("hi")], state={"count": 10})
        async with await store.session("s", shared=True) as second:
            await first.commit(state={"count": 11})
            with pytest.raises(HeadMovedError):
                await second.commit(state={"count": 11}, expect=second.node)
            await second.commit(state={"other": 1}, merge=True)
            assert second.state == {"count": 11, "other": 1}
