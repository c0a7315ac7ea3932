"""What it costs, in requests, counted below all retries."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import pytest
from benchmarks import workload
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from tests.integrations.langgraph.graphs import Graph, chat, config, say
from tests.session.backends import Backend, memory_backend

from treering.integrations.langgraph import TreeringSaver
from treering.journal.limits import SEALED_BYTES_DROP
from treering.storage.counting import CountingDriver

TURNS, TURN_BYTES = 100, 4096
REQUESTS_A_TURN, HISTORY_REQUESTS, STORED, WAITS_COLD, UP_A_TURN = 8, 30, 1.2, 3, 15
"""At most: of a turn, of a list of 300 checkpoints; bytes for each byte of text once segments are merged; waits for
any checkpoint in a new process; and bytes sent for each byte of text of a delta channel, in a thread of 45 turns."""


def counted(backend: Backend, **options: Any) -> tuple[Graph, CountingDriver]:
    """A chat in a new process, and what counts its requests."""
    store, counts = backend.counted()
    return chat(TreeringSaver(store), **options), counts


class Written:
    """A thread of 100 turns in an object store."""

    def __init__(self) -> None:
        self.backend = memory_backend()
        texts: Iterator[str] = iter(workload.even_texts(2 * TURNS, TURN_BYTES // 2))
        graph, self.counts = counted(self.backend, model=lambda _: {"messages": [AIMessage(next(texts))]})
        say(graph, next(texts))
        self.counts.reset()
        for _ in range(TURNS - 1):
            say(graph, next(texts))
        self.turns = self.counts.total / (TURNS - 1)
        self.kinds = dict(self.counts.counts)


@pytest.fixture(scope="module")
def written() -> Written:
    """Written once for all."""
    return Written()


def test_a_turn_takes_few_requests(written: Written) -> None:
    """Three checkpoints, two sets of writes and a look, with sealing and merging: at most 8 requests on average."""
    assert written.turns <= REQUESTS_A_TURN, written.kinds


def test_resuming_takes_two_reads(written: Written) -> None:
    """The newest checkpoint of a thread of any length is two reads, sent at once."""
    graph, counts = counted(written.backend)
    counts.reset()
    assert len(graph.get_state(config()).values["messages"]) == 2 * TURNS
    assert counts.counts == {"Get": 2}
    assert counts.batches == 1
    assert counts.bytes_down <= 0.6 * TURNS * TURN_BYTES


def test_looking_again_takes_one_request(written: Written) -> None:
    """A saver that has a thread open asks once whether anything changed."""
    graph, counts = counted(written.backend)
    graph.get_state(config())
    counts.reset()
    graph.get_state(config())
    assert counts.counts == {"Get": 1}


def test_a_whole_history_takes_few_requests(written: Written) -> None:
    """300 checkpoints with their messages take at most 30 requests, and their bytes once."""
    graph, counts = counted(written.backend)
    counts.reset()
    history = list(graph.get_state_history(config()))
    assert len(history) == 3 * TURNS
    assert counts.total <= HISTORY_REQUESTS, dict(counts.counts)
    assert counts.bytes_down <= 3 * TURNS * TURN_BYTES


@pytest.mark.parametrize("place", [3, 150, 290])
def test_an_old_checkpoint_takes_few_waits(written: Written, place: int) -> None:
    """In a new process, the resume included: both registers, the ends of all segments, and frames."""
    wanted = list(counted(written.backend)[0].get_state_history(config()))[place]
    graph, counts = counted(written.backend)
    assert graph.get_state(wanted.config).values == wanted.values
    assert counts.batches <= WAITS_COLD


def test_messages_of_a_history_share_nothing(written: Written) -> None:
    """Who changes a message of one checkpoint changes it in no other, and not in what is returned next."""
    graph, _ = counted(written.backend)
    newest, before, *_ = graph.get_state_history(config())
    said = before.values["messages"][0]
    assert newest.values["messages"][0] == said
    newest.values["messages"][0].additional_kwargs["mine"] = True
    newest.values["messages"][0].content = "changed"
    assert said == graph.get_state(before.config).values["messages"][0]
    assert "mine" not in said.additional_kwargs


def _stored_of(backend: Backend) -> tuple[int, int]:
    """Bytes of a thread once it is merged: without its tail, and of its tail."""
    with backend.store().session("t", shared=True) as session:
        session.optimize(everything=True)
    there = backend.snapshot()
    tail = sum(len(data) for key, data in there.items() if "/tail" in key)
    return sum(map(len, there.values())) - tail, tail


class Planned(MessagesState):
    """Messages, a value that is set once, and one that changes at each turn."""

    plan: str
    turn: int


@pytest.mark.sampled(2)
@pytest.mark.parametrize("plan", [10, 5_000])
def test_a_value_set_long_ago_takes_no_more_waits(plan: int) -> None:
    """Few full records repeat it, so most checkpoints need the first one's record, too."""
    turns, backend = 150, memory_backend()
    store, _ = backend.counted()
    texts = iter(workload.even_texts(2 * turns, 1024))
    builder = StateGraph(Planned)
    builder.add_node("model", lambda seen: {"messages": [AIMessage(next(texts))], "turn": seen.get("turn", 0) + 1})
    builder.add_edge(START, "model")
    graph: Graph = builder.compile(checkpointer=TreeringSaver(store))
    said: dict[str, Any] = {"plan": workload.even_texts(1, plan)[0]}
    for _ in range(turns):
        graph.invoke({**said, "messages": [HumanMessage(next(texts))]}, config(), durability="sync")
        said = {}
    _require_few_waits(backend, segments=2)


