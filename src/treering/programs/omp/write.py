"""Translate records of other programs to entries of oh-my-pi: pi's entries, with a title slot, and images as files."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from itertools import chain
from typing import Final

import msgspec

from treering.api.view import View
from treering.format.values import Fields, fields_of
from treering.programs.common.composition import compose_lines
from treering.programs.common.entry import SLOT, as_bytes
from treering.programs.common.stored import header_in, stored_drafts
from treering.programs.common.target import Composed, LeftOut
from treering.programs.common.times import write_time
from treering.programs.common.writing import encode_javascript
from treering.programs.omp.blobs import externalise
from treering.programs.omp.title_slot import TitleSlot, build_title_slot
from treering.programs.pi.read import VERSION
from treering.programs.pi.write import adapted as adapted_for_pi, apart, usage_of
from treering.store.info import SessionInfo
from treering.transcript.node import Draft

FORMAT: Final = "omp"
_KNOWN: Final = frozenset({"archive", "credential_pin", "reset_boundary", "session_init", "ttsr_injection"})
"""Kinds that are also types of oh-my-pi's entries, which need no translation."""


def compose(view: View) -> Composed:
    """Make a session file of oh-my-pi."""
    target = _Omp()
    composed = compose_lines(view, target, target.encode)
    slot = _slot(view)
    return msgspec.structs.replace(composed, data=chain([slot], composed.data), parts=target.parts)


def _slot(view: View) -> bytes:
    """Return the title slot: that of the imported file, unless the title changed; empty if that file has none."""
    notes = [*stored_drafts(view, FORMAT, types=("note",))]
    header = header_in(notes)
    since = notes[next((at for at, each in enumerate(notes) if each.draft is header), -1) + 1 :]
    given = [each.draft for each in since if each.draft.kind == "title" and not each.imported]
    if given:
        text = (given[-1].brief or {}).get("title")
        return build_title_slot(
            TitleSlot(text if isinstance(text, str) else "", "user", write_time(given[-1].time_ms) or "")
        )
    if header is None or fields_of(header.payload).get("format") != FORMAT:
        return build_title_slot(TitleSlot(view.info.title, "", write_time(view.info.created_ms) or ""))
    kept = (header.source or {}).get(SLOT)
    return as_bytes(kept) + b"\n" if kept is not None else b""


class _Omp:
    """The exporter of oh-my-pi; see `LineExporter`."""

    FORMAT = FORMAT
    VERSION = VERSION
    SENDS_EMPTY = False
    HOLDS = frozenset({"image"})
    HOLDS_IN_RESULTS = frozenset({"image"})
    TITLED = True

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        """Images by file name."""

    def header(self, info: SessionInfo, old: Fields | None) -> Fields:
        """Return a header; the header of a fork names its parent."""
        made = {"type": "session", "version": VERSION, "id": info.id, "timestamp": write_time(info.created_ms)}
        made |= {"cwd": info.cwd} | ({"parentSession": info.parent_session} if info.parent_session else {})
        return (old or {}) | made

    def encode(self, record: Fields) -> bytes:
        """Return the bytes of a record, with references to files instead of large images."""
        return encode_javascript(externalise(record, self._save))

    def _save(self, data: bytes) -> str:
        name = sha256(data).hexdigest()
        self.parts[name] = data
        return name

    def adapt(self, draft: Draft, settings: Mapping[str, object]) -> Draft | None:
        """Return the draft that oh-my-pi's importer would have made of a record."""
        adapt = _ADAPTED.get(draft.kind, adapted_for_pi if draft.kind not in _KNOWN else _as_it_is)
        return adapt(draft, _as_two(settings))

    def apart(self, message: Fields) -> list[Fields]:
        """Split a message so that each result is a message, as in pi."""
        return apart(message)

    def restate(self, node: str | None, label: str | None, identifier: str, time_ms: int) -> Draft | None:
        """Return an entry that repeats an existing label, or removes a label that does not exist."""
        brief: dict[str, object] = {"label": label}
        return Draft(type="note", kind="label", id=identifier, target=node, brief=brief, time_ms=time_ms)

    def retract(self, _draft: Draft) -> Draft | None:
        """Return None: oh-my-pi cannot hide a message."""
        return None

    def not_sent(self) -> list[LeftOut]:
        """Return nothing: which calls and turns oh-my-pi does not send follows from its policy for the written file."""
        return []


def _as_two(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Return settings with oh-my-pi's default model split into provider and model, as in other formats."""
    provider, _, model = str(fields_of(settings.get("models")).get("default") or "").rpartition("/")
    return {"provider": provider, "model": model, **settings} if model else settings


def _as_it_is(draft: Draft, _settings: Mapping[str, object]) -> Draft:
    return draft


def _custom_message(draft: Draft, _settings: Mapping[str, object]) -> Draft:
    """Give a message an empty content if it has none: it would not be sent otherwise."""
    fields = {"display": True, **fields_of(draft.payload)}
    content = fields.get("content")
    return msgspec.structs.replace(draft, payload=fields | {"content": content if content is not None else []})


def _model_change(draft: Draft, settings: Mapping[str, object]) -> Draft:
    """Join provider and model of the default model; a model for another role has oh-my-pi's form already."""
    brief = draft.brief or {}
    if "models" in brief:
        return draft
    named = [brief.get(name, settings.get(name)) for name in ("provider", "model")]
    model = "/".join(part for part in named if isinstance(part, str) and part)
    return msgspec.structs.replace(draft, payload={"model": model})


def _thinking_change(draft: Draft, _settings: Mapping[str, object]) -> Draft:
    level = (draft.brief or {}).get("thinking")
    return msgspec.structs.replace(draft, brief={"thinking": level, "configured": level})


def _mode_change(draft: Draft, _settings: Mapping[str, object]) -> Draft:
    brief = dict(draft.brief or {})
    mode = brief.pop("mode", None)
    payload = {"data": brief.pop("data", brief)} if brief else None
    return msgspec.structs.replace(draft, brief={"mode": mode or "none"}, payload=payload)


def _title(draft: Draft, _settings: Mapping[str, object]) -> Draft:
    title = (draft.brief or {}).get("title") or ""
    return msgspec.structs.replace(draft, kind="title_change", brief=None, payload={"title": title, "source": "user"})


def _usage(draft: Draft, settings: Mapping[str, object]) -> Draft:
    model = {"provider": settings.get("provider") or "", "model": settings.get("model") or ""}
    made = {
        "purpose": "treering",
        "api": "unknown",
        **model,
        "usage": usage_of(draft.brief or {}),
        "stopReason": "stop",
    }
    return msgspec.structs.replace(draft, payload=made)


_ADAPTED: Final = {
    "custom_message": _custom_message,
    "mode_change": _mode_change,
    "model_change": _model_change,
    "thinking_change": _thinking_change,
    "title": _title,
    "usage": _usage,
}
