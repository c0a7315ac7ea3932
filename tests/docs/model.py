"""A stand-in for the servers of OpenAI and Anthropic: it answers by a fixed rule, and refuses what they refuse.

To a question it answers with a call of the first tool that it was offered, to a result with a sentence about it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ARGUMENTS = {"path": "tests/test_login.py"}
USAGE = {"input_tokens": 40, "output_tokens": 9}


@contextmanager
def serving() -> Iterator[str]:
    """Run the server on a free port; its address is that of Anthropic, and with `/v1` behind it that of OpenAI."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {"/v1/chat/completions": _openai, "/v1/messages": _anthropic}[self.path]
        try:
            status, told = 200, answer(asked)
        except ValueError as error:
            status, told = 400, {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # named by the class above
        """Say nothing."""


def _openai(asked: dict[str, Any]) -> dict[str, Any]:
    open_calls: set[str] = set()
    for message in asked["messages"]:
        if message["role"] == "tool":
            _require(message["tool_call_id"] in open_calls, "a result without its call")
            open_calls.discard(message["tool_call_id"])
            continue
        _require(not open_calls, "a call without its result")
        open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    _require(not open_calls, "a call without its result")
    if asked["messages"][-1]["role"] == "tool":
        message, reason = {"role": "assistant", "content": _sentence(asked["messages"][-1]["content"])}, "stop"
    else:
        function = {"name": asked["tools"][0]["function"]["name"], "arguments": json.dumps(ARGUMENTS)}
        call = {"id": f"call-{len(asked['messages'])}", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    usage = dict(zip(("prompt_tokens", "completion_tokens"), USAGE.values(), strict=True))
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 0,
        "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {**usage, "total_tokens": sum(usage.values())},
    }


def _anthropic(asked: dict[str, Any]) -> dict[str, Any]:
    open_calls: set[str] = set()
    for message in asked["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        _require(results == open_calls, "a call without its result, or the other way round")
        open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    _require(not open_calls, "a call without its result")
    last = asked["messages"][-1]["content"]
    content: dict[str, Any]
    if isinstance(last, list) and last[-1]["type"] == "tool_result":
        content, reason = {"type": "text", "text": _sentence(last[-1]["content"])}, "end_turn"
    else:
        identifier = f"toolu_{len(asked['messages'])}"
        content = {"type": "tool_use", "id": identifier, "name": asked["tools"][0]["name"], "input": ARGUMENTS}
        reason = "tool_use"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": [content],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": USAGE,
    }


def _sentence(result: str) -> str:
    return f"I ran it: {result}."


def _require(holds: bool, what: str) -> None:  # noqa: FBT001  # reads like an assertion
    if not holds:
        raise ValueError(what)
