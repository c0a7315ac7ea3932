"""Convert messages of the programs whose sessions are imported into the shape that common APIs have.

That shape is a `role`, and a `content` that is text or a list of typed blocks. Some programs have other names for
these; each registers here how its messages are read. In Amazon Bedrock's Converse API and in Google's Gemini API a
block has no type; one of its fields says what it is. A part of a message of Pydantic AI has its type in `part_kind`.
Code that reads messages converts them here first, and then handles one shape only.

Rule: only marks without meaning are left out. A block that the common shape has no type for stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

Fields = Mapping[Any, Any]
"""The fields of a JSON object of another program, so nothing is known about their types."""

CONVERSE: Final = "converse"
"""The shape of messages in Amazon Bedrock's Converse API."""
GEMINI: Final = "gemini"
"""The shape of messages in the Gemini API: `parts` in place of `content`."""
PYDANTIC_AI: Final = "pydantic_ai"
"""The shape of messages of Pydantic AI: a `kind` in place of a role, and `parts` with their types in `part_kind`."""
_PLAIN: Final = frozenset({"role", "content", "id", "name", "type", "timestamp", "tool_calls", "tool_call_id"})
"""A message with a `content` and no other fields than these has the common shape; registered shapes are not asked."""
MEDIA: Final = frozenset(
    {"image", "image_url", "input_image", "document", "file", "input_file", "audio", "input_audio", "video"}
)
"""Types of blocks that hold an image or another file."""
ANY_IMAGE: Final = "image/*"
"""The media type of an image of which only the URL is known."""
_NESTED: Final = ("source", "file", "input_audio")
"""Fields of a block that hold the fields of its file."""
_SAID_BESIDE: Final = frozenset({"refusal", "audio"})
"""Fields of OpenAI's chat API with what a model said in place of a content."""
_FURTHER: Final = 1
"""Number of finders left in `_finders` when the usual shapes are registered."""
_REMINDER: Final = r"(?s:<system-reminder>.*?</system-reminder>|\A\s*<system-reminder>.*)"


class Media(NamedTuple):
    """An image or another file in a message."""

    url: str
    """A `data:` URL if the message has the bytes."""
    media_type: str = ""
    name: str = ""


class Shape(Protocol):
    """How to read messages of a program whose fields have other names; a program's module `message` implements it.

    A module may also have `SIGNED`: it maps names of fields that hold signatures to the signed fields next to them.
    """

    def is_of(self, message: Fields) -> bool:
        """Return whether a message has this shape, which is not the common one."""

    def common(self, message: Fields) -> Fields:
        """Return the message in the common shape."""


class ResultPart(Protocol):
    """Makes the part of a message that answers a call."""

    def __call__(self, call: str, name: str, text: str, /, *, failed: bool) -> dict[str, Any]:
        """Return the part, from the id of the call, the name of the tool, and what it said."""


_shapes: dict[str, Shape] = {}
"""Shapes by the names of programs, in the order in which they are tried."""
_signed: dict[str, frozenset[str]] = {}
_finders: list[Callable[[], None]] = []
"""Functions that register further shapes; each is called once, the last one first."""


def register_shape(name: str, shape: Shape) -> None:
    """Register the shape of a program's messages, so that all code that reads messages understands them."""
    _shapes[name] = shape
    _signed.update(getattr(shape, "SIGNED", {}))


def find_shapes_with(usual: Callable[[], None], further: Callable[[], None]) -> None:
    """Set the functions that register shapes; each is called once, when it is needed.

    Args:
        usual: Called before registered shapes are first needed.
        further: Called before the first message that has no `content` and no known shape.
    """
    _finders[:] = [further, usual]


def common(message: Fields) -> Fields:
    """Return a message in the common shape; a message in this or an unknown shape is returned as it is.

    What a model said beside its content becomes text of the content: a refusal, and the transcript of speech.
    """
    shape = shape_of(message)
    if not shape:
        return message if _SAID_BESIDE.isdisjoint(message) else _with_all_said(message)
    known = _WITHOUT_TYPES.get(shape)
    return known(message) if known is not None else _shapes[shape].common(message)


