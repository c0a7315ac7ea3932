"""A model on loopback, for the real Claude Code: it speaks the Messages API, and answers by rule.

"read 2" calls the tool Read twice, one call after the other; "read 2 at once" does so in one message; "delegate" starts
a subagent, which is asked to read once. Anything else, and whatever has been done, is answered by all prompts so far.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

_USAGE = {
    "input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
}  # fmt: skip


@contextmanager
def serving(file: Path) -> Iterator[str]:
    """Answer requests until the block ends.

    Args:
        file: What it wants to read.

    Yields:
        The URL for `ANTHROPIC_BASE_URL`.
    """
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
            if "count_tokens" in self.path:
                self._send(json.dumps({"input_tokens": 1}), "application/json")
            elif body.get("stream"):
                events = _events(_named(answer(body, file), numbers), f"msg_{next(numbers)}")
                text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
                self._send(text, "text/event-stream")
            else:
                content = _named(answer(body, file), numbers)
                message = _message(f"msg_{next(numbers)}", content) | {"stop_reason": _reason(content)}
                self._send(json.dumps(message), "application/json")

        def do_HEAD(self) -> None:
            self._send("", "text/plain")

        def _send(self, text: str, kind: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(body: Any, file: Path) -> list[Any]:
    """The blocks of the next answer."""
    tools = {tool.get("name") for tool in body.get("tools", ())}
    prompts, done = [], 0
    for message in body["messages"]:
        said = [text for block in _blocks(message) if (text := _said(block))] if message["role"] == "user" else []
        prompts += said
        done = 0 if said else done + sum(block["type"] == "tool_result" for block in _blocks(message))
    last = prompts[-1] if prompts else ""
    reading = re.search(r"read (\d)( at once)?", last)
    if reading and "Read" in tools and done < int(reading[1]):
        read = {"type": "tool_use", "name": "Read", "input": {"file_path": str(file)}}
        return [read] * (int(reading[1]) if reading[2] else 1)
    if last == "delegate" and not done and (agent := tools & {"Agent", "Task"}):
        task = {"description": "look", "prompt": "read 1", "subagent_type": "general-purpose"}
        return [{"type": "tool_use", "name": min(agent), "input": task | {"run_in_background": False}}]
    return [{"type": "text", "text": "you asked: " + ", ".join(prompts)}]


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _said(block: Any) -> str:
    """What a user said in a block; nothing if Claude Code wrote it."""
    text: str = block["text"].strip() if block["type"] == "text" else ""
    return "" if text.startswith("<") else text


def _named(content: list[Any], numbers: Iterator[int]) -> list[Any]:
    return [{**block, "id": f"toolu_{next(numbers)}"} if block["type"] == "tool_use" else block for block in content]


def _reason(content: list[Any]) -> str:
    return "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"


def _message(name: str, content: list[Any]) -> dict[str, Any]:
    fixed = {"type": "message", "role": "assistant", "model": "stand-in", "stop_reason": None, "stop_sequence": None}
    return {"id": name, "content": content, "usage": _USAGE, **fixed}


def _events(content: list[Any], name: str) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _message(name, [])}
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty, delta = (
                {**block, "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
            )
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta", "delta": {"stop_reason": _reason(content), "stop_sequence": None}, "usage": _USAGE,
    }  # fmt: skip
    yield {"type": "message_stop"}
