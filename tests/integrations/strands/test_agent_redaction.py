"""What a guardrail blocked is in no byte of the store, and a resumed agent has the notice in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from strands import ToolContext, tool
from tests.integrations.strands.agents import agent_on, managed, manager_of, said
from tests.integrations.strands.fake_model import Call, Calls, Redacted
from tests.session.at_rest import KilledDriver, KilledError, holding
from tests.session.backends import Backend, backend_of

from treering import Store
from treering.integrations.strands import TreeringSessionManager
from treering.store.place import Place

SECRET = "the secret of the user"
NOTICE = "[blocked]"


@tool
def read_mail() -> str:
    """Read a letter."""
    return SECRET


@tool(context=True)
def ask(tool_context: ToolContext) -> str:
    """Ask a person.

    Args:
        tool_context: Of Strands.
    """
    return str(tool_context.interrupt("agree"))


def leaks(backend: Backend) -> list[str]:
    """Objects that still hold the secret, all frames decoded."""
    return holding(backend.snapshot(), SECRET)


def test_a_blocked_prompt_is_nowhere(backend: Backend) -> None:
    """The blocked text is gone from tail, segments and `latest` before the invocation ends; the notice comes back."""
    agent = agent_on(backend, ["hi", Redacted(NOTICE, "I cannot"), "fine"])
    agent("hello")
    agent(SECRET)
    assert leaks(backend) == []
    again = agent_on(backend, ["bye"])
    assert said(again.messages) == ["hello", "hi", NOTICE, "I cannot"]
    assert again.messages == agent.messages
    again("goodbye")
    assert agent_on(backend).messages == again.messages


def test_a_blocked_first_prompt_is_not_on_the_card(backend: Backend) -> None:
    """Lists of sessions show the first prompt, and not that one."""
    agent = agent_on(backend, [Redacted(NOTICE)])
    agent(SECRET)
    manager_of(agent).close()
    assert leaks(backend) == []
    assert SECRET not in backend.store().sessions().rows[0].first_prompt


def test_a_blocked_tool_result_is_nowhere(backend: Backend) -> None:
    """Of a blocked result the call's id is kept, so that the conversation stays whole."""
    agent = agent_on(backend, [Calls(Call("read_mail", id="c")), Redacted(NOTICE, "no")], tools=[read_mail])
    agent("read it")
    assert leaks(backend) == []
    again = agent_on(backend)
    assert said(again.messages) == ["read it", "call:read_mail", f"result:{NOTICE}", "no"]
    assert again.messages == agent.messages


def test_a_blocked_result_that_waited_beside_a_question_is_nowhere(backend: Backend) -> None:
    """While a person was asked, it was stored in the state; it is gone from there too, and the turn goes on."""
    calls = Calls(Call("read_mail", id="c1"), Call("ask", id="c2"))
    agent = agent_on(backend, [calls, Redacted(NOTICE, "no"), "fine"], tools=[read_mail, ask])
    asked = agent("read and ask").interrupts or ()
    assert leaks(backend) != []
    answers: Any = [{"interruptResponse": {"interruptId": each.id, "response": "yes"}} for each in asked]
    agent(answers)
    assert leaks(backend) == []
    assert agent_on(backend).messages == agent.messages
    agent("go on")
    assert said(agent_on(backend).messages)[-1] == "fine"


def test_what_was_put_aside_of_it_is_gone_too(backend: Backend) -> None:
    """A context manager copies messages; the copy of a blocked one is not stored either."""
    options: Any = {"context_manager": "auto"}
    agent = agent_on(backend, ["hi", Redacted(NOTICE)], **options)
    agent("hello")
    agent(SECRET)
    assert leaks(backend) == []
    agent_on(backend, **options)("more")
    assert leaks(backend) == []


def test_what_was_put_aside_is_gone_from_old_checkpoints(backend: Backend) -> None:
    """A copy that a checkpoint had by then is erased with the message, and does not come back."""
    options: Any = {"context_manager": "auto", "tools": [read_mail]}
    agent = agent_on(backend, [Calls(Call("read_mail", id="c"))], **options)
    agent("read it")
    assert leaks(backend) != []
    agent.messages[2]["content"][0]["toolResult"]["content"] = [{"text": NOTICE}]
    manager_of(agent).redact_latest_message(agent.messages[2], agent)
    assert leaks(backend) == []
    again = agent_on(backend, **options)
    assert again.messages == agent.messages
    again("go on")
    assert leaks(backend) == []


def test_a_prompt_is_gone_also_from_segments_and_forks(backend: Backend) -> None:
    """It does not matter where the text had come to meanwhile."""
    agent = agent_on(backend)
    agent("hello")
    agent(SECRET)
    manager = manager_of(agent)
    manager.fork(agent, "copy")
    manager._attached(agent).recorder.session.seal()
    assert len(leaks(backend)) >= 2
    message = agent.messages[2]
    message["content"] = [{"text": NOTICE}]
    manager.redact_latest_message(message, agent)
    assert leaks(backend) == []
    assert said(agent_on(backend).messages) == ["hello", "done", NOTICE, "done"]


def test_a_message_redacted_twice(backend: Backend) -> None:
    """The same message may be redacted again; it stays one message."""
    agent = agent_on(backend)
    agent(SECRET)
    for text in (NOTICE, "[blocked again]"):
        agent.messages[0]["content"] = [{"text": text}]
        manager_of(agent).redact_latest_message(agent.messages[0], agent)
    assert said(agent_on(backend).messages) == ["[blocked again]", "done"]
    assert holding(backend.snapshot(), SECRET, NOTICE) == []


def test_a_notice_that_comes_back_into_the_context_is_still_the_notice(backend: Backend) -> None:
    """A redacted message that left the context, and is put back in another process, does not show the erased place."""
    agent = agent_on(backend, [Redacted(NOTICE), "fine"])
    agent(SECRET)
    notice = agent.messages.pop(0)
    agent("go on")
    again = agent_on(backend)
    assert said(again.messages) == ["blocked", "go on", "fine"]
    again.messages.insert(0, notice)
    again("and on")
    third = agent_on(backend)
    assert said(third.messages)[0] == NOTICE
    assert third.messages == again.messages


def test_a_kill_in_the_middle_never_shows_both() -> None:
    """Killed between any two requests of a redaction, a session shows the text, an erased place, or the notice."""
    outcomes = []
    for requests in range(40):
        backend = backend_of("memory", Path("unused"))
        agent_on(backend, ["hi"])(SECRET)
        store = Store(Place(KilledDriver(backend.driver(), 2 + requests)))
        agent = managed(TreeringSessionManager(store, "s"))
        agent.messages[0]["content"] = [{"text": NOTICE}]
        try:
            manager_of(agent).redact_latest_message(agent.messages[0], agent)
        except KilledError:
            outcomes.append(said(agent_on(backend).messages))
            continue
        outcomes.append(said(agent_on(backend).messages))
        break
    assert outcomes[0] == [SECRET, "hi"]
    assert outcomes[-1] == [NOTICE, "hi"]
    assert {tuple(outcome) for outcome in outcomes} == {(SECRET, "hi"), ("[erased]", "hi"), (NOTICE, "hi")}
