"""Session files of pi: versions 1 to 3 of its format, as written by pi 0.73 and 1.5.

`docs/reference/programs/pi.md` says which record each type of entry becomes, and lists the repairs;
`treering.programs.common.reader` reads the lines. This module has the names, times and versions of pi, and a function
for each type of entry with its inverse.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from treering.format.values import Fields, fields_of
from treering.programs.common.chain import Place
from treering.programs.common.entry import Entry
from treering.programs.common.read_file import ReadFile
from treering.programs.common.reader import (
    Dialect,
    LinesSource,
    Reader,
    begins,
    take,
    take_small,
    take_target,
    take_text,
    text_of,
)
from treering.programs.common.rules import Rules
from treering.programs.common.source import Imported, open_stream
from treering.programs.common.times import read_time, write_time
from treering.programs.common.usage import brief_of, numbers_in
from treering.programs.common.writing import encode_javascript
from treering.transcript.node import Draft

NAME: Final = "pi"
POLICIES: Final = ("pi-1.5", "pi")
VERSION: Final = 3
"""The newest known version of the format; a newer version is read like this one, and reported."""

_NOTES: Final = frozenset({"label", "session_info", "usage"})
_EDITABLE: Final = ("user", "assistant", "toolResult")
_NAMED_BY_PI: Final = re.compile(r"[-\dTZ]+_(.+)")  # a time and the id of the session
NO_MESSAGES: Final = "(no messages)"
"""The text that a list shows for a session without messages of a user."""


def detect(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is a session of pi: its first JSON object is a session header."""
    return begins(head, DIALECT)


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> LinesSource:  # noqa: ARG001
    """Open a session file of pi, compressed by gzip or not. pi keeps no parts in separate files.

    Raises:
        UsageError: The file is empty, or its first JSON object is no session header.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place = Path(path)
    return LinesSource(DIALECT, lambda: open_stream(place), place)


def restore(entries: Sequence[Entry]) -> str | None:
    """Return the entry at which pi continues: the last one, of any type."""
    return entries[-1].id if entries else None


def encode(record: Mapping[str, object]) -> bytes:
    """Return the bytes that pi writes for a record, without the line break."""
    return encode_javascript(record)


def listing(file: ReadFile) -> dict[str, object]:
    """Return the entry of pi's own list of sessions."""
    messages = [entry.record for entry in file.entries if entry.type == "message"]
    spoken = [message for record in messages if _role(message := _message(record)) in ("user", "assistant")]
    texts = ((_role(message), " ".join(texts_in(message.get("content")))) for message in spoken)
    times = [time for record in messages if (time := _activity(record)) is not None]
    created = read_time(file.header_record.get("timestamp"))
    modified = max([0, *times]) or created
    return {
        "id": file.header_record.get("id"),
        "cwd": file.header.cwd,
        "name": file.title or None,
        "parentSessionPath": file.header_record.get("parentSession"),
        "created": write_time(created),
        "modified": write_time(modified),
        "messageCount": len(messages),
        "firstMessage": next((text for role, text in texts if role == "user" and text), NO_MESSAGES),
    }


def _message(record: Fields) -> Fields:
    return fields_of(record.get("message"))


def _role(message: Fields) -> str:
    return text_of(message.get("role"))


def texts_in(content: object) -> list[str]:
    """Return the texts of a message."""
    if isinstance(content, str):
        return [content]
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]


def _activity(record: Fields) -> int | None:
    """Return the time of a message of a user or an assistant."""
    message = _message(record)
    if _role(message) not in ("user", "assistant") or "content" not in message:
        return None
    time = message.get("timestamp")
    return int(time) if isinstance(time, int | float) else read_time(record.get("timestamp"))


RULES: Final = Rules(moment=read_time, needs_id=True)


def read_header(header: Fields, path: Path) -> Imported:
    """Return the facts of a header; a header without an id gets the id in the file's name."""
    rest = {name: value for name, value in header.items() if name != "type"}
    text = {name: rest.pop(name) for name in ("id", "cwd", "title", "parentSession") if text_of(rest.get(name))}
    created = read_time(rest.get("timestamp"))
    if rest.get("timestamp") == write_time(created):
        rest.pop("timestamp", None)
    version = version_of(rest.get("version"))
    if type(rest.get("version")) is int:
        del rest["version"]
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    named = _NAMED_BY_PI.fullmatch(name)
    return Imported(
        format=NAME,
        version=version,
        session_id=text.get("id") or (named[1] if named else name),
        title=text.get("title", ""),
        cwd=text.get("cwd", ""),
        created_ms=created,
        parent_session=text.get("parentSession") or text_of(rest.get("branchedFrom")),
        extra=rest,
    )


def version_of(value: Any) -> int:
    """Return the version as pi compares it: a missing one is 1, a text is converted, other values are `VERSION`."""
    if value is None:
        return 1
    if value in ("", []):
        return 0
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        return VERSION


def is_header(value: object) -> bool:
    """Tell whether a value is a session header."""
    return isinstance(value, dict) and value.get("type") == "session"


