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
            {
                "role": "model",
                "parts": [
                    {"text": "hm", "thought": True},
                    {"text": "hi"},
                    {"functionCall": {"name": "ls", "args": {"path": "."}}, "thoughtSignature": "AA"},
                    {"inline_data": {"mime_type": "image/png", "data": b"\x00"}},
                    {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x/y"}},
                    {"executableCode": {"language": "PYTHON", "code": "1"}},
                    {"unheardOf": 1},
                ],
            },
            "gemini",
            [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "hi"},
                {"type": "tool_call", "id": "ls", "name": "ls", "input": {"path": "."}},
                {"type": "image", "mimeType": "image/png", "data": "AA=="},
                {"type": "video", "mimeType": "video/mp4", "url": "gs://x/y"},
                {"type": "executable_code", "language": "PYTHON", "code": "1"},
                {"unheardOf": 1},
            ],
        ),
        (
            {"role": "user", "parts": [{"function_response": {"name": "ls", "response": {"error": "no"}}}]},
            "gemini",
            [
                {
                    "type": "tool_result",
                    "tool_call_id": "ls",
                    "name": "ls",
                    "content": [{"error": "no"}],
                    "is_error": True,
                }
            ],
        ),
        (
            {
                "kind": "request",
                "parts": [
                    {"part_kind": "system-prompt", "content": "be nice"},
                    {"part_kind": "user-prompt", "content": ["look", {"kind": "binary", "media_type": "image/png"}]},
                    {"part_kind": "tool-return", "tool_name": "ls", "tool_call_id": "c1", "content": "a"},
                    {"part_kind": "retry-prompt", "tool_name": "ls", "tool_call_id": "c2", "content": "again"},
                    {"part_kind": "retry-prompt", "tool_name": None, "content": "no text"},
                ],
            },
            "pydantic_ai",
            [
                {"type": "text", "text": "be nice"},
                {"type": "text", "text": "look\n[image/png]"},
                {"type": "tool_result", "tool_call_id": "c1", "name": "ls", "content": "a", "is_error": False},
                {"type": "tool_result", "tool_call_id": "c2", "name": "ls", "content": "again", "is_error": True},
                {"type": "text", "text": "no text"},
            ],
        ),
        (
            {
                "kind": "response",
                "parts": [
                    {"part_kind": "thinking", "content": "hm"},
                    {"part_kind": "tool-call", "tool_call_id": "c1", "tool_name": "ls", "args": {"path": "."}},
                    {"part_kind": "unheard-of", "content": 1},
                    7,
                ],
            },
            "pydantic_ai",
            [
                {"type": "thinking", "thinking": "hm"},
                CALL | {"type": "tool_call"},
                {"type": "unheard-of", "content": 1},
                7,
            ],
        ),
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
        (
            {
                "role": "assistant",
                "content": [{"text": "hi"}, {"toolUse": {"toolUseId": "c1", "name": "ls", "input": {"path": "."}}}],
            },
            "converse",
            [{"type": "text", "text": "hi"}, CALL],
        ),
        (
            {
                "content": [
                    {"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "a"}, {"json": 1}]}}
                ]
            },
            "converse",
            [
                {
                    "type": "tool_result",
                    "tool_call_id": "c1",
                    "content": [{"type": "text", "text": "a"}, {"json": 1}],
                    "is_error": True,
                }
            ],
        ),
        (
            {
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"reasoningContent": {"redactedContent": b"\0"}},
                ]
            },
            "converse",
            [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "AA=="}],
        ),
        (
            {
                "content": [
                    {"image": {"format": "png", "source": {"bytes": b"\0"}}},
                    {"video": {"format": "mp4", "source": {"location": {"type": "s3", "uri": "s3://b/k"}}}},
                    {"document": {"name": "d", "format": "txt", "source": {"bytes": b"\0"}}},
                    {"guardContent": {"image": {"format": "jpeg", "source": {"bytes": b"\0"}}}},
                ]
            },
            "converse",
            [
                {"type": "image", "format": "png", "data": "AA==", "mimeType": "image/png"},
                {"type": "video", "format": "mp4", "url": "s3://b/k"},
                {"type": "document", "name": "d", "format": "txt", "data": "AA=="},
                {"type": "image", "format": "jpeg", "data": "AA==", "mimeType": "image/jpeg"},
            ],
        ),
        (
            {
                "content": [
                    {"citationsContent": {"content": [{"text": "a"}, {"text": "b"}], "citations": [1]}},
                    {"guardContent": {"text": {"text": "g"}}},
                    {"cachePoint": {"type": "default"}},
                    {"hologram": 1},
                    7,
                ]
            },
            "converse",
            [{"type": "text", "text": "ab", "citations": [1]}, {"type": "text", "text": "g"}, None, {"hologram": 1}, 7],
        ),
        ({"content": [{"toolUse": None}]}, "converse", [{"toolUse": None}]),
        ({"content": [{"type": "text", "text": "typed"}]}, "", [{"type": "text", "text": "typed"}]),
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
    said = {"request": "user", "response": "assistant"}.get(message.get("kind", ""))
    assert common(message).get("role") == message.get("role", message.get("Role", message.get("ROLE", said)))


@pytest.mark.parametrize(
    ("beside", "content", "expected"),
    [
        ({"refusal": "no"}, None, "no"),
        ({"refusal": "no"}, "well", [{"type": "text", "text": "well"}, {"type": "text", "text": "no"}]),
        ({"refusal": "no"}, [CALL], [CALL, {"type": "text", "text": "no"}]),
        ({"audio": {"id": "a", "transcript": "yes"}}, None, "yes"),
        ({"audio": {"id": "a", "transcript": "yes"}}, "yes", "yes"),
        ({"refusal": None, "audio": None}, "well", "well"),
        ({"refusal": {"odd": 1}, "audio": "odd"}, "well", "well"),
    ],
)
def test_what_is_said_beside_the_content_becomes_content(
    beside: dict[str, Any], content: object, expected: object
) -> None:
    """OpenAI's chat API has a refusal, and the transcript of speech, in fields of their own; it counts once."""
    once = common({"role": "assistant", "content": content, **beside})
    assert once["content"] == expected
    assert common(once) == once
