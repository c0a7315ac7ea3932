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
            {"role": "toolResult", "toolName": "ls", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
            [("result", "ls", "a"), ("data", "image", "")],
        ),
        (
            {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "a"}]}]},
            [("result", "", "a")],
        ),
        ({"role": "bashExecution", "command": "ls", "output": "a"}, [("call", "shell", "ls"), ("result", "", "a")]),
        ({"summary": "long ago"}, [("text", "", "long ago")]),
        ({"role": "user", "content": [{"type": "new", "x": 1}]}, [("data", "new", '{"type":"new","x":1}')]),
        ({"anything": [1]}, [("data", "", '{"anything":[1]}')]),
        ([1, 2], [("data", "", "[1,2]")]),
        (None, []),
        ({"role": "user", "content": ""}, []),
    ],
)
def test_shapes(message: object, expected: list[tuple[str, str, str]]) -> None:
    """Messages of the common APIs are taken apart, and what is not known is shown as JSON."""
    assert parts_of(message) == expected
