"""Messages of other programs in the shape of common APIs."""

from __future__ import annotations

from typing import Any

import pytest

from treering.messages import common, shape_of

CALL = {"type": "tool_call", "id": "c1", "name": "ls", "input": {"path": "."}}


@pytest.mark.parametrize(
    ("message", "shape", "content"),
    [
        ({"role": "user", "content": "hi"}, "", "hi"),
        ({"role": "user", "content": None, "parts": []}, "", None),
        ({"anything": 1}, "", None),
        (
            {"role": "assistant", "contents": [{"type": "text", "content": "hi"}, 7]},
            "operator",
            [{"type": "text", "text": "hi"}, 7],
        ),
        (
            {"role": "tool", "contents": [{"type": "tool_result", "id": "c1", "content": "a", "is_error": True}]},
            "operator",
            [{"type": "tool_result", "tool_call_id": "c1", "content": "a", "is_error": True}],
        ),
        (
            {"contents": [{"type": "image", "images": ["/9j/4AA=", "data:image/x;base64,AA==", "https://x/y", None]}]},
            "operator",
            [
                {"type": "image", "data": "/9j/4AA=", "mimeType": "image/jpeg"},
                {"type": "image", "data": "AA==", "mimeType": "image/x"},
                {"type": "image", "url": "https://x/y"},
                {"type": "image", "data": None},
            ],
        ),
        ({"contents": "odd"}, "operator", []),
        (
            {"role": "assistant", "parts": [{"type": "text", "data": {"text": "hi"}}, {"type": "finish", "data": {}}]},
            "kit",
            [{"type": "text", "text": "hi"}, None],
        ),
        (
            {"Role": "assistant", "Content": "hi", "Thinking": "hm", "ThinkingSignature": "s", "ToolCalls": None},
            "evva",
            [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "hi"}],
        ),
        (
            {"role": "assistant", "toolcalls": [{"ID": "c1", "name": "ls", "Input": {"path": "."}}, None]},
            "evva",
            [CALL, {"type": "tool_call"}],
        ),
        (
            {"ROLE": "tool", "ToolResults": [{"ID": "c1", "Content": "a", "IsError": False}]},
            "evva",
            [{"type": "tool_result", "tool_call_id": "c1", "content": "a", "is_error": False}],
        ),
    ],
)
def test_every_shape_becomes_the_common_one(message: dict[str, Any], shape: str, content: object) -> None:
    """Blocks have common names for their types and fields; what nobody knows stays as it is."""
    assert shape_of(message) == shape
    assert common(message).get("content") == content
    assert common(message).get("role") == message.get("role", message.get("Role", message.get("ROLE")))
