"""Graphs and swarms in a process that is killed inside a node, on a disk and in a bucket."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strands.multiagent.base import Status
from tests.integrations.strands.agents import said
from tests.integrations.strands.orchestras import CHAIN, asked, graph, swarm
from tests.servers import S3Server
from tests.storage.processes import start

import treering
from treering import Store
from treering.integrations.strands import TreeringSessionManager

CODE = """
from tests.integrations.strands.orchestras import main
main(*sys.argv[1:])
"""


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """Where sessions are, and how to get there."""
    if request.param == "local":
        return str(tmp_path), {}
    server: S3Server = request.getfixturevalue("seaweedfs")
    return f"s3://{server.bucket}/orchestra-{os.urandom(6).hex()}", server.storage_options


@pytest.fixture
def store(place: tuple[str, dict[str, Any]]) -> Iterator[Store]:
    """The store, as another process opens it."""
    url, options = place
    opened = treering.open(url, storage_options=options or None)
    yield opened
    opened.close()


def killed(place: tuple[str, dict[str, Any]], kind: str) -> None:
    """Run an orchestrator until a tool of one of its nodes kills the process."""
    url, options = place
    with start(CODE, url, json.dumps(options), kind) as process:
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def told(store: Store, name: str) -> list[str]:
    """The conversation of a session where it stands, in short."""
    return said([item.message for item in store.view(name).recorded_context])


def test_a_killed_graph_goes_on(place: tuple[str, dict[str, Any]], store: Store) -> None:
    """Nodes that had ended do not run again; what the killed one had said is there, beside what it says now."""
    killed(place, "graph")
    assert told(store, "s/multi/g/c")[-1] == "call:die"
    with TreeringSessionManager(store, "s") as manager:
        again = graph(manager, {"a": [], "b": [], "c": ["C"], "d": ["D"]}, CHAIN)
        result = again("go")
    assert result.status == Status.COMPLETED
    assert asked(again) == {"a": 0, "b": 0, "c": 1, "d": 1}
    assert str(result.results["b"].result) == "B\n"
    assert told(store, "s/multi/g/c")[-1] == "C"
    assert len(store.view("s/multi/g/c").leaves()) == 2
    assert all(store.verify(info.id) == [] for info in store.each_session())


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_killed_swarm_goes_on(place: tuple[str, dict[str, Any]], store: Store) -> None:
    """The agent that had the task has it again, with what was handed over to it."""
    killed(place, "swarm")
    with TreeringSessionManager(store, "s") as manager:
        again = swarm(manager, {"a": [], "b": ["B"]})
        result = again("go")
    assert result.status == Status.COMPLETED
    assert asked(again) == {"a": 0, "b": 1}
    assert "your turn, b" in told(store, "s/multi/w/b")[0]
    assert told(store, "s/multi/w/b")[-1] == "B"
    assert all(store.verify(info.id) == [] for info in store.each_session())
