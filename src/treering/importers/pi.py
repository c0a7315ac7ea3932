"""Session files of pi: versions 1 to 3 of its format, as written by pi 0.73 and 1.5.

A file is a header and then entries, one JSON object on each line. Entries name their parent; the last entry is where pi
goes on. What becomes of each type of entry, and what is mended, stands in `docs/reference/import-pi.md`.

Rule 1: an entry has its place before anything is made of it. `Chain` alone decides about ids and parents; the
functions below it see finished answers.
Rule 2: what is taken from an entry is taken out of it. What is left over goes to `Draft.source`, so a field that nobody
thought of cannot be lost.
Rule 3: an entry depends only on what stands above it in the file. So the drafts of a file that has grown begin with
those of the file as it was.

In pi, labels, names and usage are entries of the tree and move its leaf. Here they are notes beside the tree. An entry
whose parent is a note is joined to the nearest node above that note.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeGuard

from treering.errors import UsageError
from treering.format import values
from treering.format.record import BRIEF_BYTES_MAX, TIME_MS_MAX
from treering.importers.chain import Chain, Place
from treering.importers.lines import Value, read_values
from treering.importers.source import GZIP_MAGIC, HEAD_BYTES, Imported, Problem, ProblemLog, find_files, open_stream
from treering.transcript.node import Draft

FORMAT: Final = "pi"
VERSION: Final = 3
"""The newest version of the format; a newer one is read as if it were this, and reported."""
ENDINGS: Final = (".jsonl", ".jsonl.gz")

Fields = dict[str, Any]
"""Those of a JSON object. Foreign, so nothing is known about their types."""

_NOTES: Final = frozenset({"label", "session_info", "usage"})
_ENVELOPE: Final = frozenset({"type", "id", "parentId", "timestamp"})
_NAMED_BY_PI: Final = re.compile(r"[-\dTZ]+_(.+)")  # a time and the id of the session


def detect(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is a session of pi: its first JSON object is a session header."""
    if head.startswith(GZIP_MAGIC):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return False
    return _is_header(_first(io.BytesIO(head)))


def open_source(path: str | os.PathLike[str]) -> PiSource:
    """Open a session file of pi, compressed by gzip or not.

    Raises:
        UsageError: The file is empty, or its first JSON object is no session header.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place = Path(path)
    return PiSource(lambda: open_stream(place), place)


def find(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files below `folder` that may be sessions of pi, by their names; a file yields itself."""
    return find_files(Path(folder), ENDINGS)


class PiSource:
    """A session file of pi. See `ImportSource` for what its members promise."""

    def __init__(self, open_file: Callable[[], io.BufferedIOBase], path: Path) -> None:
        self._open = open_file
        self._log = ProblemLog()
        self.leaf: str | None = None
        with open_file() as stream:
            header = _first(stream)
        if not _is_header(header):
            raise UsageError(
                f"this is no session file of pi: {_describe(header)}. path={str(path)!r}",
                kind="format",
                remedy="name a file whose first line is a session header",
            )
        self.header = _read_header(header, path)

    @property
    def problems(self) -> list[Problem]:
        """What was skipped or mended so far."""
        return self._log.problems

    def drafts(self) -> Iterator[Draft]:
        """Yield the entries of the file as drafts, in its order."""
        self._log = ProblemLog()
        self.leaf = None
        reader = _Reader(self.header, self._log)
        with self._open() as stream:
            for value in read_values(stream, self._log.report, _is_entry):
                yield from reader.read(value)
        self.leaf = reader.chain.leaf()


def _first(stream: io.BufferedIOBase) -> Fields | None:
    found = read_values(stream, lambda *_: None, _is_entry)
    return next((value.value for value in found if isinstance(value.value, dict)), None)


def _is_entry(value: Fields) -> bool:
    """Tell an entry from the blocks inside one, which have types and ids as well."""
    placed = isinstance(value.get("id"), str) and "parentId" in value
    return isinstance(value.get("type"), str) and (placed or isinstance(value.get("timestamp"), str))


def _is_header(value: Fields | None) -> TypeGuard[Fields]:
    return value is not None and value.get("type") == "session"