def shape_of(message: Fields) -> str:
    """Return the name of a message's shape: a program, `converse`, `gemini`, `pydantic_ai`; empty: the common shape."""
    if any(map(_is_of_converse, listed(message.get("content")))):
        return CONVERSE
    if "content" not in message and (parts := listed(message.get("parts"))):
        if any(isinstance(part, Mapping) and "part_kind" in part for part in parts):
            return PYDANTIC_AI
        if any(map(_gemini_field, parts)):
            return GEMINI
    if "content" in message and message.keys() <= _PLAIN:
        return ""
    _find_shapes(_FURTHER)
    found = _asked(message)
    if not found and "content" not in message and len(_finders) == _FURTHER:
        _find_shapes(0)
        found = _asked(message)
    return found


def called_beside(message: Fields) -> list[object]:
    """Return the calls that a message in the common shape has beside its content, as items of `tool_calls`."""
    calls = message.get("tool_calls")
    single = message.get("function_call")  # the chat API before it had `tool_calls`
    return [*(calls if isinstance(calls, list | tuple) else ())] + (
        [{"function": single}] if isinstance(single, Mapping) else []
    )


def media_of(block: Fields) -> Media | None:
    """Return the file in a block, in whichever form an API gives its bytes or URL; None if there is neither."""
    fields = next((block[name] for name in _NESTED if isinstance(block.get(name), Mapping)), block)
    if fields.get("type") == "text":  # a document of plain text, which is no base64
        return None
    address = fields.get("url", fields.get("image_url", fields.get("file_url", fields.get("file_data"))))
    if isinstance(address, Mapping):
        address = address.get("url")
    kind = fields.get("media_type", fields.get("mimeType", fields.get("mime_type")))
    if kind is None and isinstance(form := fields.get("format"), str):
        kind = f"audio/{form}" if str(block.get("type")).endswith("audio") else f"application/{form}"
    name = block.get("title", fields.get("filename", block.get("name")))
    data = fields.get("data")
    if isinstance(data, str) and isinstance(kind, str):
        address = f"data:{kind};base64,{data}"
    if not isinstance(address, str):
        return None
    if not isinstance(kind, str) and address.startswith("data:"):
        kind = address[len("data:") :].partition(";")[0]
    if not isinstance(kind, str) and is_image(block):
        kind = ANY_IMAGE
    return Media(address, kind if isinstance(kind, str) else "", name if isinstance(name, str) else "")


def is_image(block: Fields) -> bool:
    """Tell whether the type of a block is one for images."""
    return str(block.get("type")).endswith(("image", "image_url"))


def _with_all_said(message: Fields) -> Fields:
    content, speech = message.get("content"), _fields(message.get("audio"))
    said = [text for text in (message.get("refusal"), speech.get("transcript")) if isinstance(text, str) and text]
    said = [text for text in said if text != content]
    if not said or "role" not in message:
        return message
    before = content if isinstance(content, list) else [] if content is None or content == "" else [content]
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in [*before, *said]]
    left = {name: value for name, value in message.items() if name != "refusal"}
    if speech:
        left["audio"] = {name: value for name, value in speech.items() if name != "transcript"}
    return {**left, "content": said[0] if blocks == [{"type": "text", "text": said[0]}] else blocks}


def _asked(message: Fields) -> str:
    return next((name for name, shape in [*_shapes.items()] if shape.is_of(message)), "")


def _find_shapes(left: int) -> None:
    while len(_finders) > left:
        _finders[-1]()  # before it is removed: another thread must not go on without the shapes that it registers
        del _finders[left:]


def signed_fields() -> Mapping[str, frozenset[str]]:
    """Return the signed fields, which must stay as they are, by the names of the fields that hold their signatures."""
    _find_shapes(_FURTHER)
    return _signed


def without_reminders(text: str) -> str:
    """Return a text as the user typed it, without the reminders that a program added for the model."""
    return re.sub(_REMINDER, "", text) if "<system-reminder>" in text else text


def _is_of_converse(block: object) -> bool:
    return isinstance(block, Mapping) and len(block) == 1 and not _CONVERSE.keys().isdisjoint(block)


def _from_converse(message: Fields) -> Fields:
    return {**message, "content": [_typed(block) for block in listed(message["content"])]}


def _typed(block: object) -> object:
    """Return a block with its type among its fields. A mark where to cache becomes None: it says nothing."""
    if not isinstance(block, Mapping) or not _is_of_converse(block):
        return block
    ((kind, value),) = block.items()
    return _CONVERSE[kind](value) if isinstance(value, Mapping) or kind == "text" else block


