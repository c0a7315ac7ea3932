"""Agents that live at random: after every step the next process has exactly what the last one had."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from strands import Agent
from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
from strands.types.content import Messages
from tests.integrations.strands.agents import agent_on, manager_of
from tests.integrations.strands.fake_model import Call, Calls, Redacted, Reply
from tests.sampling import few
from tests.session.at_rest import holding
from tests.session.backends import Backend, memory_backend

from treering.integrations.strands.repair import close_open_calls

LIVES, STEPS = few(10, whole=30), 25
SECRET = "blocked-"


class Life:
    """One agent through many processes, and what is known of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.backend: Backend = memory_backend()
        self.window = self.rng.choice([None, 3, 8])
        self.words = iter(range(10_000))
        self.agent = self.start()
        self.heads = 0

    def start(self) -> Agent:
        """Make the agent, as a new process would."""
        manager = SlidingWindowConversationManager(self.window) if self.window else NullConversationManager()
        return agent_on(self.backend, self.replies, conversation_manager=manager)

    def replies(self, _messages: Messages) -> Reply:
        """What the model says next."""
        place = self.rng.randrange(12)
        if place < 3:
            return Calls(
                *[Call("add", {"a": n, "b": 1}, f"c{next(self.words)}") for n in range(self.rng.randint(1, 2))]
            )
        if place == 3:
            return Calls(Call("remember", {"key": f"k{self.rng.randrange(3)}", "value": f"v{next(self.words)}"}))
        if place == 4:
            return KeyboardInterrupt()
        return f"answer {next(self.words)}"

    def prompt(self) -> None:
        """Ask something; the process may die on the way."""
        try:
            self.agent(f"question {next(self.words)}")
        except KeyboardInterrupt:
            self.die()

    def die(self) -> None:
        """Go on in a new process, with the open calls closed."""
        expected = close_open_calls(self.agent.messages)
        self.agent = self.start()
        require_same(self.agent.messages, expected)

    def restart(self) -> None:
        """Go on in a new process; what had not been said yet is said first."""
        manager_of(self.agent).sync_agent(self.agent)
        self.die()

    def edit(self) -> None:
        """Change the list of messages as plugins do."""
        messages = self.agent.messages
        place = self.rng.randrange(len(messages) + 1)
        if self.rng.random() < 0.4 and messages:
            del messages[place : place + self.rng.randint(1, 3)]
        elif self.rng.random() < 0.5 and messages:
            messages[min(place, len(messages) - 1)]["content"].append({"text": f"more {next(self.words)}"})
        else:
            messages.insert(place, {"role": "user", "content": [{"text": f"put in {next(self.words)}"}]})

    def know(self) -> None:
        """Change the agent's state."""
        key = f"k{self.rng.randrange(3)}"
        if self.rng.random() < 0.3:
            self.agent.state.delete(key)
        else:
            self.agent.state.set(key, {"n": next(self.words), "deep": [None, True, 1.5]})

    def redact(self) -> None:
        """Have a guardrail block what the user says."""
        said = f"{SECRET}{next(self.words)}."
        replies, self.agent.model._script = self.agent.model._script, lambda _: Redacted("[blocked]")  # type: ignore[attr-defined]
        self.agent(said)
        self.agent.model._script = replies  # type: ignore[attr-defined]
        assert holding(self.backend.snapshot(), said) == []

    def travel(self) -> None:
        """Go elsewhere: to a branch, a checkpoint, or another head."""
        manager, agent = manager_of(self.agent), self.agent
        entries = manager.checkpoints(agent)
        place = self.rng.randrange(3)
        if place == 0 and entries:
            manager.restore_checkpoint(agent, self.rng.choice(entries).id)
        elif place == 1 and agent.messages:
            self.heads += 1
            named = [message["tracking_id"] for message in agent.messages if "tracking_id" in message]
            manager.sync_agent(agent)
            if named:
                manager.branch(agent, f"h{self.heads}", message=self.rng.choice(named))
        elif heads := sorted(manager.heads(agent)):
            manager.switch(agent, self.rng.choice(heads))

    def steps(self) -> Iterator[str]:
        """Names of steps, the likely ones more often."""
        names = ["prompt"] * 6 + ["restart"] * 2 + ["edit"] * 2 + ["know", "redact", "travel", "travel"]
        for _ in range(STEPS):
            yield self.rng.choice(names)


def require_same(found: Messages, expected: Messages) -> None:
    """Hold messages to others; repairs have no tracking id of their own before they are loaded."""
    unnamed = [message for message in expected if "tracking_id" not in message]
    for message in unnamed:
        message["tracking_id"] = found[expected.index(message)].get("tracking_id", "")
    assert found == expected


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_life(seed: int) -> None:
    """Whatever happens in between, the next process has the messages, state and manager of the last one."""
    life = Life(seed)
    for step in life.steps():
        getattr(life, step)()
        manager_of(life.agent).sync_agent(life.agent)
        again = life.start()
        require_same(again.messages, close_open_calls(life.agent.messages))
        assert again.state.get() == life.agent.state.get(), step
        assert again.conversation_manager.get_state() == life.agent.conversation_manager.get_state(), step
    store = life.backend.store()
    assert store.verify("s") == []
    assert store.view("s").problems() == ()
