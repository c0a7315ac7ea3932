"""The messages that Claude Code sends to a model when it resumes a session.

| kind of node     | effect                                                                                            |
|------------------|---------------------------------------------------------------------------------------------------|
| `message`        | the message, text of the program included; none if it only reports an error of the API            |
| `custom_message` | a message of the user: the text of an attachment, or a message of an extension of another program |
| `branch_summary` | a message of the user; none if it is empty                                                        |
| `compaction`     | replaces all before it: by the next message, or, if another program made it, by its own summary   |

A boundary of Claude Code may name a row of messages to keep, and the message after which they are sent, mostly the
summary. A compaction of another program keeps its messages after its own summary. Setting: the model of the last
answer. Claude Code joins consecutive messages of one role, and adds parts that it builds for each request: the system
prompt, and some reminders. (Seen in the requests of Claude Code 2.1.330.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from treering.checkpoint.context import Context
from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Recorded, Seen, Sent, register_policy, register_view
from treering.format.record import Skeleton, read_brief
from treering.format.values import Fields, fields_of
from treering.messages import MEDIA, common
from treering.programs.claude.kept import kept_by
from treering.programs.claude.sent import sent
from treering.programs.common.blocks import FILE, IMAGE_URL, LOST, Block, blocks_of, role_of, text_of

MESSAGE: Final = "claude.message@1"
SUMMARY: Final = "claude.summary@1"
BRANCH_SUMMARY: Final = "claude.branch_summary@1"
CUSTOM: Final = "claude.custom_message@1"

_OF_OTHERS: Final = frozenset(
    {
        "toolCall", "tool_call", "function_call", "function", "toolResult", "function_call_output", "input_text",
        "output_text", "reasoning", "refusal",
    }
    | MEDIA - {"image", "document"}
)  # fmt: skip
"""Types of blocks that only other APIs and programs have."""
_NEEDED: Final[Mapping[str, type]] = {"tool_use": dict, "image": dict, "document": dict, "tool_result": str}
_FIELDS: Final = {"tool_use": "input", "image": "source", "document": "source", "tool_result": "tool_use_id"}
"""By type of block: a field that it has in Anthropic's API only."""
_REFUSED: Final = re.compile(r"[^A-Za-z0-9_-]")  # in the ids of calls


class Claude(Walk):
    """Claude Code 2."""

    name = "claude"
    summary = SUMMARY
    front = frozenset({SUMMARY})
    own = frozenset({MESSAGE})
    shown = {  # noqa: RUF012
        "message": MESSAGE,
        "branch_summary": BRANCH_SUMMARY,
        "custom_message": CUSTOM,
    }

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:
        """Return the context at the end of `path`, with kept messages after the message that the boundary names."""
        latest = next((at for at in reversed(range(len(path))) if path[at].kind == "compaction"), -1)
        brief = read_brief(path[latest]) if latest >= 0 else {}
        if not brief.get("boundary"):
            return super().build(path, recorded)
        after = path[latest + 1 :]
        kept = kept_by(brief, path[:latest], after, recorded)
        at = next((place + 1 for place, row in enumerate(after) if row.id == brief.get("kept_after")), 0)
        shown = [*after[:at], *kept, *after[at:]]
        return Context(tuple(item for row in shown for item in self.items(row)), self.settings(path))

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path; None after a boundary that keeps messages, which need the whole path."""
        brief = read_brief(skeleton) if skeleton.kind == "compaction" else {}
        if brief.get("boundary"):
            return None if "kept" in brief else Context((), self.settle(context.settings, skeleton))
        return super().extend(context, skeleton)

    def sent(self, messages: Sequence[object], *, keep_open: bool = False) -> list[Sent]:
        """Return the messages of a context that Claude Code sends, in its order."""
        return sent(messages, keep_open=keep_open)

    def settle(self, settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
        """Return the settings after a node: an answer names its model, and so does a change in another program."""
        if skeleton.kind != "model_change" and (skeleton.kind != "message" or skeleton.role != "assistant"):
            return settings
        model = read_brief(skeleton).get("model")
        return settings if model is None or model == settings.get("model") else settings | {"model": model}


def in_claude(message: Fields) -> Fields:
    """Return a message in the format of Anthropic's API; a message in that format is not changed."""
    if _is_claude(message):
        return message
    blocks = blocks_of(message)
    role = "assistant" if role_of(message, blocks) == "assistant" else "user"
    content = [part for block in blocks if (part := _part(block, role)) is not None]
    texts = [part["text"] for part in content if part["type"] == "text"]
    plain = role == "user" and len(content) == len(texts) == 1
    return {"role": role, "content": texts[0] if plain else content}


