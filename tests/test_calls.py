"""Calls and their results: known in every shape, and left in a conversation in pairs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from treering import assistant, tool, user
from treering.calls import calls_of, pairing, results_of, whole_pairs

MADE: dict[str, Any] = {
    "anthropic": lambda *ids: {"role": "assistant", "content": [
        {"type": "text", "text": "so"},
        *({"type": "tool_use", "id": i, "name": "ls", "input": {"a": 1}} for i in ids)]},
    "chat": lambda *ids: {"role": "assistant", "content": None, "tool_calls": [
        {"id": i, "type": "function", "function": {"name": "ls", "arguments": {"a": 1}}} for i in ids]},
    "ollama": lambda *ids: {"role": "assistant", "content": "", "tool_calls": [
        {"id": i, "function": {"name": "ls", "arguments": {"a": 1}}} for i in ids]},
    "pi": lambda *ids: {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm"},
        *({"type": "toolCall", "id": i, "name": "ls", "arguments": {"a": 1}} for i in ids)]},
    "converse": lambda *ids: {"role": "assistant", "content": [
        {"text": "so"}, *({"toolUse": {"toolUseId": i, "name": "ls", "input": {"a": 1}}} for i in ids)]},
    "gemini": lambda *ids: {"role": "model", "parts": [
        {"text": "so", "thoughtSignature": "AA"},
        *({"functionCall": {"id": i, "name": "ls", "args": {"a": 1}}} for i in ids)]},
    "gemini, in snakes": lambda *ids: {"role": "model", "parts": [
        *({"function_call": {"id": i, "name": "ls", "args": {"a": 1}}, "thought": None} for i in ids)]},
    "pydantic_ai": lambda *ids: {"kind": "response", "parts": [
        {"part_kind": "text", "content": "so"},
        *({"part_kind": "tool-call", "tool_call_id": i, "tool_name": "ls", "args": {"a": 1}} for i in ids)]},
    "operator": lambda *ids: {"role": "assistant", "contents": [
        {"type": "tool_call", "id": i, "name": "ls", "args": {"a": 1}, "metadata": {}} for i in ids]},
    "kit": lambda *ids: {"role": "assistant", "parts": [
        *({"type": "tool_call", "data": {"id": i, "name": "ls", "input": {"a": 1}}} for i in ids),
        {"type": "finish", "data": {}}]},
    "kit, sent": lambda *ids: {"role": "assistant", "content": [
        {"text": "so"}, *({"tool_call_id": i, "name": "ls", "input": {"a": 1}} for i in ids)]},
    "evva": lambda *ids: {"Role": "assistant", "Content": "", "ToolResults": None, "ToolCalls": [
        {"ID": i, "Name": "ls", "Input": {"a": 1}} for i in ids]},
}  # fmt: skip
"""By name of a shape: a message that makes calls with these ids."""

GIVEN: dict[str, Any] = {
    "anthropic": lambda *ids: {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids]},
    "converse": lambda *ids: {"role": "user", "content": [
        {"toolResult": {"toolUseId": i, "status": "success", "content": [{"text": "x"}]}} for i in ids]},
    "gemini": lambda *ids: {"role": "user", "parts": [
        {"functionResponse": {"id": i, "name": "ls", "response": {"output": "x"}}} for i in ids]},
    "gemini, in snakes": lambda *ids: {"role": "user", "parts": [
        {"function_response": {"id": i, "name": "ls", "response": {"output": "x"}}} for i in ids]},
    "pydantic_ai": lambda *ids: {"kind": "request", "parts": [
        {"part_kind": "tool-return", "tool_call_id": i, "tool_name": "ls", "content": "x"} for i in ids]},
    "operator": lambda *ids: {"role": "tool", "contents": [
        {"type": "tool_result", "id": i, "content": "x"} for i in ids]},
    "kit": lambda *ids: {"role": "tool", "parts": [
        {"type": "tool_result", "data": {"tool_call_id": i, "content": "x"}} for i in ids]},
    "kit, sent": lambda *ids: {"role": "tool", "content": [{"tool_result_for": i, "content": "x"} for i in ids]},
    "evva": lambda *ids: {"Role": "user", "Content": "", "ToolCalls": None, "ToolResults": [
        {"ID": i, "Content": "x"} for i in ids]},
}  # fmt: skip
"""By name of a shape: a message that has the results of these calls."""

GIVEN_ONE: dict[str, Any] = {
    "chat": lambda i: {"role": "tool", "tool_call_id": i, "content": "x"},
    "ollama": lambda i: tool("x", call=i).payload,
    "pi": lambda i: {"role": "toolResult", "toolCallId": i, "content": [{"type": "text", "text": "x"}]},
}
"""By name of a shape: a message that is the result of this call."""


def results(shape: str, *ids: str) -> list[Any]:
    """The messages that answer calls of a shape."""
    return [GIVEN[shape](*ids)] if shape in GIVEN else [GIVEN_ONE[shape](i) for i in ids]


@pytest.mark.parametrize("shape", MADE)
def test_calls_and_results_of_a_shape(shape: str) -> None:
    """What a call is and what answers it is known, with what it asks for."""
    message = MADE[shape]("a", "b")
    assert [(call.id, call.name, call.arguments) for call in calls_of(message)] == [
        ("a", "ls", {"a": 1}),
        ("b", "ls", {"a": 1}),
    ]
    assert results_of(message) == []
    answers = results(shape, "a", "b")
    assert [result.id for answer in answers for result in results_of(answer)] == ["a", "b"]
    assert not any(calls_of(answer) for answer in answers)
    found = pairing([message, *answers])
    assert [pair.call.id for pair in found.pairs] == ["a", "b"]
    assert (found.open, found.passed, found.orphans) == ((), (), ())


@pytest.mark.parametrize("shape", MADE)
def test_of_parallel_calls_one_is_open(shape: str) -> None:
    """The one that has no result is left out, and nothing else; in the field that held it."""
    messages = [MADE[shape]("a", "b"), *results(shape, "b")]
    assert [(each.at, each.call.id) for each in pairing(messages).open] == [(0, "a")]
    assert whole_pairs(messages, keep_open=True) == messages
    assert whole_pairs(messages) == [MADE[shape]("b"), *messages[1:]]


@pytest.mark.parametrize("shape", MADE)
def test_a_result_alone_goes_as_a_whole(shape: str) -> None:
    """A message is left out if nothing is left of it; what others say of a call is of no account to an orphan."""
    messages = [*results(shape, "a"), MADE[shape]("b"), *results(shape, "b", "a")]
    left = whole_pairs(messages)
    assert left[0] is None
    assert [each for each in left if each is not None] == [MADE[shape]("b"), *results(shape, "b")]


def test_items_beside_messages() -> None:
    """Calls and results may be items of their own, and the id of an item is not that of the call."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    assert pairing([call, result]).pairs[0].call.arguments == "{}"
    assert whole_pairs([call]) == [None]
    assert whole_pairs([result]) == [None]


