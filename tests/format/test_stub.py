"""What stands for an erased message: ids and names of its calls and results, in a shape that is read, and no more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.session.backends import memory_backend
from tests.test_calls import MADE, results

from treering import messages
from treering.calls import calls_of, pairing, results_of
from treering.format.stub import stub_of
from treering.format.values import encode
from treering.messages import Fields
from treering.transcript.node import Draft

ITS_OWN = {
    "converse": "toolUse",
    "gemini": "functionCall",
    "gemini, in snakes": "functionCall",
    "pydantic_ai": "tool-call",
}
"""Shapes that stay, as their frameworks read no other."""

NAMES = [
    *["args", "arguments", "call_id", "content", "Content", "contents", "data"],
    *["function", "function_call", "functionCall", "functionResponse", "id", "ID", "inlineData"],
    *["input", "is_error", "kind", "message", "name", "outcome", "part_kind"],
    *["parts", "reasoningContent", "replacement", "role", "Role", "text", "thought"],
    *["tool_call_id", "tool_calls", "type", "tool_name", "toolCallId", "ToolCalls", "toolResult"],
    *["ToolResults", "toolUse", "toolUseId"],
]
"""Fields of all shapes."""


def stub(message: object, role: str = "") -> Any:
    """The message that stands for another one."""
    return stub_of(encode(message), role)


@pytest.mark.parametrize("shape", MADE)
def test_calls_and_results_stay_together(shape: str) -> None:
    """Whichever of the two is erased, or both."""
    asked, answers = MADE[shape]("a", "b"), results(shape, "a", "b")
    gone, answered = stub(asked, "assistant"), [stub(answer, "tool") for answer in answers]
    assert [(call.id, call.name, call.arguments) for call in calls_of(gone)] == [("a", "ls", {}), ("b", "ls", {})]
    assert [result.id for answer in answered for result in results_of(answer)] == ["a", "b"]
    for conversation in ([gone, *answers], [asked, *answered], [gone, *answered]):
        found = pairing(conversation)
        assert [pair.call.id for pair in found.pairs] == ["a", "b"]
        assert (found.open, found.passed, found.orphans) == ((), (), ())


@pytest.mark.parametrize("shape", MADE)
def test_nothing_else_stays(shape: str) -> None:
    """Neither a text, nor an argument or what a tool said; that something is gone is told."""
    for message in (MADE[shape]("a", "b"), *results(shape, "a")):
        said = json.dumps(stub(message))
        assert not [text for text in ('"so"', '"hm"', '"x"', '"AA"', '"a": 1') if text in said]
    assert "[erased]" in json.dumps([stub(answer) for answer in results(shape, "a")])


@pytest.mark.parametrize("shape", ITS_OWN)
def test_a_framework_reads_its_own_shape(shape: str) -> None:
    """Its messages stay in it, with texts, calls and results."""
    asked = MADE[shape]("a")
    gone = stub(asked, "assistant")
    assert gone.keys() == asked.keys()
    assert ITS_OWN[shape] in json.dumps(gone)
    (answer,) = results(shape, "a")
    assert stub(answer, "user").keys() == answer.keys()


def test_what_has_no_call_is_one_note() -> None:
    """In the shape of its framework."""
    assert stub({"role": "user", "content": [{"text": "secret"}, {"cachePoint": {}}]}) == {
        "role": "user",
        "content": [{"text": "[erased]"}],
    }
    assert stub({"role": "model", "parts": [{"text": "secret"}]}) == {"role": "model", "parts": [{"text": "[erased]"}]}
    assert stub({"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "secret"}]}) == {
        "kind": "request",
        "parts": [{"part_kind": "user-prompt", "content": "[erased]"}],
    }


def test_an_id_that_was_none_does_not_become_one() -> None:
    """In the Gemini API a result without an id belongs to the call of its name."""
    call = {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"path": "secret"}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"error": "secret"}}}]}
    assert stub(call) == {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]}
    failed = {"functionResponse": {"name": "ls", "response": {"error": "[erased]"}}}
    assert stub(result) == {"role": "user", "parts": [failed]}


def test_the_call_of_the_older_chat_api_stays() -> None:
    """It has no id: the message behind it is its result."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": '{"path":"secret"}'}}
    assert stub(call) == {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", "secret", "ls", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(ODD)
def test_odd_messages_have_a_stub(message: Any) -> None:
    """Whatever stands in the fields of all shapes: a session with an erased message can be read."""
    gone = stub(message)
    assert gone.keys() & {"role", "type", "kind"}
    assert isinstance(encode(gone), bytes)


class Broken:
    """The shape of an installed program, which fails."""

    def is_of(self, message: Fields) -> bool:
        """Whether it is one of its messages."""
        raise KeyError("broken")

    def common(self, message: Fields) -> Fields:
        """The message as others read it."""
        raise KeyError("broken")


def test_an_installed_program_that_fails_hides_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was erased has a stub then, too."""
    monkeypatch.setitem(messages._shapes, "broken", Broken())
    assert stub({"said": ["secret"]}, "user") == {"role": "user", "content": "[erased]"}


def test_a_tool_that_the_provider_runs_leaves_nothing() -> None:
    """Its result is in the message of its call; Pydantic AI has no other place for it, and no call without a result."""
    call = {"part_kind": "builtin-tool-call", "tool_name": "search", "tool_call_id": "c1", "args": {"q": "secret"}}
    result = {"part_kind": "builtin-tool-return", "tool_name": "search", "tool_call_id": "c1", "content": "secret"}
    own = {"part_kind": "tool-call", "tool_name": "ls", "tool_call_id": "c2", "args": {}}
    note = {"part_kind": "text", "content": "[erased]"}
    assert stub({"kind": "response", "parts": [call, result]}) == {"kind": "response", "parts": [note]}
    assert stub({"kind": "response", "parts": [call, own]}) == {"kind": "response", "parts": [note, own]}


def test_of_a_brief_only_marks_stay() -> None:
    """Not a word, since an application may have written it there."""
    told: dict[str, object] = {"blank": True, "meta": True, "queued": True}
    spoken: dict[str, object] = {"answer": "swordfish", "calls": "0a1b", "result": "4111", "meta": "secret", "blank": 1}
    with memory_backend().store().session("s") as session:
        names = [session.append(Draft(role="user", payload="secret", brief=each)).node for each in (told, spoken)]
        session.erase(*names)
        assert session.get(names[0]).brief == told | {"erased": True}
        assert session.get(names[1]).brief == {"erased": True}
