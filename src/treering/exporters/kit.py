"""Sessions as files of kit: see `treering.exporters.lines` for how a file is made.

A compaction names no parent, as kit's own: what it keeps goes by the order of the file, which is that of the store.
What kit has no word for becomes an `extension_data` entry, which keeps its place in the chain and is not sent to a
model; a message of an extension becomes one of the user, as that is how kit would show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from treering.checkpoint.policies.kit import parts_of, role_in_kit, sent
from treering.exporters.lines import compose_lines
from treering.exporters.target import Composed
from treering.format import values
from treering.importers.entry import Fields
from treering.importers.kit import NAME, VERSION
from treering.importers.rfc3339 import write_time
from treering.session.blocking import View
from treering.session.info import SessionInfo
from treering.transcript.node import Draft

_SAID: Final = frozenset({"label", "title", "extension"})
"""Notes that kit has words for."""


def compose(view: View) -> Composed:
    """Make a file of kit of a session."""
    return compose_lines(view, _Kit())


class _Kit:
    """See `LineExporter`."""

    FORMAT = NAME
    VERSION = VERSION

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return a header; that of a fork or of a subagent names its parent, as kit does."""
        made: Fields = {"type": "session", "version": VERSION, "id": info.id, "timestamp": write_time(info.created_ms)}
        made["cwd"] = info.cwd
        linked = {"parent_session_id": info.parent_session, "subagent_task": info.task}
        return (old or {}) | made | {name: value for name, value in linked.items() if value}

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return a record of ours as kit would have written it."""
        if draft.type == "note" and draft.kind not in _SAID:
            return None
        adapt = _ADAPTED.get(draft.kind, _as_data)
        return msgspec.structs.replace(draft, **{"source": None, **adapt(draft, settings)})

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return a label that is there already, or takes off one that is not."""
        brief: dict[str, object] = {"label": label}
        source: dict[str, object] | None = None if label else {"label": ""}
        return Draft(type="note", kind="label", id=identifier, target=node, brief=brief, time_ms=time_ms, source=source)

    def retract(self, draft: Draft) -> Draft | None:  # noqa: ARG002
        """Return None: kit cannot hide a message."""
        return None


def _payload(draft: Draft) -> Fields:
    return draft.payload if isinstance(draft.payload, dict) else {}


def _message(draft: Draft, settings: Mapping[str, object]) -> Fields:
    payload = _payload(draft)
    role, parts = role_in_kit(payload), parts_of(payload)
    if (draft.brief or {}).get("context") is False or not sent(role, parts):
        return _as_data(draft, settings)
    model = {name: settings[name] for name in ("model", "provider") if settings.get(name) and role == "assistant"}
    kept = {name: payload[name] for name in ("model", "provider") if "parts" in payload and name in payload}
    return {"kind": "message", "role": role, "payload": {"role": role, "parts": parts, **model, **kept}}


def _compaction(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    payload, brief = _payload(draft), draft.brief or {}
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
    return {"payload": {"from_id": source, "summary": str(_payload(draft).get("summary", ""))}}


def _model_change(draft: Draft, settings: Mapping[str, object]) -> Fields:
    brief = draft.brief or {}
    return {"brief": {name: brief.get(name, settings.get(name)) or "" for name in ("provider", "model")}}


def _as_data(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    data = {name: value for name, value in (("brief", draft.brief), ("payload", draft.payload)) if value is not None}
    named = {"custom_type": f"treering.{draft.kind}"}
    return {"kind": "custom", "payload": named | {"data": values.encode(data).decode()}, "brief": named}


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
