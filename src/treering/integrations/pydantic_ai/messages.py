"""Messages of Pydantic AI as payloads of nodes, and back.

Rule 1: the id of a node is a digest of its message. So each message is stored once, for all histories.
Rule 2: a message that is shown otherwise than it was recorded, for example because it was erased or amended, names its
node in its metadata when it is loaded. So it is not recorded again, unless the program changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from treering.digests import sha256
from treering.format import values
from treering.session.content import ContextItem
from treering.transcript.parts import parts_of

Payload = Mapping[str, Any]
"""A message as `ModelMessagesTypeAdapter` dumps it to JSON."""
_SHOWN: Final = "treering"
"""The key of a message's metadata that names its node, with the digest of what was loaded. It is never stored."""
_ORDINARY: Final = str.maketrans("-_", "+/")
_ANSWERS: Final = frozenset({"assistant", "ai", "model"})


class Message(NamedTuple):
    """One message of a history."""

    id: str
    payload: Payload
    shows: str | None = None
    """The node that the program loaded as this message; None if it made or changed the message."""

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that may be this message."""
        return (self.id,) if self.shows is None else (self.id, self.shows)


def named(history: Sequence[ModelMessage]) -> list[Message]:
    """Return the messages of a history with their ids; a message that occurs twice gets two ids.

    Raises:
        UsageError: A value cannot be stored.
    """
    seen: dict[str, int] = {}
    found = []
    for dumped in _dumped(history):
        payload, mark = _without_mark(dumped)
        name = _id_of(payload)
        seen[name] = seen.get(name, 0) + 1
        node = mark.get("node") if mark.get("loaded") == name else None
        found.append(Message(name if seen[name] == 1 else f"{name}:{seen[name]}", payload, node))
    return found


def with_nodes(history: Sequence[Message], nodes: Collection[str]) -> list[Message]:
    """Return a history whose messages have the ids of the nodes that they show, each once, as far as these exist."""
    taken, found = {each.id for each in history}, []
    for each in history:
        node = each.shows if each.shows in nodes and each.shows not in taken else None
        found.append(each if node is None else each._replace(id=node))
        taken.add(found[-1].id)
    return found


def message_in(shown: ContextItem) -> Payload:
    """Return what is shown of a node as a message that `ModelMessagesTypeAdapter` reads."""
    payload = shown.message
    if not isinstance(payload, dict) or "kind" not in payload or "parts" not in payload:
        payload = _with_text_of(payload)
    elif shown.node.startswith(_id_of(payload)):
        return payload
    (whole,) = _dumped(ModelMessagesTypeAdapter.validate_python([payload]))
    mark = {"node": shown.node, "loaded": _id_of(whole)}
    return {**whole, "metadata": {**(whole["metadata"] or {}), _SHOWN: mark}}


def _dumped(history: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    return [*map(_in_base64, ModelMessagesTypeAdapter.dump_python([*history], mode="json"))]


def _id_of(payload: Payload) -> str:
    return f"message:{sha256(values.encode(dict(payload)))[:32]}"


def _with_text_of(payload: Any) -> dict[str, Any]:
    """Return a message with the text of a payload of another form."""
    answered = isinstance(payload, dict) and payload.get("role") in _ANSWERS
    kind, part_kind = ("response", "text") if answered else ("request", "user-prompt")
    text = "\n".join([part.text for part in parts_of(payload) if part.kind != "thinking"])
    return {"kind": kind, "parts": [{"part_kind": part_kind, "content": text}]}


def _without_mark(payload: Payload) -> tuple[Payload, Mapping[str, str]]:
    """Return a message as the program sees it, and the mark of the node that it was loaded from."""
    metadata = payload.get("metadata") or {}
    mark = metadata.get(_SHOWN)
    if not isinstance(mark, dict) or mark.keys() != {"node", "loaded"}:
        return payload, {}
    rest = {name: value for name, value in metadata.items() if name != _SHOWN}
    return {**payload, "metadata": rest or None}, mark


def _in_base64(value: Any) -> Any:
    """Return a value with its bytes in standard base64, which is stored as blobs; the framework's is URL-safe."""
    if isinstance(value, list):
        return [*map(_in_base64, value)]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "binary" and "media_type" in value and isinstance(data := value.get("data"), str):
        return value | {"data": data.translate(_ORDINARY)}
    return {key: _in_base64(each) for key, each in value.items()}
