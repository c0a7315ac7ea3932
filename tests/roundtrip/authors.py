"""Programs at work on their session files: they begin one and add entries to it, of every type that there is.

What each type of entry looks like stands in tables. `"@"` is the id of an entry further up, of whatever type; `"?"` one
that is not there. Values are those that programs write, and some that no exporter would choose by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.programs.claude.sessions import SESSION as CLAUDE_SESSION

from treering.programs.common.writing import encode_go, encode_javascript, encode_python
from treering.programs.evva.read import indent
from treering.programs.omp.title_slot import TitleSlot, build_title_slot

Record = dict[str, Any]
Table = Mapping[str, Sequence[Record]]
"""By type of entry: what may stand in one besides id, parent and time."""

_COST: Final = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.25}
_USAGE: Final = {"input": 5, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 7, "cost": _COST}
_MODEL: Final = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude"}
_CALL: Final = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}}
_TEXT: Final = {"type": "text", "text": "words"}
_PI_MESSAGES: Final[Sequence[Record]] = (
    {"message": {"role": "user", "content": "question", "timestamp": 1}},
    {"message": {"role": "user", "content": [_TEXT, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]}},
    {"message": {"role": "assistant", "content": [_TEXT], **_MODEL, "usage": _USAGE, "stopReason": "stop"}},
    {"message": {"role": "assistant", "content": [_CALL], **_MODEL, "usage": _USAGE, "stopReason": "toolUse"}},
    {"message": {"role": "toolResult", "toolCallId": "c1", "toolName": "ls", "content": [_TEXT], "isError": False}},
    {"message": {"role": "bashExecution", "command": "ls", "output": "x", "cancelled": False, "truncated": False}},
    {"message": {"role": "custom", "customType": "ext", "content": "words", "display": True, "timestamp": 2}},
)

_SYSTEM: Final = {"role": "system", "content": "s"}

PI: Final[Table] = {
    "branch_summary": (
        {"fromId": "@", "summary": "aside", "details": {"readFiles": ["a.ts"]}, "usage": _USAGE, "fromHook": True},
        {"fromId": "root", "summary": ""},
        {"fromId": "?", "summary": "aside"},
    ),
    "compaction": (
        {"summary": "S", "firstKeptEntryId": "@", "tokensBefore": 10, "details": {"readFiles": ["a.ts"]}},
        {"summary": "S", "firstKeptEntryId": "?", "tokensBefore": 10, "usage": _USAGE, "fromHook": True},
        {"summary": "S", "firstKeptEntryId": "@", "tokensBefore": 10, "systemMessage": _SYSTEM},
    ),
    "context_edit": ({"targetId": "@", "replacement": None}, {"targetId": "@", "replacement": {"content": "other"}}),
    "custom": ({"customType": "todo-extension", "data": {"items": ["a"]}}, {"customType": "mark"}),
    "custom_message": (
        {"customType": "ext", "content": "words", "display": False, "details": {"n": 1}},
        {"customType": "ext", "content": [_TEXT], "display": True},
    ),
    "label": ({"targetId": "@", "label": "here"}, {"targetId": "@"}, {"targetId": "?", "label": "lost"}),
    "leaf": ({"targetId": "@"}, {"targetId": None}),
    "message": (*_PI_MESSAGES, {"message": {"role": "system", "content": "s", "toolsAdded": []}}),
    "model_change": ({"provider": "openai", "modelId": "gpt"},),
    "session_info": ({"name": "A name"}, {"name": ""}),
    "thinking_level_change": ({"thinkingLevel": "high"},),
    "usage": ({"kind": "title", "provider": "p", "model": "m", "usage": _USAGE, "note": "n"},),
    "unheard_of": ({"x": [1.5, None, {"y": "z"}]},),
}  # fmt: skip

_REPLAY: Final = {"provider": "openai", "replacementHistory": [{"type": "message"}]}

OMP: Final[Table] = {
    "archive": ({"path": "/old.jsonl"},),
    "branch_summary": (
        {"fromId": "@", "summary": "aside", "details": {"d": 1}, "fromExtension": True},
        {"fromId": "root", "summary": ""},
    ),
    "compaction": (
        {"summary": "S", "shortSummary": "s", "firstKeptEntryId": "@", "tokensBefore": 10, "tokensAfter": 5,
         "method": "soft", "details": {"d": 1}, "fromExtension": True, "warning": "full"},
        {"summary": "S", "firstKeptEntryId": "?", "tokensBefore": 10},
        {"summary": "S", "firstKeptEntryId": "@", "tokensBefore": 10, "providerReplayThroughEntryId": "@",
         "preserveData": {"openaiRemoteCompaction": _REPLAY}},
    ),
    "credential_pin": ({"provider": "anthropic", "hash": "00ff"},),
    "custom": (*PI["custom"], {"customType": "experimental_context_notes", "data": {"version": 1, "text": "remember"}}),
    "custom_message": (*PI["custom_message"], {"customType": "skill-prompt", "content": "do", "attribution": "user"}),
    "label": PI["label"],
    "leaf": PI["leaf"],
    "message": (
        *_PI_MESSAGES,
        {"message": {"role": "assistant", "content": [_TEXT], **_MODEL, "usage": _USAGE, "stopReason": "error"}},
        {"message": {"role": "pythonExecution", "code": "1", "output": "1", "cancelled": False, "truncated": False}},
        {"message": {"role": "developer", "content": [_TEXT]}},
    ),
    "mode_change": ({"mode": "plan", "data": {"planFile": "/p"}}, {"mode": "none"}),
    "model_change": (
        {"model": "openai/gpt", "role": "default"}, {"model": "a/slow", "role": "slow"},
        {"model": "a/smol", "role": "smol", "resolvedModelIsFallback": True}, {"model": "local"},
    ),
    "model_usage": ({"purpose": "title", "role": "smol", "api": "x", "provider": "p", "model": "m", "usage": _USAGE,
                     "stopReason": "stop"},),
    "reset_boundary": ({},),
    "service_tier_change": ({"serviceTier": {"openai": "flex"}}, {"serviceTier": None}, {"serviceTier": "priority"}),
    "session_init": ({"systemPrompt": "sp", "task": "do", "tools": ["read"], "agent": "a", "readOnly": True},),
    "thinking_level_change": ({"thinkingLevel": "low"}, {"thinkingLevel": None, "configured": "auto"}),
    "title_change": ({"title": "New", "source": "user", "previousTitle": "Old", "trigger": "rename"},),
    "ttsr_injection": ({"injectedRules": ["a", "b", "a"]},),
    "unheard_of": PI["unheard_of"],
}  # fmt: skip

_SAID: Final = {"contents": [{"type": "text", "content": "words"}], "id": "m", "timestamp": 1767600005.5}
_SPENT: Final = {"input_tokens": 1, "output_tokens": 1, "cost": {"total": 0.1}}
OPERATOR: Final[Table] = {
    "branch_summary": (
        {"from_id": "@", "summary": "aside", "details": {"d": 1}, "from_hook": True},
        {"from_id": "root", "summary": "", "from_hook": False},
    ),
    "channel": ({"name": "telegram", "chat_id": "5", "user_id": None},),
    "compaction": (
        {"summary": "S", "first_kept_entry_id": "@", "tokens_before": 10, "details": {"d": 1}, "from_hook": False},
        {"summary": "S", "first_kept_entry_id": "?", "tokens_before": 10, "from_hook": True},
    ),
    "custom": ({"custom_type": "ext", "data": {"n": 1}}, {"custom_type": "mark"}),
    "custom_message": (
        {"custom_type": "ext", "content": [{"type": "text", "content": "x"}], "display": False, "details": {"n": 1}},
    ),
    "label": ({"label": "here", "target_id": "@"}, {"target_id": "@"}, {"label": None, "target_id": "@"}),
    "leaf": ({"target_id": "@"}, {}),
    "message": (
        {"message": {**_SAID, "role": "user"}, "meta": {"reply_to": None, "attachments": [], "reactions": ["x"]}},
        {"message": {**_SAID, "role": "assistant", "usage": _SPENT, "stop_reason": "stop", "error": ""}},
        {"message": {**_SAID, "contents": [{"type": "tool_call", "id": "c1", "name": "ls", "args": {}, "metadata": {}}],
                     "role": "assistant"}},
        {"message": {**_SAID, "contents": [{"type": "tool_result", "id": "c1", "content": "x", "is_error": False,
                                            "metadata": {}}], "role": "tool"}},
    ),
    "model_change": ({"model_id": "m", "provider_id": "p"},),
    "session_info": ({"name": "A name"}, {}),
    "thinking_level_change": ({"thinking_level": "high"},),
}  # fmt: skip

KIT: Final[Table] = {
    "branch_summary": ({"from_id": "@", "summary": "aside"}, {"from_id": "?", "summary": ""}),
    "compaction": (
        {"summary": "S", "first_kept_entry_id": "@", "tokens_before": 10, "tokens_after": 5, "messages_removed": 1,
         "read_files": ["a"], "modified_files": ["b"]},
        {"summary": "S", "first_kept_entry_id": "?", "tokens_before": 10, "tokens_after": 5, "messages_removed": 0},
    ),
    "extension_data": ({"ext_type": "todo", "data": '{"n":1}'},),
    "label": ({"target_id": "@", "label": "here"}, {"target_id": "@", "label": ""}),
    "message": (
        {"role": "user", "parts": [{"type": "text", "data": {"text": "a < b"}}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "data": {"thinking": "hm"}},
                                        {"type": "tool_call", "data": {"id": "c1", "name": "ls", "input": "{}",
                                                                       "finished": True}}],
         "model": "m", "provider": "p"},
        {"role": "tool", "parts": [{"type": "tool_result", "data": {"tool_call_id": "c1", "name": "ls", "content": "x",
                                                                    "is_error": False}}]},
        {"role": "system", "parts": []},
    ),
    "model_change": ({"provider": "p", "model_id": "m"},),
    "session_info": ({"name": "A name"},),
    "system_prompt": ({"content": "be brief", "model": "m", "provider": "p"},),
}  # fmt: skip

_ASKED: Final = {"role": "user", "content": "question"}
_ANSWER: Final = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5",
                  "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
_RESULT: Final = {"tool_use_id": "toolu_1", "type": "tool_result", "content": "x"}
CLAUDE_LINKED: Final[Table] = {
    "assistant": (
        {"message": {**_ANSWER, "content": [{"type": "text", "text": "words"}]}},
        {"message": {**_ANSWER, "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]}},
    ),
    "attachment": (
        {"attachment": {"type": "date", "date": "2026-01-05"}, "rendered": [{"content": "today"}]},
        {"attachment": {"type": "queued_command", "prompt": "more", "commandMode": "prompt"}},
        {"attachment": {"type": "todo", "items": []}},
    ),
    "progress": ({"data": {"type": "hook_progress"}, "toolUseID": "t"},),
    "system": (
        {"subtype": "turn_duration", "durationMs": 5},
        {"subtype": "local_command", "content": "<command-name>/cost</command-name>"},
    ),
    "user": (
        {"message": _ASKED},
        {"message": {"role": "user", "content": [{"type": "text", "text": "words"}]}, "isMeta": True},
        {"message": {"role": "user", "content": [_RESULT]}, "toolUseResult": {"stdout": "x"}},
    ),
}  # fmt: skip
"""Types of entries of Claude Code that are links of the chain."""
CLAUDE: Final[Table] = {
    **CLAUDE_LINKED,
    "agent-name": ({"agentName": "a"},),
    "agent_metadata": ({"agent": "a"},),
    "ai-title": ({"aiTitle": "A title"},),
    "api-request": ({"request": {"n": 1}},),
    "api-request-blob": ({"blob": "x"},),
    "api-request-shape": ({"shape": [1]},),
    "atis-latch": ({"latched": True},),
    "bridge-session": ({"bridge": "b"},),
    "content-replacement": ({"replacements": []},),
    "cost-state": ({"cost": 0.5},),
    "custom-title": ({"customTitle": "Mine"},),
    "file-history-snapshot": ({"messageId": "@", "snapshot": {"trackedFileBackups": {}}, "isSnapshotUpdate": False},),
    "frame-link": ({"frame": "f"},),
    "last-prompt": ({"lastPrompt": "question", "leafUuid": "^"},),
    "mode": ({"mode": "normal"},),
    "permission-mode": ({"permissionMode": "plan"},),
    "pr-link": ({"prNumber": 1, "prUrl": "https://example.org/1"},),
    "queue-operation": ({"operation": "enqueue", "content": "more"},),
    "relocated": ({"from": "/old"},),
    "result": ({"result": "x"},),
    "started": ({"pid": 1},),
    "summary": ({"summary": "S", "leafUuid": "@"},),
    "tag": ({"tag": "t"},),
    "worktree-state": ({"worktree": None},),
    "unheard-of": ({"x": [1.5, None]},),
}
"""All types of Claude Code; `"^"` is the entry that the next one follows."""

EVVA: Final[Sequence[Record]] = (
    {"Role": "user", "Content": "a < b", "Thinking": "", "ThinkingSignature": "", "ToolCalls": None,
     "ToolResults": None},
    {"Role": "assistant", "Content": "", "Thinking": "hm", "ThinkingSignature": "s",
     "ToolCalls": [{"ID": "c1", "Name": "ls", "Input": {"path": "."}}], "ToolResults": None},
    {"Role": "tool", "Content": "", "Thinking": "", "ThinkingSignature": "", "ToolCalls": None,
     "ToolResults": [{"ID": "c1", "Content": "x", "IsError": False, "ContentBlocks": None}]},
    {"role": "user", "content": "in small letters", "extra": 1},
)  # fmt: skip
"""Messages of evva, as it writes them and as it reads them."""


class Author:
    """A program that writes lines, and its file."""

    header: Record
    table: Table
    parent = "parentId"

    def __init__(self, path: Path, random: Random) -> None:
        self.path = path
        self.random = random
        self.astray = 0.15
        """How often an entry is added below another one than the last."""
        self._number = 0

    def begin(self) -> None:
        """Begin the file."""
        self.path.write_bytes(self.encode(self.header) + b"\n")

    def encode(self, record: Record) -> bytes:
        """Return a record as the program writes it."""
        return encode_javascript(record)

    def write(self, *kinds: str) -> None:
        """Add an entry of each of some types, below the last one or, now and then, another one."""
        for kind in kinds:
            self._write(kind, self.random.choice(self.table[kind]))

    def write_all(self, kind: str) -> None:
        """Add an entry of each form of a type."""
        for form in self.table[kind]:
            self._write(kind, form)

    def add(self, kind: str, form: Record, *, below: str | None = None) -> str:
        """Add one entry with just these fields, below the last or another one; return its id."""
        name = self._name()
        self._add(self._made(kind, name, below or self.leaf(), form))
        return name

    def _write(self, kind: str, form: Record) -> None:
        ids, at = self._ids(), self.leaf()
        if ids and self.random.random() < self.astray:
            at = self.random.choice([*ids, None])
        own = _filled(form, self.random, ids, at)
        self._add(self._odd(self._made(kind, self._name(), at, own)))

    def leaf(self) -> str | None:
        """The entry below which the program goes on."""
        ids = self._ids()
        return ids[-1] if ids else None

    def rewrite_header(self) -> None:
        """Change what the program changes in the header while it works: of most, nothing."""

    def records(self) -> list[Record]:
        """The records of the file, with the header."""
        return [json.loads(line) for line in self.path.read_bytes().split(b"\n") if line]

    def _ids(self) -> list[str]:
        return [record["id"] for record in self.records()[1:] if record.get("id")]

    def _made(self, kind: str, name: str, parent: str | None, own: Record) -> Record:
        raise NotImplementedError

    def _odd(self, record: Record) -> Record:
        """Return a record that a newer version of the program might write: with another field, or in another order."""
        if self.random.random() < 0.1:
            record = record | {"novel": {"n": [1]}}
        if self.random.random() < 0.1:
            names = self.random.sample([*record], len(record))
            record = {name: record[name] for name in names}
        return record

    def _name(self) -> str:
        self._number += 1
        return f"{self.random.randrange(16**5):05x}{self._number:03x}"

    def _time(self) -> int:
        """Seconds since the session began."""
        return len(self.path.read_bytes().split(b"\n"))

    def _add(self, record: Record) -> None:
        data = self.path.read_bytes()
        spaced = json.dumps(record, ensure_ascii=False).encode() if self.random.random() < 0.1 else self.encode(record)
        self.path.write_bytes(data + (b"\n" if data and not data.endswith(b"\n") else b"") + spaced + b"\n")


def _filled(value: Any, random: Random, ids: Sequence[str], at: str | None) -> Any:
    """Return a value of a table with ids in the places of signs."""
    if isinstance(value, dict):
        return {name: _filled(part, random, ids, at) for name, part in value.items()}
    return (
        {"@": random.choice(ids) if ids else "gone", "?": "gone", "^": at}.get(value, value)
        if isinstance(value, str)
        else value
    )


class Pi(Author):
    """pi, version 3 of its format."""

    header = {"type": "session", "version": 3, "id": "s-1", "timestamp": "2026-01-05T08:00:00.000Z", "cwd": "/repo"}  # noqa: RUF012
    table = PI

    def _made(self, kind: str, name: str, parent: str | None, own: Record) -> Record:
        time = f"2026-01-05T08:{self._time() // 60:02}:{self._time() % 60:02}.000Z"
        envelope = {"id": name, "parentId": parent, "timestamp": time}
        first = kind.startswith("custom")
        return {"type": kind, **own, **envelope} if first else {"type": kind, **envelope, **own}


class Omp(Pi):
    """oh-my-pi, with a title slot."""

    header = Pi.header | {"title": "First", "titleSource": "auto"}
    table = OMP

    def begin(self) -> None:
        """Begin the file with a title."""
        super().begin()
        self.path.write_bytes(self._slot("First") + self.path.read_bytes())

    def records(self) -> list[Record]:
        """The records of the file, with the header."""
        return super().records()[1:]

    def rewrite_header(self) -> None:
        """Write another title over the slot."""
        data = self.path.read_bytes()
        self.path.write_bytes(self._slot(f"Title {self.random.randrange(100)}") + data.split(b"\n", 1)[1])

    def _slot(self, title: str) -> bytes:
        return build_title_slot(TitleSlot(title, "user", "2026-01-05T08:00:01.000Z"))


class Operator(Author):
    """Operator-Use, version 3 of its format."""

    header = {"type": "session", "version": 3, "id": "s-1", "timestamp": 1767600000.0, "cwd": "/repo"}  # noqa: RUF012
    table = OPERATOR
    parent = "parent_id"

    def encode(self, record: Record) -> bytes:
        """Return a record as Python writes it."""
        return encode_python(record)

    def leaf(self) -> str | None:
        """The last entry, or the target of the last one if that is a `leaf`."""
        last = self.records()[-1]
        return last.get("target_id") if last["type"] == "leaf" else super().leaf()

    def _made(self, kind: str, name: str, parent: str | None, own: Record) -> Record:
        time = self.random.choice((1767600000.25, 1767600000.1234567)) + self._time()
        above = {"parent_id": parent} if parent is not None else {}
        return {"id": name, "timestamp": time, **above, "type": kind, **own}


class Kit(Author):
    """kit."""

    header = {"type": "session", "version": 3, "id": "a" * 32, "timestamp": "2026-01-05T08:00:00Z", "cwd": "/repo"}  # noqa: RUF012
    table = KIT
    parent = "parent_id"

    def encode(self, record: Record) -> bytes:
        """Return a record as Go writes it."""
        return encode_go(record)

    def leaf(self) -> str | None:
        """The last entry, unless it stands beside the tree."""
        return None if self.records()[-1]["type"] == "system_prompt" else super().leaf()

    def _ids(self) -> list[str]:
        return [record["id"] for record in self.records()[1:] if record["type"] != "system_prompt"]

    def rewrite_header(self) -> None:
        """Link the session with a parent."""
        header, rest = self.path.read_bytes().split(b"\n", 1)
        parent = {"parent_session_id": f"{self.random.randrange(100):032x}"}
        self.path.write_bytes(self.encode(json.loads(header) | parent) + b"\n" + rest)

    def _made(self, kind: str, name: str, parent: str | None, own: Record) -> Record:
        time = f"2026-01-05T08:{self._time() // 60:02}:{self._time() % 60:02}.123456789+02:00"
        above = {"parent_id": parent} if parent and kind not in ("compaction", "system_prompt") else {}
        return {"type": kind, "id": name, **above, "timestamp": time, **own}


class Claude(Author):
    """Claude Code."""

    header: Record = {}  # noqa: RUF012
    table = CLAUDE

    def begin(self) -> None:
        """Begin the file with a prompt."""
        self.path.write_bytes(b"")
        self.write("user")

    def records(self) -> list[Record]:
        """The records of the file, with something in the place of a header."""
        return [{}, *super().records()]

    def leaf(self) -> str | None:
        """The last link of the chain."""
        ids = self._ids()
        return ids[-1] if ids else None

    def _ids(self) -> list[str]:
        return [record["uuid"] for record in self.records() if record.get("uuid")]

    def _made(self, kind: str, name: str, parent: str | None, own: Record) -> Record:
        if kind not in CLAUDE_LINKED:
            return {"type": kind, **own, "sessionId": CLAUDE_SESSION}
        time = f"2026-01-05T08:{self._time() // 60:02}:{self._time() % 60:02}.000Z"
        where = {"userType": "external", "cwd": "/repo", "sessionId": CLAUDE_SESSION, "version": "2.1.330"}
        own = {**own, "uuid": f"{name}-0000-4000-8000-000000000000", "timestamp": time, **where, "gitBranch": "main"}
        if own.get("subtype") == "local_command" and parent is not None and self.random.random() < 0.5:
            own |= {"subtype": "compact_boundary", "logicalParentUuid": parent, "compactMetadata": {"preTokens": 9}}
            parent = None
        return {"parentUuid": parent, "isSidechain": False, "type": kind, **own}


class Evva(Author):
    """evva, which writes its whole document each time."""

    header = {  # noqa: RUF012
        "version": 1, "session_id": "s-1", "workdir": "/repo", "workdir_slug": "repo", "profile": "", "provider": "p",
        "model": "m", "created_at": "2026-01-05T08:00:00Z", "updated_at": "2026-01-05T08:00:00Z",
        "first_user_prompt": "a < b",
        "session": {"messages": None, "usage": {"InputTokens": 1}, "last_turn_input_tokens": 1,
                    "micro_compacted": False, "full_compact_count": 0},
    }  # fmt: skip
    table = {str(number): (message,) for number, message in enumerate(EVVA)}  # noqa: RUF012

    def begin(self) -> None:
        """Write a document without messages."""
        self._save(dict(self.header))

    def write(self, *kinds: str) -> None:
        """Add messages."""
        document = json.loads(self.path.read_bytes())
        messages = document["session"]["messages"] or []
        document["session"]["messages"] = [*messages, *(self._odd(dict(self.table[kind][0])) for kind in kinds)]
        document["updated_at"] = f"2026-01-05T08:00:{len(messages) % 60:02}.5Z"
        document["session"]["usage"]["InputTokens"] += 1
        self._save(document)

    def write_all(self, kind: str) -> None:
        """Add a message; each has one form."""
        self.write(kind)

    def rewrite_header(self) -> None:
        """Go on with another model."""
        self._save(json.loads(self.path.read_bytes()) | {"model": f"m{self.random.randrange(9)}"})

    def _save(self, document: Record) -> None:
        self.path.write_bytes(indent(encode_go(document)))


AUTHORS: Final[Mapping[str, type[Author]]] = {
    "claude": Claude,
    "evva": Evva,
    "kit": Kit,
    "omp": Omp,
    "operator": Operator,
    "pi": Pi,
}
"""By format."""
