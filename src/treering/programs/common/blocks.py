"""Messages of any program or API as blocks, for policies whose programs need another format.

An agent that continues an imported session adds messages in its own format. A policy shows all messages of a context in
the format of its program. So a message is translated from its own format to blocks, and from blocks to the program's.

The formats of common APIs and of pi are read: a `content` that is text or a list of typed blocks, `tool_calls`, and
results with the id of their call; `treering.messages` translates messages of other programs to these formats. Unknown
values become text, as JSON: no value is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from treering.calls import CALLS, RESULTS
from treering.format import values
from treering.format.values import Fields, fields_of
from treering.messages import called_beside, common

_ROLES: Final = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "toolResult": "tool",
}
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_THINKING: Final = frozenset({"thinking", "reasoning"})


class Block(NamedTuple):
    """One part of a message."""

    kind: str
    """`text`, `thinking`, `call`, `result` or `image`."""
    text: str = ""
    """The text, thinking or result; for an image, its bytes in base64."""
    id: str = ""
    """The id of the call; for a result, that of its call."""
    name: str = ""
    """The name of the tool; for an image, its media type."""
    arguments: object = None
    """The arguments of a call: a JSON value, or its text."""
    failed: bool = False
    """Whether the result is an error."""
    signature: str = ""
    """The signature by which a provider verifies its own thinking."""


def role_of(message: Fields, blocks: list[Block]) -> str:
    """Return `user`, `assistant`, `tool` or `system`; a message that has only results is a tool's."""
    if blocks and all(block.kind == "result" for block in blocks):
        return "tool"
    return _ROLES.get(text_of(common(message).get("role")), "user")


def blocks_of(message: Fields) -> list[Block]:
    """Return the blocks of a message, in its order."""
    message = dict(common(message))
    content = message.get("content")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    if _ROLES.get(text_of(message.get("role"))) == "tool" and not any(map(is_result, parts)):
        return [_result(message)]
    blocks = [block for part in parts if part is not None for block in _blocks(part)]
    return blocks + [_call(fields_of(call)) for call in called_beside(message)]


def is_result(part: object) -> bool:
    """Tell whether a block is the result of a call."""
    kind = fields_of(part).get("type")
    return isinstance(kind, str) and kind in RESULTS


def linked(image: Fields) -> str:
    """Return the text that replaces an image without bytes, with its URL; empty if the image has bytes or no URL."""
    return f"[image: {text_of(image['url'])}]" if image.get("url") and not image.get("data") else ""


def said(blocks: list[Block]) -> str:
    """Return the texts of a message, each on a line of its own."""
    return "\n".join(block.text for block in blocks if block.kind == "text" and block.text)


def text_of(value: object) -> str:
    """Return text as it is, an empty text for null, and any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else values.encode(value).decode()


def _blocks(part: object) -> Iterator[Block]:
    fields = fields_of(part)
    kind = fields.get("type")
    if not fields or not isinstance(kind, str):
        yield Block("text", text_of(part))
    elif kind in _TEXTS:
        yield Block("text", text_of(fields.get("text", fields.get("refusal"))))
    elif kind in _THINKING:
        signature = text_of(fields.get("thinkingSignature", fields.get("signature")))
        yield Block("thinking", text_of(fields.get("thinking", fields.get("text"))), signature=signature)
    elif kind in CALLS:
        yield _call(fields)
    elif kind in RESULTS:
        yield _result(fields)
    elif kind == "image":
        yield Block("text", linked(fields)) if linked(fields) else _image(fields)
    else:
        yield Block("text", text_of(part))


def _call(fields: Fields) -> Block:
    inner = fields_of(fields.get("function")) or fields
    arguments = inner.get("arguments", inner.get("input", inner.get("args", {})))
    return Block("call", id=_first(fields, "id", "call_id"), name=text_of(inner.get("name")), arguments=arguments)


def _result(fields: Fields) -> Block:
    content = fields.get("content", fields.get("output"))
    inner = content if isinstance(content, list) else [content]
    text = said([block for part in inner for block in _blocks(part)])
    return Block(
        "result",
        text,
        id=_first(fields, "tool_call_id", "toolCallId", "tool_use_id", "call_id", "id"),
        name=_first(fields, "toolName", "tool_name", "name"),
        failed=bool(fields.get("isError") or fields.get("is_error")),
    )


def _image(fields: Fields) -> Block:
    source = fields_of(fields.get("source")) or fields
    return Block("image", text_of(source.get("data")), name=_first(source, "mimeType", "media_type", "mime_type"))


def _first(fields: Fields, *names: str) -> str:
    return next((text_of(fields[name]) for name in names if fields.get(name)), "")
