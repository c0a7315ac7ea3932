"""Several agents, several writers, several sessions: each is told what it may not do, and nothing is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from strands import Agent
from strands.types.exceptions import SessionException
from tests.integrations.strands.agents import agent_on, managed, manager_of, said
from tests.integrations.strands.fake_model import FakeModel
from tests.session.backends import Backend, backend_of, memory_backend
from tests.session.faults import Unreliable

from treering import ConflictError, SessionHeldError, UnavailableError
from treering.integrations.strands import TreeringSessionManager
from treering.storage.faulty import Fault


def test_two_agents_of_one_id_are_refused(backend: Backend) -> None:
    """One manager keeps several agents, each under its own id."""
    manager = TreeringSessionManager(backend.store(), "s")
    managed(manager, agent_id="a")
    managed(manager, agent_id="b")
    with pytest.raises(SessionException, match="must be unique"):
        managed(manager, agent_id="a")


def test_agents_of_one_session_have_sessions_of_their_own(backend: Backend) -> None:
    """Several agents under one session id do not see each other, and a list finds them together."""
    manager = TreeringSessionManager(backend.store(), "s")
    for name in ("default", "critic", "s"):
        managed(manager, [f"I am {name}"], agent_id=name)("who are you?")
    again = TreeringSessionManager(backend.store(), "s")
    for name in ("default", "critic", "s"):
        assert said(managed(again, agent_id=name).messages)[-1] == f"I am {name}"
    rows = backend.store().sessions(project="s").rows
    assert {row.id: row.extra["strands"] for row in rows} == {
        "s": {"session": "s", "agent": "default"},
        "s/critic": {"session": "s", "agent": "critic"},
        "s/s": {"session": "s", "agent": "s"},
    }


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "/", "a\\b", "../x"])
def test_session_ids_that_are_paths_are_refused(name: str) -> None:
    """A session id is one name, so that no id covers another."""
    with pytest.raises(ValueError, match="session id"):
        TreeringSessionManager(memory_backend().store(), name)


def test_a_second_writer_is_told_and_nothing_is_lost(backend: Backend) -> None:
    """Of two agents that went on from one point the later one is told; what the first one said is all there."""
    agent_on(backend)("start")
    first, second = agent_on(backend, ["one"]), agent_on(backend, ["two"])
    first("mine")
    with pytest.raises(ConflictError, match="another writer"):
        second("also mine")
    first("more")
    assert said(agent_on(backend).messages) == ["start", "done", "mine", "one", "more", "done"]


def test_both_of_two_writers_go_on_if_that_is_asked_for(backend: Backend) -> None:
    """With `on_conflict="branch"` the later one goes on on a branch, and each keeps its messages and its state."""

    def made(*script: str) -> Agent:
        return managed(TreeringSessionManager(backend.store(), "s", on_conflict="branch"), script)

    made()("start")
    first, second = made("one"), made("two")
    for name, agent in (("first", first), ("second", second), ("first", first), ("second", second)):
        agent.state.set("name", name)
        agent(f"{name} asks")
    again = made()
    manager = manager_of(again)
    assert manager.heads(again).keys() == {"main", "main-2"}
    for head, name, answer in (("main", "first", "one"), ("main-2", "second", "two")):
        manager.switch(again, head)
        assert again.state.get() == {"name": name}
        assert said(again.messages) == ["start", "done", f"{name} asks", answer, f"{name} asks", "done"]
    manager.fork(again, "copy")
    assert not [found for found in backend.store().verify("s") if found.severity == "error"]


def test_who_is_refused_is_told_of_it(backend: Backend) -> None:
    """The error names the way to let both go on; another way is refused."""
    agent_on(backend)("start")
    first, second = agent_on(backend), agent_on(backend)
    first("mine")
    with pytest.raises(ConflictError) as caught:
        second("also mine")
    assert "on_conflict='branch'" in caught.value.remedy
    with pytest.raises(ValueError, match="no such way"):
        TreeringSessionManager(backend.store(), "s", on_conflict="merge")  # type: ignore[arg-type]


def test_on_disk_a_second_writer_is_told_before_the_model_is_asked(tmp_path: Path) -> None:
    """While one process works on a session the other one cannot begin; when it is done, it can."""
    backend = backend_of("local", tmp_path)
    agent_on(backend)("start")

    class Nested(FakeModel):
        async def stream(self, *args: Any, **kwargs: Any) -> Any:
            with pytest.raises(SessionHeldError, match="already held"):
                await asyncio.to_thread(agent_on(backend), "in between")
            async for event in super().stream(*args, **kwargs):
                yield event

    outer = agent_on(backend, model=Nested(["yes"]))
    outer("go")
    agent_on(backend)("afterwards")
    assert said(agent_on(backend).messages) == ["start", "done", "go", "yes", "afterwards", "done"]


def test_on_disk_only_work_keeps_others_out(tmp_path: Path) -> None:
    """An agent that does nothing at the moment holds nothing, whatever it was asked before."""
    backend = backend_of("local", tmp_path)
    agent = agent_on(backend)
    agent("a")
    manager = manager_of(agent)
    manager.checkpoint(agent, label="here")
    manager.branch(agent, "b")
    manager.fork(agent, "copy")
    agent.messages[0]["content"] = [{"text": "blocked"}]
    manager.redact_latest_message(agent.messages[0], agent)
    other = agent_on(backend)
    other("b")
    assert said(other.messages) == ["blocked", "done", "b", "done"]


def test_a_session_of_a_repository_is_refused(backend: Backend) -> None:
    """A session that another of our classes keeps in its own way is not taken for an agent's."""
    about = {"strands": {"keeps": "repository"}}
    with backend.store().session("s", extra=about) as session:
        session.commit(state={"k": 1})
    with pytest.raises(SessionException, match="another class"):
        agent_on(backend)