def _is_claude(message: Fields) -> bool:
    content = message.get("content")
    foreign = not {"tool_calls", "tool_call_id", "parts", "contents", "function_call"}.isdisjoint(message)
    foreign = foreign or common(message) is not message
    if message.get("role") not in ("user", "assistant", None) or foreign:
        return False
    return isinstance(content, str) or (isinstance(content, list) and all(map(_is_block, content)))


def _is_block(part: object) -> bool:
    """Tell whether an object is a block of Anthropic's API, of known or unknown type."""
    fields = fields_of(part)
    kind = fields.get("type")
    if not isinstance(kind, str) or kind in _OF_OTHERS or "thinkingSignature" in fields:
        return False
    return kind not in _NEEDED or isinstance(fields.get(_FIELDS[kind]), _NEEDED[kind])


def _part(block: Block, role: str) -> Fields | None:
    """Return a block in a form that the API accepts; None if there is no such form."""
    if block.kind == "thinking":
        if not block.signature or role != "assistant":
            return None  # the API refuses thinking without its own signature
        return {"type": "thinking", "thinking": block.text, "signature": block.signature}
    if block.kind == "call" and role == "assistant":
        return {"type": "tool_use", "id": _call_id(block.id), "name": block.name, "input": _input(block.arguments)}
    if block.kind == "call":
        return {"type": "text", "text": f"{block.name} {text_of(block.arguments)}"}
    if block.kind == "result":
        failed = {"is_error": True} if block.failed else {}
        shown: object = block.text
        if any(inner.kind in LOST and _is_held(inner) for inner in block.inner) and not block.failed:
            shown = [part for inner in block.inner if (part := _part(inner, "user")) is not None]
        return {"type": "tool_result", "tool_use_id": _call_id(block.id), "content": shown, **failed}
    if block.kind == "image":
        source = {"type": "base64", "media_type": block.name or "image/png", "data": block.text}
        return {"type": "image", "source": source}
    if block.kind == IMAGE_URL and _is_held(block):
        return {"type": "image", "source": {"type": "url", "url": block.url}}
    if block.kind == FILE and _is_held(block):
        data = block.url.partition(";base64,")[2]
        return {"type": "document", "source": {"type": "base64", "media_type": block.name, "data": data}}
    return {"type": "text", "text": block.text} if block.text else None


def _is_held(block: Block) -> bool:
    """Tell whether the API takes an image or file as it is."""
    if block.kind == FILE:
        return block.name == "application/pdf" and block.url.startswith("data:")
    return block.kind == "image" or (block.kind == IMAGE_URL and block.url.startswith("https://"))


def lost_in(message: Fields) -> list[str]:
    """Return the kinds in `LOST` of the parts of a message that the API does not take; a text is in their place."""
    if _is_claude(message):
        return []
    blocks = blocks_of(message)
    inner = [part for block in blocks for part in block.inner if block.failed or not _is_held(part)]
    return [part.kind for part in [*inner, *(block for block in blocks if not _is_held(block))] if part.kind in LOST]


def _call_id(name: str) -> str:
    return _REFUSED.sub("_", name) or "call"


def _input(arguments: object) -> Fields:
    """Return the arguments of a call as an object; some APIs have them as JSON text."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except ValueError:
            return {"text": arguments}
    return arguments if isinstance(arguments, dict) else {"value": arguments}


def _message(payload: object, seen: Seen) -> object:
    if not isinstance(payload, dict):
        return {"role": "user", "content": text_of(payload)}
    return in_claude(payload | {"role": seen.brief["as"]} if "as" in seen.brief else payload)


def _custom_message(payload: object, _seen: Seen) -> object:
    return in_claude({"role": "user", "content": fields_of(payload).get("content")})


def _told(opening: str, payload: object) -> object:
    return {"role": "user", "content": f"{opening}\n\n{text_of(fields_of(payload).get('summary'))}"}


def _summary(payload: object, _seen: Seen) -> object:
    return _told("This session goes on from a conversation whose context was full. Its summary:", payload)


def _branch_summary(payload: object, _seen: Seen) -> object:
    return _told("The conversation went back to an earlier point. Summary of what was left behind:", payload)


register_policy(Claude())
register_view(MESSAGE, _message)
register_view(CUSTOM, _custom_message)
register_view(SUMMARY, _summary)
register_view(BRANCH_SUMMARY, _branch_summary)
