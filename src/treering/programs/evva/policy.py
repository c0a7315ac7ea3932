"""The messages that evva sends to a model.

A session of evva is a list of messages, so a context has all messages of the path, in evva's format with all its
fields. Kinds that evva does not have are messages of the user: summaries, as in evva's own compaction, and messages of
extensions. A compaction replaces all messages before it except the kept ones.

Keys match in any case, as in Go, and null leaves a field empty. So evva may read parts of another program's message; a
message whose `content` is no text is translated first. (Read from the program's answers and its published source.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Seen, register_policy, register_view
from treering.format.values import Fields, fields_of
from treering.messages import common, shape_of
from treering.programs.common.blocks import Block, blocks_of, role_of, said, text_of

MESSAGE: Final = "evva.message@1"
SUMMARY: Final = "evva.summary@1"
BRANCH_SUMMARY: Final = "evva.branch_summary@1"
"""As `SUMMARY`, of another branch: a compaction keeps it."""
_EMPTY: Final[Fields] = {
    "Role": "",
    "Content": "",
    "Thinking": "",
    "ThinkingSignature": "",
    "ToolCalls": None,
    "ToolResults": None,
}
"""An empty message, with its fields in evva's order."""
_EMPTY_CALL: Final[Fields] = {"ID": "", "Name": "", "Input": None}
_EMPTY_RESULT: Final[Fields] = {"ID": "", "Content": "", "IsError": False, "ContentBlocks": None}
_EMPTY_BLOCK: Final[Fields] = {"Type": "", "Text": "", "Image": None}
_EMPTY_IMAGE: Final[Fields] = {"MIMEType": "", "Base64Data": "", "OriginalSize": 0}


class Evva(Walk):
    """evva, version 1 of its files."""

    name = "evva"
    summary = SUMMARY
    front = frozenset({SUMMARY})
    own = frozenset({MESSAGE})
    shown = {"message": MESSAGE, "custom_message": MESSAGE, "branch_summary": BRANCH_SUMMARY}  # noqa: RUF012
    changes = {"model_change": {"model": "model", "provider": "provider"}}  # noqa: RUF012

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return `provider` and `model`, empty if unknown."""
        return {"provider": settings.get("provider") or "", "model": settings.get("model") or ""}


def named(fields: Mapping[str, Any], empty: Fields) -> Fields:
    """Return the fields of a Go struct from a JSON object, whose keys match in any case.

    If two keys match one field, the later one counts; null changes only fields that may be null (`encoding/json`,
    `Unmarshal`).
    """
    names = {name.lower(): name for name in empty}
    found = dict(empty)
    for key, value in fields.items():
        name = names.get(key.lower())
        if name is not None and (value is not None or empty[name] is None):
            found[name] = value
    return found


def message_of(payload: object) -> Fields:
    """Return a message in evva's format, with exactly its fields."""
    fields = fields_of(payload)
    message = named(fields, _EMPTY)
    if _is_foreign(fields, message):
        return _made(fields)
    for name, read in (("ToolCalls", _read_call), ("ToolResults", _read_result)):
        if isinstance(message[name], list):
            message[name] = [None if part is None else read(fields_of(part)) for part in message[name]]
    return message


def _read_call(fields: Fields) -> Fields:
    return named(fields, _EMPTY_CALL)


def _read_result(fields: Fields) -> Fields:
    result = named(fields, _EMPTY_RESULT)
    if isinstance(result["ContentBlocks"], list):
        result["ContentBlocks"] = [_read_block(fields_of(part)) for part in result["ContentBlocks"]]
    return result


def _read_block(fields: Fields) -> Fields:
    block = named(fields, _EMPTY_BLOCK)
    return block | ({"Image": named(block["Image"], _EMPTY_IMAGE)} if isinstance(block["Image"], dict) else {})


def _is_foreign(fields: Fields, message: Fields) -> bool:
    """Tell whether a message has another program's format: it has parts, or fields of APIs for calls."""
    named_so = fields.keys().isdisjoint(("tool_calls", "tool_call_id", "toolCallId", "function_call"))
    if not isinstance(message["Content"], str) or not named_so:
        return True
    return shape_of(fields) != "evva" and common(fields) is not fields


def _made(fields: Fields) -> Fields:
    blocks = blocks_of(fields)
    thoughts = [block for block in blocks if block.kind == "thinking"]
    return {
        "Role": role_of(fields, blocks),
        "Content": said(blocks),
        "Thinking": "\n".join(block.text for block in thoughts),
        "ThinkingSignature": next((block.signature for block in thoughts), ""),
        "ToolCalls": [_call(block) for block in blocks if block.kind == "call"] or None,
        "ToolResults": [_result(block) for block in blocks if block.kind == "result"] or None,
    }


def _call(block: Block) -> Fields:
    return {"ID": block.id, "Name": block.name, "Input": block.arguments}


def _result(block: Block) -> Fields:
    return {"ID": block.id, "Content": block.text, "IsError": block.failed, "ContentBlocks": None}


def _message(payload: object, _seen: Seen) -> object:
    return message_of(payload)


def _summary(payload: object, _seen: Seen) -> object:
    return {**_EMPTY, "Role": "user", "Content": text_of(fields_of(payload).get("summary"))}


register_policy(Evva())
register_view(MESSAGE, _message)
register_view(SUMMARY, _summary)
register_view(BRANCH_SUMMARY, _summary)
