"""Messages of any program or API as blocks, for policies whose programs need another format.

An agent that continues an imported session adds messages in its own format. A policy shows all messages of a context in
the format of its program. So a message is translated from its own format to blocks, and from blocks to the program's.

The formats of common APIs and of pi are read: a `content` that is text or a list of typed blocks, `tool_calls`, and
results with the id of their call; `treering.messages` translates messages of other programs to these formats. Files of
which a program has none, and unknown values, become text: no value is left out, and `lost` tells of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from treering.calls import CALLS, RESULTS
from treering.format.values import Fields, fields_of
from treering.messages import MEDIA, called_beside, common, is_image, media_of
from treering.programs.common.writing import json_text

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
    """`text`, `thinking`, `call`, `result`, `image` or one of `TOLD`."""
    text: str = ""
    """The text, thinking or result; for an image, its bytes in base64; for the kinds in `TOLD`, a text in its place."""
    id: str = ""
    """The id of the call; for a result, that of its call."""
    name: str = ""
    """The name of the tool; for an image or file, its media type."""
    arguments: object = None
    """The arguments of a call: a JSON value, or its text."""
    failed: bool = False
    """Whether the result is an error."""
    signature: str = ""
    """The signature by which a provider verifies its own thinking."""
    url: str = ""
    """Of an image or file: its address, or its bytes as a `data:` URL."""
    inner: tuple[Block, ...] = ()
    """The parts of a result."""


IMAGE_URL: Final = "image_url"
FILE: Final = "file"
DATA: Final = "data"
TOLD: Final = frozenset({IMAGE_URL, FILE, DATA})
"""Kinds that few programs have, so that most get a text instead: an image of which only the address is known, another
file, and parts of unknown types, as JSON."""
LOST: Final = {
    "image": "the program has no images there",
    IMAGE_URL: "the program has only images with their bytes: a text has the address",
    FILE: "the program has no such files in messages: a text names them",
    DATA: "the program has no parts of such a type: they are written as JSON",
}
"""By kind of a block: why an export leaves it out."""


_SAID: Final = TOLD | {"text"}


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


def media_block(part: Fields) -> Block:
    """Return a block with an image or another file, in whichever form an API has it."""
    media, source = media_of(part), fields_of(part.get("source")) or fields_of(part.get("file")) or part
    if source.get("type") == "text":
        return Block("text", text_of(source.get("data")))
    shown = is_image(part) or (media is not None and media.media_type.startswith("image/"))
    address = media.url if media is not None else text_of(source.get("file_id"))
    head, bytes_, data = address.partition(";base64,")
    kind = media.media_type if media is not None else ""
    if shown and (bytes_ or not address):
        known = Block("image", data, name=kind or head.removeprefix("data:"), url=address)
        return known if bytes_ else _image(part)
    if not address:
        return Block(DATA, text_of(part))
    named = (media.name if media is not None else "") or (kind if bytes_ else address)
    return Block(IMAGE_URL if shown else FILE, f"[{'image' if shown else 'file'}: {named}]", name=kind, url=address)


def lost(message: Fields, held: Collection[str] = (), held_in_results: Collection[str] = ()) -> list[str]:
    """Return the kinds in `LOST` of the parts of a message that a program cannot hold.

    Args:
        message: The message.
        held: The kinds that the program has in messages.
        held_in_results: The kinds that it has in results of calls.
    """
    blocks = blocks_of(message)
    found = [block.kind for block in blocks if block.kind not in held]
    found += [inner.kind for block in blocks for inner in block.inner if inner.kind not in held_in_results]
    return [kind for kind in found if kind in LOST]


def said(blocks: Iterable[Block]) -> str:
    """Return the texts of a message, each on a line of its own."""
    return "\n".join(block.text for block in blocks if block.kind in _SAID and block.text)


def text_of(value: object) -> str:
    """Return text as it is, an empty text for null, and any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


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
    elif kind in MEDIA:
        yield media_block(fields)
    else:
        yield Block(DATA, text_of(part))


def _call(fields: Fields) -> Block:
    inner = fields_of(fields.get("function")) or fields
    arguments = inner.get("arguments", inner.get("input", inner.get("args", {})))
    return Block("call", id=_first(fields, "id", "call_id"), name=text_of(inner.get("name")), arguments=arguments)


def _result(fields: Fields) -> Block:
    content = fields.get("content", fields.get("output"))
    parts = content if isinstance(content, list) else [content]
    inner = tuple(block for part in parts for block in _blocks(part))
    return Block(
        "result",
        said(inner),
        id=_first(fields, "tool_call_id", "toolCallId", "tool_use_id", "call_id", "id"),
        name=_first(fields, "toolName", "tool_name", "name"),
        failed=bool(fields.get("isError") or fields.get("is_error")),
        inner=inner,
    )


def _image(fields: Fields) -> Block:
    source = fields_of(fields.get("source")) or fields
    return Block("image", text_of(source.get("data")), name=_first(source, "mimeType", "media_type", "mime_type"))


def _first(fields: Fields, *names: str) -> str:
    return next((text_of(fields[name]) for name in names if fields.get(name)), "")
