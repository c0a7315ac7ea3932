"""A stand-in for Claude Code: the SDK starts it and talks to it as to the real one. It has no model and no network.

It writes its transcript to disk and tells the SDK of each entry, resumes from the file that it is given, and answers by
rule: "count to 3" calls a tool three times, one call after the other; to anything else it says what it was asked so
far. `FAKE_CLAUDE_HANGS_AFTER=2` in the environment makes it stop for ever behind its second result.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

from tests.integrations.claude.scribe import Scribe

ROOT = Path(__file__).parents[3]
VERSION = "2.1.300"


def install(folder: Path) -> Path:
    """Write a program that is this one, and return its path."""
    program = folder / "fake-claude"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.integrations.claude.fake_claude import main\nmain()\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def main() -> None:
    """Speak the protocol of the SDK on standard input and output, until the input ends."""
    if "-v" in sys.argv or "--version" in sys.argv:
        sys.stdout.write(f"{VERSION} (Claude Code)\n")
        return
    talk = _Talk(*_arguments())
    for line in sys.stdin:
        said = json.loads(line)
        if said["type"] == "control_request":
            answer = {"subtype": "success", "request_id": said["request_id"], "response": {}}
            _emit({"type": "control_response", "response": answer})
        elif said["type"] == "user":
            talk.turn(said["message"]["content"])


def _arguments() -> tuple[str | None, str | None, bool]:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--resume")
    parser.add_argument("--resume-session-at")
    parser.add_argument("--fork-session", action="store_true")
    known, _ = parser.parse_known_args()
    return known.resume, known.resume_session_at, known.fork_session


def _emit(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class _Talk:
    """One conversation."""

    def __init__(self, resume: str | None, at: str | None, fork: bool) -> None:  # noqa: FBT001  # as on the command line
        config = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
        self._folder = config / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", os.path.realpath(os.getcwd()))
        self._folder.mkdir(parents=True, exist_ok=True)
        before = []
        if resume is not None:
            before = [json.loads(line) for line in (self._folder / f"{resume}.jsonl").read_text().splitlines()]
        self._scribe = Scribe(None if fork else resume)
        self._scribe.tip = at or next((entry["uuid"] for entry in reversed(before) if "parentUuid" in entry), None)
        self._known = {entry["uuid"]: entry for entry in before if "uuid" in entry}
        self._results = 0
        if fork:
            for entry in before:
                self._keep({**entry, "sessionId": self._scribe.session})

    def turn(self, prompt: str) -> None:
        self._keep(self._scribe.say(prompt))
        count = int(prompt.removeprefix("count to ")) if prompt.startswith("count to ") else 0
        for number in range(1, count + 1):
            (call,) = self._scribe.call(f"echo {number}")
            self._keep(call)
            self._keep(self._scribe.result(call, str(number)))
            self._results += 1
            if str(self._results) == os.environ.get("FAKE_CLAUDE_HANGS_AFTER"):
                sys.stdin.read()  # ends when whoever started this ends
                sys.exit()
        text = f"counted to {count}" if count else "you asked: " + ", ".join(self._asked())
        answer = self._scribe.answer(text)
        self._keep(answer)
        session = self._scribe.session
        _emit({"type": "assistant", "message": answer["message"], "session_id": session, "parent_tool_use_id": None})
        _emit(
            {
                "type": "result", "subtype": "success", "duration_ms": 0, "duration_api_ms": 0, "is_error": False,
                "num_turns": 1, "session_id": session, "total_cost_usd": 0.0, "result": text,
            }
        )  # fmt: skip

    def _asked(self) -> list[str]:
        """What the user said, along the chain."""
        said = []
        entry = self._known.get(self._scribe.tip or "")
        while entry is not None:
            content = entry.get("message", {}).get("content")
            if entry["type"] == "user" and isinstance(content, str):
                said.append(content)
            entry = self._known.get(entry.get("parentUuid") or "")
        return said[::-1]

    def _keep(self, entry: dict[str, Any]) -> None:
        if "uuid" in entry:
            self._known[entry["uuid"]] = entry
        path = self._folder / f"{self._scribe.session}.jsonl"
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        _emit({"type": "transcript_mirror", "filePath": str(path), "entries": [entry]})
