"""Tool calls and their results, in all message formats, and how they are paired.

Providers refuse a conversation in which a call has no result, or a result has no call.

Rule 1: the result of a call is in the same message, or in the messages directly after it that hold only results.
Consecutive messages of the model count as one, so their calls may be answered together.
Rule 2: a result belongs to the first of these calls that has its id and no result yet. So ids may be reused later, and
a second result of one call is an orphan.
Rule 3: leaving out a call or result does not change the rest or its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from treering.messages import CONVERSE, GEMINI, PYDANTIC_AI, RESULT_PARTS, Fields, common, shape_of

CALLS: Final = frozenset({"toolCall", "tool_use", "tool_call", "function_call", "function"})
"""Types of blocks that call a tool, and of items between messages that do."""
RESULTS: Final = frozenset({"tool_result", "toolResult", "function_call_output"})
"""Types of blocks and items that hold the result of a call."""
RESULT_ROLES: Final = frozenset({"tool", "toolResult", "function"})
"""Roles of messages that are a result as a whole."""
CALL_ID: Final = ("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id")
"""Fields of a result that hold the id of its call."""

_TEXT_FIELDS: Final = frozenset({"role", "content"})
_SPEAKERS: Final = ("user", "assistant", "system")
_MODEL_ROLES: Final = frozenset({"assistant", "ai", "model"})
_LISTS: Final = frozenset({"content", "contents", "parts", "tool_calls", "toolcalls", "toolresults"})
"""Fields, in lower case, that list the parts of a message."""
_THINKING: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})


class Call(msgspec.Struct, frozen=True):
    """A call of a tool in a message."""

    id: str
    """The id that its result names; empty if it has none."""
    name: str
    """The name of the tool."""
    arguments: object
    """The arguments as recorded: a JSON value, or the text of one."""
    place: Place = ("", 0)
    """Its place in the message."""


class Result(msgspec.Struct, frozen=True):
    """The result of a call in a message."""

    id: str
    """The id of the call."""
    place: Place = ("", 0)
    """Its place in the message."""


Place: TypeAlias = tuple[str, int]
"""The field of a message, and the index in the list that it holds; an empty field is the message itself."""


class Unanswered(msgspec.Struct, frozen=True):
    """A call that has no result."""

    at: int
    """Index of its message."""
    call: Call


class Orphan(msgspec.Struct, frozen=True):
    """A result without its call."""

    at: int
    """Index of its message."""
    result: Result


class Pair(msgspec.Struct, frozen=True):
    """A call and its result."""

    call_at: int
    """Index of the message that makes the call."""
    result_at: int
    """Index of the message that has the result."""
    call: Call
    result: Result


class Pairing(msgspec.Struct, frozen=True):
    """The pairs of calls and results of a conversation; each list in the order of the conversation."""

    pairs: tuple[Pair, ...]
    open: tuple[Unanswered, ...]
    """Calls that the next message can still answer: only results of other calls come after them."""
    passed: tuple[Unanswered, ...]
    """Calls without a result after which the conversation continued: no result can follow."""
    orphans: tuple[Orphan, ...]


def calls_of(message: object) -> list[Call]:
    """Return the calls that a message makes, in its order."""
    return [part for part in parts_of(message) if isinstance(part, Call)]


def results_of(message: object) -> list[Result]:
    """Return the results that a message has, in its order."""
    return [part for part in parts_of(message) if isinstance(part, Result)]


def parts_of(message: object) -> list[Call | Result]:
    """Return the calls and results of a message, in its order; empty if the value is no message."""
    if type(message) is not dict and not isinstance(message, Mapping):
        return []
    if message.keys() == _TEXT_FIELDS and type(message["content"]) is str and message["role"] in _SPEAKERS:
        return []  # true of most messages
    if _kind(message) in CALLS | RESULTS and "role" not in message:  # an item of its own, not a message
        return [part for part in [_part(message, ("", 0))] if part is not None]
    found = list(_listed_parts(message))
    if not found and _is_result(message):
        return [Result(_first(message, *CALL_ID))]
    return found


def pairing(messages: Iterable[object]) -> Pairing:
    """Pair the calls and results of a conversation.

    Args:
        messages: In their order; other values count as messages without calls and results.
    """
    pairs: list[Pair] = []
    passed: list[Unanswered] = []
    orphans: list[Orphan] = []
    waiting: list[Unanswered] = []
    answering = False  # a result comes after the open calls
    for at, message in enumerate(messages):
        parts = parts_of(message)
        for part in parts:
            if isinstance(part, Call):
                if answering:
                    passed += waiting
                    waiting, answering = [], False
                waiting.append(Unanswered(at, part))
                continue
            answering = True
            asked = next((each for each in waiting if each.call.id == part.id), None)
            if asked is None:
                orphans.append(Orphan(at, part))
            else:
                waiting.remove(asked)
                pairs.append(Pair(asked.at, at, asked.call, part))
        if waiting and _goes_on(message, parts, answering=answering):
            passed += waiting
            waiting, answering = [], False
    return Pairing(tuple(pairs), tuple(waiting), tuple(passed), tuple(orphans))


def whole_pairs(messages: Sequence[object], *, keep_open: bool = False) -> list[object | None]:
    """Return a conversation that providers accept: without calls that have no result, and results that have no call.

    Args:
        messages: In their order.
        keep_open: Keep the calls that a next message can answer.

    Returns:
        For each message the same object if nothing was left out, otherwise a copy without these parts, or None if the
        copy would be empty.
    """
    found = pairing(messages)
    gone: dict[int, set[Place]] = {}
    for each in (*found.passed, *(() if keep_open else found.open)):
        gone.setdefault(each.at, set()).add(each.call.place)
    for orphan in found.orphans:
        gone.setdefault(orphan.at, set()).add(orphan.result.place)
    return [without(message, gone[at]) if at in gone else message for at, message in enumerate(messages)]


def interrupted(calls: Iterable[tuple[object, Call]], reason: str) -> list[dict[str, object]]:
    """Return messages that answer interrupted calls, each in the format of its call.

    Args:
        calls: Each call, after the message that makes it.
        reason: Why there is no result.
    """
    answers: list[dict[str, object]] = []
    for message, call in calls:
        answer = _SHAPES.get(_shape_of_call(message, call), _as_tool)(call, reason)
        if answers and answer.get("role") == answers[-1].get("role") == "user":  # such APIs want one message with all
            field = "parts" if "parts" in answer else "content"
            answers[-1][field] = [*_listed(answers[-1].get(field)), *_listed(answer[field])]
        else:
            answers.append(answer)
    return answers


def without(message: object, places: Iterable[Place]) -> object | None:
    """Return a copy of a message without the parts at some places; None if it would be empty.

    Providers refuse thinking without the call that it led to.
    """
    gone = set(places)
    if not isinstance(message, Mapping) or ("", 0) in gone:
        return None
    left: dict[Any, Any] = {}
    for name, value in message.items():
        if isinstance(value, list):
            kept = [part for index, part in enumerate(value) if (name, index) not in gone]
            if kept or not value:
                left[name] = kept
        elif (name, 0) not in gone:
            left[name] = value
    keeps = any(part.place not in gone for part in parts_of(message))
    return left if keeps or (_says_something(left) and not _is_result(left)) else None


def _listed_parts(message: Fields) -> Iterator[Call | Result]:
    shape = shape_of(message)
    for name, value in message.items():
        if name == "function_call" and isinstance(value, Mapping):  # the chat API before it had `tool_calls`
            yield _call(value, (name, 0))
        elif isinstance(value, list) and isinstance(name, str) and name.lower() in _LISTS:
            for index, part in enumerate(value):
                block = _block(name, part) if shape else part
                found = _part(block, (name, index), called=name == "tool_calls")
                if found is not None:
                    yield found


def _block(name: str, part: object) -> object:
    """Return a part of a message in another shape, as a block of the common shape."""
    content = common({name: [part]}).get("content")
    return content[0] if isinstance(content, list) and content else None


def _part(block: object, place: Place, *, called: bool = False) -> Call | Result | None:
    if not isinstance(block, Mapping):
        return None
    kind = _kind(block)
    if called or kind in CALLS:
        return _call(block, place)
    if kind in RESULTS:
        return Result(_first(block, *CALL_ID, "id"), place)
    if not kind and "tool_result_for" in block:  # as some clients send it
        return Result(_first(block, "tool_result_for"), place)
    if not kind and "tool_call_id" in block and "input" in block:
        return Call(_first(block, "tool_call_id"), _first(block, "name"), block["input"], place)
    return None


def _call(block: Fields, place: Place) -> Call:
    function = block.get("function")
    inner = function if isinstance(function, Mapping) else block
    arguments = inner.get("arguments", inner.get("input", inner.get("args", {})))
    return Call(_first(block, "call_id", "id", "toolUseId"), _first(inner, "name"), arguments, place)


def _kind(block: Fields) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def _first(fields: Fields, *names: str) -> str:
    return next((str(fields[name]) for name in names if fields.get(name)), "")


def _is_result(message: Fields) -> bool:
    return _role(message) in RESULT_ROLES or any(message.get(name) for name in CALL_ID)


def _role(message: Fields) -> str:
    role = common(message).get("role")
    return role if isinstance(role, str) else ""


def _goes_on(message: object, parts: Sequence[Call | Result], *, answering: bool) -> bool:
    """Whether the conversation continues, so that calls in or before this message cannot get a result after it."""
    if not parts:
        return answering or not isinstance(message, Mapping) or _role(message) not in _MODEL_ROLES
    if any(isinstance(part, Call) for part in parts):
        return False
    return any(block is not None for block in _beside(message, {part.place for part in parts}))


def _beside(message: object, places: set[Place]) -> Iterator[object]:
    """The other content of a message with results; providers want the results first."""
    if ("", 0) in places or not isinstance(message, Mapping):
        return
    for name, value in message.items():
        if isinstance(value, list) and isinstance(name, str) and name.lower() in _LISTS:
            yield from (_block(name, part) for index, part in enumerate(value) if (name, index) not in places)


def _says_something(message: Fields) -> bool:
    content = common(message).get("content")
    blocks = content if isinstance(content, list) else [content]
    return any(map(_says, blocks))


def _says(block: object) -> bool:
    if not isinstance(block, Mapping):
        return bool(block.strip()) if isinstance(block, str) else block is not None
    if _kind(block) in _THINKING or block.keys() == {"reasoning"}:  # the latter as some clients send it
        return False
    text = block.get("text")
    return bool(text.strip()) if isinstance(text, str) else True


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _shape_of_call(message: object, call: Call) -> str:
    """The key in `_SHAPES` for a call: the type of its block, or the field or shape of its message."""
    field, index = call.place
    if not isinstance(message, Mapping):
        return ""
    if field in ("tool_calls", "function_call"):
        return field
    if not field:
        return "item"
    return shape_of(message) or _kind(message[field][index])


def _as_tool(call: Call, reason: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call.id, "content": reason, "is_error": True}


def _as_chat(call: Call, reason: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call.id, "content": reason}  # this API refuses unknown fields


def _as_function(call: Call, reason: str) -> dict[str, object]:
    return {"role": "function", "name": call.name, "content": reason}


def _as_item(call: Call, reason: str) -> dict[str, object]:
    return {"type": "function_call_output", "call_id": call.id, "output": reason}


def _as_block(call: Call, reason: str) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": call.id, "content": reason, "is_error": True}
    return {"role": "user", "content": [block]}


def _as_converse(call: Call, reason: str) -> dict[str, object]:
    return {"role": "user", "content": [RESULT_PARTS[CONVERSE](call.id, call.name, reason, failed=True)]}


def _as_gemini(call: Call, reason: str) -> dict[str, object]:
    return {"role": "user", "parts": [RESULT_PARTS[GEMINI](call.id, call.name, reason, failed=True)]}


def _as_pydantic_ai(call: Call, reason: str) -> dict[str, object]:
    return {"kind": "request", "parts": [RESULT_PARTS[PYDANTIC_AI](call.id, call.name, reason, failed=True)]}


def _as_camel(call: Call, reason: str) -> dict[str, object]:
    content = [{"type": "text", "text": reason}]
    return {"role": "toolResult", "toolCallId": call.id, "toolName": call.name, "content": content, "isError": True}


_SHAPES: Final[Mapping[str, Callable[[Call, str], dict[str, object]]]] = {
    "tool_calls": _as_chat,
    "function_call": _as_function,
    "item": _as_item,
    "tool_use": _as_block,
    CONVERSE: _as_converse,
    "toolCall": _as_camel,
    GEMINI: _as_gemini,
    PYDANTIC_AI: _as_pydantic_ai,
}
"""Functions that answer a call, by its shape. Other shapes get a `tool` message, which program policies convert."""