def _describe(first: Fields | None) -> str:
    if first is None:
        return "it is empty or holds no JSON object"
    return f"its first JSON object is of the type {first.get('type')!r} and not 'session'"


def _read_header(header: Fields, path: Path) -> Imported:
    """Return what a header says; one without an id gets that of the file's name."""
    rest = {name: value for name, value in header.items() if name != "type"}
    text = {name: rest.pop(name) for name in ("id", "cwd", "title", "parentSession") if _text(rest.get(name))}
    created = _time_ms(rest.get("timestamp"))
    if rest.get("timestamp") == _iso(created):
        rest.pop("timestamp", None)
    version = _version(rest.get("version"))
    if type(rest.get("version")) is int:
        del rest["version"]
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    named = _NAMED_BY_PI.fullmatch(name)
    return Imported(
        format=FORMAT,
        version=version,
        session_id=text.get("id") or (named[1] if named else name),
        title=text.get("title", ""),
        cwd=text.get("cwd", ""),
        created_ms=created,
        parent_session=text.get("parentSession") or _text(rest.get("branchedFrom")),
        extra=rest,
    )


def _version(value: Any) -> int:
    """Return the version as pi compares it: none is 1, text is the number in it, and what is no number is new."""
    if value is None:
        return 1
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return VERSION


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time_ms(value: object) -> int | None:
    """Return milliseconds since 1970 of an ISO 8601 text, or of a number of them; None for anything else."""
    if isinstance(value, int | float):
        return int(value) if abs(value) <= TIME_MS_MAX else None
    try:
        time = datetime.fromisoformat(_text(value))
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _iso(ms: int | None) -> str | None:
    """Return a time as JavaScript writes it."""
    if ms is None:
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Reader:
    """Makes drafts of the records of one file, one after the other."""

    def __init__(self, header: Imported, log: ProblemLog) -> None:
        self.chain = Chain(header.session_id, linear=header.version < 2)
        self.version = header.version
        self.numbered: list[str] = []
        """Ids by the number that version 1 gives to entries: the header is 0, and what pi could not read has none."""
        self._header = header
        self._headed = False
        self._log = log
        self._time = header.created_ms

    def read(self, record: Value) -> Iterator[Draft]:
        """Yield what a JSON value of the file becomes: usually one draft."""
        entry = record.value
        if isinstance(entry, dict) and entry.get("type") != "session":
            yield from self._read_entry(entry, record)
            return
        if record.intact and entry is not None and self.chain.linear:
            self.numbered.append("")
        if not isinstance(entry, dict):
            kind = "null" if entry is None else "no_object"
            self._report(record, kind, f"this is no record, skipped. text={str(entry)[:60]!r}")
        elif self._headed:
            self._report(record, "second_header", "another session header, kept as a note")
            own = self.chain.add("", None, note=True, moves=False).id
            yield Draft(type="note", kind="session", id=own, parent=None, payload=entry, time_ms=self._time)
        else:
            self._headed = True
            self._check_header(entry, record)

    def _check_header(self, entry: Fields, record: Value) -> None:
        if not _text(entry.get("id")):
            self._report(record, "header_id", f"no id, took that in the file's name. id={self._header.session_id!r}")
        if self._header.version > VERSION or _version(entry.get("version")) != entry.get("version", 1):
            known = f"read as version {min(self._header.version, VERSION)}"
            self._report(record, "version", f"version is not known, {known}. version={entry.get('version')!r}")

    def _read_entry(self, entry: Fields, record: Value) -> Iterator[Draft]:
        kind = _text(entry.get("type"))
        note = kind in _NOTES or not kind
        place = self.chain.add(_text(entry.get("id")), entry.get("parentId"), note=note, moves=bool(kind))
        if record.intact and self.chain.linear:
            self.numbered.append(place.id)
        rest = {name: value for name, value in entry.items() if name not in _ENVELOPE}
        if not kind:
            self._report(record, "no_type", "entry has no type, kept as a note")
            rest |= _take(dict(entry), "type")
        fields: Fields = {"type": "note" if note else "node", "kind": kind or "unknown"}
        fields |= _READERS.get(kind, _read_unknown)(rest, place, self)
        time = self._read_time(entry, rest, record)
        self._check_place(entry, rest, place, record)
        parent = None if note else place.parent
        links: dict[str, str] = fields.pop("links", {})
        if _text(entry.get("parentId")) and entry["parentId"] != parent:
            links["source_parent"] = entry["parentId"]
        brief = self._shorten(fields.pop("brief", {}), entry, rest, record)
        if place.stand_in:
            yield Draft(kind=kind, id=place.stand_in, parent=place.parent, time_ms=time)
        yield Draft(
            **fields,
            id=place.id,
            parent=parent,
            time_ms=time,
            brief=brief or None,
            links=links or None,
            source=rest or None,
        )

    def _read_time(self, entry: Fields, rest: Fields, record: Value) -> int | None:
        """Return the time of an entry; if it has none, that of its message, else that of the entry before."""
        stamp = entry.get("timestamp")
        time = _time_ms(stamp)
        if time is None:
            message = entry.get("message")
            time = _time_ms(message.get("timestamp")) if isinstance(message, dict) else None
            self._report(record, "timestamp", f"time of the entry is not readable. timestamp={stamp!r}")
        self._time = self._time if time is None else time
        if stamp != _iso(self._time):
            rest["timestamp"] = stamp
        return self._time

    def _check_place(self, entry: Fields, rest: Fields, place: Place, record: Value) -> None:
        """Keep what the file says about id and parent where ours are other ones, and report what is odd."""
        parent = entry.get("parentId")
        if parent is not None and not isinstance(parent, str):
            self._report(record, "parent", f"parent is no id, read as none. parentId={parent!r}")
        if parent is not None and not _text(parent):
            rest["parentId"] = parent
        if "id" in entry and entry["id"] != place.id:
            rest["id"] = entry["id"]
        if self.chain.linear or entry.get("id") == place.id:
            return
        if place.stand_in:
            self._report(record, "late_note", f"an entry further up is below it, a node stands in. id={entry['id']!r}")
        elif _text(entry.get("id")):
            self._report(record, "duplicate_id", f"id was used before. id={entry['id']!r}, now={place.id!r}")
        else:
            self._report(record, "missing_id", f"entry has no id, made one. now={place.id!r}")

    def _shorten(self, brief: Fields, entry: Fields, rest: Fields, record: Value) -> Fields:
        """Return a brief that can be stored; texts that had to be cut for that stay whole in `rest`."""
        if len(values.encode(brief)) <= BRIEF_BYTES_MAX:
            return brief
        self._report(record, "too_long", f"texts are cut to what a brief may hold. bytes={BRIEF_BYTES_MAX}")
        rest |= {name: text for name, text in entry.items() if isinstance(text, str) and name not in _ENVELOPE}
        size = BRIEF_BYTES_MAX
        while len(values.encode(brief)) > BRIEF_BYTES_MAX:
            if not size:
                return {}
            size //= 2
            brief = {name: value[:size] if isinstance(value, str) else value for name, value in brief.items()}
        return brief

    def _report(self, record: Value, kind: str, message: str) -> None:
        self._log.report(record.line, record.offset, kind, message)


