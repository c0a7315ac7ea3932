"""Claude Code itself, asked what it sends to a model when it resumes a session.

The program runs as it was published, with a home of its own. The model is a server on the loopback that only notes what
it is sent; nothing leaves the machine.

`python -m tests.upstream.claude_code FOLDER` records what it sends for the sessions of `tests.programs.claude.talks`,
where FOLDER is the one in which the programs are installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from uuid import UUID

from tests.programs.claude.requests import PROMPT, RECORDED, Row, compared, sent
from tests.programs.claude.talks import TALKS, talk_of
from tests.upstream.install import runner

SECONDS_MAX: Final = 120
SESSION: Final = str(UUID(int=7, version=4))
"""The name that every file gets."""
_USAGE: Final = {"input_tokens": 1, "output_tokens": 1}
_ENVIRON: Final = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_AUTO_COMPACT": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP": "1",
    "TZ": "UTC",
}


class ClaudeCode:
    """Claude Code, and the model that it talks to."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._home = home
        self._project = home / "project"
        self._config = home / "config"
        self._model = _Model(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._model.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._project.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._model.shutdown()
        self._model.server_close()
        self._thread.join()

    def resume(self, data: bytes) -> list[dict[str, Any]] | str:
        """Return the messages of the request that resuming a file with a new prompt leads to.

        The new prompt is the last one, and what the program adds for it stands there as well. A text is what the
        program says instead, if it sends nothing.
        """
        folder = self._config / "projects" / str(self._project.resolve()).replace("/", "-").replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{SESSION}.jsonl"
        path.write_bytes(data)
        self._model.seen.clear()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("CLAUDE", "ANTHROPIC"))}
        address = f"http://127.0.0.1:{self._model.server_port}"
        environ = kept | _ENVIRON | {"HOME": str(self._home), "CLAUDE_CONFIG_DIR": str(self._config)}
        done = subprocess.run(
            [str(self._program), "-p", PROMPT, "--resume", SESSION, "--tools", ""],
            cwd=self._project,
            env=environ | {"ANTHROPIC_BASE_URL": address},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        path.unlink()
        for request in self._model.seen:
            if PROMPT in json.dumps(request["messages"][-2:]):
                asked: list[dict[str, Any]] = request["messages"]
                return asked
        return (done.stdout + done.stderr).decode(errors="replace").strip() or f"status {done.returncode}"

    def rows(self, data: bytes) -> list[Row] | None:
        """Return what of the request is the session's; None if the program finds no session in the file."""
        messages = self.resume(data)
        return None if isinstance(messages, str) else compared(sent(messages))


def record(program: Path) -> dict[str, list[Row] | None]:
    """Return what the program sends for each session of the list."""
    with tempfile.TemporaryDirectory() as home, ClaudeCode(program, Path(home)) as claude:
        return {name: claude.rows(talk_of(name).data) for name in TALKS}


class _Model(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer that somebody is there."""
        self._answer(b"", "text/plain")

    def do_GET(self) -> None:
        """Answer that nothing is known."""
        self._answer(b"{}", "application/json")

    def do_POST(self) -> None:
        """Note a request, and answer it with one word."""
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            self._answer(b'{"input_tokens": 1}', "application/json")
            return
        self.server.seen.append(body)
        text = {"type": "text", "text": "noted"}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": _USAGE,
        }  # fmt: skip
        if not body.get("stream"):
            self._answer(
                json.dumps(message | {"content": [text], "stop_reason": "end_turn"}).encode(), "application/json"
            )
            return
        events: Sequence[tuple[str, dict[str, Any]]] = (
            ("message_start", {"message": message}),
            ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "noted"}}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": _USAGE}),
            ("message_stop", {}),
        )
        lines = (f"event: {name}\ndata: {json.dumps({'type': name, **told})}\n\n" for name, told in events)
        self._answer("".join(lines).encode(), "text/event-stream")

    def _answer(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


if __name__ == "__main__":
    found = record(runner(Path(sys.argv[1]).absolute(), "claude"))
    lines = (f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.items())
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
