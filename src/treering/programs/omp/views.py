"""The views of oh-my-pi. A view is stored by its name, so its result never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from treering.checkpoint.policy import Seen, register_view
from treering.format.values import fields_of

COMPACTION: Final = "omp.compaction@1"
CUSTOM_MESSAGE: Final = "omp.custom_message@1"
STRIPPED: Final = "omp.stripped@1"
"""A message without some of its tool calls; the argument has their numbers, from 0."""
ROW: Final = "omp.row@1"
"""The same for a person, with the number of removed calls."""
NATIVE: Final = "omp.native@1"
"""A summary that a provider wrote; the argument has its time, in milliseconds, if the compaction has another time."""
NOTES: Final = "omp.notes@1"
REHYDRATED: Final = "omp.rehydrated@1"
"""A message without the parts that its provider accepts only during one connection."""
DIVIDER: Final = "omp.divider@1"
SUPERSEDED: Final = "omp.superseded@1"

_SUPERSEDED_SUMMARY: Final = "[Superseded compaction summary elided after a newer compaction]"
_SUPERSEDED_SHORT: Final = "Superseded compaction elided"
_DEFAULT_CUSTOM_TYPE: Final = "custom-message"
_REPLAY: Final = "openaiRemoteCompaction"
NATIVE_PAYLOAD: Final = "anthropicCompaction"
_RULE: Final = "--------------"
NOTEBOOK: Final = "experimental_context_notes"
"""The type of the entries of an extension that hold the model's own notebook."""
_ARCHIVE: Final = "snapcompact"


def _compaction(payload: object, seen: Seen) -> object:
    """Show the summary, with the replay of the provider, and the pictures to which older history was rendered."""
    fields = fields_of(payload)
    return _summary(fields, seen, fields, replay=replay_of(fields_of(fields.get("preserveData"))))


def _native(payload: object, seen: Seen) -> object:
    """Show a summary that a provider wrote, with the data that the provider needs to continue from it."""
    fields = fields_of(payload)
    preserved = fields_of(fields.get("preserveData"))
    message = _summary(fields, seen, fields, replay=replay_of(preserved) or native_of(preserved))
    return message | ({"timestamp": int(seen.argument)} if seen.argument else {})


def native_of(kept: Mapping[str, object]) -> dict[str, object] | None:
    """Return Anthropic's own summary from the data of a compaction; None if there is none."""
    native = fields_of(kept.get(NATIVE_PAYLOAD))
    found = {name: native.get(name) for name in ("provider", "content", "encryptedContent", "filesText")}
    texts = {name: text for name, text in found.items() if isinstance(text, str) and text}
    return {"type": NATIVE_PAYLOAD, **texts} if {"provider", "content"} <= texts.keys() else None


def _notes(payload: object, seen: Seen) -> object:
    """Show the notebook; oh-my-pi explains it to the model in more detail."""
    text = fields_of(fields_of(payload).get("data")).get("text")
    content = f"The notebook that you keep for this session, which may be out of date:\n{text}"
    time = fields_of(payload).get("timestamp", seen.time_ms)
    return {"role": "custom", "customType": NOTEBOOK, "content": content, "display": False, "timestamp": time}


def _divider(payload: object, seen: Seen) -> object:
    fields = fields_of(payload)
    return _summary(fields, seen, fields)


def _superseded(payload: object, seen: Seen) -> object:
    fields = {name: value for name, value in fields_of(payload).items() if name != "preserveData"}
    return _summary(fields, seen, {"summary": _SUPERSEDED_SUMMARY, "shortSummary": _SUPERSEDED_SHORT})


def _summary(
    fields: Mapping[str, object], seen: Seen, texts: Mapping[str, object], *, replay: object = None
) -> dict[str, object]:
    blocks = _archived(fields_of(fields_of(fields.get("preserveData")).get(_ARCHIVE)))
    images = [block for block in blocks if block["type"] == "image"]
    message = {
        "role": "compactionSummary",
        "summary": texts.get("summary"),
        "shortSummary": texts.get("shortSummary"),
        "tokensBefore": fields.get("tokensBefore", seen.brief.get("tokens_before")),
        "tokensAfter": seen.brief.get("tokens_after"),
        "method": fields.get("method"),
        "providerPayload": replay,
        "blocks": blocks or None,
        "images": images or None,
        "warning": fields.get("warning"),
    }
    present = {name: value for name, value in message.items() if value is not None}
    return {**present, "timestamp": fields.get("timestamp", seen.time_ms)}


def replay_of(kept: Mapping[str, object]) -> dict[str, object] | None:
    """Return the provider's own replay from the data of a compaction; None if there is none."""
    remote = fields_of(kept.get(_REPLAY))
    provider, items = remote.get("provider"), remote.get("replacementHistory")
    if not (isinstance(provider, str) and provider and isinstance(items, list)):
        return None
    if not all(isinstance(item, dict) for item in items):
        return None
    return {"type": "openaiResponsesHistory", "provider": provider, "items": items}