# What follows takes its fields out of `rest` and returns fields of the draft.


def _take(rest: Fields, *names: str) -> Fields:
    return {name: rest.pop(name) for name in names if name in rest}


def _take_small(rest: Fields, **names: str) -> Fields:
    """Take what fits into a brief, under the names that it has there."""
    small = str | int | float | None
    return {new: rest.pop(old) for old, new in names.items() if old in rest and isinstance(rest[old], small)}


def _read_message(rest: Fields, _place: Place, reader: _Reader) -> Fields:
    message = rest.get("message")
    if not isinstance(message, dict):
        return {"brief": {"context": False}}  # pi fails here; a model could do nothing with it
    del rest["message"]
    if reader.version < 3 and message.get("role") == "hookMessage":
        rest["message"] = {"role": "hookMessage"}
        message = message | {"role": "custom"}
    return {"role": _text(message.get("role")), "payload": message}


def _read_compaction(rest: Fields, place: Place, reader: _Reader) -> Fields:
    index = rest.get("firstKeptEntryIndex")
    if reader.version < 2 and isinstance(index, int):  # what stands further down has no number yet, in pi either
        named = (reader.numbered[index] or None) if 0 <= index < len(reader.numbered) else None
    else:
        named = reader.chain.find(rest.get("firstKeptEntryId"))
    kept = reader.chain.kept_from(named, place)
    if kept is not None and kept == rest.get("firstKeptEntryId"):
        del rest["firstKeptEntryId"]
    brief = _take_small(rest, tokensBefore="tokens_before")
    return {
        "brief": brief if kept is None else {"kept": kept, **brief},
        "payload": _take(rest, "summary", "details", "systemMessage", "usage", "fromHook"),
    }


