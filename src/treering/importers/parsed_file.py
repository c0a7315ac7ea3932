"""A parsed session file of another program, to find damage in it and to write a copy that the program opens.

Rule 1: the file is never written. A copy counts as written once it was read again, has every record, and is not
damaged.
Rule 2: nothing is invented. Records are kept byte for byte, except a missing or duplicate id, a lost parent, and bytes
that are not UTF-8.
Rule 3: an entry whose parent is lost gets a new parent where the conversation was cut off:
  - if the damaged bytes show that they were the parent, below the parent that they name;
  - else below the last entry before the nearest earlier damage;
  - else below the last entry before it.
  Only entries of the conversation count: no label, name or similar entry, and no descendant of the entry itself.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import msgspec

from treering.errors import UsageError
from treering.format.values import Fields, fields_of
from treering.kinds import Kind
from treering.programs.common.entry import RAW, SLOT, Entry
from treering.programs.common.flat import FlatSource
from treering.programs.common.lines import decode, read_values
from treering.programs.common.reader import text_of
from treering.programs.common.source import HEAD_BYTES, ImportSource, Problem, open_stream, read_start
from treering.programs.common.spans import members
from treering.programs.common.tree_rules import TreeRules, program_of_entry, session_header, tree_rules
from treering.programs.formats import Format, blobs_folder, detect_format, find_format, format_by_name
from treering.transcript.node import Draft

Severity = Literal["damage", "oddity", "harmless"]

ENTRIES_GUESSED: Final = 20
"""The number of records at the beginning from which the format is detected if there is no header."""
PADDING: Final = b"\0 \t\r\n"

_SEVERITIES: Final[dict[str, Severity]] = {
    **dict.fromkeys(
        (
            "empty", "header_missing", "header_displaced", "header_name", "header_id", "second_header", "glued", "torn",
            "garbage", "nul", "utf8", "bom", "nesting", "too_long", "gzip", "null", "no_object", "no_message",
            "duplicate_id", "missing_id", "no_parent", "orphan", "cycle", "self_parent", "refused_type", "line_end",
            "title_slot",
        ),
        "damage",
    ),
    **dict.fromkeys(("separator", "surrogate", "number"), "harmless"),
}  # fmt: skip
"""Severities by kind; all other kinds are oddities: the program reads such a file, perhaps differently."""
_LINE_ENDS: Final = {"\u2028": "U+2028", "\u2029": "U+2029", "\x85": "U+0085"}
_SURROGATE: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|"
    rb"(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_HEADERS: Final = frozenset({"session", "session_header", "title"})
"""Types of records that may come before entries, valid or not."""
_NAME: Final = re.compile(r'"([^"\\]{1,200})"')
_BIG: Final = re.compile(rb"[0-9][eE]\+?[0-9]{3}")


class FileFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a file."""

    line: int
    """The number of the line, from 1; 0 is the file as a whole."""
    offset: int
    """The offset of its first byte in the uncompressed file."""
    kind: str
    severity: Severity
    """`damage`: the program loses data because of it, or does not open the file. `oddity`: it is unusual. `harmless`:
    it is valid, though some readers fail on it."""
    message: str
    remedy: str = ""
    """The change in a repaired copy."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of a file."""

    path: str
    format: str
    version: int
    session: str
    entries: int
    """The number of readable records of the conversation."""
    findings: list[FileFinding]

    @property
    def damaged(self) -> bool:
        """Whether data are lost, or will be if the program opens the file."""
        return any(finding.severity == "damage" for finding in self.findings)


class Outline(msgspec.Struct, frozen=True, gc=False):
    """The facts of an entry that decide its place in the tree; for a long file these take most of the memory."""

    id: str
    """The id that it states; empty if it states none."""
    parent: str
    """The parent that it names; empty if it names none."""
    above: str
    """The entry that readers take as its parent if it names none."""
    type: str
    lane: tuple[object, ...]
    """The values of the fields in `TreeRules.lane`."""
    line: int
    offset: int


