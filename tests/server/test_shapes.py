"""Shapes of messages: what an interface sent comes back as it was, and model APIs get what they take."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.sampling import few
from tests.server.clients import client

import treering
from treering import to_json
from treering.calls import pairing
from treering.errors import UsageError
from treering.format.erasure import Erased
from treering.kinds import Kind
from treering.messages import Media
from treering.server.shapes import anthropic, assistant_ui, openai, ui
from treering.server.shapes.parts import Call, Other, Result, Said, Text, Thinking, parts_of, role_of
from treering.transcript.node import Draft

words = st.text(min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(words, json_values, max_size=3)
ids = st.uuids().map(str)


def _with(fixed: dict[str, Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({**{name: st.just(value) for name, value in fixed.items()}, **fields})


ui_parts = st.one_of(
    _with({"type": "text"}, text=st.text(max_size=20)),
    _with({"type": "text", "state": "done"}, text=words, providerMetadata=objects),
    _with({"type": "reasoning"}, text=words),
    _with({"type": "reasoning"}, text=words, providerMetadata=words.map(lambda s: {"anthropic": {"signature": s}})),
    _with({"type": "file"}, url=words.map("https://x/{}".format), mediaType=st.sampled_from(["image/png", "text/csv"])),
    _with({"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}, filename=words),
    _with({"type": "tool-look", "state": "input-available"}, toolCallId=ids, input=objects),
    _with({"type": "tool-look", "state": "output-available"}, toolCallId=ids, input=objects, output=json_values),
    _with({"type": "tool-look", "state": "output-error"}, toolCallId=ids, input=objects, errorText=words),
    _with(
        {"type": "dynamic-tool", "toolName": "x", "state": "output-available"},
        toolCallId=ids,
        input=objects,
        output=words,
    ),
    _with({"type": "step-start"}),
    _with({"type": "source-url"}, sourceId=words, url=words),
    _with({"type": "data-chart"}, data=json_values),
)
ui_messages = st.lists(
    st.fixed_dictionaries(
        {"id": ids, "role": st.sampled_from(["user", "assistant", "system"]), "parts": st.lists(ui_parts, max_size=5)},
        optional={"metadata": objects},
    ),
    max_size=5,
    unique_by=lambda message: str(message["id"]),
)
assistant_parts = st.one_of(
    _with({"type": "text"}, text=st.text(max_size=20)),
    _with({"type": "reasoning"}, text=words),
    _with({"type": "image"}, image=words.map("https://x/{}".format)),
    _with({"type": "image", "image": "data:image/png;base64,AAAA"}, filename=words),
    _with({"type": "file", "data": "data:text/csv;base64,AAAA", "mimeType": "text/csv"}, filename=words),
    _with({"type": "tool-call", "toolName": "look", "argsText": "{}"}, toolCallId=ids, args=objects),
    _with(
        {"type": "tool-call", "toolName": "look", "argsText": "{}"}, toolCallId=ids, args=objects, result=json_values
    ),
    _with({"type": "source", "sourceType": "url"}, id=words, url=words),
)


@st.composite
def repositories(draw: st.DrawFn) -> dict[str, Any]:
    """All branches of a thread, as assistant-ui exports it."""
    names = draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    items = []
    for at, name in enumerate(names):
        role = draw(st.sampled_from(["user", "assistant", "system"]))
        by_role: dict[str, dict[str, Any]] = {
            "assistant": {"status": {"type": "complete", "reason": "stop"}, "metadata": {"custom": draw(objects)}},
            "user": {"attachments": [], "metadata": {"custom": {}}},
            "system": {"metadata": {"custom": {}}},
        }
        content = draw(st.lists(assistant_parts, max_size=4))
        message = {
            "id": name,
            "role": role,
            "content": content,
            "createdAt": "2026-01-02T03:04:05.678Z",
            **by_role[role],
        }
        items.append({"parentId": draw(st.sampled_from([None, *names[:at]])), "message": message})
    return {"headId": draw(st.sampled_from(names)), "messages": items}


def recorded(drafts: list[Draft]) -> list[Said]:
    """What is read again of drafts."""
    return [
        Said(
            id=str(draft.id),
            parent=draft.parent if isinstance(draft.parent, str) else None,
            role=role_of(draft.payload),
            time_ms=0,
            payload=draft.payload,
        )
        for draft in drafts
    ]


@settings(max_examples=few(40, 400), deadline=None)
@given(ui_messages)
def test_messages_of_the_ai_sdk_come_back_as_they_were(messages: list[dict[str, Any]]) -> None:
    """All parts in their order, with all their fields; ids of messages are those of nodes."""
    assert ui.messages_of(recorded(ui.drafts_of(messages))) == messages


@settings(max_examples=few(40, 400), deadline=None)
@given(repositories())
def test_a_repository_of_assistant_ui_comes_back_as_it_was(repository: dict[str, Any]) -> None:
    """All branches, and which of them is shown."""
    drafts, end = assistant_ui.drafts_of(repository["messages"], repository["headId"])
    said = recorded(drafts)
    parents = {each.id: each.parent for each in said}
    assert assistant_ui.repository_of(said, parents, end) == repository


@settings(max_examples=few(30, 200), deadline=None)
@given(ui_messages)
def test_what_an_interface_sent_is_what_model_apis_take(messages: list[dict[str, Any]]) -> None:
    """No field of the interface is in what goes to a model; nor is a result without its call.

    Each call of a tool is there, unless the conversation went on without its result: model APIs refuse it then.
    """
    said = recorded(ui.drafts_of(messages))
    for found in (anthropic.messages_of(said).messages, openai.messages_of(said)):
        assert "ui" not in {name for message in found for name in message}
    blocks = [b for m in anthropic.messages_of(said).messages if isinstance(m["content"], list) for b in m["content"]]
    called = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    wanted = [p["toolCallId"] for m in messages if m["role"] != "system" for p in m["parts"] if "toolCallId" in p]
    passed = Counter(each.call.id for each in pairing(each.payload for each in said if each.role != "system").passed)
    assert called == wanted or passed
    assert Counter(called) == Counter(wanted) - passed
    assert set(answered) <= set(called)


def test_no_model_gets_a_result_without_its_call() -> None:
    """A part of a conversation may begin behind a call, and a call may be retracted; APIs refuse such a result."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {}}]}
    answers = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("b", "c", "b", "c")]
    said = recorded([Draft(payload=each, id=f"n{at}") for at, each in enumerate([answers[1], call, *answers])])
    blocks = [{"type": "tool_result", "tool_use_id": "c", "content": "c"}] * 2
    assert anthropic.messages_of(said).messages == [call, {"role": "user", "content": blocks}]
    assert [message.get("tool_call_id") for message in openai.messages_of(said)] == [None, "c", "c"]