def is_entry(value: Fields) -> bool:
    """Tell whether an object is an entry, and not a block inside an entry, which also has a type and an id."""
    placed = isinstance(value.get("id"), str) and "parentId" in value
    return isinstance(value.get("type"), str) and (placed or isinstance(value.get("timestamp"), str))


# From an entry to a draft. Each removes its fields from `rest` and returns fields of the draft.


def read_message(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a message, which becomes the payload, unchanged; the brief has the facts that policies need."""
    message = rest.get("message")
    if not isinstance(message, dict):
        return {"brief": {"context": False}}  # pi fails for such an entry; a model could not use it
    del rest["message"]
    if (migrated := _migrated(message, reader.version)) is not message:
        rest["message"] = {"role": message["role"]}
        message = migrated
    role = _role(message)
    brief: Fields = {}
    if role == "assistant":
        named = {name: message.get(name) for name in ("provider", "model")}
        brief = {name: value if isinstance(value, str) else None for name, value in named.items()}
    if role in (*_EDITABLE, "system") and message.get("content") is None:
        brief["blank"] = True
    return {"role": role, "payload": message, "brief": brief}


def _migrated(message: Fields, version: int) -> Fields:
    """Return a message with the role that it has in version 3."""
    return message | {"role": "custom"} if version < 3 and message.get("role") == "hookMessage" else message


def read_compaction(rest: Fields, place: Place, reader: Reader) -> Fields:
    """Read a compaction. The first kept entry becomes a node id; pi 1.5 also stores the current system message."""
    kept = reader.chain.kept_from(find_first_kept(rest, reader), place)
    if kept is not None and kept == rest.get("firstKeptEntryId"):
        del rest["firstKeptEntryId"]
    brief = take_small(rest, tokensBefore="tokens_before")
    if isinstance(rest.get("systemMessage"), dict):
        brief["system"] = True
    payload = take(rest, "summary", "details", "systemMessage", "usage", "fromHook", "tokensBefore")
    return {"brief": brief if kept is None else {"kept": kept, **brief}, "payload": timed(payload, reader)}


def find_first_kept(rest: Fields, reader: Reader) -> str | None:
    """Return the id in Treering of the first entry that a compaction keeps; version 1 has its number."""
    index = rest.get("firstKeptEntryIndex")
    if reader.version < 2 and isinstance(index, int):  # later entries have no number yet, as in pi
        return (reader.numbered[index] or None) if 0 <= index < len(reader.numbered) else None
    return reader.chain.find(rest.get("firstKeptEntryId"))


def timed(payload: Fields, reader: Reader) -> Fields:
    """Mark the payload of an entry without a time: pi shows no time, and the node gets the time of the entry before."""
    return payload if reader.has_time else payload | {"timestamp": None}


def read_branch_summary(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a branch summary. The link is to the node of `fromId`, or its nearest ancestor that is a node."""
    payload = take(rest, "summary", "details", "usage", "fromHook", "fromId")
    fields: Fields = {"payload": timed(payload, reader), "brief": {} if payload.get("summary") else {"empty": True}}
    source = reader.chain.node_at(reader.chain.find(payload.get("fromId")))
    if source is not None and payload.get("fromId") != "root":  # root: the summary is of the whole conversation
        fields["links"] = {"source": source}
    return fields


def read_custom(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read an extension's entry, which the model sees if it is a message."""
    brief = take_small(dict(rest), customType="custom_type")
    named = {"custom_type": rest.pop("customType")} if "customType" in rest else {}
    payload = named | take(rest, "data", "content", "display", "details")
    return {"payload": timed(payload, reader), "brief": brief}


def read_context_edit(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read an edit. The payload has the edit and its target's message, so that a view can show the edited message."""
    target = take_target(rest, "targetId", reader)
    brief: Fields = {"target": target}
    payload = take(rest, "replacement")
    if "replacement" in payload and payload["replacement"] is None:
        return {"payload": payload, "brief": brief | {"edit": "retract"}}
    message = _editable(reader.recall(target), reader.version)
    if message and payload:
        return {"payload": payload | {"message": message}, "brief": brief | {"edit": "amend"}}
    return {"payload": payload, "brief": brief}


def _editable(record: Fields, version: int) -> Fields:
    """Return the message of an entry without its content; empty if pi does not edit such entries."""
    message = _migrated(_message(record), version)
    if record.get("type") == "custom_message":
        names = ("customType", "display", "details")
        time = read_time(record.get("timestamp"))
        message = {"role": "custom", **{name: record[name] for name in names if name in record}, "timestamp": time}
    if _role(message) not in (*_EDITABLE, "custom"):
        return {}
    return {name: value for name, value in message.items() if name != "content"} | {"content": None}


def read_model_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a change of model, with Treering's names of the settings."""
    return {"brief": take_small(rest, provider="provider", modelId="model")}


def read_thinking_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a change of the thinking level, with Treering's kind and name of the setting."""
    return {"kind": "thinking_change", "brief": take_small(rest, thinkingLevel="thinking")}


def read_label(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a label, a note about its target; null removes the label."""
    return {"target": take_target(rest, "targetId", reader), "brief": {"label": take_text(rest, "label")}}


def read_title(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a title of the session; null removes it."""
    return {"kind": "title", "brief": {"title": take_text(rest, "name")}}


def read_usage(rest: Fields, place: Place, _reader: Reader) -> Fields:
    """Read usage. The counts go to the brief, from which they are summed."""
    payload = take(rest, *rest)
    numbers = numbers_in(payload.get("usage"))
    return {"payload": payload, "brief": brief_of(numbers, turn=False), "target": place.parent}


def read_unknown(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read an entry of an unknown type: all its fields are the payload."""
    return {"payload": take(rest, *rest)}


READERS: Final[Mapping[str, Callable[[Fields, Place, Reader], Fields]]] = {
    "branch_summary": read_branch_summary,
    "compaction": read_compaction,
    "context_edit": read_context_edit,
    "custom": read_custom,
    "custom_message": read_custom,
    "label": read_label,
    "message": read_message,
    "model_change": read_model_change,
    "session_info": read_title,
    "thinking_level_change": read_thinking_change,
    "usage": read_usage,
}


# From a draft back to an entry. The order of fields is that in which pi writes them.


class Words(NamedTuple):
    """The fields and types of entries of pi, or of a program that began as a copy of it."""

    written: Mapping[str, tuple[str, ...]]
    """The fields of each type of entry, in the order in which they are written."""
    types: Mapping[str, str]
    """Types of entries by kind of record, if they differ; kinds of notes have the prefix `note:`."""
    briefs: Mapping[str, str]
    """The fields that are in the brief, with their names there."""
    nullable: frozenset[str] = frozenset()
    """The fields in the brief that are written even if they are null."""


WORDS: Final = Words(
    written={
        "branch_summary": ("fromId", "summary", "details", "usage", "fromHook"),
        "compaction": ("summary", "firstKeptEntryId", "tokensBefore", "details", "usage", "fromHook", "systemMessage"),
        "context_edit": ("targetId", "replacement"),
        "custom": ("customType", "data"),
        "custom_message": ("customType", "content", "display", "details"),
        "label": ("targetId", "label"),
        "message": ("message",),
        "model_change": ("provider", "modelId"),
        "session_info": ("name",),
        "thinking_level_change": ("thinkingLevel",),
    },
    types={"thinking_change": "thinking_level_change", "note:title": "session_info"},
    briefs={
        "firstKeptEntryId": "kept",
        "tokensBefore": "tokens_before",
        "provider": "provider",
        "modelId": "model",
        "thinkingLevel": "thinking",
        "label": "label",
        "name": "title",
    },
)
_FIRST: Final = frozenset({"custom", "custom_message"})
"""Types whose special fields pi writes before id, parent and time."""


def to_record(draft: Draft, parent: str | None) -> Fields:
    """Return the entry from which a draft was made."""
    return write_record(WORDS, draft, parent)


def write_record(words: Words, draft: Draft, parent: str | None) -> Fields:
    """Return the entry from which a draft was made, with the fields and types of `words`."""
    named = f"note:{draft.kind}" if draft.type == "note" else draft.kind
    kind = words.types.get(named, draft.kind)
    left = dict(draft.source or {})
    envelope = {
        "id": left.pop("id", draft.id),
        "parentId": left.pop("parentId", parent),
        "timestamp": left.pop("timestamp", write_time(draft.time_ms)),
    }
    own = _own_fields(words, kind, draft)
    parts = (own, envelope) if kind in _FIRST else (envelope, own)
    return {"type": left.pop("type", kind), **parts[0], **parts[1], **_restored(own, left)}


def _own_fields(words: Words, kind: str, draft: Draft) -> Fields:
    payload = fields_of(draft.payload)
    names = words.written.get(kind)
    if names is None:
        return dict(payload)
    brief = draft.brief or {}
    found = {name: payload[name] for name in names if name in payload}
    told = {name: brief[words.briefs[name]] for name in names if words.briefs.get(name) in brief}
    found |= {name: value for name, value in told.items() if value is not None or name in words.nullable}
    if kind == "message" and draft.payload is not None:
        found["message"] = draft.payload
    if "custom_type" in payload:
        found["customType"] = payload["custom_type"]
    target = brief.get("target") if draft.target is None else draft.target
    if "targetId" in names and target is not None:
        found["targetId"] = target
    return {name: found[name] for name in names if name in found}


def _restored(own: Fields, left: Fields) -> Fields:
    """Return the remaining fields of the entry; for a migrated message, with its old role."""
    message, was = own.get("message"), left.get("message")
    if isinstance(message, dict) and isinstance(was, dict):
        return left | {"message": message | was}
    return left


DIALECT: Final = Dialect(
    name=NAME,
    version=VERSION,
    notes=_NOTES,
    readers=READERS,
    unknown=read_unknown,
    recalled=frozenset({"message", "custom_message"}),
    is_header=is_header,
    is_entry=is_entry,
    read_header=read_header,
    version_of=version_of,
    read_time=read_time,
    write_time=write_time,
    write=to_record,
    encode=encode,
)
