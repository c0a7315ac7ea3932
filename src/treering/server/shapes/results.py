"""Match results of tools to their calls, at any place in a conversation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from treering.calls import Place, pairing, without
from treering.format.erasure import Erased
from treering.server.shapes.kept import FIELD, difference
from treering.server.shapes.parts import Call, Part, Result, Said, block_of, parts_of, payload_of
from treering.transcript.node import Draft


class Results:
    """The results in messages, by the ids of their calls; each call takes the first remaining result."""

    def __init__(self, said: Iterable[Said] = ()) -> None:
        self._left: dict[str, deque[Result]] = {}
        for each in said:
            for part in each.parts:
                if isinstance(part, Result):
                    self._left.setdefault(part.call, deque()).append(part)

    @classmethod
    def only(cls, result: Result | None) -> Results:
        """Return `Results` with one result, or with none."""
        found = cls()
        if result is not None:
            found._left[result.call] = deque([result])
        return found

    def take(self, call: str) -> Result | None:
        """Remove and return the result of a call; None if there is none."""
        left = self._left.get(call)
        return left.popleft() if left else None


def with_answers(said: Iterable[Said]) -> Iterator[tuple[str, list[Part]]]:
    """Yield role and parts of each message, without results that have no call before, and calls that were passed over.

    Model APIs refuse a conversation with such parts. It has such results if it is cut, or if the call was retracted; it
    has such calls if it went on without the result (`treering.calls.pairing`). The next message can answer the others.
    """
    listed, called = [*said], set[str]()
    messages = [each.payload.message if isinstance(each.payload, Erased) else each.payload for each in listed]
    gone: dict[int, list[Place]] = {}
    for passed in pairing(messages).passed:
        gone.setdefault(passed.at, []).append(passed.call.place)
    for at, each in enumerate(listed):
        given = parts_of(without(messages[at], gone[at]) or {}) if at in gone else each.parts
        parts = [part for part in given if not isinstance(part, Result) or part.call in called]
        called.update(part.id for part in parts if isinstance(part, Call))
        yield each.role, parts


class Words(NamedTuple):
    """The functions that read and write the parts of one user interface."""

    interface: str
    read: Callable[[Mapping[str, Any]], Part | None]
    """Returns the content part for a UI part; None if model APIs have none."""
    result: Callable[[Mapping[str, Any]], Result | None]
    """Returns the result in a part that calls a tool."""
    show: Callable[[Part, Results], dict[str, Any]]
    """Returns the UI part for a content part."""
    message: Callable[[Said, Results], dict[str, Any]]
    """Returns the UI message for a message."""
    parts: str
    """The field of a UI message that has its parts."""


def drafts_of_message(
    words: Words, name: str, role: str, parts: Sequence[Any], fields: Mapping[str, Any], *, parent: str | None
) -> list[Draft]:
    """Return drafts of a message and, behind it, of the results of its calls.

    Args:
        words: The functions of the interface.
        name: The id of the message.
        role: Its role.
        parts: Its parts.
        fields: Its other fields, which the interface gets back.
        parent: Its parent.
    """
    content: list[Part] = []
    results: list[Result] = []
    changes: list[dict[str, Any] | None] = []
    for part in parts:
        read = words.read(part) if isinstance(part, Mapping) else None
        result = words.result(part) if isinstance(read, Call) else None
        content += [read] if read is not None else []
        results += [result] if result is not None else []
        made = None if read is None else words.show(_as_read_again(role, read), Results.only(result))
        changes.append(difference(part if isinstance(part, Mapping) else {"value": part}, made))
    kept = {**({"fields": dict(fields)} if fields else {}), **({"parts": changes} if any(changes) else {})}
    beside = {FIELD: {"of": words.interface, **kept}} if kept else {}
    drafts = [Draft(role=role, payload=payload_of(role, content, **beside), id=name, parent=parent)]
    for result in results:
        drafts.append(result_draft(result, message=name, parent=drafts[-1].id))
    return drafts


def _as_read_again(role: str, part: Part) -> Part:
    """Return a part as it is read from the recorded message, since blocks cannot hold all of its fields."""
    return parts_of({"role": role, "content": [block_of(part)]})[0]


def result_draft(result: Result, *, message: str, parent: str | None) -> Draft:
    """Return a draft of the result of a call; its id is made of the ids of message and call."""
    payload = {"role": "tool", "tool_call_id": result.call, "content": result.output}
    failed = {"is_error": True} if result.is_error else {}
    return Draft(role="tool", payload={**payload, **failed}, id=f"{message}/{result.call}", parent=parent)