def _converse_call(use: Fields) -> object:
    return {"type": "tool_call", **{("id" if name == "toolUseId" else name): value for name, value in use.items()}}


def _converse_result(result: Fields) -> object:
    content = [_typed(block) for block in listed(result.get("content"))]
    failed = result.get("status") == "error"
    return {
        "type": "tool_result", "tool_call_id": result.get("toolUseId"), "content": content, "is_error": failed
    }  # fmt: skip


def _converse_thinking(reasoning: Fields) -> object:
    if "redactedContent" in reasoning:
        return {"type": "redacted_thinking", "data": _text_of_bytes(reasoning["redactedContent"])}
    said = _fields(reasoning.get("reasoningText"))
    return {"type": "thinking", **{("thinking" if name == "text" else name): value for name, value in said.items()}}


def _converse_image(image: Fields) -> object:
    return _converse_media("image", image) | {"mimeType": f"image/{image.get('format')}"}


def _converse_media(kind: str, media: Fields) -> dict[str, object]:
    """Return a block of media, with its bytes as base64, or its address."""
    source = media.get("source")
    found = dict(source) if isinstance(source, Mapping) else {}
    place = found.pop("location", None)
    if "bytes" in found:
        found["data"] = _text_of_bytes(found.pop("bytes"))
    if isinstance(place, Mapping):
        found["url"] = place.get("uri")
    return {"type": kind, **{name: value for name, value in media.items() if name != "source"}, **found}


def _converse_cited(cited: Fields) -> object:
    texts = [part.get("text") for part in listed(cited.get("content")) if isinstance(part, Mapping)]
    rest = {name: value for name, value in cited.items() if name != "content"}
    return {"type": "text", "text": "".join(text for text in texts if isinstance(text, str)), **rest}


def _converse_guarded(guarded: Fields) -> object:
    text, image = guarded.get("text"), guarded.get("image")
    return _converse_image(image) if isinstance(image, Mapping) else {"type": "text", **(_fields(text))}


def _gemini_field(part: object) -> str:
    """Return the field that gives the type of a Gemini part; SDKs write names in camel case or with underscores."""
    if not isinstance(part, Mapping) or "type" in part:
        return ""
    return next((name for name in part if name == "text" or _camel(name) in _GEMINI), "")


def _camel(name: object) -> str:
    first, *rest = str(name).split("_")
    return first + "".join(map(str.capitalize, rest))


def _from_gemini(message: Fields) -> Fields:
    rest = {name: value for name, value in message.items() if name != "parts"}
    return {**rest, "content": [_typed_part(part) for part in listed(message["parts"])]}


def _typed_part(part: object) -> object:
    """Return a part with its type among its fields."""
    if not isinstance(part, Mapping) or not (field := _gemini_field(part)):
        return part
    value = part[field]
    if field == "text":
        kind = "thinking" if part.get("thought") is True else "text"
        return {"type": kind, kind: value}
    if not isinstance(value, Mapping):
        return part
    return _GEMINI[_camel(field)]({_camel(name): each for name, each in value.items()})


def _gemini_call(call: Fields) -> object:
    name = call.get("name")
    return {"type": "tool_call", "id": call.get("id") or name, "name": name, "input": call.get("args") or {}}


def _gemini_result(result: Fields) -> object:
    """Return a result; without an id it has the name of its function as its id, as in the API."""
    response = result.get("response")
    call = result.get("id") or result.get("name")
    failed = isinstance(response, Mapping) and "error" in response
    name = result.get("name")
    return {"type": "tool_result", "tool_call_id": call, "name": name, "content": [response], "is_error": failed}


def _gemini_media(media: Fields, found: Fields) -> object:
    kind = str(media.get("mimeType") or "").partition("/")[0] or "data"
    return {"type": kind, "mimeType": media.get("mimeType"), **found}


def _from_pydantic_ai(message: Fields) -> Fields:
    rest = {name: value for name, value in message.items() if name not in ("kind", "parts")}
    said = {"request": "user", "response": "assistant"}.get(str(message.get("kind")))
    role = {} if said is None else {"role": said}
    return {**role, **rest, "content": [_named_part(part) for part in listed(message["parts"])]}