def test_no_model_gets_a_call_after_which_the_conversation_went_on() -> None:
    """APIs refuse a call without its result, unless the next message can bring it; what was said beside it stays."""
    call = {"type": "tool_use", "id": "c", "name": "n", "input": {}}
    text = {"type": "text", "text": "I look"}
    asked = [{"role": "assistant", "content": [text, call]}, {"role": "user", "content": "go on"}]
    said = recorded([Draft(payload=each, id=f"n{at}") for at, each in enumerate([*asked, asked[0]])])
    shown = anthropic.messages_of(said).messages
    assert shown == [{"role": "assistant", "content": "I look"}, *asked[1:], asked[0]]
    assert ["tool_calls" in message for message in openai.messages_of(said)] == [False, False, True]


def test_the_arguments_of_a_call_are_an_object_in_anthropics_api() -> None:
    """It refuses others; a model may have written JSON that ends early, or a value that is no object."""
    given = ["{bad", "[1]", '{"a":1}']
    calls = [{"id": f"c{at}", "function": {"name": "n", "arguments": each}} for at, each in enumerate(given)]
    said = recorded([Draft(payload={"role": "assistant", "content": None, "tool_calls": calls}, id="n")])
    blocks = anthropic.messages_of(said).messages[0]["content"]
    assert [block["input"] for block in blocks] == [{"text": "{bad"}, {"value": [1]}, {"a": 1}]
    assert [each["function"]["arguments"] for each in openai.messages_of(said)[0]["tool_calls"]] == given


FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
PICTURE = {"type": "image", "data": "AA", "mimeType": "image/png"}
IN_ANTHROPIC = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}


@pytest.mark.parametrize("part", [FILE, SOUND, {"type": "file", "file": {"file_id": "f1"}}])
def test_files_of_openai_come_back_as_they_were(part: dict[str, Any]) -> None:
    """In its own shape; in Anthropic's a PDF is a document, and what that API has no block for is text."""
    said = recorded([Draft(payload={"role": "user", "content": [part, {"type": "text", "text": "x"}]}, id="n")])
    assert openai.messages_of(said)[0]["content"][0] == part
    block = anthropic.messages_of(said).messages[0]["content"][0]
    assert block["type"] == ("document" if part == FILE else "text")


