"""The messages that kit sends to a model.

| kind of node     | effect                                                                                           |
|------------------|--------------------------------------------------------------------------------------------------|
| `message`        | its parts in the order in which kit sends them; nothing if it has none that its role may have    |
| `custom_message` | a message of the user: kit has none, other programs added these                                  |
| `branch_summary` | a message of the user; none if it is empty                                                       |
| `compaction`     | a system message, then all nodes recorded from the first kept one up to itself, on any branch    |

Settings: the last change of model, ignoring changes before the first kept node of the latest compaction. Kept nodes are
found by the order of the file, since a compaction starts a new tree in kit. So messages of other branches that were
recorded in between are kept as well. (Read from the program's answers and its published source.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from treering.checkpoint.context import Context
from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Recorded, Seen, register_policy, register_view
from treering.format.record import Skeleton, read_brief
from treering.format.values import Fields, fields_of
from treering.messages import GEMINI, PYDANTIC_AI, shape_of
from treering.programs.common.blocks import Block, blocks_of, role_of, text_of
from treering.programs.common.writing import json_text

MESSAGE: Final = "kit.message@1"
COMPACTION: Final = "kit.compaction@1"
BRANCH_SUMMARY: Final = "kit.branch_summary@1"

PARTS: Final = frozenset({"text", "reasoning", "tool_call", "tool_result", "image", "finish"})
"""The parts that kit can read; a message with any other part is left out as a whole."""
_REFUSED: Final = re.compile(r"[^A-Za-z0-9_-]")  # in the ids of calls, by one of the providers
_BREAKS: Final = str.maketrans("", "", "\r\n")  # Go ignores them in base64


class Kit(Walk):
    """kit, version 3 of its files."""

    name = "kit"
    summary = COMPACTION
    front = frozenset({COMPACTION})
    own = frozenset({MESSAGE, BRANCH_SUMMARY})
    shown = {  # noqa: RUF012
        "message": MESSAGE,
        "branch_summary": BRANCH_SUMMARY,
        "custom_message": MESSAGE,
    }
    changes = {"model_change": {"model": "model", "provider": "provider"}}  # noqa: RUF012

    def build(self, path: Sequence[Skeleton], recorded: Recorded | None = None) -> Context:
        """Return the context at the end of `path`; settings before the first kept node are dropped."""
        context = super().build(path, recorded)
        latest = next((at for at in reversed(range(len(path))) if path[at].kind == "compaction"), -1)
        if latest < 0:
            return context
        return Context(context.items, self.settings([*self.kept(path, latest, recorded), *path[latest:]]))

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path, or None for a compaction that keeps nodes, perhaps of other branches."""
        if skeleton.kind != "compaction":
            return super().extend(context, skeleton)
        return None if read_brief(skeleton).get("kept") else Context(self.compacted(skeleton), {})

    def kept(self, path: Sequence[Skeleton], latest: int, recorded: Recorded | None) -> Sequence[Skeleton]:
        """Return the nodes recorded from the first kept one to the compaction; without `recorded`, only the path's."""
        first = read_brief(path[latest]).get("kept")
        if recorded is None:
            return super().kept(path, latest, recorded)
        return recorded.between(first, path[latest].id) if isinstance(first, str) else ()

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return `provider` and `model_id`; both are empty without a change of model."""
        return {"provider": settings.get("provider") or "", "model_id": settings.get("model") or ""}


def parts_of(message: Fields) -> list[Fields]:
    """Return the parts of a message in kit's format; a message of another program is translated."""
    if _is_in_kit(message):
        parts = message["parts"]
        return [fields_of(part) for part in parts] if isinstance(parts, list) else []
    return [_part(block) for block in blocks_of(message)]


def role_in_kit(message: Fields) -> str:
    """Return the role of a message in kit's or another format."""
    return text_of(message.get("role")) if _is_in_kit(message) else role_of(message, blocks_of(message))


def _is_in_kit(message: Fields) -> bool:
    return "parts" in message and shape_of(message) not in (GEMINI, PYDANTIC_AI)


def sent(role: str, parts: Iterable[Fields]) -> list[Fields]:
    """Return the parts of a message that kit sends: by kind in a fixed order, all texts joined."""
    data: dict[str, list[Fields]] = {}
    for part in parts:
        data.setdefault(text_of(part.get("type")), []).append(fields_of(part.get("data")))
    if not data.keys() <= PARTS:
        return []
    text = _joined(data.get("text", ()))
    content: list[Fields] = [{"text": text}] if text and role in ("assistant", "user", "system") else []
    if role == "assistant":
        thought = text_of(next(iter(data.get("reasoning", ())), {}).get("thinking"))
        content[:0] = [{"reasoning": thought}] if thought else []
        content += [_call(call) for call in data.get("tool_call", ())]
    elif role == "tool":
        content += [_result(result) for result in data.get("tool_result", ())]
    elif role == "user":
        content += [_file(image) for image in data.get("image", ())]
    return content


def _joined(texts: Iterable[Fields]) -> str:
    """Join texts by line breaks; empty texts at the beginning add no line."""
    whole = ""
    for data in texts:
        whole += "\n" if whole else ""
        whole += text_of(data.get("text"))
    return whole


def _call(data: Fields) -> Fields:
    name, arguments = text_of(data.get("name")), text_of(data.get("input"))
    return {"tool_call_id": _call_id(data.get("id")), "name": name, "input": arguments}


def _result(data: Fields) -> Fields:
    answer = {"tool_result_for": _call_id(data.get("tool_call_id")), "content": text_of(data.get("content"))}
    return {**answer, "is_error": data.get("is_error") is True}


def _file(data: Fields) -> Fields:
    encoded = text_of(data.get("data")).translate(_BREAKS)
    return {"file": encoded, "media_type": text_of(data.get("media_type"))}


def _call_id(value: object) -> str:
    return _REFUSED.sub("_", text_of(value)) or "tool_0"


def _part(block: Block) -> Fields:
    if block.kind == "thinking":
        signed = {"signature": block.signature} if block.signature else {}
        return {"type": "reasoning", "data": {"thinking": block.text, **signed}}
    if block.kind == "call":
        arguments = block.arguments if isinstance(block.arguments, str) else json_text(block.arguments)
        data = {"id": block.id, "name": block.name, "input": arguments, "finished": True}
        return {"type": "tool_call", "data": data}
    if block.kind == "result":
        data = {"tool_call_id": block.id, "name": block.name, "content": block.text, "is_error": block.failed}
        return {"type": "tool_result", "data": data}
    if block.kind == "image":
        return {"type": "image", "data": {"data": block.text, "media_type": block.name}}
    return {"type": "text", "data": {"text": block.text}}


def _message(payload: object, _seen: Seen) -> object:
    message = fields_of(payload)
    role = role_in_kit(message)
    return {"role": role, "content": sent(role, parts_of(message))}


def _compaction(payload: object, _seen: Seen) -> object:
    summary = text_of(fields_of(payload).get("summary"))
    text = f"[Conversation summary \u2014 earlier messages were compacted]\n\n{summary}"
    return {"role": "system", "content": [{"text": text}]}


def _branch_summary(payload: object, _seen: Seen) -> object:
    text = f"[Branch context: {text_of(fields_of(payload).get('summary'))}]"
    return {"role": "user", "content": [{"text": text}]}


register_policy(Kit())
register_view(MESSAGE, _message)
register_view(COMPACTION, _compaction)
register_view(BRANCH_SUMMARY, _branch_summary)
