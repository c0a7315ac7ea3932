"""Two runs of one thread: the second one is told, and nothing that was put is lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from tests.integrations.langgraph.graphs import chat, config, echo, say
from tests.session.backends import Backend

from treering import HeadMovedError
from treering.integrations.langgraph import TreeringSaver


class Meeting:
    """A model during whose answer somebody else takes a turn."""

    def __init__(self, other: Any) -> None:
        self._other = other

    def __call__(self, state: Any) -> dict[str, Any]:
        other, self._other = self._other, None
        if other is not None:
            say(other, "in between")
        return echo(state)


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_the_slower_of_two_processes_is_told(anywhere: Backend, durability: Any) -> None:
    """Both begin at one checkpoint; the one that puts second gets a typed error, and the first one's turn stands."""
    say(chat(TreeringSaver(anywhere.store())), "one")
    other = chat(TreeringSaver(anywhere.store()))
    slower = chat(TreeringSaver(anywhere.store()), Meeting(other))
    with pytest.raises(HeadMovedError, match="another run"):
        say(slower, "two", durability=durability)
    said = say(chat(TreeringSaver(anywhere.store())), "three")
    assert "in between" in said
    assert said[-2:] == ["three", "you said: three"]
    everything = [
        message.content
        for state in chat(TreeringSaver(anywhere.store())).get_state_history(config())
        for message in state.values.get("messages", [])
    ]
    assert durability == "exit" or "two" in everything  # what it put before stays, too


def test_two_runs_of_one_saver_are_told_apart(backend: Backend) -> None:
    """Also in one process, with one saver: what it put for one run is not taken for what the other one saw."""
    saver = TreeringSaver(backend.store())
    say(chat(saver), "one")
    with pytest.raises(HeadMovedError):
        say(chat(saver, Meeting(chat(saver))), "two")


def test_both_are_kept_where_that_is_asked_for(backend: Backend) -> None:
    """With `branch` neither is told, both are recorded, and the newest is the one with the greatest id."""

    def saver() -> TreeringSaver:
        return TreeringSaver(backend.store(), on_conflict="branch")

    say(chat(saver()), "one")
    say(chat(saver(), Meeting(chat(saver()))), "two", durability="exit")
    ends = {
        tuple(m.content for m in s.values["messages"]) for s in chat(saver()).get_state_history(config()) if s.values
    }
    assert ("one", "you said: one", "in between", "you said: in between") in ends
    assert ("one", "you said: one", "two", "you said: two") in ends


def test_of_many_beginners_one_wins(anywhere: Backend) -> None:
    """Eight processes continue from one checkpoint at once: one put succeeds, the others are told, none is silent."""
    first = TreeringSaver(anywhere.store())
    say(chat(first), "one")
    savers = [TreeringSaver(anywhere.store()) for _ in range(8)]
    parents = [found.config for saver in savers if (found := saver.get_tuple(config())) is not None]
    outcomes: list[str] = []

    def put(number: int) -> None:
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": [HumanMessage(f"from {number}")]}
        try:
            savers[number].put(parents[number], checkpoint, {"source": "loop"}, {})
        except HeadMovedError:
            outcomes.append("told")
        else:
            outcomes.append(checkpoint["id"])

    workers = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    won = [outcome for outcome in outcomes if outcome != "told"]
    assert len(outcomes) == 8
    assert len(won) == 1
    found = TreeringSaver(anywhere.store()).get_tuple(config())
    assert found is not None
    assert found.checkpoint["id"] == won[0]


async def test_tools_of_one_step_write_at_once(anywhere: Backend) -> None:
    """Writes of many tasks, put from several savers at the same time, are all there, once."""
    with TreeringSaver(anywhere.store()) as saver:
        say(chat(saver), "one")
    savers = [TreeringSaver(anywhere.store()) for _ in range(3)]
    found = savers[0].get_tuple(config())
    assert found is not None
    await asyncio.gather(
        *(
            savers[task % 3].aput_writes(found.config, [("c", task), ("d", task)], f"task-{task:02d}")
            for task in range(24)
        )
    )
    again = TreeringSaver(anywhere.store()).get_tuple(config())
    assert again is not None
    expected = [(f"task-{task:02d}", channel, task) for task in range(24) for channel in ("c", "d")]
    assert again.pending_writes == expected
