"""Session files of Operator-Use: the tree of version 3, and the flat files from before May 2026.

`docs/reference/programs/operator.md` says which record each type of entry becomes, and lists the repairs;
`treering.programs.common.reader` reads the lines. Peculiar to Operator: an entry of the type `leaf` names the leaf, and
times are in seconds. A flat file is a line of metadata and then one message on each line.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from treering.errors import UsageError
from treering.format.record import TIME_MS_MAX
from treering.format.values import Fields, fields_of
from treering.kinds import Kind
from treering.programs.common import times
from treering.programs.common.chain import Place
from treering.programs.common.entry import Entry
from treering.programs.common.flat import FlatSource, is_flat
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
from treering.programs.common.rules import Rules
from treering.programs.common.source import Imported, ImportSource, open_stream, read_start, uncompressed
from treering.programs.common.writing import encode_python
from treering.programs.operator.readable import LEVELS, operator_reads
from treering.transcript.node import Draft

NAME: Final = "operator"
POLICIES: Final = ("operator",)
VERSION: Final = 3
"""The only version of the tree; other numbers are read as this version, as in Operator."""

_HEADER: Final = "session"
_HEADERS: Final = frozenset({_HEADER, "session_header"})
"""Types of headers. The second is only in Operator's documentation; other programs may write files by that."""
_NOTES: Final = frozenset({"label", "session_info", "leaf"})
_FERNET: Final = b"gAAAA"  # the version and the first bytes of the time, in base64


