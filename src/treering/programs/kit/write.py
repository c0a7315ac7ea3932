"""Sessions as files of kit; `treering.programs.common.composition` makes the file.

A compaction names no parent, like kit's own compactions: kept entries are found by the order of the file, which is that
of the journal. Kinds that kit does not have become `extension_data` entries, which keep their place in the chain and
are not sent to a model. A message of an extension becomes a message of the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from treering.api.view import View
from treering.format.values import Fields, fields_of
from treering.programs.common.composition import compose_lines
from treering.programs.common.rfc3339 import write_time
from treering.programs.common.target import Composed, LeftOut
from treering.programs.common.writing import json_text
from treering.programs.kit.policy import parts_of, role_in_kit, sent
from treering.programs.kit.read import NAME, VERSION, are_readable
from treering.store.info import SessionInfo
from treering.transcript.node import MESSAGES, Draft

_SAID: Final = frozenset({"label", "title", "extension"})
"""Notes that kit's format can hold."""
_SENT: Final = {"image": {"user"}, "tool_call": {"assistant"}, "tool_result": {"tool"}}
"""By type of part: the roles in whose messages kit sends it."""
_OF_THE_PARENT: Final = frozenset({"parent_session", "subagent_task"})
"""Fields of a header about the parent of the forked session, which a fork does not keep."""
_NOT_SENT: Final = "the program does not send such parts in messages of that role"


def compose(view: View) -> Composed:
    """Make a session file of kit."""
    return compose_lines(view, _Kit())


class _Kit:
    """The exporter of kit; see `LineExporter`."""

    FORMAT = NAME
    VERSION = VERSION
    SENDS_EMPTY = False
    HOLDS = frozenset({"image"})
    HOLDS_IN_RESULTS: frozenset[str] = frozenset()
    TITLED = False

    def __init__(self) -> None:
        self._unsent: set[tuple[str | None, str]] = set()

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return a header; the header of a fork or a subagent names its parent, as in kit."""
        made: Fields = {"type": "session", "version": VERSION, "id": info.id, "timestamp": write_time(info.created_ms)}
        made["cwd"] = info.cwd
        linked = {"parent_session_id": info.parent_session, "subagent_task": info.task}
        left = {name: value for name, value in (old or {}).items() if name not in _OF_THE_PARENT}
        return left | made | {name: value for name, value in linked.items() if value}

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return the draft that kit's importer would have made of a record."""
        if draft.type == "note" and draft.kind not in _SAID:
            return None
        if draft.kind in MESSAGES:
            self._unsent |= {(draft.id, part) for part in _unsent(fields_of(draft.payload))}
        adapt = _ADAPTED.get(draft.kind, _as_data)
        return msgspec.structs.replace(draft, **{"source": None, **adapt(draft, settings)})

    def apart(self, message: Fields) -> list[Fields]:
        """Return the message itself: kit's messages may have all kinds of parts."""
        return [message]

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return an entry that repeats an existing label, or removes a label that does not exist."""
        brief: dict[str, object] = {"label": label}
        source: dict[str, object] | None = None if label else {"label": ""}
        return Draft(type="note", kind="label", id=identifier, target=node, brief=brief, time_ms=time_ms, source=source)

    def retract(self, draft: Draft) -> Draft | None:  # noqa: ARG002
        """Return None: kit cannot hide a message."""
        return None

    def not_sent(self) -> list[LeftOut]:
        """Return the parts that kit does not send in messages of their role."""
        found = Counter(part for _, part in self._unsent)
        return [LeftOut(part, count, _NOT_SENT, seen=True) for part, count in found.items()]


def _unsent(payload: Fields) -> set[str]:
    """Return the kinds of parts that kit leaves out when it sends a message; empty if it does not send the message."""
    role, parts = role_in_kit(payload), parts_of(payload)
    found = {part["type"] for part in parts if part.get("type") in _SENT}
    return found - {part for part in found if role in _SENT[part]} if sent(role, parts) else set()


def _message(draft: Draft, settings: Mapping[str, object]) -> Fields:
    payload = fields_of(draft.payload)
    role, parts = role_in_kit(payload), parts_of(payload)
    if (draft.brief or {}).get("context") is False or not sent(role, parts) or not are_readable(parts):
        return _as_data(draft, settings)
    model = {name: settings[name] for name in ("model", "provider") if settings.get(name) and role == "assistant"}
    kept = {name: payload[name] for name in ("model", "provider") if "parts" in payload and name in payload}
    return {"kind": "message", "role": role, "payload": {"role": role, "parts": parts, **model, **kept}}


def _compaction(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    payload, brief = fields_of(draft.payload), draft.brief or {}
    numbers = {"tokens_after": brief.get("tokens_after", payload.get("tokens_after", 0)), "messages_removed": 0}
    named = {name: payload[name] for name in ("messages_removed", "read_files", "modified_files") if name in payload}
    kept = brief.get("kept")
    parent = draft.parent if isinstance(draft.parent, str) else ""
    return {
        "payload": {"summary": str(payload.get("summary", "")), **numbers, **named},
        "brief": {"tokens_before": brief.get("tokens_before", 0)} | ({"kept": kept} if kept else {}),
        "links": {"logical_parent": parent},
        "source": None if kept else {"first_kept_entry_id": ""},
    }


def _branch_summary(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    source = (draft.links or {}).get("source", "root")
    return {"payload": {"from_id": source, "summary": str(fields_of(draft.payload).get("summary", ""))}}


def _model_change(draft: Draft, settings: Mapping[str, object]) -> Fields:
    brief = draft.brief or {}
    if "models" in brief and "model" not in brief:  # a model for another role, while no default model is known
        return _as_data(draft, settings)
    return {"brief": {name: brief.get(name, settings.get(name)) or "" for name in ("provider", "model")}}


def _as_data(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    data = {name: value for name, value in (("brief", draft.brief), ("payload", draft.payload)) if value is not None}
    named = {"custom_type": f"treering.{draft.kind}"}
    return {"kind": "custom", "payload": named | {"data": json_text(data)}, "brief": named}


def _as_it_is(_draft: Draft, _settings: Mapping[str, object]) -> Fields:
    return {}


_ADAPTED: Final = {
    "message": _message,
    "custom_message": _message,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "model_change": _model_change,
    "label": _as_it_is,
    "title": _as_it_is,
}
