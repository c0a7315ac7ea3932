"""Open tool calls are closed, results without a call are dropped, and nothing else changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st
from strands.types.content import Message
from tests.integrations.strands.agents import said

from treering.integrations.strands.repair import close_open_calls


def user(*blocks: Any) -> Message:
    """A message of the user's."""
    return {"role": "user", "content": [*blocks]}


def assistant(*blocks: Any) -> Message:
    """A message of the model's."""
    return {"role": "assistant", "content": [*blocks]}


def text(said: str) -> Any:
    """A block of text."""
    return {"text": said}


def call(name: str) -> Any:
    """A call of a tool."""
    return {"toolUse": {"toolUseId": name, "name": f"tool-{name}", "input": {}}}


def result(name: str) -> Any:
    """The result of a call."""
    return {"toolResult": {"toolUseId": name, "status": "success", "content": [{"text": f"of {name}"}]}}


CLOSED = "result:Tool was interrupted."
CASES: dict[str, tuple[list[Message], list[str]]] = {
    "in order": (
        [user(text("q")), assistant(call("a")), user(result("a")), assistant(text("x"))],
        ["q", "call:tool-a", "result:of a", "x"],
    ),
    "cut behind the call": ([user(text("q")), assistant(call("a"))], ["q", "call:tool-a", CLOSED]),
    "went on without a result": ([assistant(call("a")), user(text("hello?"))], ["call:tool-a", CLOSED, "hello?"]),
    "answered by the model itself": ([assistant(call("a")), assistant(text("x"))], ["call:tool-a", CLOSED, "x"]),
    "one of two": (
        [assistant(call("a"), call("b")), user(result("b"))],
        ["call:tool-a call:tool-b", f"result:of b {CLOSED}"],
    ),
    "a stray result": ([user(result("z")), assistant(text("x"))], ["x"]),
    "a stray result with text": ([user(result("z"), text("and this")), assistant(text("x"))], ["and this", "x"]),
    "a result twice": ([assistant(call("a")), user(result("a"), result("a"))], ["call:tool-a", "result:of a"]),
    "a result too late": (
        [assistant(call("a")), assistant(text("x")), user(result("a"))],
        ["call:tool-a", CLOSED, "x"],
    ),
    "a result for one and a stray one": ([assistant(call("a")), user(result("z"))], ["call:tool-a", CLOSED]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("case", CASES)
def test_open_calls_are_closed(case: str) -> None:
    """Each way in which a conversation can be cut is mended in its own place."""
    messages, expected = CASES[case]
    assert said(close_open_calls(messages)) == expected


def test_a_call_that_waits_for_a_person_stays_open() -> None:
    """Only the calls of the last message can be waiting; others are closed nevertheless."""
    messages = [assistant(call("a")), assistant(call("b"))]
    assert said(close_open_calls(messages, pending=True)) == ["call:tool-a", CLOSED, "call:tool-b"]


blocks = st.one_of(st.builds(text, st.sampled_from("xyz")), st.builds(call, st.sampled_from("abc")))
answers = st.one_of(st.builds(text, st.sampled_from("xyz")), st.builds(result, st.sampled_from("abc")))
conversations = st.lists(
    st.one_of(
        st.lists(answers, min_size=1, max_size=3).map(lambda found: user(*found)),
        st.lists(blocks, min_size=1, max_size=3, unique_by=str).map(lambda found: assistant(*found)),
    ),
    max_size=6,
)


@given(conversations)
def test_any_conversation_becomes_one_that_models_take(messages: list[Message]) -> None:
    """Every call has one result after it, every result a call, all else is unchanged; a second repair does nothing."""
    before = copy.deepcopy(messages)
    mended = close_open_calls(messages)
    assert messages == before
    open_calls: list[str] = []
    for message in mended:
        given = [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]
        assert sorted(given) == sorted(open_calls)
        open_calls = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
    assert open_calls == []
    assert texts(mended) == texts(messages)
    assert close_open_calls(mended) == mended


def texts(messages: list[Message]) -> list[str]:
    """All blocks but results, in order."""
    return [str(block) for message in messages for block in message["content"] if "toolResult" not in block]