def detect(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is Operator's: its times are numbers, its messages have `contents`.

    A file that is one Fernet token also counts as Operator's, though it is unreadable without the key.
    """
    head = uncompressed(head)
    if head.startswith(_FERNET):
        return True
    records = first_records(head, DIALECT)
    if not records or is_flat(records[0]):
        return bool(records)
    timed_in_seconds = _is_seconds(records[0].get("timestamp"))
    return is_header(records[0]) and (timed_in_seconds or any(map(_is_of_operator, records[1:])))


def _is_of_operator(record: Fields) -> bool:
    message = record.get("message")
    return isinstance(message, dict) and "contents" in message


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> ImportSource:  # noqa: ARG001
    """Open a session file of Operator, compressed by gzip or not. Operator keeps no parts in separate files.

    Raises:
        UsageError: The file is empty, encrypted, or its first JSON object is no session header.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place = Path(path)
    with open_stream(place) as stream:
        head = read_start(stream, _HEAD_BYTES)
    if head.startswith(_FERNET):
        raise UsageError(
            f"this session is encrypted with Fernet, and nothing of it can be read without the key. path={str(path)!r}",
            kind=Kind.ENCRYPTED,
            remedy="decrypt it with the key of the program that wrote it, and name the result",
        )
    records = first_records(head, DIALECT)
    if records and is_flat(records[0]):
        return FlatSource(lambda: open_stream(place), place)
    return LinesSource(DIALECT, lambda: open_stream(place), place)


_HEAD_BYTES: Final = 64 * 1024


def restore(entries: Sequence[Entry]) -> str | None:
    """Return the entry at which Operator continues: the last one, or the target of the last one if that is a `leaf`."""
    if not entries:
        return None
    last = entries[-1]
    return text_of(last.record.get("target_id")) or None if last.type == "leaf" else last.id


def encode(record: Mapping[str, object]) -> bytes:
    """Return the bytes that Operator writes for a record, without the line break."""
    return encode_python(record)


def listing(file: ReadFile) -> dict[str, object]:
    """Return the entry of Operator's own list of sessions; name and channel are those on the path to the leaf."""
    header = file.header_record
    messages = [entry.record for entry in file.entries if entry.type == "message"]
    times = [time for record in messages if (time := _activity(record)) is not None]
    branch = {entry.id: entry for entry in file.entries}
    path = [branch[name] for name in file.path(file.leaf)]
    channels = [text_of(entry.record.get("name")) for entry in path if entry.type == "channel"]
    return {
        "id": file.header.session_id,
        "cwd": file.header.cwd,
        "name": file.title or None,
        "channel": channels[-1] if channels else None,
        "parent_session": file.header.parent_session or None,
        "created": header.get("timestamp", header.get("created_at")),
        "modified": max(times, default=header.get("timestamp", header.get("updated_at"))),
        "message_count": len(messages),
    }


def _activity(record: Fields) -> float | None:
    """Return the time of a message of a user or an assistant with content."""
    fields = fields_of(record.get("message"))
    contents = fields.get("contents")
    kinds = {text_of(fields_of(part).get("type")) for part in contents} if isinstance(contents, list) else set()
    if fields.get("role") not in ("user", "assistant") or kinds.isdisjoint({"text", "image"}):
        return None
    time = fields.get("timestamp", record.get("timestamp"))
    return moment(time) if _is_seconds(time) else None


def moment(value: object) -> float | None:
    """Return a time in seconds; None if it is invalid."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        time = times.read_time(value)
        return None if time is None else time / 1000


def _is_seconds(value: object) -> bool:
    return type(value) in (int, float)


def read_time(value: object) -> int | None:
    """Return a time in milliseconds since 1970; None if it is invalid."""
    seconds = moment(value)
    if seconds is None or not math.isfinite(seconds) or abs(seconds * 1000) > TIME_MS_MAX:
        return None
    return round(seconds * 1000)


def write_time(ms: int | None) -> float | None:
    """Return a time in Operator's format, in seconds."""
    return None if ms is None else ms / 1000


RULES: Final = Rules(
    moment=moment,
    header=_HEADER,
    roots_ordered=True,
    unknown="empty",
    label=("label", "target_id", "label"),
    title_on_path=True,
    ends=("\x85", "\u2028", "\u2029"),
    reads=operator_reads,
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
        parent_session=text.get("parent_session", ""),
        extra=rest,
    )


def version_of(value: Any) -> int:
    """Return the version in a header. Operator ignores it, and never wrote files without ids."""
    return value if type(value) is int and value > 1 else VERSION


def is_header(value: object) -> bool:
    """Tell whether a value is a session header, in the form that Operator writes or documents."""
    return isinstance(value, dict) and text_of(value.get("type")) in _HEADERS


def is_entry(value: Fields) -> bool:
    """Tell whether an object is an entry, and not a block of a message, which has no time."""
    return isinstance(value.get("type"), str) and "timestamp" in value


# From an entry to a draft. Each removes its fields from `rest` and returns fields of the draft.


def read_message(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a message, which becomes the payload, unchanged. The data of a channel (`meta`) are kept in the source."""
    message = rest.get("message")
    if not isinstance(message, dict):
        return {"brief": {"context": False}}
    del rest["message"]
    return {"role": text_of(message.get("role")), "payload": message}


def timed(payload: Fields, reader: Reader) -> Fields:
    """Add the time of an entry to its payload, if milliseconds are not exact."""
    exact = reader.stamp == write_time(read_time(reader.stamp))
    return payload if exact else payload | {"timestamp": reader.stamp}


def read_compaction(rest: Fields, place: Place, reader: Reader) -> Fields:
    """Read a compaction. The first kept entry is replaced by a node."""
    named = reader.chain.find(rest.get("first_kept_entry_id"))
    kept = reader.chain.kept_from(named, place)
    if kept is not None and kept == rest.get("first_kept_entry_id"):
        del rest["first_kept_entry_id"]
    brief = take_small(rest, tokens_before="tokens_before")
    payload = timed(take(rest, "summary", "details", "from_hook"), reader)
    return {"payload": payload, "brief": brief if kept is None else {"kept": kept, **brief}}


def read_branch_summary(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a branch summary. The link is to the node of `from_id`, or its nearest ancestor that is a node."""
    payload = timed(take(rest, "from_id", "summary", "details", "from_hook"), reader)
    source = reader.chain.node_at(reader.chain.find(payload.get("from_id")))
    if source is None or payload.get("from_id") == "root":  # root: the summary is of the whole conversation
        return {"payload": payload}
    return {"payload": payload, "links": {"source": source}}


def read_custom(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read an extension's entry, which the model sees if it is a message."""
    payload = take(rest, "custom_type", "data", "content", "display", "details")
    brief = take_small({"custom_type": payload.get("custom_type", "")}, custom_type="custom_type")
    return {"payload": timed(payload, reader), "brief": brief}


def read_model_change(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a change of model or provider."""
    return {"brief": take_small(rest, model_id="model", provider_id="provider")}


def read_thinking_change(rest: Fields, place: Place, reader: Reader) -> Fields:
    """Read a change of the thinking level; a level that Operator does not know changes nothing."""
    if text_of(rest.get("thinking_level")) not in LEVELS:
        return read_unknown(rest, place, reader)
    return {"kind": "thinking_change", "brief": take_small(rest, thinking_level="thinking")}


def read_label(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a label; an entry without a text removes it."""
    return {"target": take_target(rest, "target_id", reader), "brief": {"label": take_text(rest, "label")}}


def read_title(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a name of the session; Operator ignores an entry without a name."""
    if not text_of(rest.get("name")).strip():
        return {}
    return {"kind": "title", "brief": {"title": take_text(rest, "name")}}


def read_leaf(rest: Fields, _place: Place, reader: Reader) -> Fields:
    """Read a change of the leaf: Operator continues at the target, or before the first entry if there is none."""
    reader.chain.stand(reader.chain.find(rest.get("target_id")))
    return {"target": take_target(rest, "target_id", reader)}


def read_unknown(rest: Fields, _place: Place, _reader: Reader) -> Fields:
    """Read a channel, or an entry that Operator would skip, with all its fields."""
    return {"payload": take(rest, *rest)}


READERS: Final[Mapping[str, Callable[[Fields, Place, Reader], Fields]]] = {
    "branch_summary": read_branch_summary,
    "compaction": read_compaction,
    "custom": read_custom,
    "custom_message": read_custom,
    "label": read_label,
    "leaf": read_leaf,
    "message": read_message,
    "model_change": read_model_change,
    "session_info": read_title,
    "thinking_level_change": read_thinking_change,
}


# From a draft back to an entry. The order of fields is that in which Operator writes them.


WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "branch_summary": ("from_id", "summary", "details", "from_hook"),
    "compaction": ("summary", "first_kept_entry_id", "tokens_before", "details", "from_hook"),
    "custom": ("custom_type", "data"),
    "custom_message": ("custom_type", "content", "display", "details"),
    "label": ("label", "target_id"),
    "leaf": ("target_id",),
    "message": ("message", "meta"),
    "model_change": ("model_id", "provider_id"),
    "session_info": ("name",),
    "thinking_level_change": ("thinking_level",),
}
"""The fields of each type of entry, in the order in which Operator writes them."""
_TYPES: Final = {"thinking_change": "thinking_level_change", "title": "session_info"}
_BRIEFS: Final = {
    "first_kept_entry_id": "kept",
    "tokens_before": "tokens_before",
    "model_id": "model",
    "provider_id": "provider",
    "thinking_level": "thinking",
    "label": "label",
    "name": "title",
}
"""The fields that are in the brief, with their names there."""


def to_record(draft: Draft, parent: str | None) -> Fields:
    """Return the entry from which a draft was made. Fields that are not set are not written."""
    kind = _TYPES.get(draft.kind, draft.kind)
    left = dict(draft.source or {})
    own = told(draft, WRITTEN.get(kind), _BRIEFS)
    if kind == "message" and draft.payload is not None:
        own = {"message": draft.payload}
    own |= {name: left.pop(name) for name in WRITTEN.get(kind, ()) if name in left}
    names = WRITTEN.get(kind, tuple(own))
    above = left.pop("parent_id", parent)
    return {
        "id": left.pop("id", draft.id),
        "timestamp": left.pop("timestamp", write_time(draft.time_ms)),
        **({} if above is None else {"parent_id": above}),
        "type": left.pop("type", kind),
        **{name: own[name] for name in names if name in own},
        **left,
    }


DIALECT: Final = Dialect(
    name=NAME,
    version=VERSION,
    parent="parent_id",
    notes=_NOTES,
    linear_below=0,
    readers=READERS,
    unknown=read_unknown,
    is_header=is_header,
    header=_HEADER,
    is_entry=is_entry,
    read_header=read_header,
    version_of=version_of,
    read_time=read_time,
    write_time=write_time,
    write=to_record,
    encode=encode,
)
