"""Session files of kit, version 3 of its format.

`docs/reference/programs/kit.md` says which record each type of entry becomes, and lists the repairs;
`treering.programs.common.reader` reads the lines. Peculiar to kit: a compaction has no parent and so starts a new tree,
a system prompt is not part of the tree, and the order of the file decides which messages a compaction keeps.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from treering.format.values import Fields
from treering.programs.common.chain import Place
from treering.programs.common.entry import Entry
from treering.programs.common.read_file import ReadFile
from treering.programs.common.reader import (
    Dialect,
    LinesSource,
    Reader,
    first_records,
    take,
    take_small,
    take_target,
    take_text,
    text_of,
    told,
)
from treering.programs.common.rfc3339 import canonical, nanoseconds, read_time, write_time
from treering.programs.common.rules import Rules
from treering.programs.common.source import Imported, open_stream
from treering.programs.common.writing import cut_go, encode_go
from treering.programs.kit.policy import sent
from treering.programs.kit.readable import kit_reads
from treering.transcript.node import Draft

NAME: Final = "kit"
POLICIES: Final = ("kit",)
VERSION: Final = 3
"""The only version; other numbers are read as this version, as in kit."""
PREVIEW_BYTES_MAX: Final = 100
"""The most bytes of the first message that kit's list shows; it may be cut inside a character."""

_NO_TIME: Final = nanoseconds("0001-01-01T00:00:00Z")
"""The value that Go writes for a time that was never set."""
_NOTES: Final = frozenset({"label", "session_info", "system_prompt"})
_HEX_ID: Final = re.compile(r"[0-9a-f]{32}")
_PARTS: Final[Mapping[str, Mapping[str, type]]] = {
    "text": {"text": str},
    "reasoning": {"thinking": str, "signature": str},
    "tool_call": {"id": str, "name": str, "input": str, "finished": bool},
    "tool_result": {"tool_call_id": str, "name": str, "content": str, "is_error": bool},
    "image": {"data": str, "media_type": str},
    "finish": {"reason": str},
}
"""The parts that kit can read, and the types of their fields."""


