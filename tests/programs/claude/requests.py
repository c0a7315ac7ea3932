"""Contexts and requests of Claude Code in one form, so that they can be compared: one row for each block.

Left out is what Claude Code makes anew for each request, so that it is in no session: reminders and what attachments
say, in its words; calls for which it makes up results; and texts that stand for a message of which nothing is left.
Where it puts prompts into one message, it ends all but the last with a line break.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from treering import ids, open as open_store
from treering.importers import FileImporter

Row: TypeAlias = tuple[str, dict[str, Any]]
"""A role, and a block."""

PROMPT: Final = "PROBE-PROMPT"
"""What a session was resumed with; what stands before it in a request is the session's."""
RECORDED: Final = Path(__file__).with_suffix(".json")
"""By session of `tests.programs.claude.talks`: the rows that Claude Code sent."""

_STAND_INS: Final = frozenset(
    {"(no content)", "[Orphaned tool result removed due to conversation resume]", "[Tool use interrupted]"}
)
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_MADE_UP: Final = ("[Tool call interrupted: ", "[Tool result missing due to internal error]")
_NEW: Final[Row] = ("user", {"type": "text", "text": PROMPT})
_NO_ANSWER: Final = "No response requested."
_REMINDER: Final = "<system-reminder>"


def sent(messages: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of the messages in a request that are of the session."""
    rows = [row for row in _rows(_without_made_up(list(messages))) if row[0] != "system"]
    end = max(at for at, (_, block) in enumerate(rows) if PROMPT in str(block.get("text", "")))
    kept = [row for row in rows[:end] if not _is_made(row[1])]
    if kept and kept[-1] == ("assistant", {"type": "text", "text": _NO_ANSWER}):
        kept.pop()
    return kept


def compared(rows: Iterable[Row]) -> list[Row]:
    """Return rows without the line breaks at which prompts were put together."""
    rows = list(rows)
    return [_joined(row, following) for row, following in zip(rows, [*rows[1:], _NEW], strict=False)]


def _joined(row: Row, following: Row) -> Row:
    (role, block), (after, behind) = row, following
    if role == after == "user" and block.get("type") == behind.get("type") == "text":
        return role, block | {"text": block["text"].removesuffix("\n")}
    return row


def shown(path: Path) -> list[Row]:
    """Return the rows of the context that a session file has here, without what attachments say."""
    store = open_store(f"memory://{ids.new_nonce()}")
    try:
        view = store.view(FileImporter(store).load(path, format="claude").session)
        attached = _attached(path.read_bytes())
        return compared(_rows(item.message for item in view.context if item.node not in attached))
    finally:
        store.close()


def recorded() -> dict[str, list[Row]]:
    """Return what Claude Code sent, as it was recorded."""
    found: dict[str, list[list[Any]]] = json.loads(RECORDED.read_text())
    return {name: [(role, block) for role, block in rows] for name, rows in found.items()}


def _without_made_up(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return messages without calls for which the program makes up a result, and what was thought before them alone."""
    results = [block for message in messages for block in _blocks(message) if block.get("type") == "tool_result"]
    open_ = {block.get("tool_use_id") for block in results if str(block.get("content")).startswith(_MADE_UP)}
    kept: list[Mapping[str, Any]] = []
    for message in messages:
        blocks = [block for block in _blocks(message) if _call_of(block) not in open_]
        if len(blocks) == len(_blocks(message)):
            kept.append(message)
        elif not all(block.get("type") in _THINKING for block in blocks):
            kept.append({**message, "content": blocks})
    return kept


def _call_of(block: Mapping[str, Any]) -> object:
    """The call that a block is, or is the result of; of others, the block's type."""
    return block.get({"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")), "type"))


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else [_block(block) for block in content]


def _rows(messages: Iterable[Any]) -> list[Row]:
    return [(message.get("role", ""), block) for message in messages for block in _blocks(message)]


def _block(block: Any) -> dict[str, Any]:
    fields = block if isinstance(block, dict) else {"type": "text", "text": block}
    return {name: value for name, value in fields.items() if name != "cache_control"}


def _is_made(block: Mapping[str, Any]) -> bool:
    words = block.get("text")
    return isinstance(words, str) and (words in _STAND_INS or words.startswith(_REMINDER))


def _attached(data: bytes) -> Collection[str]:
    entries = []
    for line in data.splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue  # torn
    lines = [entry for entry in entries if isinstance(entry, dict) and entry.get("type") == "attachment"]
    return {str(entry.get("uuid")) for entry in lines}
