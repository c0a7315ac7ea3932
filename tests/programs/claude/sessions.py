"""Makes session files as Claude Code writes them: whole ones by chance, or entry by entry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid5

from treering.programs.common.writing import encode_javascript

SPACE = UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")
START = datetime(2026, 1, 5, 8, tzinfo=UTC)


def uuid(name: str) -> str:
    """An id like those of Claude Code, the same for the same name."""
    return str(uuid5(SPACE, name))


SESSION = uuid("session")


class Talk:
    """A session under construction. Entries have names; the parent of each is the one before by default."""

    def __init__(self, session: str = SESSION) -> None:
        self.session = session
        self.entries: list[dict[str, Any]] = []
        self.cursor: str | None = None
        """The entry that the next one follows."""

    def add(self, kind: str, name: str, *, after: Any = ..., moves: bool = True, **fields: Any) -> str:
        """Write an entry; `moves`: the next one follows it."""
        above = self.cursor if after is ... else after
        stamp = (START + timedelta(seconds=len(self.entries))).isoformat(timespec="milliseconds")
        entry = {
            "parentUuid": uuid(above) if above is not None else None,
            "isSidechain": False,
            "type": kind,
            **fields,
            "uuid": uuid(name),
            "timestamp": stamp.replace("+00:00", "Z"),
            "userType": "external",
            "cwd": "/repo",
            "sessionId": self.session,
            "version": "2.1.330",
            "gitBranch": "main",
        }
        self.entries.append(entry)
        if moves:
            self.cursor = name
        return name

    def user(self, name: str, text: str | None = None, **fields: Any) -> str:
        """Write a prompt; its text is the name, or another."""
        return self.add("user", name, message={"role": "user", "content": text or name}, **fields)

    def answer(self, name: str, *blocks: Any, response: str | None = None, **fields: Any) -> str:
        """Write a block of an answer, or several; by default a text."""
        message = {
            "id": response or f"msg_{name}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5",
            "content": list(blocks) or [{"type": "text", "text": name}],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return self.add("assistant", name, message=message, **fields)

    def call(self, name: str, response: str | None = None, **fields: Any) -> str:
        """Write an answer that calls a tool; the call has the name of the entry."""
        return self.answer(name, call(name), response=response, **fields)

    def result(self, name: str, of: str, **fields: Any) -> str:
        """Write the result of a call, as Claude Code does it: below the entry with the call."""
        block = {"tool_use_id": f"toolu_{of}", "type": "tool_result", "content": f"result {of}"}
        fields = {"after": of, "toolUseResult": {"stdout": name}, "sourceToolAssistantUUID": uuid(of)} | fields
        return self.add("user", name, message={"role": "user", "content": [block]}, **fields)

    def attach(self, name: str, *, told: bool = True, **fields: Any) -> str:
        """Write an attachment; if it is told, the model sees its name."""
        fields |= {"rendered": [{"content": name}], "renderedRole": "system"} if told else {}
        return self.add("attachment", name, attachment={"type": "date", "date": "2026-01-05"}, **fields)

    def boundary(self, name: str, **facts: Any) -> str:
        """Write the boundary of a compaction, and its summary, which has the name with an `s` behind it."""
        logical = uuid(self.cursor) if self.cursor else None
        self.add(
            "system", name, after=None, logicalParentUuid=logical, subtype="compact_boundary",
            content="Conversation compacted", compactMetadata={"trigger": "auto", "preTokens": 1000, **facts},
        )  # fmt: skip
        return self.user(f"{name}s", isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def mark(self, kind: str, **fields: Any) -> None:
        """Write an entry without a `uuid`."""
        self.entries.append({"type": kind, **fields, "sessionId": self.session})

    def save(self, folder: Path, name: str | None = None) -> Path:
        """Write the file."""
        path = folder / f"{name or self.session}.jsonl"
        path.write_bytes(self.data)
        return path

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return b"".join(encode_javascript(entry) + b"\n" for entry in self.entries)


def call(name: str) -> dict[str, Any]:
    """A block that calls a tool."""
    return {"type": "tool_use", "id": f"toolu_{name}", "name": "Bash", "input": {"command": name}}


class Chance(Talk):
    """A session in which things happen by chance, as they do in Claude Code."""

    def __init__(self, random: Random, turns: int) -> None:
        super().__init__()
        self.random = random
        self.rewinds = 0
        """How often the user went back and said something else."""
        self._prompts: list[str | None] = []
        """What each prompt followed."""
        self._number = 0
        for turn in range(turns):
            self._turn(last=turn == turns - 1)

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}{self._number}"

    def _turn(self, *, last: bool) -> None:
        if self._prompts and self.random.random() < 0.25:
            self.cursor = self.random.choice(self._prompts)
            self.rewinds += 1
        elif self.cursor is not None and self.random.random() < 0.15:
            self.boundary(self._name("boundary"))
        self._prompts.append(self.cursor)
        self.user(self._name("user"))
        self._noise()
        for _ in range(self.random.randrange(3)):
            self._use_tools()
        self.answer(self._name("end"))
        if not last:
            self._noise()

    def _noise(self) -> None:
        """Write what the program notes: links of the chain, ends that nothing follows, and entries without a uuid."""
        for _ in range(self.random.randrange(4)):
            kind = self.random.choice(["attachment", "system", "progress", "mode", "side"])
            moves = self.random.random() < 0.7
            if kind == "attachment":
                self.attach(self._name("note"), moves=moves, told=self.random.random() < 0.5)
            elif kind == "system":
                self.add(kind, self._name("note"), moves=moves, subtype="turn_duration", durationMs=5)
            elif kind == "progress":
                self.add(kind, self._name("note"), moves=moves, data={"type": "hook_progress"})
            elif kind == "mode":
                self.mark("mode", mode="normal")
            else:
                self._side()

    def _side(self) -> None:
        """Write what a subagent said, between all else."""
        first = self._name("side")
        self.user(first, after=None, moves=False, isSidechain=True, agentId="a1")
        self.answer(self._name("side"), after=first, moves=False, isSidechain=True, agentId="a1")

    def _use_tools(self) -> None:
        """Write an answer with calls, and their results, in any order; the next entry follows any of them."""
        response, calls = f"msg_{self._name('answer')}", self.random.randrange(1, 4)
        waiting: list[str] = []
        results: list[str] = []
        if self.random.random() < 0.5:
            thought = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}
            self.answer(self._name("thought"), thought, response=response)
        while calls or waiting:
            if calls and (not waiting or self.random.random() < 0.6):
                waiting.append(self.call(self._name("call"), response))
                calls -= 1
            else:
                of = waiting.pop(self.random.randrange(len(waiting)))
                results.append(self.result(self._name("result"), of, moves=False))
                if self.random.random() < 0.2:
                    self.attach(self._name("note"), after=results[-1], moves=False, told=self.random.random() < 0.5)
        self.cursor = self.random.choice(results)
