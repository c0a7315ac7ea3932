"""Writes transcripts as Claude Code does, without a model: who follows whom, and what else is written in between.

The shapes are those of files that Claude Code 2 left behind: an entry for each block of an answer, results that hang on
the block with their call, attachments and notes of the program in the chain, titles without a `uuid`.
"""

from __future__ import annotations

import uuid
from typing import Any

Entry = Any
"""A JSON object."""
PROJECT = "-home-ada-clock"


def key_of(session: str, subpath: str | None = None) -> Any:
    """The key of a transcript."""
    key = {"project_key": PROJECT, "session_id": session}
    return key if subpath is None else key | {"subpath": subpath}


class Scribe:
    """One conversation, written down entry by entry.

    Attributes:
        entries: All of it, in the order in which it was written.
        tip: The uuid that the next entry names as its parent.
    """

    def __init__(self, session: str | None = None, *, agent: str = "") -> None:
        self.session = session or str(uuid.uuid4())
        self.agent = agent
        self.entries: list[Entry] = []
        self.tip: str | None = None

    @property
    def key(self) -> Any:
        """Of the conversation, or of the subagent's transcript."""
        return key_of(self.session, f"subagents/agent-{self.agent}" if self.agent else None)

    def write(self, kind: str, *, parent: str | None = "", **fields: Any) -> Entry:
        """Write an entry of the chain."""
        number = len(self.entries)
        entry: Entry = {
            "parentUuid": self.tip if parent == "" else parent,
            "isSidechain": bool(self.agent),
            "type": kind,
            "uuid": str(uuid.uuid4()),
            "timestamp": f"2026-11-22T06:{number // 60 % 60:02d}:{number % 60:02d}.{number % 1000:03d}Z",
            "sessionId": self.session,
            "cwd": "/home/ada/clock",
            "version": "2.1.0",
            "gitBranch": "main",
        }
        entry |= ({"agentId": self.agent} if self.agent else {}) | fields
        self.entries.append(entry)
        self.tip = entry["uuid"]
        return entry

    def say(self, text: str, *, parent: str | None = "") -> Entry:
        """A prompt of the user's, by default behind what was written last."""
        return self.write("user", parent=parent, message={"role": "user", "content": text})

    def answer(self, text: str) -> Entry:
        """An answer in one block."""
        return self._block({"type": "text", "text": text}, _answer_id())

    def call(self, *commands: str) -> list[Entry]:
        """An answer that calls a tool several times at once: an entry for each call."""
        answer = _answer_id()
        calls = [
            {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:12]}", "name": "Bash", "input": {"command": command}}
            for command in commands
        ]
        return [self._block(call, answer) for call in calls]

    def _block(self, block: Entry, answer: str) -> Entry:
        message = {"id": answer, "type": "message", "role": "assistant", "model": "claude-fake-1", "content": [block]}
        return self.write("assistant", message=message, requestId="req_1")

    def result(self, call: Entry, text: str) -> Entry:
        """What a call gave; it hangs on the entry of the call."""
        block = {"type": "tool_result", "tool_use_id": call["message"]["content"][0]["id"], "content": text}
        return self.write(
            "user",
            parent=call["uuid"],
            message={"role": "user", "content": [block]},
            toolUseResult={"stdout": text, "stderr": ""},
            sourceToolAssistantUUID=call["uuid"],
        )

    def attach(self, kind: str = "todo_reminder") -> Entry:
        """An attachment, which is a link of the chain like any other entry."""
        return self.write("attachment", attachment={"type": kind, "content": []})

    def compact(self, summary: str) -> list[Entry]:
        """The boundary of a compaction, and the summary behind it."""
        before = self.tip
        facts = {"trigger": "auto", "preTokens": 1000}
        boundary = self.write(
            "system", parent=None, logicalParentUuid=before, subtype="compact_boundary", compactMetadata=facts
        )
        text = {"role": "user", "content": summary}
        return [boundary, self.write("user", message=text, isCompactSummary=True, isVisibleInTranscriptOnly=True)]

    def note(self, kind: str, **fields: Any) -> Entry:
        """An entry without a uuid: a title, a mode, ..."""
        entry = {"type": kind, "sessionId": self.session, **fields}
        self.entries.append(entry)
        return entry

    def turn(self, text: str, *commands: str) -> list[Entry]:
        """A whole turn: a prompt, calls at once, their results, an answer. Returns its entries."""
        start = len(self.entries)
        self.say(text)
        if commands:
            calls = self.call(*commands)
            for call in calls:
                self.result(call, f"ran {call['message']['content'][0]['input']['command']}")
            self.attach()
        self.answer(f"done: {text}")
        return self.entries[start:]


def _answer_id() -> str:
    return f"msg_{uuid.uuid4().hex[:12]}"
