"""Session files of Claude Code, and of its SDK.

    <home>/.claude/projects/<folder>/<session>.jsonl
    <home>/.claude/projects/<folder>/<session>/subagents/agent-<id>.jsonl, and agent-<id>.meta.json

`treering.programs.claude.entries` turns entries into records, and `treering.programs.claude.course` finds their
parents; `docs/reference/programs/claude.md` lists the repairs. This module handles the peculiarities of these files:
there is no header, so names of files and first entries describe the session, and a session may continue in another
file.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_OID, uuid5

import msgspec

from treering.errors import UsageError
from treering.format.values import Fields, fields_of
from treering.kinds import Kind
from treering.programs.claude.course import Course, Known
from treering.programs.claude.entries import (
    LINKED,
    SPEAKERS,
    is_boundary,
    is_result,
    is_side,
    is_unlinked,
    read_entry,
    texts_of,
    write_entry,
)
from treering.programs.common.entry import Entry, with_source
from treering.programs.common.growth import Growth, Knowledge
from treering.programs.common.lines import Value, read_values
from treering.programs.common.memo import Memo
from treering.programs.common.read_file import ReadFile
from treering.programs.common.reader import text_of
from treering.programs.common.recall import Recall
from treering.programs.common.rules import Rules
from treering.programs.common.source import (
    Imported,
    Problem,
    ProblemLog,
    damage_note,
    header_note,
    open_stream,
    uncompressed,
    white_before,
)
from treering.programs.common.times import read_time
from treering.programs.common.writing import encode_javascript
from treering.transcript.node import Draft

NAME: Final = "claude"
POLICIES: Final = ("claude",)
VERSION: Final = 2
"""The files state no version. In other formats version 1 means files without ids, and these files have ids."""
HEAD_ENTRIES_MAX: Final = 200
"""Entries at the beginning that are searched for facts about the session; large entries come later."""
FAMILY_FILES_MAX: Final = 100
"""Files in the same folder that are searched for the parent of a file's first entry, newest first."""
FAMILY_BYTES_MAX: Final = 256 * 1024 * 1024
"""The most bytes searched in all these files together."""

RULES: Final = Rules(
    moment=None, label=None, labelled_tree=False, title=("custom-title", "customTitle"), unknown="empty",
    leaf_told=True,
)  # fmt: skip

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT: Final = "agent-"
_SIDECAR: Final = ".meta.json"
_SIDECAR_BYTES_MAX: Final = 64 * 1024
_PROMPT_CHARACTERS_MAX: Final = 200
_COMMAND: Final = re.compile(r"<command-name>(.*?)</command-name>")
_NOT_TYPED: Final = re.compile(
    r"<(?:local-command-stdout|session-start-hook|tick|goal)>|\[Request interrupted by user[^\]]*\]"
    r"|<ide_(opened_file|selection)>.*</ide_\1>$"
)
"""Prompts that the SDK ignores, since the program wrote them."""
_CUT: Final = re.compile(rb'\s*\{[^{}\n]*"isSidechain"[^\n]*\Z')
"""A line without an end: the first entry may be larger than the bytes read."""
_MARKS: Final[Mapping[str, str]] = {
    "ai-title": "aiTitle",
    "custom-title": "customTitle",
    "file-history-snapshot": "messageId",
    "last-prompt": "lastPrompt",
    "mode": "mode",
    "permission-mode": "permissionMode",
    "queue-operation": "operation",
    "summary": "leafUuid",
}
"""Types of entries with which a file may begin, and a field of each."""


# detection


def detect(head: bytes) -> bool:
    """Tell whether a file that begins with `head` is Claude Code's: it has such an entry, and none of another program.

    Files of Qwen Code differ only in the parts of messages.
    """
    known = _CUT.match(head) is not None
    for value in read_values(io.BytesIO(uncompressed(head)), lambda *_: None, is_entry):
        record = fields_of(value.value)
        message = fields_of(record.get("message"))
        if "parts" in message or "systemPayload" in record or record.get("type") == "session":
            return False
        known = known or _is_claude(record, message)
    return known


def _is_claude(record: Fields, message: Fields) -> bool:
    kind = text_of(record.get("type"))
    if kind in SPEAKERS and "content" in message:
        return True
    if kind in LINKED:
        return "uuid" in record and not {"isSidechain", "userType", "parentUuid"}.isdisjoint(record)
    return kind in _MARKS and _MARKS[kind] in record


