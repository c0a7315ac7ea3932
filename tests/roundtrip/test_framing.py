"""What stands around the records of a file comes back with them: line ends, blank lines, a last line without an end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs.pi.reading import HEADER, message

import treering
from treering.exporters import export
from treering.ids import new_nonce
from treering.importers import read
from treering.importers.file_importer import FileImporter
from treering.programs.common.writing import encode_javascript
from treering.programs.formats import find_format

SAID = {"contents": [{"type": "text", "content": "hi"}], "id": "m", "timestamp": 1.0, "role": "user"}
PARTS = [{"type": "text", "data": {"text": "hi"}}]
TIME = "2026-02-01T10:00:00Z"
RECORDS: dict[str, list[dict[str, object]]] = {
    "pi": [HEADER, message("a", None), message("b", "a")],
    "operator": [
        {"type": "session", "version": 3, "id": "s", "timestamp": 1767600000.0, "cwd": "/repo"},
        {"id": "a", "timestamp": 1767600001.5, "type": "message", "message": SAID},
        {"id": "b", "timestamp": 1767600002.5, "parent_id": "a", "type": "message", "message": SAID},
    ],
    "operator-flat": [
        {"type": "metadata", "id": "s", "created_at": "2026-01-01T00:00:00", "updated_at": "2026-01-01T00:00:00"},
        {"role": "human", "content": "hi"},
        {"role": "ai", "content": "yes"},
    ],
    "kit": [
        {"type": "session", "version": 3, "id": "a" * 32, "timestamp": TIME, "cwd": "/repo"},
        {"type": "message", "id": "a", "timestamp": TIME, "role": "user", "parts": PARTS},
        {"type": "message", "id": "b", "parent_id": "a", "timestamp": TIME, "role": "user", "parts": PARTS},
    ],
}
FRAMINGS = {
    "no-final-newline": ("", "\n", ""),
    "windows": ("", "\r\n", "\r\n"),
    "windows-no-final-newline": ("", "\r\n", ""),
    "blank-lines": ("", "\n\n \t\n", "\n\n\n"),
    "blank-at-the-end": ("", "\n", "\n \r\n  "),
    "windows-blank-lines": ("", "\r\n\r\n", "\r\n\r\n"),
    "blank-at-the-beginning": ("\n \r\n", "\n", "\n"),
}
"""What stands before, between and behind the records."""


def framed(name: str, framing: str) -> bytes:
    """A file of a format with something around its records."""
    before, between, behind = (each.encode() for each in FRAMINGS[framing])
    return before + between.join(map(encode_javascript, RECORDS[name])) + behind


@pytest.fixture
def store() -> Iterator[treering.Store]:
    """An empty store."""
    store = treering.open(f"memory://framing-{new_nonce()}")
    yield store
    store.close()


def back(store: treering.Store, name: str, data: bytes, folder: Path) -> bytes:
    """Import bytes as a file of a format; the bytes of the file that comes out."""
    path = folder / "given.jsonl"
    path.write_bytes(data)
    source = find_format(name).open_source(path)
    store.load("s", source.drafts(), leaf=lambda: source.leaf, policy=name)
    return out(store, name, folder)


def out(store: treering.Store, name: str, folder: Path) -> bytes:
    """The bytes of the session as a file of a format."""
    export(store.view("s"), folder / "out.jsonl", format=name, overwrite=True)
    return (folder / "out.jsonl").read_bytes()


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", RECORDS)
def test_what_stands_around_records_comes_back(name: str, framing: str, store: treering.Store, tmp_path: Path) -> None:
    """A file whose session was not touched comes back to the byte, whatever stands between its lines."""
    data = framed(name, framing)
    assert back(store, name.partition("-")[0], data, tmp_path) == data


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", ["pi", "operator", "kit"])
def test_new_lines_stand_on_their_own(name: str, framing: str, store: treering.Store, tmp_path: Path) -> None:
    """Behind what was imported, which keeps its bytes, new entries begin on a new line and end with a plain one."""
    data = framed(name, framing)
    back(store, name, data, tmp_path)
    with store.session("s") as session:
        session.append("more")
        session.append("still more")
    made = out(store, name, tmp_path)
    assert made.startswith(data)
    added = made.removeprefix(data)
    assert added.startswith(b"\n") != data.endswith(b"\n")
    assert added.count(b"\n") == (2 if data.endswith(b"\n") else 3)
    assert b"\r" not in added
    (tmp_path / "made.jsonl").write_bytes(made)
    assert len(read(tmp_path / "made.jsonl", format=name).entries) == 4


def test_a_file_that_grows_gets_its_line_break(store: treering.Store, tmp_path: Path) -> None:
    """What was the last line, without an end, has one when the program went on; nothing else is taken for changed."""
    path, first, second = tmp_path / "s.jsonl", *map(encode_javascript, RECORDS["pi"][1:])
    head = encode_javascript(HEADER) + b"\n"
    path.write_bytes(head + first)
    taken = FileImporter(store).load(path)
    path.write_bytes(head + first + b"\n" + second + b"\n")
    grown = FileImporter(store).load(path)
    assert (grown.outcome, grown.records) == ("updated", 1)
    export(store.view(taken.session), tmp_path / "out.jsonl", format="pi")
    assert (tmp_path / "out.jsonl").read_bytes() == path.read_bytes()
