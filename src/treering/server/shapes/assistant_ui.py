"""Conversations in assistant-ui's export format: all branches, as `{headId, messages: [{parentId, message}]}`.

Results of tools are in the parts of their calls. In the other direction, each result becomes a message of its own
behind the message with the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from treering.errors import UsageError
from treering.ids import time_text
from treering.kinds import Kind
from treering.messages import ANY_IMAGE, Media
from treering.server.shapes.kept import changes_in, kept_of, restored_all
from treering.server.shapes.parts import Call, Other, Part, Result, Said, Text, Thinking, json_text, text_or_blocks
from treering.server.shapes.results import Results, Words, drafts_of_message
from treering.transcript.node import Draft

INTERFACE: Final = "assistant-ui"
ROLES: Final = frozenset({"user", "assistant", "system"})
_OWN: Final = ("id", "role", "content", "createdAt")


def repository_of(said: Sequence[Said], parents: Mapping[str, str | None], head: str | None) -> dict[str, Any]:
    """Return messages of all branches, as `thread.export()` does.

    Args:
        said: The messages, parents before children.
        parents: The parent of each node of the session, also of nodes that are not messages.
        head: The node that is shown first.
    """
    results = Results(said)
    shown = {each.id for each in said if not _is_result(each)}
    items = [
        {"parentId": _nearest(each.parent, shown, parents), "message": _message(each, results)}
        for each in said
        if each.id in shown
    ]
    return {"headId": _nearest(head, shown, parents), "messages": items}


def _nearest(node: str | None, shown: set[str], parents: Mapping[str, str | None]) -> str | None:
    seen = set[str]()
    while node is not None and node not in shown:
        if node in seen:
            return None
        seen.add(node)
        node = parents.get(node)
    return node


def _is_result(said: Said) -> bool:
    parts = said.parts
    return said.role == "tool" or (bool(parts) and all(isinstance(part, Result) for part in parts))


def _message(said: Said, results: Results) -> dict[str, Any]:
    kept = kept_of(said.payload, INTERFACE)
    role = said.role if said.role in ROLES else "assistant"
    made = [_shown(part, results) for part in said.parts if not isinstance(part, Result)]
    more = kept.get("fields")
    usual = {"createdAt": time_text(said.time_ms, "milliseconds").replace("+00:00", "Z"), **_usual(role)}
    fields = dict(more) if isinstance(more, Mapping) else {}
    return {**usual, **fields, "id": said.id, "role": role, "content": restored_all(made, changes_in(kept))}


def _usual(role: str) -> dict[str, Any]:
    """Fields that assistant-ui requires in each message of a role."""
    match role:
        case "assistant":
            return {"status": {"type": "complete", "reason": "unknown"}, "metadata": {"custom": {}}}
        case "user":
            return {"attachments": [], "metadata": {"custom": {}}}
        case _:
            return {"metadata": {"custom": {}}}


def drafts_of(messages: Sequence[Any], head: str | None) -> tuple[list[Draft], str | None]:
    """Return drafts of all messages, and the last node of the branch that is shown first.

    Args:
        messages: Items of `{parentId, message}`.
        head: The id of the last message of that branch.

    Raises:
        UsageError: A message has no id or no known role, or its parent is not before it.
    """
    drafts: list[Draft] = []
    ends: dict[str | None, str | None] = {None: None}
    for item in messages:
        message = item.get("message") if isinstance(item, Mapping) else None
        if not isinstance(message, Mapping):
            raise UsageError("an item of assistant-ui is `{parentId, message}`", kind=Kind.MESSAGE)
        parent = item.get("parentId")
        if not isinstance(parent, str | None) or parent not in ends:
            raise UsageError(f"a parent stands before its children. parentId={parent!r}", kind=Kind.MESSAGE)
        made = _drafts_of(message, ends[parent])
        drafts += made
        ends[made[0].id] = made[-1].id
    return drafts, ends.get(head)


def _drafts_of(message: Mapping[str, Any], parent: str | None) -> list[Draft]:
    name, role, content = message.get("id"), message.get("role"), message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(name, str) or not name or not isinstance(role, str) or role not in ROLES:
        raise UsageError(f"a message has an id and a known role. id={name!r}, role={role!r}", kind=Kind.MESSAGE)
    if not isinstance(content, list):
        raise UsageError(f"a message has content: text, or a list of parts. id={name!r}", kind=Kind.MESSAGE)
    usual = _usual(role)
    fields = {key: value for key, value in message.items() if key not in _OWN and usual.get(key) != value}
    if "createdAt" in message:
        fields["createdAt"] = message["createdAt"]
    return drafts_of_message(WORDS, name, role, content, fields, parent=parent)


def _shown(part: Part, results: Results) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text):
            return {"type": "reasoning", "text": text}
        case Media(url, kind, name) if kind.startswith("image/"):
            return {"type": "image", "image": url, **({"filename": name} if name else {})}
        case Media(url, kind, name):
            return {"type": "file", "data": url, "mimeType": kind, **({"filename": name} if name else {})}
        case Call(name, tool, given):
            args = given if isinstance(given, str) else json_text(given)
            called = {"type": "tool-call", "toolCallId": name, "toolName": tool, "args": given, "argsText": args}
            return {**called, **_ended(results.take(name))}
        case Other(block):
            return {"type": "data", "name": "block", "data": block}
        case Result():
            return {"type": "data", "name": "output", "data": part.output}


def _ended(result: Result | None) -> dict[str, Any]:
    return {} if result is None else {"result": result.output, **({"isError": True} if result.is_error else {})}


def _read(part: Mapping[str, Any]) -> Part | None:
    """Return the content part for a UI part; None if model APIs have none."""
    kind = part.get("type")
    name = part.get("filename")
    name = name if isinstance(name, str) else ""
    if kind == "text" and isinstance(text := part.get("text"), str):
        return Text(text)
    if kind == "reasoning" and isinstance(text := part.get("text"), str):
        return Thinking(text)
    if kind == "image" and isinstance(url := part.get("image"), str):
        head = url.partition(";")[0]
        return Media(url, head.removeprefix("data:") if head.startswith("data:image/") else ANY_IMAGE, name)
    if kind == "file" and isinstance(url := part.get("data"), str):
        media = part.get("mimeType")
        return Media(url, media if isinstance(media, str) else "", name)
    if kind == "tool-call" and isinstance(call := part.get("toolCallId"), str):
        return Call(call, str(part.get("toolName", "")), part.get("args", {}))
    return None


def _result(part: Mapping[str, Any]) -> Result | None:
    if "result" not in part:
        return None
    return Result(str(part.get("toolCallId")), text_or_blocks(part["result"]), part.get("isError") is True)


WORDS: Final = Words(INTERFACE, _read, _result, _shown, _message, "content")