def _named_part(part: object) -> object:
    """Return a part with its type among its fields. A retry that names no tool is text, else the result of a call."""
    if not isinstance(part, Mapping) or "part_kind" not in part:
        return part
    kind, content = str(part["part_kind"]), part.get("content")
    if kind in ("text", "user-prompt", "system-prompt") or (kind == "retry-prompt" and part.get("tool_name") is None):
        return {
            "type": "text",
            "text": "\n".join(map(_text_of_piece, content if isinstance(content, list) else [content])),
        }
    if kind == "thinking":
        return {"type": "thinking", "thinking": content}
    call = part.get("tool_call_id")
    if kind == "tool-call":
        return {"type": "tool_call", "id": call, "name": part.get("tool_name"), "input": part.get("args") or {}}
    if kind in ("tool-return", "retry-prompt"):
        failed = kind == "retry-prompt" or part.get("outcome", "success") != "success"
        name = part.get("tool_name")
        return {"type": "tool_result", "tool_call_id": call, "name": name, "content": content, "is_error": failed}
    return {"type": kind, **{name: value for name, value in part.items() if name != "part_kind"}}


def _text_of_piece(piece: object) -> str:
    """Return a piece of a user's message as text: an image or a file as its type in brackets."""
    if isinstance(piece, Mapping):
        return str(piece.get("content") or f"[{piece.get('media_type') or piece.get('kind')}]")
    return "" if piece is None else str(piece)


def _fields(value: object) -> Fields:
    return value if isinstance(value, Mapping) else {}


def _text_of_bytes(data: object) -> object:
    if not isinstance(data, bytes):
        return data
    import base64  # few sessions need it, and no resume

    return base64.b64encode(data).decode()


_CONVERSE: Final[Mapping[str, Callable[[Any], object]]] = {
    "text": lambda text: {"type": "text", "text": text},
    "toolUse": _converse_call,
    "toolResult": _converse_result,
    "reasoningContent": _converse_thinking,
    "image": _converse_image,
    "document": lambda document: _converse_media("document", document),
    "video": lambda video: _converse_media("video", video),
    "audio": lambda audio: _converse_media("audio", audio),
    "citationsContent": _converse_cited,
    "guardContent": _converse_guarded,
    "cachePoint": lambda _: None,
}
"""Functions that convert blocks of the Converse API, by the only field of the block."""
_GEMINI: Final[Mapping[str, Callable[[Any], object]]] = {
    "functionCall": _gemini_call,
    "functionResponse": _gemini_result,
    "inlineData": lambda data: _gemini_media(data, {"data": _text_of_bytes(data.get("data"))}),
    "fileData": lambda file: _gemini_media(file, {"url": file.get("fileUri")}),
    "executableCode": lambda code: {"type": "executable_code", **code},
    "codeExecutionResult": lambda result: {"type": "code_execution_result", **result},
}
"""Functions that convert parts of the Gemini API, by the field that gives their type; text may also be thinking."""


def _to_converse(call: str, _name: str, text: str, *, failed: bool) -> dict[str, Any]:
    status = "error" if failed else "success"
    return {"toolResult": {"toolUseId": call, "status": status, "content": [{"text": text}]}}


def _to_gemini(call: str, name: str, text: str, *, failed: bool) -> dict[str, Any]:
    identity = {"id": call} if call != name else {}  # the API has calls without an id
    return {"functionResponse": {**identity, "name": name, "response": {"error" if failed else "output": text}}}


def _to_pydantic_ai(call: str, name: str, text: str, *, failed: bool) -> dict[str, Any]:
    part = {"part_kind": "tool-return", "tool_name": name, "tool_call_id": call, "content": text}
    return part | ({"outcome": "failed"} if failed else {})


RESULT_PARTS: Final[Mapping[str, ResultPart]] = {
    CONVERSE: _to_converse,
    GEMINI: _to_gemini,
    PYDANTIC_AI: _to_pydantic_ai,
}
"""Functions that make the part of a message that answers a call, by its shape."""
_WITHOUT_TYPES: Final[Mapping[str, Callable[[Fields], Fields]]] = {
    CONVERSE: _from_converse,
    GEMINI: _from_gemini,
    PYDANTIC_AI: _from_pydantic_ai,
}


def listed(value: object) -> list[object]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []
