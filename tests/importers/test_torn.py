"""Torn lines of every program: what is inside of a torn record is none, and everything else is read as if it were not.

`make tears` tears every line of all samples at every byte; else some bytes are chosen.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treering.api.store import Store
from treering.errors import UsageError
from treering.importers import FileImporter, read
from treering.programs.common.lines import decode, read_values
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

WHOLE = bool(os.environ.get("TREERING_TEARS"))
SAMPLE_BYTES_MAX = 500_000
TORN = b"{"
"""A record that is torn behind its first byte: nothing can be inside of it."""

TIME = "2026-01-05T08:00:00.000Z"
CLAUDE = {
    "isSidechain": False, "userType": "external", "cwd": "/repo", "sessionId": "aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb",
    "version": "2.1.40", "timestamp": TIME,
}  # fmt: skip


def claude(uuid: str, parent: str | None, text: str) -> dict[str, Any]:
    """Return an entry of Claude Code."""
    return {"parentUuid": parent, **CLAUDE, "type": "user", "message": {"role": "user", "content": text}, "uuid": uuid}


def pi(name: str, parent: str | None, text: str) -> dict[str, Any]:
    """Return an entry of pi or oh-my-pi."""
    message = {"role": "user", "content": text, "timestamp": 1}
    return {"type": "message", "id": name, "parentId": parent, "timestamp": TIME, "message": message}


def operator(name: str, parent: str | None, text: str, *more: Any) -> dict[str, Any]:
    """Return an entry of Operator-Use."""
    contents = [*more, {"type": "text", "content": text}]
    message = {"contents": contents, "id": name, "timestamp": 1.5, "role": "user"}
    return {"id": name, "timestamp": 1.5, "parent_id": parent, "type": "message", "message": message}


def kit(name: str, parent: str | None, text: str, *more: Any) -> dict[str, Any]:
    """Return an entry of kit."""
    parts = [*more, {"type": "text", "data": {"text": text}}]
    return {"type": "message", "id": name, "parent_id": parent, "timestamp": TIME, "role": "user", "parts": parts}


def flat(text: str, *more: Any) -> dict[str, Any]:
    """Return a line of a flat file of Operator-Use."""
    return {"role": "human", "content": text, "metadata": [*more]}


HEADER = {"type": "session", "version": 3, "id": "s-1", "timestamp": TIME, "cwd": "/repo"}
SLOT = {"type": "title", "v": 1, "title": "A title", "updatedAt": TIME, "pad": "    "}
PROGRESS: dict[str, Any] = {
    "parentUuid": "u2", **CLAUDE, "type": "progress",
    "data": {"message": {**claude("inner", None, "inside")}, "normalizedMessages": [claude("more", None, "inside")]},
    "toolUseID": "t", "uuid": "u3",
}  # fmt: skip
REMOTE = {
    "type": "compaction", "id": "u3", "parentId": "u2", "timestamp": TIME, "summary": "S", "firstKeptEntryId": "u2",
    "tokensBefore": 1, "preserveData": {"replacementHistory": [pi("inner", "u2", "inside"), pi("more", "u2", "x")]},
}  # fmt: skip
CUSTOM = {
    "type": "custom", "customType": "snapshot", "id": "u3", "parentId": "u2", "timestamp": TIME,
    "data": {"last": pi("inner", None, "inside: {"), "all": [pi("more", "u2", 'a "quoted" text, and [')]},
}  # fmt: skip
FILES: dict[str, list[dict[str, Any]]] = {
    "claude": [claude("u1", None, "one"), claude("u2", "u1", "two"), PROGRESS, claude("u4", "u3", "four")],
    "pi": [HEADER, pi("u1", None, "one"), pi("u2", "u1", "two"), CUSTOM, pi("u4", "u3", "four")],
    "omp": [SLOT, HEADER, pi("u1", None, "one"), pi("u2", "u1", "two"), REMOTE, pi("u4", "u3", "four")],
    "operator": [
        HEADER | {"timestamp": 1.5}, operator("u1", None, "one"), operator("u2", "u1", "two"),
        operator("u3", "u2", "three", operator("inner", "u2", "inside")), operator("u4", "u3", "four"),
    ],
    "kit": [
        HEADER | {"id": "b" * 32}, kit("u1", None, "one"), kit("u2", "u1", "two"),
        kit("u3", "u2", "three", kit("inner", "u2", "inside")), kit("u4", "u3", "four"),
    ],
    "flat": [
        {"type": "metadata", "id": "s-1", "created_at": "2026-01-05T08:00:00"}, flat("one"), flat("two"),
        flat("three", flat("inside"), flat("inside")), flat("four"),
    ],
}  # fmt: skip
"""Small files of each program; the last but one of the records holds others."""


def lines_of(program: str) -> list[bytes]:
    """Return the lines of a small file."""
    return [json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in FILES[program]]


def answers(place: Path, data: bytes) -> dict[str, Any]:
    """Return what is read from a file with these bytes."""
    place.write_bytes(data)
    try:
        file = read(place)
    except UsageError:
        return {"refused": True}
    context = file.context(file.leaf)
    return {
        "format": file.format,
        "header": file.header,
        "entries": [(entry.id, entry.parent, entry.raw.strip()) for entry in file.entries],
        "leaf": file.leaf,
        "title": file.title,
        "labels": file.labels,
        "context": [(message.source, message.message) for message in context.messages],
        "state": context.state,
    }


class Torn:
    """A file with one line that is torn in every way, and what is read from it then."""

    def __init__(self, place: Path, lines: list[bytes], at: int) -> None:
        self._place = place
        self._above, self._line, self._below = lines[:at], lines[at].rstrip(b"\n"), lines[at + 1 :]
        self._known: dict[bytes, dict[str, Any]] = {}

    @property
    def cuts(self) -> list[int]:
        """Where it can be torn."""
        return [*range(1, len(self._line))]

    @property
    def seams(self) -> list[int]:
        """Where it can be torn so that a value ends or begins there, and some other places."""
        return [cut for cut in self.cuts if self._line[cut - 1] in b"{}[],:" or cut % 20 == 0]

    def check(self, cut: int) -> None:
        """Tear it at a byte: nothing is read from it, and all else as if nothing had been in it."""
        head, tail = self._line[:cut], self._line[cut:]
        below = b"".join(self._below)
        assert self._read(head) == self._expected(TORN)
        assert self._read(head, b"\n", below) == self._expected(TORN, b"\n", below)
        assert self._read(tail, b"\n", below) == self._expected(b"x\n", below)
        if self._below:
            hidden = self._expected(TORN, b"\n", b"".join(self._below[1:]))
            shown = self._expected(TORN, below)
            due = head.rstrip().endswith((b":", b"[", b","))
            assert self._read(head, below) in ([shown, hidden] if due else [shown])

    def _read(self, *parts: bytes) -> dict[str, Any]:
        return answers(self._place, b"".join([*self._above, *parts]))

    def _expected(self, *parts: bytes) -> dict[str, Any]:
        data = b"".join(parts)
        if data not in self._known:
            self._known[data] = self._read(data)
        return self._known[data]


@pytest.mark.parametrize("program", FILES)
def test_a_record_with_others_inside_of_it_is_torn_at_every_byte(tmp_path: Path, program: str) -> None:
    """At the end of the file and in its middle, with and without its line break, and where its beginning is lost."""
    torn = Torn(tmp_path / "s-1.jsonl", lines_of(program), -2)
    for cut in torn.cuts if WHOLE else torn.seams[:: 1 + (program == "claude")]:
        torn.check(cut)


@pytest.mark.parametrize("program", FILES)
def test_a_torn_record_that_is_completed_is_imported(tmp_path: Path, program: str) -> None:
    """The file that was imported with a torn end goes on as if it had never had one, wherever that was."""
    lines, path = lines_of(program), tmp_path / "s-1.jsonl"
    path.write_bytes(b"".join(lines))
    fresh = imported(path)
    cuts = [place + 1 for place, byte in enumerate(lines[-2]) if byte in b'{}[],:"'][:-1]
    for cut in cuts if WHOLE else cuts[::7]:
        path.write_bytes(b"".join(lines[:-2]) + lines[-2][:cut])
        os.utime(path, ns=(0, 0))
        store = Store(Place(MemoryDriver()))
        assert [problem.kind for problem in FileImporter(store).load(path).problems] == ["torn"]
        path.write_bytes(b"".join(lines))
        assert FileImporter(store).load(path).outcome == "updated"
        assert shown(store) == fresh


@pytest.mark.parametrize("program", FILES)
def test_a_line_that_is_no_record_yet_does_not_count_as_read(tmp_path: Path, program: str) -> None:
    """Nor does a line break of which only a part was written: an import at any byte there is no other file later."""
    *above, last = [line.rstrip(b"\n") + b"\r\n" for line in lines_of(program)]
    odd, path = [b"null\r\n", b"42\r\n", b'"ab"\r\n', b"words\r\n"], tmp_path / "s-1.jsonl"
    before, whole = b"".join(above), b"".join([*above, *odd, last])
    path.write_bytes(whole)
    fresh = imported(path)
    for cut in range(len(before) - 3, len(whole) - len(last) + 1):
        path.write_bytes(whole[:cut])
        os.utime(path, ns=(0, 0))
        store = Store(Place(MemoryDriver()))
        FileImporter(store).load(path)
        path.write_bytes(whole)
        assert FileImporter(store).load(path).outcome == "updated"
        assert shown(store) == fresh


def imported(path: Path) -> list[Any]:
    """Return what a store shows of a file that is imported for the first time."""
    store = Store(Place(MemoryDriver()))
    FileImporter(store).load(path)
    return shown(store)


def shown(store: Store) -> list[Any]:
    """Return what a store shows of its session."""
    (info,) = store.each_session()
    view = store.view(info.id)
    return [view.path(), view.heads, [(item.node, item.message) for item in view.context]]


def test_a_document_is_torn_at_every_byte(tmp_path: Path) -> None:
    """A program that writes one document: complete messages are read, and nothing inside of the one that is torn."""
    said = [{"Role": 1, "Content": [{"Text": text, "Role": 1, "Content": []}]} for text in ("one", "two", "three")]
    document = json.dumps({"version": 1, "session_id": "s-1", "session": {"messages": said}}).encode()
    ends = [document.index(record) + len(record) for record in (json.dumps(message).encode() for message in said)]
    path = tmp_path / "s-1.json"
    whole = answers(path, document)["entries"]
    for cut in range(document.index(b"[") + 1, len(document)):
        assert answers(path, document[:cut])["entries"] == whole[: sum(cut >= end for end in ends)]


def samples(shared: Path) -> Iterator[Path]:
    """Yield the session files of lines among the shared data that are not too large."""
    for folder in ("golden", "samples"):
        for path in sorted((shared / folder).rglob("*.jsonl")):
            if path.stat().st_size <= SAMPLE_BYTES_MAX:
                yield path


def test_every_line_of_every_sample_is_torn(shared: Path) -> None:
    """Nothing that is inside of it is a record, whatever it looks like; the next one on its line is."""
    torn = 0
    for path in samples(shared):
        for line in map(bytes.strip, path.read_bytes().split(b"\n")):
            if not is_object(line):
                continue
            for cut in range(1, len(line)) if WHOLE else {zlib.crc32(line) % (len(line) - 1) + 1, len(line) - 1}:
                head, tail = line[:cut], line[cut:]
                assert taken(head) == taken(tail) == []
                assert taken(head + line) in ([line], [] if head.rstrip().endswith((b":", b"[", b",")) else [line])
                torn += 1
    assert torn > 1000


def is_object(line: bytes) -> bool:
    """Tell whether a line is one whole record."""
    try:
        return len(line) > 2 and isinstance(decode(line)[0], dict)
    except (ValueError, RecursionError):
        return False


def taken(line: bytes) -> list[bytes]:
    """Return the bytes of the records that are found on a line, where any object is one."""
    found = read_values(io.BytesIO(line), lambda *_: None, lambda _: True)
    return [value.raw for value in found if isinstance(value.value, dict)]


def test_every_sample_is_read_with_one_line_torn(shared: Path, tmp_path: Path) -> None:
    """One line of every fourth sample is torn at some byte; if that is asked for, each line of all at five."""
    torn = 0
    for path in [*samples(shared)][:: 1 if WHOLE else 4]:
        try:
            file = read(path)
        except UsageError:
            continue
        lines = [*io.BytesIO(path.read_bytes())]
        places = [entry.line - 1 for entry in file.entries if entry.intact and entry.record]
        seed = zlib.crc32(path.name.encode())
        for place in places if WHOLE else places[seed % max(len(places), 1) :][:1]:
            made = Torn(tmp_path / path.name, lines, place)
            step = len(made.cuts) // 5 + 1 if WHOLE else len(made.cuts)
            for cut in made.cuts[seed % step :: step]:
                made.check(cut)
                torn += 1
    assert torn > 100