class ParsedFile:
    """The tree of a file: ids and similar facts, without payloads."""

    def __init__(self, path: Path, found: Format) -> None:
        self.path = path
        self.format = found
        self.tree: TreeRules | None = None
        self.header: Fields = {}
        self.header_raw = b""
        self.header_offset: int | None = None
        """The offset of the header, if it is not the first record."""
        self.front = b""
        """A line to put at the beginning, with that header or a new one."""
        self.blobs: Path | None = None
        self.slot = b""
        self.version = 0
        self.session = ""
        self.entries: list[Outline] = []
        """The outlines of its entries; `each_entry` reads the entries again."""
        self.lost: list[tuple[int, bytes]] = []
        """Bytes without a record, each with the number of entries before them."""
        self.findings: list[FileFinding] = []

    @property
    def diagnosis(self) -> Diagnosis:
        """The problems of the file."""
        return Diagnosis(
            path=str(self.path),
            format=self.format.NAME,
            version=self.version,
            session=self.session,
            entries=len(self.entries),
            findings=sorted(self.findings, key=lambda each: (each.offset, each.line)),
        )

    def report(self, line: int, offset: int, kind: str, message: str, remedy: str = "") -> None:
        """Add a finding."""
        self.findings.append(_finding(line, offset, kind, message, remedy))


def _finding(line: int, offset: int, kind: str, message: str, remedy: str = "") -> FileFinding:
    severity = _SEVERITIES.get(kind, "oddity")
    return FileFinding(line=line, offset=offset, kind=kind, severity=severity, message=message, remedy=remedy)


def examine(path: Path, format: str | None = None, beside: Path | None = None) -> ParsedFile:  # noqa: A002
    """Read a file and parse it; the tree is not checked yet.

    Args:
        path: The file.
        format: Its format; by default it is detected.
        beside: The file near which its program keeps large parts, if `path` is a copy of that file.

    Raises:
        UsageError: It is no session file of a known format.
    """
    head = _head(path)
    found = find_format(format) if format is not None else _format_of(path, head)
    parsed = ParsedFile(path, found)
    if not head.strip(PADDING) and _is_blank(path):
        parsed.report(0, 0, "empty", "file is empty", "nothing is left to repair")
        return parsed
    parsed.blobs = blobs_folder(found.NAME, beside or path)
    try:
        source = found.open_source(path, blobs=parsed.blobs)
    except UsageError as error:
        if error.kind != Kind.FORMAT:
            raise
        if tree_rules(found.NAME) is None:
            if not found.detect(head):
                raise
            parsed.report(1, 0, "torn", "document ends before its messages", "nothing is left to repair")
            return parsed
        parsed.front = found.encode(_header(parsed)) + b"\n"
        with _opened(parsed) as source:
            _read(parsed, source)
    else:
        _read(parsed, source)
    return parsed


def each_entry(parsed: ParsedFile) -> Iterator[Entry]:
    """Read the file again, and yield the entries of a parsed file, whole and one at a time."""
    if parsed.entries:
        with _opened(parsed) as source:
            strays = set[int]()
            yield from (entry for entry, _ in _records(parsed, source, strays) if entry is not None)


def _head(path: Path) -> bytes:
    with open_stream(path) as stream:
        return read_start(stream, HEAD_BYTES)


def _is_blank(path: Path) -> bool:
    with open_stream(path) as stream:
        while piece := read_start(stream, HEAD_BYTES):
            if piece.strip(PADDING):
                return False
    return True


def _format_of(path: Path, head: bytes) -> Format:
    """Return the format of a file; without a header that of its entries, and for an empty file by its name."""
    try:
        return detect_format(path)
    except UsageError as error:
        if not head.strip(PADDING) and _is_blank(path):
            return format_by_name(path)
        if name := _like_entries(path):
            return find_format(name)
        raise UsageError(
            f"{error.args[0].removesuffix(f'; {error.remedy}')}",
            kind=Kind.FORMAT,
            remedy="name its format by --format if it is one of these",
        ) from error


def _like_entries(path: Path) -> str | None:
    """Return the format of the first records, if they are entries or a header in the wrong place; else None."""
    records = list(_first_records(path))
    if not records or not (text_at(records[0], "type") in _HEADERS or program_of_entry(records[0])):
        return None
    return next((name for record in records if (name := program_of_entry(record))), None)


def is_foreign(path: Path) -> bool:
    """Tell whether a file of no known format is a valid file of another kind, and not a damaged session."""
    with open_stream(path) as stream:
        found = [*islice(read_values(stream, lambda *_: None, _is_record), ENTRIES_GUESSED)]
    records = [fields_of(value.value) for value in found]
    known = any(text_at(record, "type") in _HEADERS or program_of_entry(record) for record in records)
    return bool(found) and all(value.intact for value in found) and not known


def _first_records(path: Path) -> Iterator[Fields]:
    with open_stream(path) as stream:
        values = read_values(stream, lambda *_: None, _is_record)
        for _, value in zip(range(ENTRIES_GUESSED), values, strict=False):
            if isinstance(value.value, dict):
                yield value.value