class Notes(TypedDict):
    """Values that grow, in channels that hold no messages."""

    listed: Annotated[list[str], operator.add]
    named: Annotated[dict[str, str], operator.or_]


@pytest.mark.parametrize("channel", ["listed", "named"])
def test_other_channels_are_stored_about_once(channel: str) -> None:
    """A list or a dict that gets two texts each turn takes as few bytes as messages do, as few requests and waits."""
    turns, backend = 60, memory_backend()
    texts = iter(workload.even_texts(2 * turns, TURN_BYTES // 2))
    store, counts = backend.counted()
    builder = StateGraph(Notes)

    def said() -> dict[str, Any]:
        text = next(texts)
        return {channel: [text] if channel == "listed" else {text[:20]: text}}

    builder.add_node("model", lambda _: said())
    builder.add_edge(START, "model")
    graph: Graph = builder.compile(checkpointer=TreeringSaver(store))
    for _ in range(turns):
        graph.invoke(said(), config(), durability="sync")
    assert counts.total <= REQUESTS_A_TURN * turns
    _require_few_waits(backend)
    stored, tail = _stored_of(backend)
    assert stored <= STORED * turns * TURN_BYTES
    assert tail <= SEALED_BYTES_DROP


class Noted(TypedDict):
    """A list that is stored as writes, and never as a whole."""

    listed: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(each for part in new for each in part)], list)]


def test_a_delta_channel_takes_what_a_list_takes() -> None:
    """Its writes stay in the state, as the messages of a chat do: 8 requests a turn, and as many bytes up.

    In a new process its value is there with the newest checkpoint, and one look more.
    """
    turns, backend = 45, memory_backend()
    texts = iter(workload.even_texts(2 * turns, TURN_BYTES // 2))
    store, counts = backend.counted()
    builder = StateGraph(Noted)
    builder.add_node("model", lambda _: {"listed": [next(texts)]})
    builder.add_edge(START, "model")
    graph: Graph = builder.compile(checkpointer=TreeringSaver(store))
    for _ in range(turns):
        graph.invoke({"listed": [next(texts)]}, config(), durability="sync")
    assert counts.total <= REQUESTS_A_TURN * turns
    assert counts.bytes_up <= UP_A_TURN * turns * TURN_BYTES
    stored, tail = _stored_of(backend)
    assert stored <= STORED * turns * TURN_BYTES
    assert tail <= SEALED_BYTES_DROP
    store, counts = backend.counted()
    graph = builder.compile(checkpointer=TreeringSaver(store))
    assert len(graph.get_state(config()).values["listed"]) == 2 * turns
    assert counts.counts == {"Get": 3}


def _require_few_waits(backend: Backend, segments: int = 9) -> None:
    """Any checkpoint in a new process, whose full record may refer to another one, among so many segments or more."""
    assert backend.store().view("t").stored().segments >= segments
    history = list(TreeringSaver(backend.store()).list(config()))
    for wanted in history[:: len(history) // 12]:
        store, counts = backend.counted()
        found = TreeringSaver(store).get_tuple(wanted.config)
        assert found is not None
        assert found.checkpoint == wanted.checkpoint
        assert counts.batches <= WAITS_COLD, (wanted.metadata, counts.requests)


def test_text_is_stored_about_once(written: Written) -> None:
    """Merged and closed, a thread takes at most 1.2 bytes for each byte of text, with everything LangGraph puts.

    Beside that the tail may hold a few records, which are sealed already if the last put happened to seal.
    """
    stored, tail = _stored_of(written.backend)
    assert stored <= STORED * TURNS * TURN_BYTES
    assert tail <= SEALED_BYTES_DROP
