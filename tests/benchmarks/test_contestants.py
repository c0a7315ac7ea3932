"""All contestants restore the same from the same session; otherwise comparing them would say nothing."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from benchmarks import workload
from benchmarks.table import CONTESTANTS

COUNT = 60
NEEDS = {
    "strands": ["strands"],
    "langgraph": ["langgraph", "langgraph.checkpoint.sqlite", "langgraph_checkpoint_objectstorage"],
    "adk": ["google.adk"],
    "adk_database": ["google.adk", "greenlet"],
    "openai": ["agents"],
    "agent_framework": ["agent_framework"],
    "pydantic_ai": ["pydantic_ai", "pydantic_ai_harness"],
}
KEEPERS = [name for name, entry in CONTESTANTS.items() if entry.disk and entry.module != "limits"]


@pytest.fixture(params=KEEPERS)
def contestant(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Everyone who keeps sessions on a disk and is installed here, with a session of 60 messages."""
    entry = CONTESTANTS[request.param]
    for needed in NEEDS.get(entry.module, []):
        if not find_spec(needed):
            pytest.skip(f"not installed here: {needed}; `make bench` has it")
    found = entry.start(str(tmp_path), 10)
    found.write(f"s-{COUNT}", messages())
    return found


def messages() -> list[workload.Message]:
    """The session that all are given."""
    return list(workload.session(COUNT))


def texts(first: int, end: int) -> list[str]:
    """What some of its messages say."""
    return [workload.text(message) for message in messages()[first:end]]


def test_all_restore_the_same_context(contestant: Any) -> None:
    """The last ten messages come back, in their order."""
    assert list(contestant.resume(f"s-{COUNT}")) == texts(COUNT - 10, COUNT)


def test_all_show_the_same_page(contestant: Any) -> None:
    """The newest messages of the history are the same for all who have one."""
    if hasattr(contestant, "page"):
        assert list(contestant.page(f"s-{COUNT}", 30)) == texts(COUNT - 30, COUNT)


def test_all_travel_to_the_same_turn(contestant: Any) -> None:
    """The context at the end of an old turn is the same for all who remember it."""
    if hasattr(contestant, "travel"):
        assert list(contestant.travel(f"s-{COUNT}", 20)) == texts(32, 42)


def test_all_switch_to_the_same_branch(contestant: Any) -> None:
    """The other branch ends with what was said there."""
    if hasattr(contestant, "switch") and CONTESTANTS["OpenAI AdvancedSQLiteSession"].kind != type(contestant).__name__:
        assert list(contestant.switch(f"s-{COUNT}"))[-2:] == ["another way", "let us see"]


def test_what_is_appended_is_restored(contestant: Any) -> None:
    """Messages and turns that are measured are really written."""
    if hasattr(contestant, "append"):
        contestant.begin(f"s-{COUNT}")
        contestant.append("one more")
        contestant.turn(["a question", "an answer"], COUNT)
        contestant.end()
        assert list(contestant.resume(f"s-{COUNT}"))[-3:] == ["one more", "a question", "an answer"]


@pytest.mark.parametrize("count", [3, 10, 1_000])
def test_sessions_end_alike_at_every_length(count: int) -> None:
    """A session has as many messages as was asked for, and the last ten are those of every other one."""
    session = list(workload.session(count))
    assert len(session) == count
    assert session[-10:] == workload.closing()[-count:]
    assert session == list(workload.session(count))
