"""The messages that pi sends to a model: `pi` for version 0.73, `pi-1.5` for version 1.5.

| kind of node     | `pi`                                         | `pi-1.5`                                         |
|------------------|----------------------------------------------|--------------------------------------------------|
| `message`        | unchanged                                    | unchanged; a content of null becomes empty       |
| `custom_message` | role `custom`                                | likewise; no content becomes `[]`                |
| `branch_summary` | role `branchSummary`; none if it is empty    | likewise                                         |
| `compaction`     | role `compactionSummary`, then kept messages | before it, the system message that it contains;  |
|                  |                                              | system messages are not kept                     |
| `context_edit`   | nothing                                      | hides its target, or shows it with another       |
|                  |                                              | content, while both are shown                    |

Settings: the last change of the thinking level; the last of a change of model and a message of an assistant. (Read from
the programs' answers and their published packages.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from treering.checkpoint.context import Context, Item
from treering.checkpoint.policies import Walk
from treering.checkpoint.policy import Recorded, Seen, register_policy, register_view
from treering.format.record import Skeleton, read_brief
from treering.format.values import fields_of

SYSTEM: Final = "pi.system@1"
CHECKPOINT: Final = "pi.checkpoint@1"
COMPACTION: Final = "pi.compaction@1"
FILLED: Final = "pi.filled@1"
FILLED_SYSTEM: Final = f"{FILLED}:system"
EDITED: Final = "pi.edited@1"

_SHOWN: Final = {"message": "", "branch_summary": "pi.branch_summary@1", "custom_message": "pi.custom_message@1"}
_MODEL: Final = {"provider": "provider", "model": "model"}


class Pi(Walk):
    """pi up to version 0.73."""

    name = "pi"
    summary = COMPACTION
    front = frozenset({COMPACTION})
    shown = _SHOWN
    changes = {"thinking_change": {"thinking": "thinking"}, "model_change": _MODEL}  # noqa: RUF012

    def settle(self, settings: dict[str, object], skeleton: Skeleton) -> dict[str, object]:
        """Return the settings after a node; an assistant's message also counts as a change of model."""
        if skeleton.kind != "message" or skeleton.role != "assistant":
            return super().settle(settings, skeleton)
        brief = read_brief(skeleton)
        return settings | {name: brief[name] for name in _MODEL if name in brief}

    def state(self, settings: Mapping[str, object]) -> dict[str, object]:
        """Return `thinkingLevel` and `model`, an object with `provider` and `modelId`, or None."""
        known = "model" in settings or "provider" in settings
        model = {"provider": settings.get("provider"), "modelId": settings.get("model")} if known else None
        return {"thinkingLevel": settings.get("thinking", "off"), "model": model}


class Pi15(Pi):
    """pi from version 1.0 on."""

    name = "pi-1.5"
    shown = _SHOWN | {"custom_message": "pi.custom_message@2"}
    front = frozenset({CHECKPOINT, COMPACTION})
    own = frozenset({"", SYSTEM})

    def extend(self, context: Context, skeleton: Skeleton) -> Context | None:
        """Return `build` of the longer path; None after an edit, or a compaction of edited messages."""
        compacts = skeleton.kind == "compaction"
        edited = any(item.view.startswith(EDITED) for item in context.items) if compacts else False
        if skeleton.kind == "context_edit" or edited:
            return None
        extended = super().extend(context, skeleton)
        if extended is None or not compacts:
            return extended
        return extended.with_items([item for item in extended.items if item.view not in (SYSTEM, FILLED_SYSTEM)])

    def compacted(self, skeleton: Skeleton) -> tuple[Item, ...]:
        """Return the summary, and before it the current system message, if the compaction contains it."""
        summary = super().compacted(skeleton)
        return (Item(skeleton.id, CHECKPOINT), *summary) if read_brief(skeleton).get("system") else summary

    def kept(self, path: Sequence[Skeleton], latest: int, recorded: Recorded | None) -> Sequence[Skeleton]:
        """Return the kept nodes, without system messages: the current one comes before the summary.

        Edits of the compaction itself are left out, too: they stand before their target.
        """
        return [row for row in super().kept(path, latest, recorded) if not _is_gone(row, path[latest])]

    def items(self, skeleton: Skeleton) -> tuple[Item, ...]:
        """Return the items of a node."""
        items = super().items(skeleton)
        if skeleton.kind != "message" or not items:
            return items
        system = skeleton.role == "system"
        if read_brief(skeleton).get("blank"):
            return (Item(skeleton.id, FILLED_SYSTEM if system else FILLED),)
        return (Item(skeleton.id, SYSTEM),) if system else items

    def edited(self, items: tuple[Item, ...], shown: Sequence[Skeleton]) -> tuple[Item, ...]:
        """Return the items after all shown context edits; if two edits have one target, the last counts.

        An edit before its target, which pi never writes, is ignored: it would change a later message.
        """
        if all(row.kind != "context_edit" for row in shown):
            return items
        places = {row.id: place for place, row in enumerate(shown)}
        edits: dict[object, tuple[str, dict[str, object]]] = {}
        for place, row in enumerate(shown):
            brief = read_brief(row) if row.kind == "context_edit" else {}
            if brief and places.get(str(brief.get("target")), -1) < place:
                edits[brief.get("target")] = row.id, brief
        return tuple(new for item in items for new in _edited(item, *edits.get(item.node, ("", {}))))


