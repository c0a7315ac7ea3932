from __future__ import annotations

import pytest

from treering.cli.message import first_line, headline, role_of
from treering.transcript.node import Node


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
    """A line has the text and calls of a message, cut to the given length."""
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
