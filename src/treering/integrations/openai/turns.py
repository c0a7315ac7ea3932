"""Turns of a history: what a user said, and all that followed until the user spoke again.

Rule 1: turns are counted along a branch from 1 on. Items before the first message of a user are turn 0.
Source: `AdvancedSQLiteSession` of openai-agents 0.24, for turns, types and names of tools.
"""

from __future__ import annotations

import json
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from treering.errors import UsageError
from treering.kinds import Kind
from treering.session.content import ContextItem

PREVIEW_CHARACTERS_MAX: Final = 100

_NAMED_BY_TYPE: Final = frozenset(
    {"computer_call", "file_search_call", "web_search_call", "code_interpreter_call", "shell_call", "apply_patch_call"}
)
"""Calls of tools that a model provider runs, and that have no other name."""
_SEARCHES: Final = ("tool_search_call", "tool_search_output")
_CALLS: Final = _NAMED_BY_TYPE | {
    "tool_call",
    "function_call",
    "custom_tool_call",
    "mcp_call",
    "mcp_approval_request",
    "tool_search_call",
}
_SMALL: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_SERVED: Final = frozenset({"mcp_call", "mcp_approval_request"})


class Turned(NamedTuple):
    """An item, and the turn that it belongs to."""

    turn: int
    node: str
    item: Mapping[str, Any]

    @property
    def begins(self) -> bool:
        """Whether this is a message of the user, with which a turn begins."""
        return self.item.get("role") == "user"

    @property
    def content(self) -> Any:
        """The content of a message."""
        return self.item.get("content", "")


def turned(history: Sequence[ContextItem]) -> list[Turned]:
    """Return the items of a history with their turns."""
    found, turn = [], 0
    for each in history:
        item = each.message if isinstance(each.message, dict) else {}
        turn += item.get("role") == "user"
        found.append(Turned(turn, each.node, item))
    return found


def start_of(history: Sequence[ContextItem], turn: int) -> int:
    """Return the place of the item with which a turn begins.

    Raises:
        UsageError: There is no such turn.
    """
    for place, each in enumerate(turned(history)):
        if each.begins and each.turn == turn:
            return place
    raise UsageError(f"Turn {turn} does not contain a user message in this branch", kind=Kind.NODE)


def type_of(item: Mapping[str, Any]) -> str:
    """Return the role of a message of the user or the model, else the type of an item."""
    if item.get("role") in ("user", "assistant"):
        return str(item["role"])
    return str(item.get("type") or "other")


def tool_of(item: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that an item calls, after that of its server or namespace; None if it has none."""
    kind, name = item.get("type"), item.get("name")
    if kind in _SEARCHES:
        return "tool_search"
    if kind in _NAMED_BY_TYPE:
        return str(kind)
    served = "server_label" if kind in _SERVED else "namespace"
    named = [str(each) for each in (item.get(served), name) if each]
    if kind in _SERVED:
        return ".".join(named) or None
    return None if name is None else _qualified(named)


def _qualified(named: Sequence[str]) -> str:
    """Join a namespace and a name; a namespace that only repeats the name is left out."""
    return named[-1] if len(set(named)) == 1 else ".".join(named)


def tools_used(history: Sequence[ContextItem]) -> list[tuple[str | None, int, int]]:
    """Return (name of the tool, number of calls, turn), in the order of the turns."""
    found: Counter[tuple[int, str | None]] = Counter()
    items = turned(history)
    searched = {each.turn for each in items if each.item.get("type") == "tool_search_call"}
    for each in items:
        kind = each.item.get("type")
        if kind in _CALLS or (kind == "tool_search_output" and each.turn not in searched):
            found[each.turn, tool_of(each.item)] += 1
    ordered = sorted(found.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))
    return [(name, count, turn) for (turn, name), count in ordered]


def texts_of(content: object) -> list[str]:
    """Return the texts in the content of a message."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [str(part.get("text") or "") for part in parts if isinstance(part, dict)]


def preview_of(content: object, *, whole: bool = False) -> str:
    """Return the content of a message as one text: its beginning, or all of it."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    short = not whole and len(text) > PREVIEW_CHARACTERS_MAX
    return text[:PREVIEW_CHARACTERS_MAX] + "..." if short else text


def folded(text: str) -> str:
    """Return a text with the letters A to Z in lower case: SQLite ignores the case of no other letters."""
    return text.translate(_SMALL)
