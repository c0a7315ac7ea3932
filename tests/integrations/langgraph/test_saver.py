"""What graphs rely on: kills, interrupts, time travel, subgraphs, delta channels, encryption, retention."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from tests.integrations.langgraph.graphs import Graph, Tally, chat, config, say, tools
from tests.session.backends import Backend

import treering
from treering import NotFoundError, UsageError
from treering.integrations.langgraph import TreeringSaver


def saver_on(backend: Backend) -> TreeringSaver:
    """The saver of a new process."""
    return TreeringSaver(backend.store())


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_another_process_goes_on(backend: Backend, durability: Any) -> None:
    """A process that ends without closing anything loses nothing that its graph was told is stored."""
    say(chat(saver_on(backend)), "one", durability=durability)
    said = say(chat(saver_on(backend)), "two", durability=durability)
    assert said == ["one", "you said: one", "two", "you said: two"]


def test_finished_tools_are_not_called_again(backend: Backend) -> None:
    """A run that fails in one of several parallel tools resumes with the results of the others."""
    calls: list[str] = []
    broken = [True]

    def fine(_: Tally) -> dict[str, Any]:
        calls.append("fine")
        return {"done": ["fine"]}

    def fails(_: Tally) -> dict[str, Any]:
        calls.append("fails")
        if broken:
            raise ConnectionError
        return {"done": ["mended"]}

    with pytest.raises(ConnectionError):
        tools(saver_on(backend), fine, fails).invoke({"done": []}, config(), durability="sync")
    broken.clear()
    done = tools(saver_on(backend), fine, fails).invoke(None, config(), durability="sync")
    assert done == {"done": ["fine", "mended", "after 2"]}
    assert sorted(calls) == ["fails", "fails", "fine"]


def test_an_interrupt_waits_for_another_process(backend: Backend) -> None:
    """A question to a person is answered in another process, after which the graph goes on."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"it is {interrupt('what is it?')}")]}

    paused = chat(saver_on(backend), ask).invoke({"messages": [HumanMessage("go")]}, config())
    assert [each.value for each in paused["__interrupt__"]] == ["what is it?"]
    done = chat(saver_on(backend), ask).invoke(Command(resume="a test"), config())
    assert [message.content for message in done["messages"]] == ["go", "it is a test"]


async def test_blocking_and_awaited_calls_share_a_saver(backend: Backend) -> None:
    """One saver serves both, and both see each other's turns at once."""
    async with saver_on(backend) as saver:
        graph = chat(saver)
        say(graph, "one")
        await graph.ainvoke({"messages": [HumanMessage("two")]}, config())
        assert len(say(graph, "three")) == 6
        listed = [each async for each in saver.alist(config())]
        assert [each.config for each in listed] == [each.config for each in saver.list(config())]


def test_subgraphs_have_namespaces_of_their_own(backend: Backend) -> None:
    """Two graphs deep: what each of them knew at an interrupt is found again, and its history can be listed."""

    def step(_: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"said {interrupt('say')}")]}

    def wrapped(inner: Any, saver: Any = None) -> Graph:
        builder = StateGraph(MessagesState)
        builder.add_node("inner", inner)
        builder.add_edge(START, "inner")
        builder.add_edge("inner", END)
        return builder.compile(checkpointer=saver)

    def graph() -> Graph:
        return wrapped(wrapped(wrapped(step)), saver_on(backend))

    graph().invoke({"messages": [HumanMessage("go")]}, config())
    state = graph().get_state(config(), subgraphs=True)
    inner = state.tasks[0].state.tasks[0].state
    assert inner.config["configurable"]["checkpoint_ns"].count("|") == 1
    assert [message.content for message in inner.values["messages"]] == ["go"]
    namespaces = {each.config["configurable"]["checkpoint_ns"] for each in saver_on(backend).list(config())}
    assert len(namespaces) == 3
    done = graph().invoke(Command(resume="it"), config())
    assert [message.content for message in done["messages"]] == ["go", "said it"]