def test_delete_session_takes_all_agents_and_nothing_else(backend: Backend) -> None:
    """Everything under the session id is gone, and sessions whose names begin alike stay."""
    manager = TreeringSessionManager(backend.store(), "s")
    for name in ("default", "critic"):
        managed(manager, agent_id=name)("hello")
    agent_on(backend, session="s2")("hello")
    manager.delete_session()
    assert [row.id for row in backend.store().sessions().rows] == ["s2"]
    assert agent_on(backend).messages == []


def test_delete_session_reads_nothing_of_others() -> None:
    """It costs as much beside ten other sessions as beside one: no card of theirs is read."""
    backend, costs = memory_backend(), []
    for number in range(10):
        with backend.store().session(f"other-{number}") as session:
            session.append("x")
        if number in (0, 9):
            store, counts = backend.counted()
            managed(TreeringSessionManager(store, "s"))("hello")
            manager = TreeringSessionManager(store, "s")
            counts.reset()
            manager.delete_session()
            costs.append(counts.total)
    assert costs[0] == costs[1] <= 14


def test_a_closed_manager_says_so(backend: Backend) -> None:
    """An agent whose manager was closed is told; closing loses nothing."""
    agent = agent_on(backend)
    agent("a")
    with manager_of(agent):
        pass
    with pytest.raises(SessionException, match="not attached"):
        agent("b")
    assert said(agent_on(backend).messages) == ["a", "done"]


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_deletion_that_was_interrupted_is_finished_by_the_next(fault: Fault) -> None:
    """Whichever request of it had no answer: nothing of a sealed session stays, also of one that counts as deleted."""
    for after in range(100):
        bucket = Unreliable()
        for name in ("s", "s/critic", "s2"):
            with bucket.sound.session(name) as session:
                session.append("secret")
                session.seal()
        bucket.plan.arm(fault, after=after)
        with suppress(UnavailableError):
            TreeringSessionManager(bucket.store, "s").delete_session()
        came = not bucket.plan.pending
        bucket.plan.disarm()
        TreeringSessionManager(bucket.store, "s").delete_session()
        left = [key for key in bucket.memory.snapshot() if "/segments/" in key]
        assert len(left) == 1, after
        assert left[0].startswith("sessions/s2/")
        if not came:
            return
    raise AssertionError("a deletion without end")