def test_images_in_results_have_the_form_of_anthropics_api() -> None:
    """Whatever program recorded them."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {}}]}
    result = {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "x"}, PICTURE]}
    said = recorded([Draft(payload=each, id=f"n{at}") for at, each in enumerate([call, result])])
    answer = anthropic.messages_of(said).messages[1]["content"][0]
    assert answer["content"] == [{"type": "text", "text": "x"}, IN_ANTHROPIC]


def test_messages_of_tools_stay_together() -> None:
    """Whatever is in them: the role may be that of the node alone."""
    said = [Said(id=text, parent=None, role="tool", time_ms=0, payload={"content": text}) for text in ("a", "b")]
    blocks = [{"type": "text", "text": text} for text in ("a", "b")]
    assert anthropic.messages_of(said).messages == [{"role": "user", "content": blocks}]


@pytest.mark.parametrize("shape", ["ui", "assistant-ui", "anthropic", "openai"])
def test_what_was_erased_keeps_its_role_and_its_call(tmp_path: Path, shape: str) -> None:
    """The words are gone, and nothing else: a result answers its call, and what a model said is not the user's."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {}}]}
    with treering.open(tmp_path).session("s") as session:
        session.append(treering.user("to the sea?"), call)
        nodes = session.append({"role": "tool", "tool_call_id": "c", "content": "secret"}, treering.assistant("secret"))
        before = client(tmp_path).get("sessions/s/messages", params={"format": shape}).text
        session.erase(*nodes.nodes)
    after = client(tmp_path).get("sessions/s/messages", params={"format": shape}).text
    assert before.count("secret") == 2
    assert after == before.replace("secret", "[erased]")


PAYLOADS: list[tuple[Any, list[Any]]] = [
    ("hi", [Text("hi")]),
    ({"role": "user", "content": "hi"}, [Text("hi")]),
    ({"role": "assistant", "content": None}, []),
    ({"role": "assistant", "content": None, "refusal": "no"}, [Text("no")]),
    ({"role": "assistant", "content": None, "audio": {"transcript": "yes"}}, [Text("yes")]),
    ({"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "s"}]}, [Thinking("a", "s")]),
    ({"role": "assistant", "content": "x", "reasoning_content": "why"}, [Thinking("why"), Text("x")]),
    ({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {"a": 1}}]},
     [Call("c", "n", {"a": 1})]),
    ({"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "n", "arguments": '{"a":1}'}}]},
     [Call("c", "n", {"a": 1})]),
    ({"role": "tool", "tool_call_id": "c", "content": "out"}, [Result("c", "out")]),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "out", "is_error": True}]},
     [Result("c", "out", True)]),
    ({"role": "user", "content": [{"toolResult": {"toolUseId": "c", "status": "error", "content": [{"text": "x"}]}}]},
     [Result("c", [{"type": "text", "text": "x"}], True)]),
    ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
     [Media("https://x/y.png", "image/*")]),
    ({"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}]},
     [Media("data:image/png;base64,AA", "image/png")]),
    ({"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:x/y;base64,AA"}}]},
     [Media("data:x/y;base64,AA", "x/y", "a.pdf")]),
    ({"role": "user", "content": [{"type": "odd"}]}, [Other({"type": "odd"})]),
    ({"role": "user", "content": [{"type": {}, "text": "x"}]}, [Other({"type": {}, "text": "x"})]),
    ({"role": ["user"], "content": "hi"}, [Text("hi")]),
    ({"role": "user", "content": [{"guardContent": {}}]}, [Other({"type": "text"})]),
    (Erased(sha256="0" * 64), [Text("[erased]")]),
    (Erased(message={"role": "tool", "tool_call_id": "c", "content": "[erased]"}), [Result("c", "[erased]")]),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "parts"), PAYLOADS)
def test_messages_of_all_apis_are_taken_apart(payload: Any, parts: list[Any]) -> None:
    """Whatever shape a message was recorded in, its parts are the same few kinds."""
    assert parts_of(payload) == parts


@pytest.mark.parametrize("payload", [payload for payload, _ in PAYLOADS])
def test_messages_of_all_apis_have_every_shape(payload: Any) -> None:
    """Whatever was recorded, also fields with odd types, is shown in each shape; a role that is none is the user's."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {}}]}
    said = recorded([Draft(payload=each, id=f"n{at}") for at, each in enumerate([call, payload])])
    assert all(each.role in {"user", "assistant", "tool"} for each in said)
    shapes: list[Any] = [ui.messages_of(said), openai.messages_of(said), anthropic.messages_of(said)]
    for shape in [*shapes, assistant_ui.repository_of(said, {}, "n1")]:
        assert to_json(shape)


@pytest.mark.parametrize("odd", [{}, [], None, 1, "", "nobody"])
def test_messages_of_interfaces_with_an_odd_role_id_or_parent_are_refused(odd: Any) -> None:
    """They are an error of the sender, with a kind."""
    message = {"id": "a", "role": "user", "parts": [], "content": []}
    for wrong in ([message | {"role": odd}], [message | {"id": odd}] if odd != "nobody" else []):
        for each in wrong:
            with pytest.raises(UsageError) as refused:
                ui.drafts_of([each])
            assert refused.value.kind == Kind.MESSAGE
            with pytest.raises(UsageError):
                assistant_ui.drafts_of([{"parentId": None, "message": each}], None)
    if odd is not None:
        with pytest.raises(UsageError):
            assistant_ui.drafts_of([{"parentId": odd, "message": message}], None)