def test_messages_are_removed_and_replaced(backend: Backend) -> None:
    """A list that loses its front and gets a message in another wording is what it was, in each old checkpoint."""
    graph = chat(saver_on(backend))
    say(graph, "one")
    say(graph, "two")
    listed = graph.get_state(config()).values["messages"]
    gone = [RemoveMessage(message.id) for message in listed[:2]]
    graph.update_state(config(), {"messages": [*gone, HumanMessage("zwei", id=listed[2].id)]})
    assert say(graph, "three") == ["zwei", "you said: two", "three", "you said: three"]
    history = [
        [message.content for message in state.values.get("messages", [])]
        for state in chat(saver_on(backend)).get_state_history(config())
    ]
    assert ["one", "you said: one", "two", "you said: two"] in history
    assert history[0] == ["zwei", "you said: two", "three", "you said: three"]


def test_a_message_that_is_erased_during_a_run_does_not_come_back(backend: Backend) -> None:
    """The run still has it, and puts the whole list again."""
    saver = saver_on(backend)
    say(chat(saver), "one")
    say(chat(saver), "secret marmalade")

    def model(state: MessagesState) -> dict[str, Any]:
        for message in state["messages"][2:4]:
            saver_on(backend).erase("t", str(message.id))
        return {"messages": [AIMessage("after")]}

    chat(saver, model).invoke({"messages": [HumanMessage("two")]}, config(), durability="sync")
    said = [message.content for message in chat(saver_on(backend)).get_state(config()).values["messages"]]
    assert (len(said), said[:2], said[4:]) == (6, ["one", "you said: one"], ["two", "after"])
    assert not any(b"marmalade" in line for line in backend.store().view("t").lines())


class Reversing(CipherProtocol):
    """No secret at all, but other bytes each time."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", os.urandom(8) + plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[8:][::-1]


def test_an_encrypting_serializer_gets_every_value(backend: Backend) -> None:
    """No word of a conversation, of writes or of a user's metadata is stored as it is; messages are stored once."""
    saver = TreeringSaver(backend.store(), serde=EncryptedSerializer(Reversing()))
    graph = chat(saver)
    secret = "orange marmalade"
    for _ in range(3):
        graph.invoke({"messages": [HumanMessage(secret)]}, {**config(), "metadata": {"who": secret}}, durability="sync")
    saver.close()
    view = backend.store().view("t")
    assert not any(secret.encode() in line or b"marmalade" in line for line in view.lines())
    assert len(view.nodes()) == 6
    again = TreeringSaver(backend.store(), serde=EncryptedSerializer(Reversing()))
    assert len(say(chat(again), "and now")) == 8
    assert [each.metadata["step"] for each in again.list(config(), filter={"who": secret}, limit=2)] == [7, 6]


def added(state: list[Any], writes: list[Any]) -> list[Any]:
    """The reducer of a delta channel."""
    return [*state, *(each for write in writes for each in write)]


class Delta(TypedDict):
    """A list that is stored as writes, and as a whole now and then."""

    items: Annotated[list[Any], DeltaChannel(added, list, snapshot_frequency=4)]


class LongDelta(TypedDict):
    """The same, and no test runs long enough for it to be stored as a whole."""

    items: Annotated[list[Any], DeltaChannel(added, list, snapshot_frequency=50)]