def _archived(archive: Mapping[str, object]) -> list[dict[str, object]]:
    """Return the contents of an archive of pictures: its oldest text, the pictures, its newest text."""
    head, tail = ((text if isinstance(text := archive.get(name), str) else "") for name in ("textHead", "textTail"))
    pictures = [_picture(frame) for frame in listed(archive.get("frames")) if _is_frame(frame)]
    imaged = any(block["type"] == "image" for block in pictures)
    lost = archive.get("truncatedChars")
    if imaged:
        head, tail = head and f"{head}\n{_RULE} imaged middle below\n", tail and f"{_RULE} imaged middle above\n{tail}"
    elif pictures or (isinstance(lost, int | float) and lost > 0):
        tail = tail and f"\n{_RULE} middle history omitted above\n{tail}"
    blocks = [*([_text(head)] if head else []), *pictures]
    if tail and blocks and blocks[-1]["type"] == "text":
        return [*blocks[:-1], _text(f"{blocks[-1]['text']}{tail}")]
    return [*blocks, *([_text(tail)] if tail else [])]


def _is_frame(frame: object) -> bool:
    numbers = ("cols", "rows", "chars")
    fields = fields_of(frame)
    texts = isinstance(fields.get("data"), str) and isinstance(fields.get("mimeType"), str)
    return texts and all(isinstance(fields.get(name), int | float) for name in numbers)


def _picture(frame: Mapping[str, object]) -> dict[str, object]:
    if not frame["data"]:
        return _text("[A picture of older messages was here. Its file is missing.]")
    detail = {"detail": frame["detail"]} if frame.get("detail") else {}
    return {"type": "image", "data": frame["data"], "mimeType": frame["mimeType"], **detail}


def _text(text: object) -> dict[str, object]:
    return {"type": "text", "text": text}


def _custom_message(payload: object, seen: Seen) -> object:
    fields = fields_of(payload)
    name = fields.get("custom_type")
    message = {
        "role": "custom",
        "customType": name if isinstance(name, str) and name else _DEFAULT_CUSTOM_TYPE,
        "content": fields.get("content"),
        "display": fields.get("display") is True,
        "details": fields.get("details"),
    }
    if "attribution" in fields:
        message["attribution"] = "user" if fields["attribution"] == "user" else "agent"
    present = {name: value for name, value in message.items() if value is not None}
    return {**present, "timestamp": fields.get("timestamp", seen.time_ms)}


def is_rehydrated(message: Mapping[str, object]) -> bool:
    """Tell whether a message has a replay that GitHub Copilot refuses after the end of its connection."""
    payload = fields_of(message.get("providerPayload"))
    return message.get("provider") == "github-copilot" and payload.get("type") == "openaiResponsesHistory"


def _rehydrated(payload: object, _seen: Seen) -> object:
    message = fields_of(payload)
    if not is_rehydrated(message):
        return message
    content = [_unsigned(block) for block in listed(message.get("content"))]
    return {name: value for name, value in message.items() if name != "providerPayload"} | {"content": content}


def _unsigned(block: Any) -> Any:
    if not (isinstance(block, dict) and block.get("type") == "thinking"):
        return block
    return {name: value for name, value in block.items() if name != "thinkingSignature"}


def _stripped(payload: object, seen: Seen) -> object:
    """Show a message without some of its tool calls, and without parts that a provider then refuses."""
    message = fields_of(_rehydrated(payload, seen))
    gone = {int(number) for number in seen.argument.split(",")}
    number, content = -1, []
    for block in listed(message.get("content")):
        kind = block.get("type") if isinstance(block, dict) else None
        number += kind == "toolCall"
        if kind == "redactedThinking" or (kind == "toolCall" and number in gone):
            continue
        content.append(_unsigned(block) if kind == "thinking" and block.get("thinkingSignature") else block)
    return message | {"content": content}


def _row(payload: object, seen: Seen) -> object:
    return {**fields_of(_stripped(payload, seen)), "strippedToolCalls": len(seen.argument.split(","))}


def listed(value: object) -> list[Any]:
    """Return a list unchanged, and an empty list for any other value."""
    return value if isinstance(value, list) else []


for _name, _view in {
    COMPACTION: _compaction,
    NATIVE: _native,
    NOTES: _notes,
    REHYDRATED: _rehydrated,
    CUSTOM_MESSAGE: _custom_message,
    STRIPPED: _stripped,
    DIVIDER: _divider,
    SUPERSEDED: _superseded,
    ROW: _row,
}.items():
    register_view(_name, _view)
