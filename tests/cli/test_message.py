from __future__ import annotations

import pytest

from treering.cli.message import first_line, headline, parts_of, role_of
from treering.transcript.node import Node


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


@pytest.mark.parametrize(
    "message",
    [
        {"content": {"content": {"content": "x"}}},
        {"role": 5, "content": 7},
        {"content": [None, [], {}, 3.5, {"type": ["text"]}, {"type": "text", "text": {"a": b"\0"}}]},
        {"content": [{"type": "tool_result"}, {"type": "tool_use"}], "tool_calls": "none"},
        {"summary": None},
        {"role": "tool", "name": ["x"], "content": {}},
    ],
)
def test_odd_shapes(message: object) -> None:
    """Payloads are whatever somebody recorded: nothing in them makes an error."""
    assert isinstance(first_line(message), str)


def test_first_line() -> None:
    """A line tells what a message says and calls, cut to the length asked for."""
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "I  look\nhere"}, {"type": "tool_use", "name": "ls"}],
    }
    assert first_line(message) == "I look here → ls {}"
    assert first_line("x" * 1_000_000, 10) == "x" * 9 + "…"


def test_headline_of_a_change() -> None:
    """A node without payload is described by its brief."""
    node = Node(id="n", parent=None, kind="model_change", time_ms=0, at=0, brief={"model": "m", "n": 2})
    assert headline(node) == "model: m, n: 2"
    assert role_of(node) == "model_change"