def growing(saver: Any, delta: type[Any] = Delta) -> Graph:
    """A graph that adds an item in each run."""
    builder = StateGraph(delta)
    builder.add_node("add", lambda state: {"items": [len(state["items"])]})
    builder.add_edge(START, "add")
    builder.add_edge("add", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("runs", range(1, 8))
def test_delta_channels_survive_forks_and_pruning(backend: Backend, runs: int) -> None:
    """A list of which only writes are stored is whole again after a kill, in a fork, and once old ones are pruned."""
    peer = growing(InMemorySaver())
    for number in range(runs):
        for graph in (growing(saver_on(backend)), peer):
            graph.invoke({"items": [f"run {number}"]}, config(), durability="sync")
    whole = peer.get_state(config()).values
    assert growing(saver_on(backend)).get_state(config()).values == whole
    graph = growing(saver_on(backend))
    for ours, theirs in zip(graph.get_state_history(config()), peer.get_state_history(config()), strict=True):
        assert ours.values == theirs.values
    saver = saver_on(backend)
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    assert len(list(saver.list(config()))) == 1
    assert growing(saver_on(backend)).get_state(config()).values == whole
    after = [growing(saver_on(backend)).invoke({"items": ["on"]}, config(name)) for name in ("t", "copy")]
    assert after[0] == after[1]
    saver_on(backend).prune(["t"])
    assert growing(saver_on(backend)).get_state(config()).values == after[0]


def test_a_delta_channel_that_was_pruned_grows_on(backend: Backend) -> None:
    """Where only its writes are stored, each later run, also after a second prune, finds what came before."""
    peer = growing(InMemorySaver(), LongDelta)
    for number in range(6):
        saver = saver_on(backend)
        if number in (2, 4):
            saver.prune(["t"])
        for graph in (growing(saver, LongDelta), peer):
            graph.invoke({"items": [f"run {number}"]}, config(), durability="sync")
        assert growing(saver_on(backend), LongDelta).get_state(config()).values == peer.get_state(config()).values
    history = list(growing(saver_on(backend), LongDelta).get_state_history(config()))
    assert [state.values for state in history] == [
        state.values for state, _ in zip(peer.get_state_history(config()), history, strict=False)
    ]
    assert len(history) == 7  # the one that the second prune kept, and three of each run after it


@pytest.mark.parametrize("verb", ["prune", "retain"])
@pytest.mark.parametrize("last", [1, 2, 5])
def test_a_delta_channel_survives_what_does_not_know_it(backend: Backend, verb: str, last: int) -> None:
    """Each checkpoint that a policy or a prune of the session keeps has the whole list, and runs and forks go on."""
    peer = growing(InMemorySaver(), LongDelta)
    keep, shown = treering.KeepCheckpoints(last=last), 0
    for number in range(4):
        saver = saver_on(backend)
        for graph in (growing(saver, LongDelta), peer):
            graph.invoke({"items": [f"run {number}"]}, config(), durability="sync")
        saver.close()
        if verb == "retain":
            backend.store().retain(treering.Retention(checkpoints=keep, min_idle_hours=0))
        else:
            with backend.store().session("t", shared=True) as session:
                session.prune(keep)
        history = list(growing(saver_on(backend), LongDelta).get_state_history(config()))
        shown = len(history)
        assert 1 <= shown <= last
        assert [state.values for state in history] == [
            state.values for state, _ in zip(peer.get_state_history(config()), history, strict=False)
        ]
    values = []
    for graph in (growing(saver_on(backend), LongDelta), peer):
        oldest = list(graph.get_state_history(config()))[shown - 1]
        values.append([graph.invoke({"items": ["again"]}, oldest.config), graph.get_state(config()).values])
    assert values[0] == values[1]


def test_a_delta_channel_of_a_branch_has_its_own_writes(backend: Backend) -> None:
    """Two branches of one checkpoint, of which each goes on and is then pruned, show what each of them wrote."""
    values = []
    for saver in (saver_on(backend), InMemorySaver()):
        graph = growing(saver, LongDelta)
        for number in range(3):
            graph.invoke({"items": [number]}, config(), durability="sync")
        early = list(graph.get_state_history(config()))[3].config
        for text in ("left", "right"):
            place = graph.update_state(early, {"items": [text]})
            graph.invoke({"items": [f"{text} on"]}, place, durability="sync")
            graph.invoke({"items": [f"{text} again"]}, config(), durability="sync")
        if isinstance(saver, TreeringSaver):
            saver.close()
            with backend.store().session("t", shared=True) as session:
                session.prune(treering.KeepCheckpoints(last=9))
            graph = growing(saver_on(backend), LongDelta)
        values.append([state.values for state in graph.get_state_history(config())])
    assert values[0][0] == {"items": [0, 1, 1, 3, "right", "right on", 6, "right again", 8]}
    assert values[0] == values[1][: len(values[0])]


def test_a_list_becomes_a_delta_channel_and_is_pruned(backend: Backend) -> None:
    """The messages of a thread that were nodes are what the writes since then are added to."""

    class Messages(TypedDict):
        messages: Annotated[list[Any], DeltaChannel(added, list)]

    def graph() -> Graph:
        return chat_of(Messages, saver_on(backend))

    say(chat(saver_on(backend)), "one")
    for number in range(3):
        graph().invoke({"messages": [HumanMessage(f"more {number}")]}, config(), durability="sync")
        with backend.store().session("t", shared=True) as session:
            session.prune(treering.KeepCheckpoints(last=1))
    said = [message.content for message in graph().get_state(config()).values["messages"]]
    assert said == ["one", "you said: one", "more 0", "more 1", "more 2"]


def chat_of(shape: type[Any], saver: TreeringSaver) -> Graph:
    """A graph that keeps what it is told, and says nothing."""
    builder = StateGraph(shape)
    builder.add_node("listen", lambda _: {"messages": []})
    builder.add_edge(START, "listen")
    builder.add_edge("listen", END)
    return builder.compile(checkpointer=saver)


def test_a_delta_channel_without_its_ancestors_is_an_error(backend: Backend) -> None:
    """A checkpoint of which nobody knows all writes, since its parent is not there, is never shown with a part."""
    saver = saver_on(backend)
    lone: Any = {**numbered(5), "channel_versions": {"items": 3}}
    saver.put(config(checkpoint_id="id-0004"), lone, {"counters_since_delta_snapshot": {"items": (2, 2)}}, {})
    saver.delete_for_runs(["another"])
    graph = growing(saver_on(backend), LongDelta)
    for read in (graph.get_state, partial(graph.invoke, {"items": [4]})):
        with pytest.raises(NotFoundError, match=r"delta channel were removed.*'items'"):
            read(config())


@pytest.mark.parametrize(("gone", "left"), [("run-1", ["run-1", 1, "run-2", 3]), ("run-2", ["run-1", 1])])
def test_a_delta_channel_keeps_what_a_deleted_run_wrote(backend: Backend, gone: str, left: list[Any]) -> None:
    """As in any other channel, the values of the checkpoints that stay are what they were, whatever is deleted."""
    graph = growing(saver_on(backend), LongDelta)
    for run in ("run-1", "run-2"):
        graph.invoke({"items": [run]}, {**config(), "metadata": {"run_id": run}}, durability="sync")
    graph.checkpointer.delete_for_runs([gone])
    assert growing(saver_on(backend), LongDelta).get_state(config()).values == {"items": left}
    graph.checkpointer.prune(["t"])
    after = growing(saver_on(backend), LongDelta).invoke({"items": ["on"]}, config())
    assert after == {"items": [*left, "on", len(left) + 1]}


def test_a_checkpoint_that_pruning_kept_stays(backend: Backend) -> None:
    """The question at which a thread waited can still be read, and gone back to, once it was answered."""

    def ask(_: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"it is {interrupt('what is it?')}")]}

    graph = chat(saver_on(backend), ask)
    graph.invoke({"messages": [HumanMessage("go")]}, config(), durability="sync")
    graph.checkpointer.prune(["t"])
    kept = graph.get_state(config())
    graph.invoke(Command(resume="a test"), config(), durability="sync")
    again = chat(saver_on(backend), ask)
    there = again.get_state(again.get_state(config()).parent_config)
    assert (there.config, there.values, there.next, there.interrupts) == (
        kept.config, kept.values, ("model",), kept.interrupts,
    )  # fmt: skip


