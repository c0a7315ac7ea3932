"""The messages of a path that Claude Code sends: their order, without parts that the API would refuse.

Rule 1: an answer is written in parts, with results among them. Consecutive parts, also with results between them, are
joined: first the text, then the calls, then the results in their order, then other messages.
Rule 2: calls without a result and results without a call are removed. If two calls have the same id, the first counts;
the same holds for two results (`treering.calls`).
Rule 3: parts of blank text are removed, and so are answers of which only thinking is left.
Rule 4: thinking that another model signed is removed: only that model can read it.
Rule 5: blocks have the format of the API. The result of a failed call has only text.

(Seen in the requests of Claude Code 2.1.330, which adds a result for a call at the end. Here such a call is left out,
and `open_calls` returns it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from treering.calls import whole_pairs
from treering.checkpoint.policy import Sent
from treering.format.values import Fields, fields_of

_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_NO_MODEL: Final = "<synthetic>"


def sent(messages: Sequence[object], *, keep_open: bool = False) -> list[Sent]:
    """Return the messages to send, in the format of Anthropic's API and the order of sending.

    Args:
        messages: The recorded messages.
        keep_open: Keep the calls that the next message can answer.
    """
    model = next((name for message in reversed(messages) if (name := _model(message))), "")
    said = [Sent(at, _clean(message, model)) for at, message in enumerate(messages)]
    ordered = [each for turn in _turns(_with_new_calls(said)) for each in turn]
    whole = whole_pairs([each.message for each in ordered], keep_open=keep_open)
    left = [Sent(each.at, message) for each, message in zip(ordered, whole, strict=True)]
    left = [each for each in left if _says(each.message) or messages[each.at] is None]
    thought = _only_thought(left)
    return [each for each in left if _answer(each) not in thought]


# the order


def _turns(messages: Iterable[Sent]) -> Iterator[list[Sent]]:
    """Yield the messages before the first answer, then each answer with the messages up to the next one."""
    parts: list[Sent] = []
    behind: list[Sent] = []
    for each in messages:
        if not _is_answer(each.message):
            behind.append(each)
            continue
        going_on = parts and _answer(each) == _answer(parts[-1]) and (not behind or _has(behind[0], "tool_result"))
        if not going_on:
            yield _in_order(parts, behind)
            parts, behind = [], []
        parts.append(each)
    yield _in_order(parts, behind)


def _in_order(parts: list[Sent], behind: list[Sent]) -> list[Sent]:
    if not parts:
        return behind
    return [
        *sorted(parts, key=lambda each: _has(each, "tool_use")),
        *sorted(behind, key=lambda each: not _has(each, "tool_result")),
    ]


def _with_new_calls(messages: Sequence[Sent]) -> Iterator[Sent]:
    """Yield messages without calls whose id was used before: the API accepts each id once."""
    seen: set[object] = set()
    for each in messages:
        message = each.message
        blocks = _blocks(message)
        ids = [block.get("id") for block in blocks if block.get("type") == "tool_use"]
        if _is_answer(message) and not seen.isdisjoint(ids):
            blocks = [block for block in blocks if block.get("type") != "tool_use" or block.get("id") not in seen]
            message = fields_of(message) | {"content": blocks}
        seen.update(ids)
        yield Sent(each.at, message)


# parts that are left out


def _says(message: object) -> bool:
    """Tell whether a message has something to send: an answer needs more than blank text."""
    content = fields_of(message).get("content")
    if not isinstance(content, list):
        return message is not None
    blocks = _blocks(message)
    if not _is_answer(message):
        return bool(content)
    said = [block for block in blocks if not _is_blank(block)]
    return bool(said) and (len(said) == len(blocks) or not all(map(_thinks, said)))


def _only_thought(messages: Sequence[Sent]) -> set[object]:
    """Return the answers of which only thinking is left."""
    answers: dict[object, bool] = {}
    for each in messages:
        if _is_answer(each.message):
            answers[_answer(each)] = answers.get(_answer(each), True) and _is_thought(each.message)
    return {answer for answer, thought in answers.items() if thought}


def _is_thought(message: object) -> bool:
    blocks = _blocks(message)
    return bool(blocks) and all(map(_thinks, blocks))


def _thinks(block: Fields) -> bool:
    return block.get("type") in _THINKING


def _is_blank(block: Fields) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and not text.strip()


# one message


def _clean(message: object, model: str) -> object:
    """Return a message that the API accepts; the same object if nothing changes."""
    content = fields_of(message).get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return message
    answer = _is_answer(message)
    other = answer and _model(message) not in ("", model)
    blocks = [_clean_block(block) for block in content if not _goes(block, answer=answer, other=other)]
    if answer:
        blocks.sort(key=lambda block: block.get("type") == "tool_use")
    return message if blocks == content else fields_of(message) | {"content": blocks}


def _goes(block: Fields, *, answer: bool, other: bool) -> bool:
    if _thinks(block):
        return other and block.get("signature") != ""
    return _is_blank(block) and (not answer or block["text"] == "")


def _clean_block(block: Fields) -> Fields:
    kind = block.get("type")
    if kind == "tool_use" and "caller" in block:
        return {name: value for name, value in block.items() if name != "caller"}
    content = block.get("content")
    if kind == "tool_result" and block.get("is_error") is True and isinstance(content, list):
        return block | {"content": [part for part in content if fields_of(part).get("type") == "text"]}
    return block


def _model(message: object) -> str:
    name = fields_of(message).get("model") if _is_answer(message) else None
    return name if isinstance(name, str) and name != _NO_MODEL else ""


def _answer(each: Sent) -> object:
    """Return the identity of an answer: its id, which its parts share; for a message without an id, its place."""
    name = fields_of(each.message).get("id")
    return name if isinstance(name, str) and name else each.at


def _is_answer(message: object) -> bool:
    return fields_of(message).get("role") == "assistant"


def _has(each: Sent, kind: str) -> bool:
    return any(block.get("type") == kind for block in _blocks(each.message))


def _blocks(message: object) -> list[Fields]:
    content = fields_of(message).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