def _is_record(value: Fields) -> bool:
    return isinstance(value.get("type"), str) and isinstance(value.get("id"), str)


def _header(parsed: ParsedFile) -> Fields:
    """Return a header for a file that does not begin with one: a later header of the file, or a new one."""
    made = _made(parsed)
    header = _displaced(parsed, made["type"])
    if header is None:
        header = made
        parsed.report(
            1, 0, "header_missing", "file has no session header", "a new one, without a folder, is put in front"
        )
    return header


@contextmanager
def _opened(parsed: ParsedFile) -> Iterator[ImportSource]:
    """Open the file, or a temporary copy of it that begins with a header."""
    if not parsed.front:
        yield parsed.format.open_source(parsed.path, blobs=parsed.blobs)
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, parsed.path.name.removesuffix(".gz"))
        with place.open("wb") as copy, open_stream(parsed.path) as stream:
            copy.write(parsed.front)
            while piece := read_start(stream, HEAD_BYTES):
                copy.write(piece)
        yield parsed.format.open_source(place, blobs=parsed.blobs)


def _displaced(parsed: ParsedFile, header_type: object) -> Fields | None:
    with open_stream(parsed.path) as stream:
        for value in read_values(stream, lambda *_: None, _is_record):
            record = fields_of(value.value)
            if record.get("type") in (header_type, "session_header"):
                parsed.header_offset = value.offset
            if record.get("type") == header_type:
                parsed.report(
                    value.line, value.offset, "header_displaced", "session header is not the first record",
                    "it is put in front",
                )  # fmt: skip
                return record
            if record.get("type") == "session_header":
                parsed.report(
                    value.line, value.offset, "header_name", "header has another type", "it gets the right one"
                )
                return record | {"type": header_type}
    return None


def _made(parsed: ParsedFile) -> Fields:
    """Return a new header for a file that has none; without a folder, since the file names none."""
    time = parsed.format.RULES.time
    first = next((record for record in _first_records(parsed.path) if time in record), {})
    name = parsed.path.name.removesuffix(".gz").removesuffix(".jsonl")
    identifier = name.rpartition("_")[2] or name
    rules = tree_rules(parsed.format.NAME)
    return (rules.header if rules is not None else session_header)(identifier, first.get(time))


def _read(parsed: ParsedFile, source: ImportSource) -> None:
    """Read a whole file; places are those in the file without the header that was added."""
    strays: set[int] = set()
    header = source.header
    parsed.version, parsed.session = header.version, header.session_id
    tree = tree_rules(parsed.format.NAME)
    is_tree = tree is not None and header.version >= tree.linear_below and not isinstance(source, FlatSource)
    parsed.tree = tree if is_tree else None
    of_bytes: list[FileFinding] = []
    for entry, drafts in _records(parsed, source, strays):
        if entry is None:
            _set_aside(parsed, drafts)
        else:
            of_bytes += _look_at_bytes(parsed, entry)
            parsed.entries.append(_outline(parsed.tree, entry, parsed.entries[-1:]))
    shift = len(parsed.front)
    for problem in source.problems:
        if not (problem.offset in strays or _is_ours(problem) or (shift and problem.kind == "second_header")):
            line, offset = max(0, problem.line - bool(shift)), max(0, problem.offset - shift)
            parsed.report(line, offset, problem.kind, problem.message, _REMEDIES.get(problem.kind, ""))
    for offset in strays - {None if parsed.header_offset is None else parsed.header_offset + shift}:
        parsed.report(1, offset - shift, "title_slot", "a title where no title slot is", "left out")
    parsed.findings += of_bytes


def _records(parsed: ParsedFile, source: ImportSource, strays: set[int]) -> Iterator[tuple[Entry | None, list[Draft]]]:
    """Yield the records of a file with their places; the offsets of misplaced records are added to `strays`."""
    shift = len(parsed.front)
    for entry, drafts in source.records():
        if entry is None:
            yield None, drafts
        elif entry.offset - shift == parsed.header_offset or (entry.type == "title" and not entry.id):
            strays.add(entry.offset)
        elif entry.record:
            place = {"line": entry.line - bool(shift), "offset": entry.offset - shift}
            yield msgspec.structs.replace(entry, **place), drafts


