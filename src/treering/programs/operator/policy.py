"""The messages that Operator-Use sends to a model.

| kind of node     | effect                                                                      |
|------------------|-----------------------------------------------------------------------------|
| `message`        | unchanged; a message of another program is put into Operator's format       |
| `custom_message` | role `custom`; a content that is text becomes one part                      |
| `branch_summary` | role `branch_summary`, also if it is empty                                  |
| `compaction`     | role `compaction_summary`, then the nodes of the path that it keeps         |

Settings: the last change of the thinking level and the last change of model on the whole path. Times are in seconds.
(Read from the program's answers and its published source.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Seen, register_policy, register_view
from treering.errors import CorruptError
from treering.format import values
from treering.format.record import Skeleton
from treering.format.values import Fields, fields_of
from treering.programs.common.blocks import Block, blocks_of, role_of, text_of

MESSAGE: Final = "operator.message@1"
COMPACTION: Final = "operator.compaction@1"
BRANCH_SUMMARY: Final = "operator.branch_summary@1"
CUSTOM_MESSAGE: Final = "operator.custom_message@1"


class Operator(Walk):
    """Operator-Use since May 2026."""

    name = "operator"
    summary = COMPACTION
    front = frozenset({COMPACTION})
    own = frozenset({MESSAGE})
    shown = {  # noqa: RUF012
        "message": MESSAGE,
        "branch_summary": BRANCH_SUMMARY,
        "custom_message": CUSTOM_MESSAGE,
    }
    changes = {  # noqa: RUF012
        "thinking_change": {"thinking": "thinking"},
        "model_change": {"model": "model", "provider": "provider"},
    }

    def hides(self, skeleton: Skeleton) -> bool:
        """Tell whether a node is left out; a branch summary is always shown, even if it is empty."""
        return skeleton.kind != "branch_summary" and super().hides(skeleton)

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return `thinking_level`, `model_id` and `provider_id`."""
        return {
            "thinking_level": settings.get("thinking", "off"),
            "model_id": settings.get("model"),
            "provider_id": settings.get("provider"),
        }


def message_of(payload: object, seen: Seen) -> Fields:
    """Return a message in Operator's format; a message in that format is not changed."""
    message = fields_of(payload)
    if "contents" in message:
        return message
    blocks = blocks_of(message)
    role = role_of(message, blocks)
    made: Fields = {
        "contents": [_content(block) for block in blocks],
        "id": seen.node,
        "timestamp": _time(message, seen),
    }
    made["role"] = role
    return made if role != "assistant" else made | {"usage": _usage(), "stop_reason": "stop", "error": ""}


def _content(block: Block) -> Fields:
    if block.kind == "thinking":
        return {"type": "thinking", "content": block.text, "signature": block.signature}
    if block.kind == "call":
        arguments = _arguments(block.arguments)
        return {"type": "tool_call", "id": block.id, "name": block.name, "args": arguments, "metadata": {}}
    if block.kind == "result":
        failed = {"is_error": block.failed, "metadata": {}, "terminate": False}
        return {"type": "tool_result", "id": block.id, "content": block.text, **failed}
    if block.kind == "image":
        return {"type": "image", "images": [block.text]}
    return {"type": "text", "content": block.text}


def _arguments(value: object) -> Fields:
    """Return the arguments of a call as an object, as in Operator; some APIs have them as JSON text."""
    if isinstance(value, str):
        try:
            value = values.decode(value.encode())
        except (ValueError, CorruptError):
            return {"input": value}
    return value if isinstance(value, dict) else {"input": value}


def _usage() -> Fields:
    counts = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"), 0)
    return {**counts, "cost": dict.fromkeys(("input", "output", "cache_read", "cache_write", "total"), 0.0)}


def _time(payload: Fields, seen: Seen) -> object:
    """Return the time of an entry in seconds; the payload has it if milliseconds are not exact."""
    stamp = payload.get("timestamp")
    return seen.time_ms / 1000 if stamp is None else stamp


def _compaction(payload: object, seen: Seen) -> object:
    fields = fields_of(payload)
    tokens = seen.brief.get("tokens_before", 0)
    summary = {"role": "compaction_summary", "summary": text_of(fields.get("summary")), "tokens_before": tokens}
    return {**summary, "timestamp": _time(fields, seen)}


def _branch_summary(payload: object, seen: Seen) -> object:
    fields = fields_of(payload)
    source = fields.get("from_id", seen.links.get("source", "root"))
    summary = {"role": "branch_summary", "summary": text_of(fields.get("summary")), "from_id": source}
    return {**summary, "timestamp": _time(fields, seen)}


def _custom_message(payload: object, seen: Seen) -> object:
    fields = fields_of(payload)
    content, details = fields.get("content"), fields.get("details")
    contents = content if isinstance(content, list) else [{"type": "text", "content": text_of(content)}]
    message = {"role": "custom", "custom_type": fields.get("custom_type"), "timestamp": _time(fields, seen)}
    return {**message, "contents": contents, **({} if details is None else {"details": details})}


register_policy(Operator())
register_view(MESSAGE, message_of)
register_view(COMPACTION, _compaction)
register_view(BRANCH_SUMMARY, _branch_summary)
register_view(CUSTOM_MESSAGE, _custom_message)