def is_entry(value: Fields) -> bool:
    """Tell whether an object is an entry, and not a part of an entry, which also has a type and an id."""
    if not isinstance(value.get("type"), str):
        return False
    linked = isinstance(value.get("uuid"), str) and not {"timestamp", "parentUuid", "session_id"}.isdisjoint(value)
    return linked or isinstance(value.get("sessionId"), str) or _is_claude(value, fields_of(value.get("message")))


# one file


def open_source(path: str | os.PathLike[str], *, blobs: Path | None = None) -> ClaudeSource:  # noqa: ARG001
    """Open a session file of Claude Code, compressed by gzip or not. Other files of the session are not read.

    Raises:
        UsageError: The beginning of the file has no entry of Claude Code.
        NotFoundError: There is no such file.
        AccessError: The file may not be read.
    """
    place = Path(path)
    return ClaudeSource(lambda: open_stream(place), place)


class ClaudeSource:
    """A session file of Claude Code. `GrowingSource` documents its members."""

    GROWS = True

    def __init__(self, open_file: Callable[[], io.BufferedIOBase], path: Path) -> None:
        self._open = open_file
        self._log = ProblemLog()
        self.leaf: str | None = None
        with open_file() as stream:
            found = read_values(stream, lambda *_: None, is_entry)
            first = [value for value, _ in zip(found, range(HEAD_ENTRIES_MAX), strict=False)]
        entries = [value.value for value in first if isinstance(value.value, dict)]
        if not any(_is_claude(entry, fields_of(entry.get("message"))) for entry in entries):
            raise UsageError(
                f"this is no session file of Claude Code: no entry of it is at the beginning. path={str(path)!r}",
                kind=Kind.FORMAT,
                remedy="name a file from a folder in ~/.claude/projects",
            )
        self.header = _read_header(entries, path)
        self._before = white_before(open_file, first[0].offset)

    @property
    def problems(self) -> list[Problem]:
        """The problems found so far."""
        return self._log.problems

    def records(self, growth: Growth | None = None) -> Iterator[tuple[Entry | None, list[Draft]]]:
        """Yield the entries of the file with their drafts, in its order."""
        self._log, self.leaf = ProblemLog(), None
        growth = growth or Growth(NAME)
        ids = Ids()
        with self._open() as stream, Recall(self._open, is_entry) as recall:
            course = Course(ids, recall)
            reader = _Reader(course, ids, self._log, self.header.created_ms)
            growth.begin(stream, 0, reader.go_on)
            yield None, [header_note(self.header, b"", before=self._before)]
            for value in growth.values(self._log.report, is_entry, reader.known):
                yield reader.read(value)
        self.leaf = course.leaf()

    def drafts(self) -> Iterator[Draft]:
        """Yield the drafts of the file, in its order."""
        for _, drafts in self.records():
            yield from drafts


class _Reader:
    """Makes the drafts of the JSON values of one file, in order."""

    def __init__(self, course: Course, ids: Ids, log: ProblemLog, time_ms: int | None) -> None:
        self._course = course
        self._ids = ids
        self._log = log
        self._time = time_ms
        self._chained = False
        """Whether it was reported already that entries name no parent."""

    def known(self) -> Knowledge:
        """Return the state on which the next entry depends."""
        state = _State(self._course.known, self._ids.made, self._time)
        return Knowledge(_state_encoder.encode(state), self._course.facts)

    def go_on(self, state: bytes, memo: Memo) -> None:
        """Continue from the state of another reader of the same file."""
        known = _state_decoder.decode(state)
        self._course.go_on(known.course, memo)
        self._ids.made, self._time = known.made, known.time

    def read(self, value: Value) -> tuple[Entry | None, list[Draft]]:
        """Return the entry of a value and its drafts; for bytes that are no entry, a note with them."""
        if not isinstance(value.value, dict):
            if not value.damage:
                self._log.report(value.line, value.offset, "no_object", "this is no entry, kept as a note")
            kind = value.damage or "no_object"
            name = str(uuid5(NAMESPACE_OID, f"damage {value.line} {value.offset}"))
            return None, [damage_note(name, kind, value.line, value.offset, value.raw, after=value.after)]
        record = value.value
        spot = self._course.add(record, value.offset)
        uuid = text_of(record.get("uuid"))
        if uuid and uuid != spot.id:
            what = f"kept as a note. uuid={uuid!r}" if spot.note else f"uuid={uuid!r}, now={spot.id!r}"
            message = f"id was used before. {what}"
            self._log.report(value.line, value.offset, "duplicate_id", message)
        if spot.missing and not (spot.parent is None and is_boundary(record)):
            message = f"parent did not come before it, went on from the newest. parentUuid={spot.missing!r}"
            self._log.report(value.line, value.offset, "orphan", message)
        if uuid and spot.parent and is_unlinked(record) and not (spot.note or self._chained):
            self._chained = True
            message = "entries do not say what they follow, like those of `--output-format stream-json`: read in order"
            self._log.report(value.line, value.offset, "no_parent", message)
        draft = read_entry(record, spot, self._time)
        self._time = draft.time_ms
        entry = Entry(
            id="" if spot.note else spot.id, parent=spot.parent, type=text_of(record.get("type")), record=record,
            raw=value.raw, line=value.line, offset=value.offset, intact=value.intact, after=value.after,
        )  # fmt: skip
        return entry, [with_source(draft, entry, write_entry, encode, optional=())]


