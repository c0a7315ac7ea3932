"""Messages of the programs whose sessions are imported, put into the shape that common APIs have.

That shape is a `role`, and a `content` that is text or a list of typed blocks. Operator-Use has `contents`, kit has
`parts` with their data one level further down, evva the names of Go's fields. In Amazon Bedrock's Converse API, and so
in Strands, a block has no type: its only field says what it is. Whoever looks into a message asks here first, and then
knows one shape only.

Rule: nothing is left out but marks that say nothing. A block that has no word in the common shape stays as it is.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Fields = Mapping[Any, Any]
"""Those of a JSON object. Foreign, so nothing is known about their types."""

_OPERATOR: Final[Mapping[str, Mapping[str, str]]] = {
    "text": {"content": "text"},
    "thinking": {"content": "thinking"},
    "tool_result": {"id": "tool_call_id"},
}
"""By type of a block: fields that have another name in the common shape."""
_GO: Final = frozenset({"role", "content", "thinking", "thinkingsignature", "toolcalls", "toolresults"})
"""Fields of a message of evva's. Go finds them whatever the case of their letters."""
_GO_ONLY: Final = frozenset({"thinkingsignature", "toolcalls", "toolresults"})
_GO_CALL: Final = {"id": "id", "name": "name", "input": "input"}
_GO_RESULT: Final = {"id": "tool_call_id", "content": "content", "iserror": "is_error"}
_REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>|\A\s*<system-reminder>.*", re.DOTALL)
_MEDIA_TYPES: Final = {"/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}
"""By the first characters of an image in base64."""


def common(message: Fields) -> Fields:
    """Return a message in the common shape; one that has it, or one that nobody knows, stays as it is."""
    return _SHAPES[shape_of(message)](message)


def shape_of(message: Fields) -> str:
    """Return whose shape a message has, of `operator`, `kit`, `evva` and `converse`; empty if it is the common one."""
    if "content" not in message:
        if "contents" in message:
            return "operator"
        if "parts" in message:
            return "kit"
    if any(map(_is_of_converse, _listed(message.get("content")))):
        return "converse"
    names = [name for name in message if isinstance(name, str)]
    go = {name.lower() for name in names if name != name.lower()} & _GO
    return "evva" if (go & {"content", "role"}) or _GO_ONLY & {name.lower() for name in names} else ""


def without_reminders(text: str) -> str:
    """Return what a user typed of a text, without what a program reminds the model of in the same breath."""
    return _REMINDER.sub("", text) if "<system-reminder>" in text else text


def _as_it_is(message: Fields) -> Fields:
    return message


def _from_operator(message: Fields) -> Fields:
    rest = {name: value for name, value in message.items() if name != "contents"}
    return {**rest, "content": [block for part in _listed(message["contents"]) for block in _operator_blocks(part)]}


def _operator_blocks(part: object) -> Iterator[object]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping):
        yield part
    elif kind == "image":
        yield from map(_image, _listed(part.get("images")))
    else:
        names = _OPERATOR.get(kind, {}) if isinstance(kind, str) else {}
        yield {names.get(name, name): value for name, value in part.items()}


def _image(image: object) -> object:
    """Return an image of Operator's, which is base64, or an address of one."""
    if not isinstance(image, str):
        return {"type": "image", "data": image}
    if image.startswith("data:"):
        kind, _, data = image.removeprefix("data:").partition(";base64,")
        return {"type": "image", "data": data, "mimeType": kind}
    if "://" in image:
        return {"type": "image", "url": image}
    return {"type": "image", "data": image, "mimeType": _MEDIA_TYPES.get(image[:4], "image/png")}


def _from_kit(message: Fields) -> Fields:
    rest = {name: value for name, value in message.items() if name != "parts"}
    return {**rest, "content": [_flat(part) for part in _listed(message["parts"])]}


def _flat(part: object) -> object:
    """Return a part of kit's with its data in it; the mark at the end of a turn says nothing."""
    data = part.get("data") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(data, Mapping):
        return part
    return None if part.get("type") == "finish" else {**data, "type": part.get("type")}


def _from_evva(message: Fields) -> Fields:
    fields = {str(name).lower(): value for name, value in message.items() if value is not None}
    thought = {"thinking": fields.get("thinking") or "", "signature": fields.get("thinkingsignature") or ""}
    blocks: list[object] = [{"type": "thinking", **thought}] if thought["thinking"] else []
    content = fields.get("content", "")
    blocks += content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    blocks += [_go("tool_call", _GO_CALL, part) for part in _listed(fields.get("toolcalls"))]
    blocks += [_go("tool_result", _GO_RESULT, part) for part in _listed(fields.get("toolresults"))]
    return {"role": fields.get("role", ""), "content": blocks}


def _go(kind: str, names: Mapping[str, str], part: object) -> object:
    fields = {str(name).lower(): value for name, value in part.items()} if isinstance(part, Mapping) else {}
    return {"type": kind, **{new: fields[old] for old, new in names.items() if old in fields}}


def _is_of_converse(block: object) -> bool:
    return isinstance(block, Mapping) and len(block) == 1 and not _CONVERSE.keys().isdisjoint(block)


def _from_converse(message: Fields) -> Fields:
    return {**message, "content": [_typed(block) for block in _listed(message["content"])]}


def _typed(block: object) -> object:
    """Return a block with its type beside its fields. What tells where to cache says nothing."""
    if not isinstance(block, Mapping) or not _is_of_converse(block):
        return block
    ((kind, value),) = block.items()
    return _CONVERSE[kind](value) if isinstance(value, Mapping) or kind == "text" else block


def _converse_call(use: Fields) -> object:
    return {"type": "tool_call", **{("id" if name == "toolUseId" else name): value for name, value in use.items()}}


def _converse_result(result: Fields) -> object:
    content = [_typed(block) for block in _listed(result.get("content"))]
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
    """Return what a block shows, with its bytes as base64, or its address."""
    source = media.get("source")
    found = dict(source) if isinstance(source, Mapping) else {}
    place = found.pop("location", None)
    if "bytes" in found:
        found["data"] = _text_of_bytes(found.pop("bytes"))
    if isinstance(place, Mapping):
        found["url"] = place.get("uri")
    return {"type": kind, **{name: value for name, value in media.items() if name != "source"}, **found}


def _converse_cited(cited: Fields) -> object:
    texts = [part.get("text") for part in _listed(cited.get("content")) if isinstance(part, Mapping)]
    rest = {name: value for name, value in cited.items() if name != "content"}
    return {"type": "text", "text": "".join(text for text in texts if isinstance(text, str)), **rest}


def _converse_guarded(guarded: Fields) -> object:
    text, image = guarded.get("text"), guarded.get("image")
    return _converse_image(image) if isinstance(image, Mapping) else {"type": "text", **(_fields(text))}


def _fields(value: object) -> Fields:
    return value if isinstance(value, Mapping) else {}


def _text_of_bytes(data: object) -> object:
    return base64.b64encode(data).decode() if isinstance(data, bytes) else data


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
"""Blocks of the Converse API by their only field, and how they are read."""


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


_SHAPES: Final[Mapping[str, Callable[[Fields], Fields]]] = {
    "": _as_it_is,
    "operator": _from_operator,
    "kit": _from_kit,
    "evva": _from_evva,
    "converse": _from_converse,
}
