from __future__ import annotations

import pytest

from treering.transcript.parts import parts_of


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("plain", [("text", "", "plain")]),
        ({"role": "user", "content": "hello"}, [("text", "", "hello")]),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]},
            [("thinking", "", "hm"), ("text", "", "yes")],
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "name": "ls", "input": {"path": "."}}]},
            [("call", "ls", '{"path":"."}')],
        ),
        (
            {"role": "assistant", "content": [{"type": "toolCall", "name": "ls", "arguments": {"path": "."}}]},
            [("call", "ls", '{"path":"."}')],
        ),
        (
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}]},
            [("call", "ls", "{}")],
        ),
        ({"role": "tool", "name": "ls", "content": "a b"}, [("result", "ls", "a b")]),
        (
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "yes"},
                    {"functionCall": {"name": "ls", "args": {"path": "."}}},
                    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                ],
            },
            [("thinking", "", "hm"), ("text", "", "yes"), ("call", "ls", '{"path":"."}'), ("data", "image", "")],
        ),
        (
            {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a"}}}]},
            [("result", "", '{"output":"a"}')],
        ),
        ({"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}, [("call", "ls", "{}")]),
        ({"type": "function_call_output", "call_id": "c", "output": "a"}, [("result", "", "a")]),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, [("thinking", "", "hm")]),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, [("text", "", "no")]),
        (
            {"role": "toolResult", "toolName": "ls", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
            [("result", "ls", "a"), ("data", "image", "")],
        ),
        (
            {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "a"}]}]},
            [("result", "", "a")],
        ),
        ({"role": "bashExecution", "command": "ls", "output": "a"}, [("call", "shell", "ls"), ("result", "", "a")]),
        (
            {
                "role": "assistant",
                "contents": [
                    {"type": "thinking", "content": "hm", "signature": ""},
                    {"type": "text", "content": "yes"},
                    {"type": "tool_call", "name": "ls", "args": {"path": "."}},
                    {"type": "tool_result", "id": "c1", "content": "a"},
                ],
            },
            [("thinking", "", "hm"), ("text", "", "yes"), ("call", "ls", '{"path":"."}'), ("result", "", "a")],
        ),
        (
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "data": {"thinking": "hm"}},
                    {"type": "text", "data": {"text": "yes"}},
                    {"type": "tool_call", "data": {"name": "ls", "input": "{}"}},
                    {"type": "finish", "data": {"reason": "tool_use"}},
                ],
            },
            [("thinking", "", "hm"), ("text", "", "yes"), ("call", "ls", "{}")],
        ),
        ({"parts": [{"type": "tool_result", "data": {"content": "a"}}, 7]}, [("result", "", "a"), ("text", "", "7")]),
        ({"role": "user", "parts": None}, []),
        (
            {
                "Role": "assistant",
                "Content": "yes",
                "Thinking": "hm",
                "ToolCalls": [{"ID": "c1", "Name": "ls", "Input": {"path": "."}}],
                "ToolResults": [{"ID": "c1", "Content": "a"}],
            },
            [("thinking", "", "hm"), ("text", "", "yes"), ("call", "ls", '{"path":"."}'), ("result", "", "a")],
        ),
        ({"Role": "user", "Content": "hello", "ToolCalls": None}, [("text", "", "hello")]),
        ({"summary": "long ago"}, [("text", "", "long ago")]),
        ({"role": "assistant", "content": None, "refusal": "no"}, [("text", "", "no")]),
        ({"role": "assistant", "content": None, "audio": {"transcript": "yes"}}, [("text", "", "yes")]),
        (
            {"role": "assistant", "function_call": {"name": "ls", "arguments": "{}"}, "refusal": None},
            [("call", "ls", "{}")],
        ),
        ({"role": "user", "content": [{"type": "new", "x": 1}]}, [("data", "new", '{"type":"new","x":1}')]),
        ({"anything": [1]}, [("data", "", '{"anything":[1]}')]),
        ([1, 2], [("data", "", "[1,2]")]),
        (None, []),
        ({"role": "user", "content": ""}, []),
    ],
)
def test_shapes(message: object, expected: list[tuple[str, str, str]]) -> None:
    """Messages of the common APIs and of imported programs are taken apart, and what is not known is shown as JSON."""
    assert parts_of(message) == expected