class Ids:
    """Makes ids for entries that have none: the same ids on every reading, also of a copy of the file."""

    def __init__(self) -> None:
        self.made = 0
        """The number of ids made."""

    def __call__(self) -> str:
        """Return the next id."""
        self.made += 1
        return str(uuid5(NAMESPACE_OID, f"entry {self.made}"))


class _State(msgspec.Struct, frozen=True, array_like=True):
    """The state of a reader between two entries."""

    course: Known
    made: int
    time: int | None


_state_encoder = msgspec.msgpack.Encoder()
_state_decoder = msgspec.msgpack.Decoder(_State)


# the facts of a file about itself


def _read_header(entries: Sequence[Fields], path: Path) -> Imported:
    """Return the facts about a session; for each fact the first entry that states it counts."""
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    found = _first(entries, "sessionId") or _first(entries, "session_id")
    agent = _agent_facts(path, stem)
    linked = [entry for entry in entries if text_of(entry.get("type")) in LINKED]
    cwd = _first(linked, "cwd") or _first(entries, "cwd")
    session, parent = stem, ""
    if agent:
        parent = _owner(path) or found
        session = _name_of_agent(path, stem, parent)
    else:
        session = stem if _UUID.fullmatch(stem) else found or stem
        parent = _predecessor(linked, path, session)
    times = (read_time(entry.get("timestamp")) for entry in entries)
    return Imported(
        format=NAME,
        version=VERSION,
        session_id=session,
        cwd=cwd,
        created_ms=next((time for time in times if time is not None), None),
        parent_session=parent,
        extra=agent,
    )


def _first(entries: Iterable[Fields], name: str) -> str:
    return next((text for entry in entries if (text := text_of(entry.get(name)))), "")


def _agent_facts(path: Path, stem: str) -> Fields:
    """Return the facts about a subagent; empty for a main session."""
    if not stem.startswith(_AGENT):
        return {}
    beside = _read_sidecar(path.with_name(stem + _SIDECAR))
    task = text_of(beside.get("description"))
    return {
        "subagent": stem.removeprefix(_AGENT),
        **({"subagent_task": task} if task else {}),
        **_named("agent", beside),
    }


def _named(name: str, facts: Fields) -> Fields:
    return {name: facts} if facts else {}


def _read_sidecar(path: Path) -> Fields:
    """Return the metadata file of a subagent; empty if it is missing or invalid."""
    with suppress(OSError, ValueError, RecursionError):
        if path.is_file() and path.stat().st_size <= _SIDECAR_BYTES_MAX:
            return fields_of(json.loads(path.read_bytes()))
    return {}


def _owner(path: Path) -> str:
    """Return the session in whose folder a subagent's file is; empty if it is next to the session's file, as once."""
    return next((part for part in reversed(path.absolute().parts[:-1]) if _UUID.fullmatch(part)), "")


def _name_of_agent(path: Path, stem: str, owner: str) -> str:
    """Return the name of a subagent's session, as in the SDK: its path below the folder of its session."""
    parts = path.absolute().parts[:-1]
    below = parts[len(parts) - parts[::-1].index(owner) :] if owner in parts else ()
    return "/".join([part for part in (owner, *below) if part] + [stem])


