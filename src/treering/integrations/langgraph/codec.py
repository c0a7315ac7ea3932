"""Convert values of channels to values of a session's state, and back.

A value is stored in one of these forms:

| form                                     | of                                                                     |
|------------------------------------------|------------------------------------------------------------------------|
| `{"value": ...}`                         | plain data: `None`, booleans, numbers, text, lists, dicts with text keys |
| `{"messages": [...]}`, `{"message": ...}` | messages of LangChain                                                  |
| `{"type": "msgpack", "bytes": ...}`      | any other value, encoded by the serializer                             |

Rule 1: only plain data and messages are readable, and only with LangGraph's own serializer. A serializer of the user,
such as an encrypting one, gets every value.
Rule 2: a message is readable only if it decodes to exactly the object that the serializer would return; otherwise it is
stored as bytes.
Rule 3: stored data cannot name code to import. LangGraph's serializer makes only objects of types on its list. Its
forms `json` and `pickle` are refused, since it never writes them here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy, deepcopy
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from treering.errors import CorruptError, UsageError
from treering.format import values
from treering.kinds import Kind

ROLES: Final[Mapping[type[BaseMessage], str]] = {
    HumanMessage: "user", AIMessage: "assistant", SystemMessage: "system", ToolMessage: "tool",
}  # fmt: skip
"""The message types that are readable, with their roles."""
_TYPES: Final = {role: kind for kind, role in ROLES.items()}
_WRITTEN: Final = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""Forms that LangGraph's own serializer writes."""
_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_DEPTH_MAX: Final = values.DEPTH_MAX // 2
"""The greatest depth of plain data: it is nested inside other values."""
_compared = JsonPlusSerializer(allowed_msgpack_modules=None)


def strict_serializer(allow: Collection[type | tuple[str, ...]] = ()) -> JsonPlusSerializer:
    """Return LangGraph's own serializer, restricted to known types.

    Args:
        allow: Additional types, or their modules and names.
    """
    return JsonPlusSerializer(allowed_msgpack_modules=tuple(allow) or None)


def require_safe(serde: SerializerProtocol) -> None:
    """Refuse a serializer that would execute code from stored data.

    Raises:
        UsageError: It falls back to pickle.
    """
    inner = getattr(serde, "serde", serde)  # the serializer inside an encrypting one
    if getattr(inner, "pickle_fallback", False):
        raise UsageError(
            "a serializer that falls back to pickle executes what it reads from the store",
            kind=Kind.OPTION,
            remedy="pass the types of your state as `allow`, or a serializer of your own for them",
        )


class Codec:
    """Encodes and decodes with one serializer."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self._serde = serde
        self.is_plain = type(serde) is JsonPlusSerializer
        """Whether the serializer is LangGraph's own, so that plain data and messages can be stored without it."""
        self._made: dict[int, tuple[object, Any]] = {}
        """Decoded messages to copy, by `id` of the payload. The payload is kept, so that its `id` is not reused."""

    # any value

    def form_of(self, value: object) -> dict[str, object]:
        """Return the form of a value. It may share parts with the value: encode it before the value changes.

        Raises:
            TypeError: The serializer cannot encode it.
        """
        if self.is_plain:
            if _is_plain(value, _DEPTH_MAX):
                return {"value": value}
            if isinstance(value, BaseMessage) and (payload := readable(value)) is not None:
                return {"message": payload}
            if type(value) is list and value and all(isinstance(each, BaseMessage) for each in value):
                payloads = [readable(each) for each in value]
                if None not in payloads:
                    return {"messages": payloads}
        return self._typed(value)

    def encode(self, value: object) -> bytes:
        """Return the stored bytes of a value."""
        return values.encode(self.form_of(value))

    def _typed(self, value: object) -> dict[str, object]:
        kind, data = self._serde.dumps_typed(value)
        return {"type": kind, "bytes": bytes(data)}

    def decode(self, raw: bytes) -> Any:
        """Return the value that `encode` encoded; a new object each time."""
        return self.value_of(values.decode(raw))

    def value_of(self, form: object) -> Any:
        """Return the value of a form.

        Raises:
            CorruptError: The form is unknown.
        """
        if isinstance(form, dict):
            if "value" in form:
                return form["value"]
            if "message" in form:
                return restored(form["message"])
            if "messages" in form:
                return [restored(payload) for payload in form["messages"]]
            if "type" in form and "bytes" in form:
                return self._loaded(form["type"], form["bytes"])
        raise CorruptError("a value of a channel has no known form", kind=Kind.SHAPE)

    def _loaded(self, kind: str, data: bytes) -> Any:
        if self.is_plain and kind not in _WRITTEN:
            raise CorruptError(
                f"a value has a form that is never written here. form={kind!r}",
                kind=Kind.SHAPE,
                remedy="it was not loaded, since loading it may execute code; use the serializer that wrote it",
            )
        return self._serde.loads_typed((kind, data))

    # messages that are nodes

    def payload_of(self, message: BaseMessage) -> dict[str, Any]:
        """Return a message as the payload of a node."""
        if self.is_plain:
            payload = readable(message)
            if payload is not None:
                return payload
            return {"role": ROLES.get(type(message), message.type), **self._typed(message)}
        return self._typed(message)

    def role_of(self, message: BaseMessage) -> str:
        """Return the role of the node of a message; empty with a serializer of the user."""
        return ROLES.get(type(message), message.type) if self.is_plain else ""

    def message_of(self, payload: object) -> Any:
        """Return the message of a node's payload; a new object each time."""
        if isinstance(payload, dict) and "type" in payload and isinstance(payload.get("bytes"), bytes):
            return self._loaded(payload["type"], payload["bytes"])
        return restored(payload)

    def messages_of(self, payloads: Iterable[object]) -> list[Any]:
        """Return the messages of payloads that several checkpoints may share; new objects each time.

        A list of checkpoints shows most messages many times. Copying a message takes a third of the time of decoding.
        """
        return [self._copy_of(payload) for payload in payloads]

    def _copy_of(self, payload: object) -> Any:
        known = self._made.get(id(payload))
        if known is None:
            message = self.message_of(payload)
            known = self._made[id(payload)] = payload, message if type(message) in ROLES else None
        return self.message_of(payload) if known[1] is None else _copied(known[1])


