"""The parts of a message: text, thinking, calls, results and other data, in whatever shape the agent recorded them.

The shapes of common APIs are known, and the shapes of programs whose sessions are imported (`treering.messages`).
Unknown parts are shown as JSON, never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from treering.calls import CALLS, RESULT_ROLES, RESULTS
from treering.errors import TreeringError
from treering.format import values
from treering.format.erasure import Erased
from treering.messages import called_beside, common


class Part(NamedTuple):
    """One part of a message."""

    kind: str
    """`text`, `thinking`, `call`, `result` or `data`."""
    title: str
    """The name of the tool, the kind of data, or empty."""
    text: str


_TEXTS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "text",
    "thinking": "thinking",
    "reasoning": "thinking",
}


def parts_of(message: object) -> list[Part]:
    """Return the parts of a message, or of the payload of another node."""
    if isinstance(message, Erased):
        message = message.message
    if isinstance(message, str):
        return [Part("text", "", message)]
    if not isinstance(message, Mapping):
        return [] if message is None else [Part("data", "", _json(message))]
    return [part for part in _parts(common(message)) if part.text or part.title]


def _parts(message: Mapping[object, object]) -> Iterator[Part]:
    kind = text_of(message.get("type") or "")
    if "content" not in message and kind in CALLS | RESULTS | {"reasoning"}:  # an item between messages
        yield from _block_parts(message)
    elif "summary" in message:
        yield Part("text", "", text_of(message["summary"]))
    elif "command" in message and "output" in message:  # a shell command that the user ran
        yield Part("call", "shell", text_of(message["command"]))
        yield Part("result", "", text_of(message["output"]))
    elif "content" in message or called_beside(message):
        yield from _content_parts(message)
    else:
        yield Part("data", "", _json(message))


def _content_parts(message: Mapping[object, object]) -> Iterator[Part]:
    content = message.get("content")
    blocks = content if isinstance(content, list | tuple) else [content]
    result = text_of(message.get("role")) in RESULT_ROLES
    name = text_of(message.get("toolName") or message.get("name") or "") if result else ""
    for block in blocks:
        for part in _block_parts(block):
            yield part._replace(kind="result", title=name) if result and part.kind == "text" else part
    for call in called_beside(message):
        yield from _block_parts({"type": "tool_call", **call} if isinstance(call, Mapping) else call)


def _block_parts(block: object) -> Iterator[Part]:
    if block is None:
        return
    if not isinstance(block, Mapping):
        yield Part("text", "", text_of(block))
        return
    kind = text_of(block.get("type") or "")
    if kind == "reasoning" and isinstance(summary := block.get("summary"), list):
        for part in _content_parts({"content": summary}):
            yield part._replace(kind="thinking")
    elif kind in _TEXTS:
        text = block.get("text", block.get("thinking", block.get("reasoning", block.get("refusal", ""))))
        yield Part(_TEXTS[kind], "", text_of(text))
    elif kind in CALLS:
        yield _call(block)
    elif kind in RESULTS:
        inner = block.get("content", block.get("output"))
        text = "\n".join(part.text for part in _content_parts({"content": inner}))
        yield Part("result", "", text)
    elif kind == "image":
        yield Part("data", "image", "")
    else:
        yield Part("data", kind, _json(block))


def _call(block: Mapping[object, object]) -> Part:
    function = block.get("function")
    inner = function if isinstance(function, Mapping) else block
    arguments = inner.get("arguments", inner.get("input", inner.get("args", {})))
    return Part("call", text_of(inner.get("name", "")), text_of(arguments))


def text_of(value: object) -> str:
    """Return text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    try:
        return values.encode(value).decode()
    except TreeringError:
        return repr(value)
