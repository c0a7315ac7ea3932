"""Sessions as files of Operator-Use; `treering.programs.common.composition` makes the file.

An entry of the type `leaf` names the leaf, so no entry has to be repeated for that. Kinds that Operator does not have
become `custom` entries, which keep their place in the chain and are not sent to a model.

A flat file from before May 2026 is returned unchanged if the session did not change; otherwise the session is written
in the newest version, since Operator reads no other version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from treering.api.view import View
from treering.checkpoint.policy import Seen
from treering.format.values import Fields, fields_of
from treering.programs.common.composition import compose_lines
from treering.programs.common.entry import RAW, as_bytes, framed
from treering.programs.common.flat import FLAT
from treering.programs.common.stored import Stored, header_in, stored_drafts
from treering.programs.common.target import Composed, LeftOut
from treering.programs.common.writing import has_lone_surrogates, without_lone_surrogates
from treering.programs.operator.policy import message_of
from treering.programs.operator.read import NAME, VERSION, write_time
from treering.programs.operator.readable import LEVELS
from treering.store.info import SessionInfo
from treering.transcript.node import Draft

_SAID: Final = frozenset({"label", "title", "extension"})
"""Notes that Operator's format can hold."""


def compose(view: View) -> Composed:
    """Make a session file of Operator-Use."""
    flat = _flat_lines(view)
    if flat is not None:
        return Composed(data=flat, entry_ids=None, labels=None, left_out=[])
    composed = compose_lines(view, _Operator())
    labels = {node: without_lone_surrogates(label) for node, label in (composed.labels or {}).items()}
    return msgspec.structs.replace(composed, labels=labels)


def _flat_lines(view: View) -> list[bytes] | None:
    """Return the lines of an imported flat file if the session did not change; None for any other session."""
    header = header_in(stored_drafts(view, FLAT, types=("note",)))
    if header is None or not _is_flat(header):
        return None
    records = [*stored_drafts(view, FLAT)]
    nodes = [each for each in records if each.draft.type == "node"]
    if not all(each.imported for each in nodes) or _is_moved(view, nodes):
        return None
    if any(each.draft.kind not in ("import", "link", "damage", "message") for each in records):
        return None
    return [
        framed(draft, as_bytes((draft.source or {}).get(RAW))) for draft in (header, *(each.draft for each in nodes))
    ]


def _is_flat(header: Draft) -> bool:
    return isinstance(header.payload, dict) and header.payload.get("format") == FLAT


def _is_moved(view: View, nodes: list[Stored]) -> bool:
    return view.node != (nodes[-1].draft.id if nodes else None)


class _Operator:
    """The exporter of Operator-Use; see `LineExporter`."""

    FORMAT = NAME
    VERSION = VERSION
    SENDS_EMPTY = True
    HOLDS = frozenset({"image"})
    HOLDS_IN_RESULTS: frozenset[str] = frozenset()
    TITLED = False

    def __init__(self) -> None:
        self._lone: set[str | None] = set()

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return a header; the header of a fork names its parent, as in Operator."""
        made: Fields = {"type": "session", "version": VERSION, "id": info.id, "timestamp": write_time(info.created_ms)}
        made |= {"cwd": info.cwd} | ({"parent_session": info.parent_session} if info.parent_session else {})
        return (old or {}) | made

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return the draft that Operator's importer would have made of a record."""
        if draft.type == "note" and draft.kind not in _SAID:
            return None
        if has_lone_surrogates((draft.payload, draft.brief)):
            self._lone.add(draft.id)
        adapt = _ADAPTED.get(draft.kind, _as_custom)
        return msgspec.structs.replace(draft, **{"source": None, **adapt(draft, settings)})

    def apart(self, message: Fields) -> list[Fields]:
        """Return the message itself: Operator's messages may have all kinds of contents."""
        return [message]

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:  # noqa: ARG002
        """Return the entry that makes a node the leaf."""
        return Draft(type="note", kind="leaf", id=identifier, target=node, time_ms=time_ms)

    def retract(self, draft: Draft) -> Draft | None:  # noqa: ARG002
        """Return None: Operator cannot hide a message."""
        return None

    def not_sent(self) -> list[LeftOut]:
        """Return the texts with lone surrogates, which Operator's JSON cannot have."""
        reason = "lone surrogates, which the format cannot have, became U+FFFD"
        return [LeftOut("text", len(self._lone), reason, seen=True)] if self._lone else []


def _message(draft: Draft, settings: Mapping[str, object]) -> Fields:
    if (draft.brief or {}).get("context") is False or not isinstance(draft.payload, dict):
        return _as_custom(draft, settings)
    message = message_of(draft.payload, Seen(draft.id or "", draft.time_ms or 0, {}, {}))
    return {"payload": message, "role": message["role"]}


def _compaction(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    brief = draft.brief or {}
    # its own id keeps nothing
    brief = {"kept": brief.get("kept", draft.id), "tokens_before": brief.get("tokens_before", 0)}
    return {"payload": _summary(fields_of(draft.payload)), "brief": brief}


def _branch_summary(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    source = (draft.links or {}).get("source", "root")
    return {"payload": {"from_id": source, **_summary(fields_of(draft.payload))}}


def _summary(payload: Fields) -> Fields:
    """Return the fields of a summary in Operator's format; fields that Operator lacks go to `details`."""
    details = {name: value for name, value in payload.items() if name != "summary"}
    return {"summary": str(payload.get("summary", "")), **({"details": details} if details else {}), "from_hook": False}


def _custom_message(draft: Draft, settings: Mapping[str, object]) -> Fields:
    if (draft.brief or {}).get("context") is False:
        return _as_custom(draft, settings)
    payload = fields_of(draft.payload)
    content: Any = payload.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "content": str(content or "")}]
    return {"payload": {"custom_type": "treering", "display": True, **payload, "content": parts}}


def _model_change(draft: Draft, settings: Mapping[str, object]) -> Fields:
    brief = draft.brief or {}
    if "models" in brief and "model" not in brief:  # a model for another role, while no default model is known
        return _as_custom(draft, settings)
    return {"brief": {name: brief.get(name, settings.get(name)) or "" for name in ("model", "provider")}}


def _thinking_change(draft: Draft, settings: Mapping[str, object]) -> Fields:
    level = (draft.brief or {}).get("thinking") or "off"
    return {"brief": {"thinking": level}} if level in LEVELS else _as_custom(draft, settings)


def _as_custom(draft: Draft, _settings: Mapping[str, object]) -> Fields:
    data = {name: value for name, value in (("brief", draft.brief), ("payload", draft.payload)) if value is not None}
    return {"kind": "custom", "payload": {"custom_type": f"treering.{draft.kind}", "data": data}, "brief": None}


def _as_it_is(_draft: Draft, _settings: Mapping[str, object]) -> Fields:
    return {}


_ADAPTED: Final = {
    "message": _message,
    "compaction": _compaction,
    "branch_summary": _branch_summary,
    "custom_message": _custom_message,
    "model_change": _model_change,
    "thinking_change": _thinking_change,
    "label": _as_it_is,
    "title": _as_it_is,
}