def detect(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is kit's: pi's header differs only in the id and the time."""
    records = first_records(head, DIALECT)
    if not records or not is_header(records[0]):
        return False
    return _HEX_ID.fullmatch(text_of(records[0].get("id"))) is not None or any(map(_is_of_kit, records[1:]))


def _is_of_kit(record: Fields) -> bool:
    """Tell whether only kit writes an entry like this."""
    if record.get("type") == "message":
        return "parts" in record and "role" in record
    return record.get("type") in ("extension_data", "system_prompt")


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> LinesSource:  # noqa: ARG001
    """Open a session file of kit, compressed by gzip or not. kit keeps no parts in separate files.

    Raises:
        UsageError: The file is empty, or its first JSON object is no session header.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place = Path(path)
    return LinesSource(DIALECT, lambda: open_stream(place), place)


def restore(entries: Sequence[Entry]) -> str | None:
    """Return the entry at which kit continues: the last one; None if that is a system prompt."""
    return entries[-1].id or None if entries else None


def encode(record: Mapping[str, object]) -> bytes:
    """Return the bytes that kit writes for a record, without the line break."""
    return encode_go(record)


def listing(file: ReadFile) -> dict[str, object]:
    """Return the entry of kit's own list of sessions; empty without messages, since kit deletes such files.

    Damaged lines are skipped, as in kit.
    """
    entries = [entry for entry in file.entries if entry.intact]
    messages = [entry.record for entry in entries if entry.type == "message"]
    if not messages:
        return {}
    header = file.header_record
    times = [header.get("timestamp"), *(entry.record.get("timestamp") for entry in entries)]
    stamps = [stamp for stamp in times[1:] if nanoseconds(stamp) not in (None, _NO_TIME)] or times[:1]
    names = (text_of(entry.record.get("name")) for entry in entries if entry.type == "session_info")
    previews = (_preview(message) for message in messages if message.get("role") == "user")
    return {
        "id": text_of(header.get("id")),
        "cwd": text_of(header.get("cwd")),
        "name": next((name for name in reversed([*names]) if name), ""),
        "parent_session": text_of(header.get("parent_session")),
        "parent_session_id": text_of(header.get("parent_session_id")),
        "subagent_task": text_of(header.get("subagent_task")),
        "created": canonical(header.get("timestamp")),
        "modified": canonical(max(stamps, key=lambda stamp: nanoseconds(stamp) or 0)),
        "message_count": len(messages),
        "first_message": next((preview for preview in previews if preview), ""),
    }


def _preview(message: Fields) -> str:
    parts = message.get("parts")
    for part in parts if isinstance(parts, list) else ():
        data = part.get("data") if isinstance(part, dict) and part.get("type") == "text" else None
        text = text_of(data.get("text")) if isinstance(data, dict) else ""
        if text:
            short = cut_go(text, PREVIEW_BYTES_MAX)
            return text if short == text else f"{short}..."
    return ""


RULES: Final = Rules(
    active_by_all=True,
    moment=None,
    orphans=False,
    outside=frozenset({"system_prompt"}),
    nameless=False,
    title_trimmed=False,
    unknown="empty",
    label=("label", "target_id", "label"),
    labelled_tree=False,
    reads=kit_reads,
    refuses=True,
)


def read_header(header: Fields, path: Path) -> Imported:
    """Return the facts of a header; a header without an id gets the file's name."""
    rest = {name: value for name, value in header.items() if name != "type"}
    text = {name: rest.pop(name) for name in ("id", "cwd", "parent_session") if text_of(rest.get(name))}
    created = read_time(rest.get("timestamp"))
    version = version_of(rest.get("version"))
    if type(rest.get("version")) is int:
        del rest["version"]
    if rest.get("timestamp") == write_time(created):
        rest.pop("timestamp", None)
    return Imported(
        format=NAME,
        version=version,
        session_id=text.get("id") or path.name.removesuffix(".gz").removesuffix(".jsonl"),
        cwd=text.get("cwd", ""),
        created_ms=created,
        parent_session=text.get("parent_session") or text_of(rest.get("parent_session_id")),
        extra=rest,
    )


def version_of(value: Any) -> int:
    """Return the version in a header. kit ignores it, and never wrote files without ids."""
    return value if type(value) is int and value > 1 else VERSION


def is_header(value: object) -> bool:
    """Tell whether a value is a session header."""
    return isinstance(value, dict) and value.get("type") == "session"


def is_entry(value: Fields) -> bool:
    """Tell whether an object is an entry, and not a part of a message, which has no id or time."""
    return isinstance(value.get("type"), str) and isinstance(value.get("timestamp"), str)


# From an entry to a draft. Each removes its fields from `rest` and returns fields of the draft.


def read_message(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a message. It is not in the context if kit cannot read its parts, or sends none of them."""
    payload = take(rest, "role", "parts", "model", "provider")
    role, parts = text_of(payload.get("role")), payload.get("parts")
    shown = isinstance(parts, list) and are_readable(parts) and sent(role, parts)
    names = ("provider", "model") if role == "assistant" else ()
    named = {name: text for name in names if (text := text_of(payload.get(name)))}
    return {"role": role, "payload": payload, "brief": named if shown else {**named, "context": False}}


def are_readable(parts: Iterable[object]) -> bool:
    """Tell whether kit can read all parts: it leaves out a message with an unreadable one."""
    return all(isinstance(part, dict) and _is_readable(part) for part in parts)


def _is_readable(part: Fields) -> bool:
    kind, data = part.get("type"), part.get("data", "")
    if not isinstance(kind, str) or kind not in _PARTS or not isinstance(data, dict | None):
        return False
    fields = data or {}
    typed = (isinstance(fields.get(name), known | None) for name, known in _PARTS[kind].items())
    return all(typed) and (kind != "image" or _is_base64(text_of(fields.get("data"))))


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def read_compaction(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a compaction. The first kept node is the first node at or after the named entry, in the order of the file.

    If two entries have that id, kit finds the first. It does not find a system prompt by its id.
    """
    named = text_of(rest.get("first_kept_entry_id"))
    kept = reader.chain.recorded_from(named) if named and named not in reader.outside else None
    if kept is not None and kept == rest.get("first_kept_entry_id"):
        del rest["first_kept_entry_id"]
    brief = take_small(rest, tokens_before="tokens_before")
    payload = take(rest, "summary", "tokens_after", "messages_removed", "read_files", "modified_files")
    return {"payload": payload, "brief": brief if kept is None else {"kept": kept, **brief}}


def read_branch_summary(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a branch summary. The link is to the node of `from_id`, or its nearest ancestor that is a node."""
    payload = take(rest, "from_id", "summary")
    source = reader.chain.node_at(reader.chain.find(payload.get("from_id")))
    return {
        "payload": payload,
        "brief": {} if payload.get("summary") else {"empty": True},
        "links": {} if source is None else {"source": source},
    }


def read_extension_data(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read an extension's own data, which no model sees."""
    payload = take(rest, "data")
    if "ext_type" in rest:
        payload = {"custom_type": rest.pop("ext_type"), **payload}
    return {"kind": "custom", "payload": payload, "brief": take_small(dict(payload), custom_type="custom_type")}


def read_model_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a change of model or provider."""
    return {"brief": take_small(rest, provider="provider", model_id="model")}


def read_label(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a label; an empty label removes it."""
    return {"target": take_target(rest, "target_id", reader), "brief": {"label": take_text(rest, "label")}}


def read_title(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a name of the session; an empty name removes it."""
    return {"kind": "title", "brief": {"title": take_text(rest, "name")}}


def read_system_prompt(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a system prompt. It is not in the tree, so after it kit continues before the first entry."""
    return {"payload": take(rest, "content", "model", "provider")}


def read_unknown(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read an entry that kit would refuse, with all its fields."""
    return {"payload": take(rest, *rest)}


READERS: Final[Mapping[str, Callable[[Fields, Place, Reader], Fields]]] = {
    "branch_summary": read_branch_summary,
    "compaction": read_compaction,
    "extension_data": read_extension_data,
    "label": read_label,
    "message": read_message,
    "model_change": read_model_change,
    "session_info": read_title,
    "system_prompt": read_system_prompt,
}


# From a draft back to an entry. The order of fields is that in which kit writes them.


WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "branch_summary": ("from_id", "summary"),
    "compaction": (
        "summary", "first_kept_entry_id", "tokens_before", "tokens_after", "messages_removed", "read_files",
        "modified_files",
    ),
    "extension_data": ("ext_type", "data"),
    "label": ("target_id", "label"),
    "message": ("role", "parts", "model", "provider"),
    "model_change": ("provider", "model_id"),
    "session_info": ("name",),
    "system_prompt": ("content", "model", "provider"),
}  # fmt: skip
"""The fields of each type of entry, in the order in which kit writes them."""
_TYPES: Final = {"custom": "extension_data", "title": "session_info"}
_BRIEFS: Final = {
    "ext_type": "custom_type",
    "first_kept_entry_id": "kept",
    "tokens_before": "tokens_before",
    "provider": "provider",
    "model_id": "model",
    "label": "label",
    "name": "title",
}
"""The fields that are in the brief, with their names there."""


def to_record(draft: Draft, parent: str | None) -> Fields:
    """Return the entry from which a draft was made. A compaction that was joined to the tree names no parent."""
    kind = _TYPES.get(draft.kind, draft.kind)
    left = dict(draft.source or {})
    own = told(draft, WRITTEN.get(kind), _BRIEFS)
    names = WRITTEN.get(kind, ())
    found = own | {name: left.pop(name) for name in names if name in left}
    joined = "logical_parent" in (draft.links or {})
    above = {} if parent is None or joined else {"parent_id": parent}
    return {
        "type": left.pop("type", kind),
        "id": left.pop("id", draft.id),
        **{name: left.pop(name) for name in ("parent_id",) if name in left},
        **above,
        "timestamp": left.pop("timestamp", write_time(draft.time_ms)),
        **({name: found[name] for name in names if name in found} if names else found),
        **left,
    }


DIALECT: Final = Dialect(
    name=NAME,
    version=VERSION,
    parent="parent_id",
    notes=_NOTES,
    outside=RULES.outside,
    joined=frozenset({"compaction"}),
    linear_below=0,
    readers=READERS,
    unknown=read_unknown,
    is_header=is_header,
    is_entry=is_entry,
    read_header=read_header,
    version_of=version_of,
    read_time=read_time,
    write_time=write_time,
    write=to_record,
    encode=encode,
)
