"""An agent waits for a person: the interrupt survives the process, and the answer continues there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from strands import Agent, ToolContext, tool
from strands.hooks import BeforeModelCallEvent, BeforeToolCallEvent
from tests.integrations.strands.agents import agent_on, manager_of, said
from tests.integrations.strands.fake_model import Call, Calls
from tests.session.backends import Backend, backend_of, memory_backend

from treering import SessionHeldError

done: list[str] = []


@tool(context=True)
def delete(name: str, tool_context: ToolContext) -> str:
    """Delete something, if a person agrees.

    Args:
        name: What.
        tool_context: Of Strands.
    """
    answer = tool_context.interrupt("agree", reason={"name": name})
    if answer == "yes":
        done.append(name)
    return f"{name}: {answer}"


@tool
def free(name: str) -> str:
    """Do something that nobody has to agree to.

    Args:
        name: What.
    """
    done.append(name)
    return name


DELETE = Calls(Call("free", {"name": "f"}), Call("delete", {"name": "a"}))


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    """Begin with nothing done."""
    done.clear()


@pytest.fixture
def backend() -> Backend:
    """A place for sessions."""
    return memory_backend()


def agent(backend: Backend, *script: Any) -> Agent:
    """An agent whose tools may ask."""
    return agent_on(backend, script, tools=[delete, free])


def answer_to(result: Any, text: str) -> Any:
    """A person's answer."""
    return [{"interruptResponse": {"interruptId": result.interrupts[0].id, "response": text}}]


def test_an_interrupt_is_answered_in_another_process(backend: Backend) -> None:
    """The open call stays open; it runs when the answer comes, and what ran before does not run again."""
    first = agent(backend, DELETE)
    result = first("delete a")
    assert result.stop_reason == "interrupt"
    assert done == ["f"]
    second = agent(backend, "deleted")
    assert second.messages == first.messages
    assert said(second.messages)[-1] == "call:free call:delete"
    second(answer_to(result, "yes"))
    assert done == ["f", "a"]
    assert said(second.messages)[-2:] == ["result:f result:a: yes", "deleted"]
    third = agent(backend)
    assert third.messages == second.messages
    third("and now?")


def test_an_answer_that_was_used_is_not_asked_for_again(backend: Backend) -> None:
    """Killed after the call ran, the agent is no longer waiting: the next prompt is an ordinary one."""
    result = agent(backend, DELETE)("delete a")
    second = agent(backend, KeyboardInterrupt())

    def die(event: BeforeModelCallEvent) -> None:
        stored.append(dict(backend.store().view("s").state))
        backends.append(copy_of(backend))

    stored: list[dict[str, object]] = []
    backends: list[Backend] = []
    second.add_hook(die)
    with pytest.raises(KeyboardInterrupt):
        second(answer_to(result, "yes"))
    assert "strands:interrupt_state" not in stored[0]
    third = agent(backends[0], "hello")
    third("hello?")
    assert done == ["f", "a"]
    assert said(third.messages)[-3:] == ["result:f result:a: yes", "hello?", "hello"]


def copy_of(backend: Backend) -> Backend:
    """The store as it is now, as a kill would leave it."""
    other = memory_backend()
    backend.store().copy("s", other.store())
    return other


def test_an_answer_without_a_question_is_refused_as_before(backend: Backend) -> None:
    """After a resume the agent insists on an answer, as it did before."""
    agent(backend, DELETE)("delete a")
    with pytest.raises(TypeError, match="interrupt"):
        agent(backend)("something else")


def test_who_may_not_work_on_the_session_runs_no_tool(tmp_path: Path) -> None:
    """On disk an answer is refused before its call runs, if another process is at work on the session."""
    backend = backend_of("local", tmp_path)
    result = agent(backend, DELETE)("delete a")
    second, third = agent(backend), agent(backend)
    with manager_of(second)._attached(second).recorder.held(), pytest.raises(SessionHeldError):
        third(answer_to(result, "yes"))
    assert done == ["f"]


def test_an_interrupt_of_a_hook_comes_back(backend: Backend) -> None:
    """A hook that stops a call before it runs is asked again with the answer, in another process."""

    def ask(event: BeforeToolCallEvent) -> None:
        if event.interrupt("sure", reason="why") != "yes":
            event.cancel_tool = "no"

    first = agent(backend, Calls(Call("free", {"name": "f"})))
    first.add_hook(ask)
    result = first("go")
    assert result.stop_reason == "interrupt"
    second = agent(backend, "ok")
    second.add_hook(ask)
    second(answer_to(result, "yes"))
    assert done == ["f"]
    assert said(second.messages) == ["go", "call:free", "result:f", "ok"]