def _outline(tree: TreeRules | None, entry: Entry, before: list[Outline]) -> Outline:
    """Return the outline of an entry. It shares equal texts with the outline of the entry before."""
    if tree is None:
        return Outline("", "", "", "", (), entry.line, entry.offset)
    own, parent = text_at(entry.record, tree.id), text_at(entry.record, tree.parent)
    unsaid = tree.loose and own and tree.parent not in entry.record
    above, lane = (entry.parent or "") if unsaid else "", tuple(entry.record.get(name) or None for name in tree.lane)
    for last in before:
        parent = last.id if parent == last.id else parent
        lane = last.lane if lane == last.lane else lane
    return Outline(own, parent, above, sys.intern(entry.type), lane, entry.line, entry.offset)


def _is_ours(problem: Problem) -> bool:
    """Tell whether a problem concerns Treering's store and not the file: cut or folded values, stand-ins."""
    cut = problem.kind == "too_long" and not problem.message.startswith("line")
    folded = problem.kind == "nesting" and problem.message.startswith("parts")
    return cut or folded or problem.kind in ("late_note", "orphan")  # the tree is checked separately


_REMEDIES: Final = {
    "bom": "left out",
    "duplicate_id": "it gets a new id, and so do the entries further down that name it",
    "garbage": "left out",
    "glued": "each record gets a line of its own",
    "gzip": "what can be read is kept",
    "header_id": "the id in the file's name is written into it",
    "header_name": "it gets the right one",
    "missing_id": "it gets an id",
    "nesting": "left out",
    "no_message": "left out",
    "no_object": "left out",
    "no_parent": "each of them gets the one before it as its parent",
    "nul": "left out",
    "null": "left out",
    "second_header": "left out",
    "too_long": "left out",
    "torn": "left out",
    "utf8": "replaced by U+FFFD",
}


def _set_aside(parsed: ParsedFile, drafts: list[Draft]) -> None:
    """Keep the header, or bytes without a record."""
    if drafts and drafts[0].kind == "import":
        _take_header(parsed, drafts[0])
    elif drafts and drafts[0].kind == "damage":
        parsed.lost.append((len(parsed.entries), _bytes_of(drafts[0])))


def _take_header(parsed: ParsedFile, note: Draft) -> None:
    source = note.source or {}
    parsed.header_raw = _as_bytes(source.get(RAW)).strip()
    parsed.slot = _as_bytes(source.get(SLOT)).strip()
    parsed.header = fields_of(decode(parsed.header_raw)[0] if parsed.header_raw else None)


def _as_bytes(raw: object) -> bytes:
    if isinstance(raw, bytes):
        return raw
    return raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else b""


def _bytes_of(note: Draft) -> bytes:
    return _as_bytes(note.payload.get("bytes")) if isinstance(note.payload, dict) else b""


def _look_at_bytes(parsed: ParsedFile, entry: Entry) -> Iterator[FileFinding]:
    """Report parts of a record that are valid, though some readers fail on them."""
    raw, at = entry.raw, (entry.line, entry.offset)
    refused = parsed.tree.escaped if parsed.tree else ()
    for character, name in _LINE_ENDS.items():
        if character.encode() in raw:
            kind, remedy = ("line_end", "escaped") if character in refused else ("separator", "")
            told = f"{name} inside a text, which some readers take for the end of a line"
            yield _finding(*at, kind, told, remedy)
    if b"\\u" in raw and _SURROGATE.search(raw):
        yield _finding(*at, "surrogate", "half of a surrogate pair inside a text")
    if _BIG.search(raw) and _is_infinite(entry.record):
        yield _finding(*at, "number", "a number that is too large for a double")


def _is_infinite(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_is_infinite, value.values()))
    if isinstance(value, list):
        return any(map(_is_infinite, value))
    return isinstance(value, float) and value in (float("inf"), float("-inf"))


def names_in(raw: bytes, tree: TreeRules) -> tuple[str, str | None] | None:
    """Return the id and the parent in damaged bytes: those of the torn record, not of nested objects; None if none."""
    text = raw.decode("utf-8", "replace")
    if text.startswith("{"):
        shown = {span.key: text[span.start : span.end] for span in members(text, 0) if span.end is not None}
        found = [_NAME.fullmatch(shown.get(name, "")) for name in (tree.id, tree.parent)]
    else:
        found = [re.search(rf'"{name}"\s*:\s*{_NAME.pattern}', text) for name in (tree.id, tree.parent)]
    own, above = found
    return None if own is None else (own[1], above[1] if above else None)


def text_at(record: Fields, name: str) -> str:
    """Return a field of a record if it is a text; otherwise an empty text."""
    return text_of(record.get(name))