def _read_branch_summary(rest: Fields, _place: Place, reader: _Reader) -> Fields:
    payload = _take(rest, "summary", "details", "usage", "fromHook")
    fields: Fields = {"payload": payload, "brief": {} if payload.get("summary") else {"empty": True}}
    if rest.get("fromId") == "root":
        return fields  # no entry: the summary is of all there was
    source = reader.chain.node_at(reader.chain.find(rest.get("fromId")))
    if source is not None:
        fields["links"] = {"source": source}
    if source == rest.get("fromId"):
        rest.pop("fromId", None)
    return fields


def _read_custom(rest: Fields, _place: Place, _reader: _Reader) -> Fields:
    payload = _take(rest, "customType", "data", "content", "display", "details")
    name = payload.pop("customType", "")
    return {
        "payload": {"custom_type": name, **payload},
        "brief": _take_small({"customType": name}, customType="custom_type"),
    }


def _read_context_edit(rest: Fields, _place: Place, reader: _Reader) -> Fields:
    target = _take_target(rest, reader)
    edit = "retract" if rest.get("replacement") is None else "amend"
    return {"payload": _take(rest, "replacement"), "brief": {"target": target, "edit": edit}}


def _read_model_change(rest: Fields, _place: Place, _reader: _Reader) -> Fields:
    return {"brief": _take_small(rest, modelId="model", provider="provider")}


def _read_thinking_change(rest: Fields, _place: Place, _reader: _Reader) -> Fields:
    return {"kind": "thinking_change", "brief": _take_small(rest, thinkingLevel="thinking")}


def _read_label(rest: Fields, _place: Place, reader: _Reader) -> Fields:
    return {"target": _take_target(rest, reader), "brief": {"label": _take_text(rest, "label")}}


def _take_target(rest: Fields, reader: _Reader) -> str | None:
    target = reader.chain.find(rest.get("targetId"))
    if target == rest.get("targetId"):
        rest.pop("targetId", None)
    return target


def _take_text(rest: Fields, name: str) -> str | None:
    return rest.pop(name) if _text(rest.get(name)) else None


def _read_title(rest: Fields, _place: Place, _reader: _Reader) -> Fields:
    return {"kind": "title", "brief": {"title": _take_text(rest, "name")}}


def _read_usage(rest: Fields, place: Place, _reader: _Reader) -> Fields:
    payload = _take(rest, *rest)
    usage = payload.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    cost = usage.get("cost")
    counted = usage | {"cost": cost.get("total")} if isinstance(cost, dict) else usage
    numbers = {name: value for name, value in counted.items() if type(value) in (int, float)}
    return {"payload": payload, "brief": numbers, "target": place.parent}


def _read_unknown(rest: Fields, _place: Place, _reader: _Reader) -> Fields:
    return {"payload": _take(rest, *rest)}


_READERS: Final[dict[str, Callable[[Fields, Place, _Reader], Fields]]] = {
    "branch_summary": _read_branch_summary,
    "compaction": _read_compaction,
    "context_edit": _read_context_edit,
    "custom": _read_custom,
    "custom_message": _read_custom,
    "label": _read_label,
    "message": _read_message,
    "model_change": _read_model_change,
    "session_info": _read_title,
    "thinking_level_change": _read_thinking_change,
    "usage": _read_usage,
}
