"""Messages as programs and libraries record them: text, calls and results of each are shown, not their JSON."""

from __future__ import annotations

from typing import Any

from tests.viewer.browser import Browser
from tests.viewer.conversations import Own, address

import treering

TURNS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
        ]},
        {"role": "tool", "tool_call_id": "c", "content": "two lines"},
    ],
    "responses": [
        {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": '{"path": "a.py"}'},
        {"type": "function_call_output", "call_id": "c", "output": "two lines"},
    ],
    "anthropic": [
        {"role": "assistant", "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a.py"}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "two lines"}]},
    ],
    "converse": [
        {"role": "assistant", "content": [
            {"text": "I look."},
            {"toolUse": {"toolUseId": "c", "name": "read", "input": {"path": "a.py"}}},
        ]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "two lines"}]}}]},
    ],
    "gemini": [
        {"role": "model", "parts": [
            {"text": "I look."}, {"functionCall": {"name": "read", "args": {"path": "a.py"}}}
        ]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "two lines"}}}]},
    ],
    "pi": [
        {"role": "assistant", "content": [
            {"type": "text", "text": "I look."},
            {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a.py"}},
        ]},
        {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "two lines"}]},
    ],
    "kit": [
        {"role": "assistant", "parts": [
            {"type": "text", "data": {"text": "I look."}},
            {"type": "tool_call", "data": {"id": "c", "name": "read", "input": '{"path": "a.py"}', "finished": True}},
            {"type": "finish", "data": {"reason": "tool_use"}},
        ]},
        {"role": "tool", "parts": [
            {"type": "tool_result", "data": {"tool_call_id": "c", "name": "read", "content": "two lines"}}
        ]},
    ],
    "operator": [
        {"role": "assistant", "contents": [
            {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "c", "name": "read", "args": {"path": "a.py"}},
        ]},
        {"role": "tool", "contents": [{"type": "tool_result", "id": "c", "content": "two lines", "is_error": False}]},
    ],
    "evva": [
        {"Role": "assistant", "Content": "I look.", "ToolCalls": [
            {"ID": "c", "Name": "read", "Input": {"path": "a.py"}}
        ]},
        {"Role": "tool", "ToolResults": [{"ID": "c", "Content": "two lines", "IsError": False}]},
    ],
    "pydantic-ai": [
        {"kind": "response", "parts": [
            {"part_kind": "text", "content": "I look."},
            {"part_kind": "tool-call", "tool_call_id": "c", "tool_name": "read", "args": {"path": "a.py"}},
        ]},
        {"kind": "request", "parts": [
            {"part_kind": "tool-return", "tool_call_id": "c", "tool_name": "read", "content": "two lines"}
        ]},
    ],
}  # fmt: skip


def test_every_known_shape_shows_a_call_with_its_result(browser: Browser, own: Own) -> None:
    """Of each shape the text is shown, and the result under its call, with the argument that says most."""
    store, server = own
    for name, turns in TURNS.items():
        with store.session(name) as session:
            session.append(*[treering.Draft(role=str(turn.get("role") or "assistant"), payload=turn) for turn in turns])
    shown = {}
    for name in TURNS:
        browser.open(address(server, f"#/s/{name}"))
        browser.see("article.message", "I look.")
        browser.see(".call-box article.joined", "two lines")
        shown[name] = (" ".join(browser.see(".call-box summary").text.split()), len(browser.all(".messages > article")))
    assert {said for said, _ in shown.values()} == {"read a.py"}
    assert {name: count for name, (_, count) in shown.items() if count != 1} == {"responses": 2}
