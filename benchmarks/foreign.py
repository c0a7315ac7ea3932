"""Session files of other programs to import: the texts of `workload`, in the shapes of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from benchmarks import workload

Record = dict[str, Any]

_START = datetime(2026, 1, 5, 8, tzinfo=UTC)
_USAGE = {"input": 12_000, "output": 320, "cacheRead": 9_000, "cacheWrite": 0, "totalTokens": 21_320}
_COMPACT_EVERY = 5_000
"""Entries between two compactions: what goes to the model stays as small as it does in a real session."""


def write(path: Path, program: str, bytes_min: int) -> int:
    """Write a session file of at least so many bytes; return how many records it has."""
    with path.open("wb") as file:
        for count, record in enumerate(PROGRAMS[program](), 1):
            file.write(_line(record))
            if file.tell() >= bytes_min:
                return count
    raise AssertionError("sessions do not end")


def record_behind(program: str, count: int) -> bytes:
    """Return the line of the record that follows the first `count` ones."""
    return _line(next(islice(PROGRAMS[program](), count, None)))


def _line(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _time(number: int) -> str:
    stamp = _START + timedelta(seconds=number)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(number: int) -> int:
    return int(_START.timestamp() + number) * 1000


def _said() -> Iterator[tuple[int, str, str]]:
    """Yield number, role and text of messages without end."""
    number = 0
    while True:
        for message in workload.session(20_000, images=False):
            number += 1
            yield number, message["role"], workload.text(message)


def _pi() -> Iterator[Record]:
    yield {"type": "session", "version": 3, "id": "bench", "timestamp": _time(0), "cwd": "/repo"}
    for number, role, text in _said():
        place = {"id": f"{number:08x}", "parentId": f"{number - 1:08x}" if number > 1 else None}
        if number % _COMPACT_EVERY == 0:
            kept = {"firstKeptEntryId": f"{number - 9:08x}", "tokensBefore": 150_000}
            yield {"type": "compaction", **place, "timestamp": _time(number), "summary": text, **kept}
        else:
            message = _pi_message(number, role, text)
            yield {"type": "message", **place, "timestamp": _time(number), "message": message}


def _pi_message(number: int, role: str, text: str) -> Record:
    content: list[Record] = [{"type": "text", "text": text}]
    if role == "user":
        return {"role": "user", "content": content, "timestamp": _milliseconds(number)}
    if role == "tool":
        called = {"toolCallId": f"toolu_{number - 1:024d}", "toolName": "read"}
        result = {"content": content, "isError": False, "timestamp": _milliseconds(number)}
        return {"role": "toolResult", **called, **result}
    call = {"type": "toolCall", "id": f"toolu_{number:024d}", "name": "read", "arguments": {"path": "src/main.py"}}
    cost = {"input": 0.036, "output": 0.0048, "cacheRead": 0.0027, "cacheWrite": 0.0, "total": 0.0435}
    return {
        "role": "assistant",
        "content": [*content, call],
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": {**_USAGE, "cost": {name: value for name, value in cost.items() if value}},
        "stopReason": "toolUse",
        "timestamp": _milliseconds(number),
    }


def _claude() -> Iterator[Record]:
    names = [str(uuid5(NAMESPACE_OID, "0"))]
    for number, role, text in _said():
        names = [*names[-1:], str(uuid5(NAMESPACE_OID, str(number)))]
        compacts = number % _COMPACT_EVERY == 0
        yield {
            "parentUuid": names[0] if number > 1 and not compacts else None,
            **({"logicalParentUuid": names[0]} if compacts else {}),
            "isSidechain": False,
            "userType": "external",
            "cwd": "/repo",
            "sessionId": str(uuid5(NAMESPACE_OID, "session")),
            "version": "2.1.330",
            "gitBranch": "main",
            **_claude_event(number, role, text),
            "uuid": names[1],
            "timestamp": _time(number),
        }


def _claude_event(number: int, role: str, text: str) -> Record:
    if number % _COMPACT_EVERY == 0:
        facts = {"trigger": "auto", "preTokens": 150_000}
        return {"type": "system", "subtype": "compact_boundary", "content": "Compacted", "compactMetadata": facts}
    if role == "user" or number % _COMPACT_EVERY == 1:
        summary = {"isCompactSummary": True} if number % _COMPACT_EVERY == 1 < number else {}
        return {"type": "user", "message": {"role": "user", "content": text}, **summary}
    if role == "tool":
        block = {"tool_use_id": f"toolu_{number - 1:024d}", "type": "tool_result", "content": text}
        read = {"filePath": "/repo/src/main.py", "numLines": 40, "startLine": 1, "totalLines": 400}
        result = {"type": "text", "file": read}
        return {"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": result}
    call = {"type": "tool_use", "id": f"toolu_{number:024d}", "name": "Read", "input": {"file_path": "src/main.py"}}
    usage = {"input_tokens": 4, "cache_read_input_tokens": 12_000, "output_tokens": 320, "service_tier": "standard"}
    message = {
        "id": f"msg_{number:024d}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [{"type": "text", "text": text}, call],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": usage,
    }
    return {"message": message, "requestId": f"req_{number:024d}", "type": "assistant"}


PROGRAMS: dict[str, Callable[[], Iterator[Record]]] = {"pi": _pi, "claude": _claude}
"""What writes the records of each program, the header first if there is one."""