def _predecessor(linked: Sequence[Fields], path: Path, session: str) -> str:
    """Return the session that this session continues; empty if there is none.

    A fork names it. Old versions copied its entries, with its id in them. Otherwise the parent of the first entry is in
    another file of the folder.
    """
    for entry in linked:
        named = text_of(fields_of(entry.get("forkedFrom")).get("sessionId")) or text_of(entry.get("sessionId"))
        if named and named != session:
            return named
    first = linked[0] if linked else {}
    above = text_of(first.get("parentUuid")) or (text_of(first.get("logicalParentUuid")) if is_boundary(first) else "")
    return _session_with(above, path) if above and not is_side(first) else ""


def _session_with(uuid: str, path: Path) -> str:
    """Return the session in the folder of a file that has the entry with an id; empty if there is none."""
    needles = [f'"uuid":{space}"{uuid}"'.encode("utf-8", "surrogatepass") for space in ("", " ")]
    left = FAMILY_BYTES_MAX
    for size, beside in _family(path):
        left -= size
        if left < 0:
            break
        with (
            suppress(OSError, ValueError),  # the file was removed, or is empty
            beside.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            if any(data.find(needle) >= 0 for needle in needles):
                return beside.stem
    return ""


def _family(path: Path) -> list[tuple[int, Path]]:
    """Return the other sessions in the folder of a file, with their sizes, the newest first."""
    found: list[tuple[int, int, Path]] = []
    with suppress(OSError):
        for each in os.scandir(path.absolute().parent):
            stem, ending = os.path.splitext(each.name)
            if ending == ".jsonl" and each.name != path.name and not stem.startswith(_AGENT) and each.is_file():
                stat = each.stat()
                found.append((stat.st_mtime_ns, stat.st_size, Path(each.path)))
    return [(size, place) for _, size, place in sorted(found, reverse=True)[:FAMILY_FILES_MAX]]


# how Claude Code reads a file


def restore(entries: Sequence[Entry]) -> str | None:
    """Return the entry at which Claude Code continues, see `Course.leaf`."""
    course = Course(Ids(), lambda at: entries[at].record)
    names = {course.add(entry.record, at).id: entry.id for at, entry in enumerate(entries)}
    leaf = course.leaf()
    return None if leaf is None else names[leaf]


def listing(file: ReadFile) -> dict[str, object]:
    """Return the entry of the SDK's list of sessions: empty for a subagent, and for a session without a summary.

    See `fold_session_summary` and `summary_entry_to_sdk_info` of the SDK.
    """
    entries = [entry.record for entry in file.entries]
    if not entries or entries[0].get("isSidechain") is True:
        return {}
    prompts = [*_prompts(entries)]
    first = next((text for text, command in prompts if not command), "") or next((text for text, _ in prompts), "")
    title = _last(entries, "customTitle") or _last(entries, "aiTitle")
    summary = title or _last(entries, "lastPrompt") or _last(entries, "summary") or first
    tags = [text_of(entry.get("tag")) for entry in entries if entry.get("type") == "tag"]
    found: dict[str, object] = {
        "session_id": file.header.session_id,
        "summary": summary,
        "custom_title": title or None,
        "first_prompt": first or None,
        "git_branch": _last(entries, "gitBranch") or None,
        "cwd": _first(entries, "cwd") or None,
        "tag": (tags[-1] if tags else "") or None,
        "created_at": file.header.created_ms,
    }
    return found if summary else {}


def _prompts(entries: Iterable[Fields]) -> Iterator[tuple[str, bool]]:
    """Yield the prompts of the user, each on one line, and whether it is a command."""
    for entry in entries:
        if entry.get("type") != "user" or is_result(entry) or entry.get("isMeta") or entry.get("isCompactSummary"):
            continue
        for text in texts_of(entry):
            line = text.replace("\n", " ").strip()
            command = _COMMAND.search(line)
            if command:
                yield command[1], True
            elif line and not _NOT_TYPED.match(line):
                yield (
                    (f"{line[:_PROMPT_CHARACTERS_MAX].rstrip()}…" if len(line) > _PROMPT_CHARACTERS_MAX else line),
                    False,
                )


def _last(entries: Sequence[Fields], name: str) -> str:
    return next((entry[name] for entry in reversed(entries) if isinstance(entry.get(name), str)), "")


def encode(record: Mapping[str, object]) -> bytes:
    """Return the bytes that Claude Code writes for a record, without the line break."""
    return encode_javascript(record)


def to_record(draft: Draft, parent: str | None) -> Fields:  # noqa: ARG001  # what it names is in the draft's source
    """Return the entry from which a draft was made."""
    return write_entry(draft)