def test_a_call_without_an_id() -> None:
    """The first APIs had one call a message, and no ids."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}
    result = {"role": "function", "name": "ls", "content": "x"}
    assert whole_pairs([call, result, call]) == [call, result, None]


@pytest.mark.parametrize(
    "value",
    [None, 7, "text", [], {}, {"content": None}, {"role": "user", "content": 7}, {"role": "tool"}, {"tool_calls": 1},
     {"role": "assistant", "content": [None, 7, {"type": ["x"]}, {"type": "tool_use"}]}, {"parts": [{"data": {}}]},
     {"role": ["x"], "content": [{"toolUse": 7}], "tool_calls": [None]}],
)  # fmt: skip
def test_anything_may_stand_in_a_conversation(value: object) -> None:
    """What is no message makes no calls; nothing raises."""
    whole_pairs([value, value])


@pytest.mark.parametrize(
    ("said", "open_calls", "passed", "orphans"),
    [
        ("a", "a", "", ""),
        ("a t", "", "a", ""),
        ("a m A", "", "", ""),  # the model said more before it waited
        ("a b B A", "", "", ""),  # one answer of the model's, in two messages
        ("a A b", "b", "", ""),
        ("a t A", "", "a", "A"),
        ("a A m", "", "", ""),
        ("ab A b B", "", "b", ""),
        ("ab A", "b", "", ""),
        ("ab A t B", "", "b", "B"),
        ("ab A+t B", "", "b", "B"),  # results stand in front of what else a message says
        ("ab A+t", "", "b", ""),
        ("a A A", "", "", "A"),  # twice
        ("a A a A", "", "", ""),  # ids come again
        ("aa A", "a", "", ""),
        ("A a", "a", "", "A"),  # before its call
        ("a s A", "", "a", "A"),
    ],
)
def test_what_belongs_together(said: str, open_calls: str, passed: str, orphans: str) -> None:
    """Small letters call, capitals answer; t, s and m are texts of the user, the system and the model."""
    found = pairing([spoken(word) for word in said.split()])
    assert "".join(each.call.id for each in found.open) == open_calls
    assert "".join(each.call.id for each in found.passed) == passed
    assert "".join(each.result.id.upper() for each in found.orphans) == orphans


def spoken(word: str) -> object:
    """A message of the test above."""
    plain: dict[str, Any] = {"t": user("hi"), "s": {"role": "system", "content": "x"}, "m": assistant("hi")}
    if word in plain:
        said = plain[word]
        return said if isinstance(said, dict) else said.payload
    message = MADE["anthropic"](*word) if word.islower() else GIVEN["anthropic"](word[0].lower())
    return message | ({"content": [*message["content"], {"type": "text", "text": "t"}]} if "+" in word else {})


def test_thinking_before_a_call_that_is_left_out() -> None:
    """It goes with the call, text stays, and blank text says nothing."""
    call = {"type": "tool_use", "id": "a", "name": "ls", "input": {}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    for content, left in (
        ([thought, call], None),
        ([thought, {"type": "text", "text": " \n"}, call], None),
        ([thought, {"type": "text", "text": "so"}, call], [thought, {"type": "text", "text": "so"}]),
    ):
        message = {"role": "assistant", "content": content, "id": "m"}
        assert whole_pairs([message]) == [None if left is None else {**message, "content": left}]
    alone = {"role": "assistant", "content": [thought]}
    assert whole_pairs([alone])[0] is alone  # nothing was left out of it


@pytest.mark.parametrize("odd", [{"x": 1}, [], None, 1, True])
def test_what_is_no_role_or_type_is_data(odd: object) -> None:
    """A message or block with it makes no call and answers none: the conversation goes on."""
    call = MADE["chat"]("a")
    for message in ({"role": odd, "content": "hm"}, {"role": "user", "content": [{"type": odd, "text": "x"}]}):
        assert [each.call.id for each in pairing([call, message]).passed] == ["a"]
        assert whole_pairs([call, message]) == [None, message]


IDS = st.sampled_from("ab")
SHAPES = st.sampled_from(sorted(MADE))
MESSAGES = st.one_of(
    st.builds(lambda shape, ids: [MADE[shape](*ids)], SHAPES, st.lists(IDS, min_size=1, max_size=3)),
    st.builds(lambda shape, ids: results(shape, *ids), SHAPES, st.lists(IDS, min_size=1, max_size=3)),
    st.builds(lambda word: [spoken(word)], st.sampled_from(["t", "s", "m", "A+t", "B+t"])),
)
CONVERSATIONS = st.lists(MESSAGES, max_size=8).map(lambda lists: [message for each in lists for message in each])


@given(CONVERSATIONS)
def test_what_is_left_is_in_pairs(messages: list[Any]) -> None:
    """No call is open and no result an orphan; the rest is as it was, in its order; doing it twice changes nothing."""
    before = copy.deepcopy(messages)
    asked = pairing(messages)
    left: list[Any] = whole_pairs(messages)
    assert messages == before
    shown = [each for each in left if each is not None]
    again = pairing(shown)
    assert (again.open, again.passed, again.orphans) == ((), (), ())
    assert [(pair.call.id, pair.call.name) for pair in again.pairs] == [
        (pair.call.id, pair.call.name) for pair in asked.pairs
    ]
    assert all(now is then for now, then in zip(whole_pairs(shown), shown, strict=True))
    touched = {each.at for each in (*asked.open, *asked.passed)} | {each.at for each in asked.orphans}
    for at, (now, then) in enumerate(zip(left, messages, strict=True)):
        assert (now is then) == (at not in touched)
        if now is not None:
            assert now.keys() <= then.keys()
            assert all(part in then[name] for name, value in now.items() if isinstance(value, list) for part in value)


@given(CONVERSATIONS)
def test_open_calls_are_kept_if_asked_for(messages: list[Any]) -> None:
    """Then a next message that answers them makes the conversation whole."""
    shown = [each for each in whole_pairs(messages, keep_open=True) if each is not None]
    found = pairing(shown)
    assert (found.passed, found.orphans) == ((), ())
    assert [each.call.id for each in found.open] == [each.call.id for each in pairing(messages).open]
    answered = [*shown, *(GIVEN_ONE["chat"](each.call.id) for each in found.open)]
    assert all(now is then for now, then in zip(whole_pairs(answered), answered, strict=True))
