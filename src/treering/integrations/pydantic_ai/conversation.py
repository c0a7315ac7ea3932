"""Messages of conversations, and histories of them, in one session of Treering: protocols without I/O.

Rule 1: a message is a node whose id is a digest of its payload. So each message is stored once, for all histories.
Rule 2: a history is the context of a checkpoint: the ids of its messages, recorded as differences from the checkpoint
before.
Rule 3: a history is recorded after the records of other writers, and replaces no history of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from treering.checkpoint.checkpoint import Checkpoint
from treering.checkpoint.context import Context, Item
from treering.digests import sha256
from treering.format import values
from treering.format.erasure import NOTE
from treering.integrations.shared import SharedSession
from treering.session.context_changes import chosen_context, in_order
from treering.session.recording import Change, Recording
from treering.storage.requests import Steps
from treering.transcript.node import Draft

Payload = Mapping[str, Any]
"""A message as `ModelMessagesTypeAdapter` dumps it to JSON."""
MARK: Final = "pydantic_ai"
"""The field of cards with facts of the framework, and the prefix of all keys of the state."""
_ORDINARY: Final = str.maketrans("-_", "+/")
_ROLES: Final = {"request": "user", "response": "assistant"}


class Message(NamedTuple):
    """One message of a history."""

    id: str
    payload: Payload


def named(history: Sequence[Payload]) -> list[Message]:
    """Return the messages of a history with their ids; a message that occurs twice gets two ids.

    Raises:
        UsageError: A value cannot be stored.
    """
    seen: dict[str, int] = {}
    found = []
    for payload in map(_in_base64, history):
        name = f"message:{sha256(values.encode(dict(payload)))[:32]}"
        seen[name] = seen.get(name, 0) + 1
        found.append(Message(name if seen[name] == 1 else f"{name}:{seen[name]}", payload))
    return found


def message_in(payload: Any) -> Any:
    """Return the form of a payload that `ModelMessagesTypeAdapter` reads, also if it was erased or amended to text."""
    if not isinstance(payload, dict) or "kind" in payload:
        return payload
    content = payload.get("content")
    text = content if isinstance(content, str) else NOTE
    if payload.get("role") == "assistant":
        return {"kind": "response", "parts": [{"part_kind": "text", "content": text}]}
    return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": text}]}


def _in_base64(value: Any) -> Any:
    """Return a value with its bytes in standard base64, which is stored as blobs; the framework's is URL-safe."""
    if isinstance(value, list):
        return [*map(_in_base64, value)]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "binary" and "media_type" in value and isinstance(data := value.get("data"), str):
        return value | {"data": data.translate(_ORDINARY)}
    return {key: _in_base64(each) for key, each in value.items()}


class Conversation(SharedSession):
    """Reads and records histories of one session."""

    def keep(self, recording: Recording, history: Sequence[Message], change: Change) -> Steps[None]:
        """Add the new messages, and a checkpoint whose context is the history, to a recording."""
        state, wanted = self.writer.replica.state, [each.id for each in history]
        shown = {item.node: item for item in state.context.items}
        others = [name for name in wanted if name not in shown]
        there = (yield from self.writer.replica.ask(lambda look: look.nodes(others))) if others and state.end else {}
        if there:  # what was retracted since is in the program's history, and not in the context any more
            left = yield from self.writer.content.edited(Context(tuple([Item(name) for name in there])))
            wanted = [name for name in wanted if name not in there or name in left.nodes]
        old = [name for name in wanted if name in shown or name in there]
        if there:
            before = yield from chosen_context(self.writer, old, as_it_is=True)
        else:
            before = state.context.with_items([shown[name] for name in old])
        recording.context = before
        new = [each for each in history if each.id not in shown and each.id not in there]
        for each in new:
            role = _ROLES.get(str(each.payload.get("kind")), "")
            recording.draft(Draft(id=each.id, role=role, payload=dict(each.payload)))
        after = recording.context
        if [item.node for item in after.items] != wanted:
            recording.context = in_order(after, wanted, {each.id for each in new})
        recording.keep(change)

    def histories(self, checkpoints: Sequence[Checkpoint]) -> Steps[list[list[Any]]]:
        """Read the histories of some checkpoints; messages that several of them share are read once."""
        contexts = yield from self._as_edited([each.context for each in checkpoints])
        nodes = dict.fromkeys(item for each in contexts for item in each.items)
        shown, content = Context(tuple(nodes)), self.writer.content
        state = self.writer.replica.state
        held = all(item.node in state.lines for item in nodes)
        lines = state.lines if held else (yield from content.context_lines(shown))
        yield from self.writer.blobs.fetch([lines[item.node] for item in nodes], shown)
        messages = dict(zip(nodes, content.messages(shown, lines), strict=True))
        return [[message_in(messages[item].message) for item in each.items] for each in contexts]