def test_pruning_keeps_the_newest_of_each_namespace(backend: Backend) -> None:
    """It and its writes can still be read after later puts in its namespace, and in another one."""
    saver = saver_on(backend)
    for ns in ("", "sub"):
        parent = saver.put(config(checkpoint_ns=ns), numbered(1, a=1), {}, {})
        saver.put_writes(saver.put(parent, numbered(2, a=2), {}, {}), [("b", ns)], "task")
    saver.prune(["t"])
    for ns in ("sub", ""):
        saver.put(config(checkpoint_ns=ns, checkpoint_id="id-0002"), numbered(3, a=3), {}, {})
    for ns in ("", "sub"):
        found = saver_on(backend).get_tuple(config(checkpoint_ns=ns, checkpoint_id="id-0002"))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 2}
        assert found.pending_writes == [("task", "b", ns)]
    assert [each.checkpoint["id"] for each in saver.list(config(checkpoint_ns=""))] == ["id-0003", "id-0002"]


def test_writes_may_come_first_and_in_parts(backend: Backend) -> None:
    """Writes wait for their checkpoint; of regular ones the first stays, of special ones the last, in a fixed order."""
    saver = saver_on(backend)
    made = saver.put(config(checkpoint_ns=""), numbered(1, a=1), {}, {})
    later = numbered(2)
    there = config(checkpoint_ns="", checkpoint_id=later["id"])
    saver.put_writes(there, [("b", "first"), ("c", "first")], "task-2", "path-2")
    saver.put_writes(there, [("b", "second")], "task-2", "path-2")
    saver.put_writes(there, [("__interrupt__", "one")], "task-1", "path-3")
    saver.put_writes(there, [("__interrupt__", "two")], "task-1", "path-3")
    saver.put_writes(there, [("d", number) for number in range(12)], "task-0", "path-1")
    saver.put(made, later, {}, {})
    expected = [
        *[("task-0", "d", number) for number in range(12)],
        ("task-2", "b", "first"), ("task-2", "c", "first"), ("task-1", "__interrupt__", "two"),
    ]  # fmt: skip
    for each in (saver, saver_on(backend)):
        found = each.get_tuple(config())
        assert found is not None
        assert found.pending_writes == expected
    saver.put_writes(there, [("__interrupt__", "three")], "task-1", "path-3")
    expected[-1] = ("task-1", "__interrupt__", "three")
    saver.put(there, numbered(3), {}, {})  # from here on they are an old checkpoint's
    saver.put_writes(there, [("b", "third")], "task-2", "path-2")
    for each in (saver, saver_on(backend)):
        found = each.get_tuple(there)
        assert found is not None
        assert found.pending_writes == expected