def _is_gone(row: Skeleton, compaction: Skeleton) -> bool:
    if row.kind == "context_edit":
        return read_brief(row).get("target") == compaction.id
    return row.kind == "message" and row.role == "system"


def _edited(item: Item, edit: str, brief: dict[str, object]) -> tuple[Item, ...]:
    if brief.get("edit") == "retract":
        return ()
    return (Item(edit, f"{EDITED}:{item.node}"),) if brief.get("edit") == "amend" else (item,)


def _present(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _time(payload: object, seen: Seen) -> object:
    """Return the time of an entry in milliseconds; None if the importer marked the payload as one without a time."""
    return fields_of(payload).get("timestamp", seen.time_ms)


def _compaction(payload: object, seen: Seen) -> object:
    fields = fields_of(payload)
    tokens = fields.get("tokensBefore", seen.brief.get("tokens_before"))  # in the payload if it is no number
    return {
        "role": "compactionSummary",
        **_present(summary=fields.get("summary"), tokensBefore=tokens),
        "timestamp": _time(payload, seen),
    }


def _checkpoint(payload: object, _seen: Seen) -> object:
    return fields_of(payload).get("systemMessage")


def _branch_summary(payload: object, seen: Seen) -> object:
    fields = fields_of(payload)
    return {
        "role": "branchSummary",
        **_present(summary=fields.get("summary"), fromId=fields.get("fromId", seen.links.get("source", "root"))),
        "timestamp": _time(payload, seen),
    }


def custom_message(payload: object, seen: Seen) -> dict[str, object]:
    """Return the message that pi makes of an extension's entry; missing fields are left out."""
    fields = fields_of(payload)
    names = {"custom_type": "customType", "content": "content", "display": "display", "details": "details"}
    named = {new: fields[old] for old, new in names.items() if old in fields}
    return {"role": "custom", **named, "timestamp": _time(payload, seen)}


def _custom_message_2(payload: object, seen: Seen) -> object:
    message = custom_message(payload, seen)
    return message if message.get("content") is not None else message | {"content": []}


def _filled(payload: object, _seen: Seen) -> object:
    message = fields_of(payload)
    return message | {"content": "" if message.get("role") == "system" else []}


def _edited_message(payload: object, _seen: Seen) -> object:
    """Show the target of an edit with the content of the edit; the importer stored that message in the payload."""
    fields = fields_of(payload)
    message, replacement = fields_of(fields.get("message")), fields_of(fields.get("replacement"))
    if "content" not in replacement:
        return {name: value for name, value in message.items() if name != "content"}
    content = replacement["content"]
    if isinstance(content, str) and message.get("role") in ("assistant", "toolResult"):
        content = [{"type": "text", "text": content}]
    return message | {"content": content}


def _as_it_is(payload: object, _seen: Seen) -> object:
    return payload


for _policy in (Pi(), Pi15()):
    register_policy(_policy)
for _name, _view in {
    SYSTEM: _as_it_is,
    CHECKPOINT: _checkpoint,
    COMPACTION: _compaction,
    FILLED: _filled,
    EDITED: _edited_message,
    "pi.branch_summary@1": _branch_summary,
    "pi.custom_message@1": custom_message,
    "pi.custom_message@2": _custom_message_2,
}.items():
    register_view(_name, _view)