def _copied(message: BaseMessage) -> BaseMessage:
    """Return a copy that shares no mutable part with the message."""
    new = copy(message)
    fields = new.__dict__
    for name, value in fields.items():
        if type(value) not in _PLAIN:
            fields[name] = _fresh(value)
    return new


def _fresh(value: Any) -> Any:
    """Return a deep copy; for plain data this takes a tenth of the time of `deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {key: _fresh(each) for key, each in value.items()} if value else {}
    if kind is list:
        return [_fresh(each) for each in value] if value else []
    return value if kind in _PLAIN else deepcopy(value)


def sameness_of(message: BaseMessage) -> bytes:
    """Return bytes that are the same for equal messages; they do not depend on the serializer that stores messages."""
    return _compared.dumps_typed(message)[1]


def message_from(raw: bytes) -> Any:
    """Return the message from the bytes that `sameness_of` returned."""
    return _compared.loads_typed(("msgpack", raw))


def parts_of(message: BaseMessage) -> set[bytes]:
    """Return the parts of a message by which `is_within` knows a copy: its id, its content, the arguments of its calls.

    A copy may lack the id, which LangGraph gives a message only when it joins the list.
    """
    blocks = message.content if isinstance(message.content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    calls = [call["args"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    return {_compared.dumps_typed(part)[1] for part in (message.id, message.content, *texts, *calls) if part}


def is_within(value: object, parts: Collection[bytes]) -> bool:
    """Tell whether one of some parts is anywhere in a value. One that cannot be compared counts as having it."""
    try:
        encoded = _compared.dumps_typed(value)[1]
    except TypeError:
        return True
    return any(part in encoded for part in parts)


def readable(message: BaseMessage) -> dict[str, Any] | None:
    """Return a message as plain data with a role, or None if that would not decode to an equal message."""
    role = ROLES.get(type(message))
    if role is None:
        return None
    payload = {"role": role, **message.model_dump(exclude_defaults=True)}
    try:
        copied = values.decode(values.encode(payload))
        same = _is_plain(copied, _DEPTH_MAX) and sameness_of(restored(copied)) == sameness_of(message)
    except (UsageError, ValueError, TypeError):
        return None
    return copied if same and isinstance(copied, dict) else None


def restored(payload: object) -> BaseMessage:
    """Return the message of plain data. If another program wrote it, use only the fields that can be read."""
    fields = dict(payload) if isinstance(payload, dict) else {"content": str(payload)}
    kind = _TYPES.get(str(fields.pop("role", "user")), HumanMessage)
    try:
        return kind(**fields)
    except (ValueError, TypeError):  # edited or recorded without LangGraph
        content = fields.get("content")
        return kind(content=content if isinstance(content, str) else str(content), **_call_of(kind, fields))


def _call_of(kind: type[BaseMessage], fields: Mapping[str, Any]) -> dict[str, str]:
    return {"tool_call_id": str(fields.get("tool_call_id", ""))} if kind is ToolMessage else {}


def _is_plain(value: object, depth: int) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if depth == 0:
        return False
    if type(value) is list:
        return all(_is_plain(each, depth - 1) for each in value)
    if type(value) is dict:
        return all(type(key) is str and _is_plain(each, depth - 1) for key, each in value.items())
    return False