def numbered(number: int, **channels: object) -> Any:
    """A checkpoint with a chosen id."""
    return {
        "v": 2, "id": f"id-{number:04d}", "ts": "", "channel_values": channels, "channel_versions": {},
        "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip


def test_a_late_checkpoint_does_not_become_the_newest(backend: Backend) -> None:
    """One with a lower id than the newest is listed in its place, and the newest is what it was, with its writes."""
    saver = saver_on(backend)
    first = saver.put(config(checkpoint_ns=""), numbered(1, a=[1]), {}, {})
    newest = numbered(5, messages=[HumanMessage("new")])
    there = saver.put(first, newest, {}, {})
    saver.put_writes(there, [("b", "pending")], "task")
    assert saver.get_tuple(first) is not None  # who goes on from an old one reads it
    late = numbered(3, messages=[HumanMessage("late")], c=3)
    saver.put(first, late, {}, {})
    for each in (saver, saver_on(backend)):
        found = each.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"] == newest["channel_values"]
        assert found.pending_writes == [("task", "b", "pending")]
        assert [one.checkpoint["id"] for one in each.list(config())] == ["id-0005", "id-0003", "id-0001"]
        old = each.get_tuple(config(checkpoint_id="id-0003"))
        assert old is not None
        assert old.checkpoint["channel_values"] == late["channel_values"]


def test_runs_are_deleted_with_what_stood_on_them(backend: Backend) -> None:
    """Deleting the run of the newest checkpoint puts the one before back; a thread of one run is empty then."""
    saver = saver_on(backend)
    graph = chat(saver)
    for run in ("run-1", "run-2"):
        graph.invoke({"messages": [HumanMessage(run)]}, {**config(), "metadata": {"run_id": run}}, durability="sync")
    saver.delete_for_runs(["run-2", "unknown"])
    for each in (saver, saver_on(backend)):
        assert {one.metadata["run_id"] for one in each.list(config())} == {"run-1"}
        assert len(chat(each).get_state(config()).values["messages"]) == 2
    assert say(chat(saver), "again") == ["run-1", "you said: run-1", "again", "you said: again"]
    saver.delete_for_runs(["run-1"])
    assert {one.metadata.get("run_id") for one in saver.list(config())} == {None}


def test_filters_and_bounds_hold_together(backend: Backend) -> None:
    """A list with a filter, a bound and a limit shows what the others show, whatever the length of a metadata."""
    saver, peer = saver_on(backend), InMemorySaver()
    for number in range(40):
        for each in (saver, peer):
            metadata: Any = {"step": number, "odd": bool(number % 2), "long": "x" * 20 * number, "of": [number % 3]}
            each.put(config(checkpoint_ns=f"ns-{number % 2}"), numbered(number), metadata, {})
    questions: list[dict[str, Any]] = [
        {}, {"limit": 0}, {"limit": 7}, {"filter": {"odd": True}, "limit": 3}, {"filter": {"of": [1]}},
        {"filter": {"long": "x" * 600}}, {"filter": {"step": 4, "odd": False}}, {"filter": {"missing": None}},
        {"before": config(checkpoint_id="id-0010")}, {"before": config(checkpoint_id="id-0010"), "limit": 2},
    ]  # fmt: skip
    for ns in ("ns-0", "ns-1", "none"):
        for question in questions:
            ours, theirs = (list(each.list(config(checkpoint_ns=ns), **question)) for each in (saver, peer))
            assert [each.checkpoint["id"] for each in ours] == [each.checkpoint["id"] for each in theirs], question
            assert [each.metadata for each in ours] == [each.metadata for each in theirs]
    assert len(list(saver.list(config()))) == 40
    assert len(list(saver.list(None, limit=11))) == 11


def test_sessions_of_others_are_left_alone(backend: Backend) -> None:
    """A session that was not made by LangGraph is refused, and not listed; nothing is recorded in it."""
    with backend.store().session("t") as session:
        session.append("mine")
    saver = saver_on(backend)
    assert saver.get_tuple(config()) is None
    assert list(saver.list(None)) == []
    with pytest.raises(UsageError, match="not made by LangGraph"):
        say(chat(saver), "hello")
    assert len(backend.store().view("t").nodes()) == 1


def test_a_store_with_a_redactor_is_refused() -> None:
    """What a serializer encodes cannot be redacted, so nobody is led to believe that it is."""
    with pytest.raises(UsageError, match="redactor"):
        TreeringSaver(treering.open("memory://redacted", redactor=str.upper))


def test_many_threads_are_open_within_bounds(backend: Backend) -> None:
    """More threads than may be open are closed in turns, and go on where they were."""
    saver = TreeringSaver(backend.store(), open_max=2)
    graph = chat(saver)
    said = [say(graph, text, str(thread)) for text in ("one", "two") for thread in range(5)]
    assert [len(each) for each in said] == [2] * 5 + [4] * 5


@pytest.mark.parametrize("current", [None, 4, 4.5, "7", "00000000000000000000000000000009.0.5"])
def test_versions_increase(current: Any) -> None:
    """Each version is greater than the one before, also those of threads that another saver began, and unique."""
    saver = TreeringSaver(treering.open("memory://versions"))
    versions = [saver.get_next_version(current, None) for _ in range(3)]
    assert len(set(versions)) == 3
    for _ in range(30):
        versions.append(saver.get_next_version(versions[-1], None))
    assert versions[3:] == sorted(versions[3:])
    assert not isinstance(current, str) or len(current) < 32 or min(versions) > current
