"""What it costs on a real object store, counted on the wire, and what is left of an agent that was killed there."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager, SlidingWindowConversationManager
from tests.gateway import Gateway
from tests.integrations.strands.agents import managed, manager_of, said
from tests.integrations.strands.fake_model import Call, Calls
from tests.sampling import few
from tests.servers import S3Server
from tests.storage.processes import start

import treering
from treering import Store
from treering.integrations.strands import TreeringSessionManager
from treering.integrations.strands.conversation import draft_of

pytestmark = pytest.mark.s3

CALLS = few(50, whole=200)
MESSAGES = 2 * CALLS + 2
REQUESTS_MAX = 120 * MESSAGES // 100
WINDOW = 40


class Bucket:
    """A bucket behind a gateway that sees every request."""

    def __init__(self, server: S3Server, gateway: Gateway) -> None:
        self.gateway = gateway
        self.behind = server
        self.url = f"s3://{server.bucket}/agents-{os.urandom(6).hex()}"
        self._opened: list[Store] = []

    def store(self) -> Store:
        """The store, opened as by a new process."""
        options = self.gateway.server.storage_options
        self._opened.append(treering.open(self.url, storage_options=options))
        return self._opened[-1]

    def requests(self) -> Counter[str]:
        """Requests by method since this was asked last."""
        found = Counter(seen.method for seen in self.gateway.seen)
        self.gateway.reset()
        return found

    def close(self) -> None:
        """Give connections back."""
        for store in self._opened:
            store.close()


@pytest.fixture
def bucket(seaweedfs: S3Server) -> Iterator[Bucket]:
    """A bucket with a gateway in front."""
    with Gateway(seaweedfs) as gateway:
        found = Bucket(seaweedfs, gateway)
        yield found
        found.close()


def text(number: int, numbers: int) -> str:
    """Something to say, different for every number, of about 5 bytes for each of `numbers`."""
    return f"{number} " + json.dumps([number * factor for factor in range(numbers)])


def history(count: int, numbers: int) -> list[Any]:
    """A conversation in Strands' shape, with so many numbers in a message."""
    roles = ("user", "assistant")
    return [
        {
            "role": roles[number % 2],
            "content": [{"text": text(number, numbers)}],
            "tracking_id": f"00000000-0000-4000-8000-{number:012}",
        }
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [10, few(300, whole=1000), few(3_000, whole=10_000)])
@pytest.mark.slow
def test_an_agent_resumes_with_two_requests_at_any_length(bucket: Bucket, count: int) -> None:
    """Two GETs restore any number of messages, with the whole history in the context, and with a window.

    As many as 3,000 here, 10,000 with `make whole`.
    """
    whole = history(count, 400 if count <= 1000 else 40)
    with bucket.store().session("s") as session:
        for first in range(0, count, 1000):
            session.commit(
                [draft_of(message, message["tracking_id"]) for message in whole[first:][:1000]], new_ids=True
            )
    for window in (count, WINDOW):
        with bucket.store().session("s") as session:
            session.commit(context=[item.node for item in session.context][-window:])
        store = bucket.store()
        bucket.requests()
        agent = managed(TreeringSessionManager(store, "s"), conversation_manager=NullConversationManager())
        assert bucket.requests() == {"GET": 2}
        assert agent.messages == whole[-window:]


def test_a_long_invocation(bucket: Bucket) -> None:
    """Messages, each durable when it was added: at most a fifth more requests, none of them a GET.

    Of 102 messages here, of 402 with `make whole`.
    """
    agent = long_agent(bucket.store(), WINDOW)
    agent("are you there?")
    bucket.requests()
    agent("read a lot")
    found = bucket.requests()
    assert found["GET"] == 0
    assert MESSAGES <= found.total() <= REQUESTS_MAX
    view = bucket.store().view("s")
    assert len(view.path()) == MESSAGES + 2
    assert [item.message for item in view.context] == agent.messages
    bucket.requests()
    again = long_agent(bucket.store(), WINDOW)
    assert bucket.requests() == {"GET": 2}
    assert again.messages == agent.messages


def long_agent(store: Store, window: int) -> Agent:
    """One that calls a tool again and again, whose results are as long as those of coding tools."""
    script = [Calls(Call("read", {"number": number}), text="I look further") for number in range(CALLS)]
    options: Any = {"conversation_manager": SlidingWindowConversationManager(window), "tools": [read]}
    return managed(TreeringSessionManager(store, "s"), ["yes", *script, "that is all"], **options)


@tool
def read(number: int) -> str:
    """Read a part of a file.

    Args:
        number: Which.
    """
    return text(number, 430) + "." * 400


CHILD = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from strands.hooks import BeforeModelCallEvent
from tests.integrations.strands.agents import ADD, managed
from treering.integrations.strands import TreeringSessionManager
import treering
url, options = sys.argv[1], json.loads(sys.argv[2])
def told(event):
    print(json.dumps([message["tracking_id"] for message in event.agent.messages]), flush=True)
    sys.stdin.readline()
agent = managed(TreeringSessionManager(treering.open(url, storage_options=options), "s"), [ADD] * 50)
agent.add_hook(told, BeforeModelCallEvent)
agent("add again and again")
"""
KILLED_AT = 6  # requests to the model


def test_a_killed_agent_goes_on(bucket: Bucket) -> None:
    """Killed in the middle of a tool loop, an agent has all that its model saw; it goes on, branches and goes back."""
    options = json.dumps(bucket.behind.storage_options)
    process = start(CHILD, bucket.url, options)
    assert process.stdin
    assert process.stdout
    seen: list[str] = []
    with process:
        for _ in range(KILLED_AT):
            seen = json.loads(process.stdout.readline())
            process.stdin.write("go\n")
            process.stdin.flush()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert len(seen) == 2 * KILLED_AT - 1
    bucket.requests()
    agent = managed(TreeringSessionManager(bucket.store(), "s"), ["enough"])
    assert bucket.requests() == {"GET": 2}
    assert [message["tracking_id"] for message in agent.messages][: len(seen)] == seen
    agent("stop")
    done = said(agent.messages)
    assert done[-2:] == ["stop", "enough"]
    manager = manager_of(agent)
    manager.branch(agent, "other", message=seen[2])
    assert said(agent.messages) == ["add again and again", "call:add", "result:3"]
    agent("what else?")
    manager.close()
    manager = TreeringSessionManager(bucket.store(), "s")
    agent = managed(manager)
    assert said(agent.messages) == ["add again and again", "call:add", "result:3", "what else?", "done"]
    manager.switch(agent, "main")
    assert said(agent.messages) == done
