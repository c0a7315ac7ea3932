"""Places that are no plain session files: pipes, devices, files without an end, other texts, files of other kinds."""

from __future__ import annotations

import codecs
import gzip
import os
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.programs.pi.reading import lines, message

from treering.api.store import Store
from treering.errors import ConflictError, UsageError
from treering.importers import FileImporter, detect_format, diagnose, read, repair
from treering.importers.discovery import discover, find_sessions
from treering.importers.parsed_file import is_foreign
from treering.programs.common import spool
from treering.programs.common.source import find_special
from treering.programs.omp.breadcrumbs import read_breadcrumb
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

DATA = lines(message("a", None), message("b", "a"))
GROWN = lines(message("a", None), message("b", "a"), message("c", "b"))
OTHER = lines(message("x", None, "another"))

Pipe = Callable[[bytes], Path]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    """Makes pipes out of which bytes come."""
    writers: list[threading.Thread] = []

    def make(data: bytes) -> Path:
        path = tmp_path / f"pipe-{len(writers)}"
        os.mkfifo(path)
        writers.append(threading.Thread(target=path.write_bytes, args=(data,), daemon=True))
        writers[-1].start()
        return path

    yield make
    for writer in writers:
        writer.join()


@pytest.fixture
def store() -> Store:
    """A store in memory."""
    return Store(Place(MemoryDriver()))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pipe_is_read(pipe: Pipe, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """What comes out of it is read as a file is, also by the rules of another program, and nothing is left behind."""
    (tmp_path / "file.jsonl").write_bytes(DATA)
    file, other = read(pipe(pack(DATA))), read(tmp_path / "file.jsonl")
    assert (file.entry_ids, file.leaf) == (other.entry_ids, other.leaf) == (["a", "b"], "b")
    assert file.context("b", "omp") == other.context("b", "omp")


def test_the_copy_of_a_pipe_goes_with_the_answer(pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there as long as the answer may ask for it, and then removed, also if it is no session."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    file = read(pipe(DATA))
    assert len([*(tmp_path / "temporary").iterdir()]) == 1
    del file
    with pytest.raises(UsageError):
        read(pipe(b"text\n"))
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_a_session_comes_through_a_pipe(store: Store, pipe: Pipe, tmp_path: Path) -> None:
    """Its session is known by its records: it grows, through another pipe or from a file, which is followed then."""
    importer = FileImporter(store)
    assert importer.load(pipe(DATA)).outcome == "new"
    assert importer.load(pipe(DATA)).outcome == "unchanged"
    assert (importer.load(pipe(GROWN)).outcome, store.view("s-1").path()) == ("updated", ("a", "b", "c"))
    path = tmp_path / "file.jsonl"
    path.write_bytes(GROWN)
    assert importer.load(path).session == "s-1"
    assert FileImporter(store).is_unchanged(path)
    assert importer.load(pipe(GROWN)).outcome == "unchanged"
    assert FileImporter(store).find(path) is not None


def test_another_session_of_the_same_id_through_a_pipe(store: Store, pipe: Pipe) -> None:
    """It gets another name; where a name is asked for, it must be that of the same session."""
    importer = FileImporter(store)
    importer.load(pipe(DATA))
    assert importer.load(pipe(OTHER)).session == "s-1-2"
    assert importer.load(pipe(OTHER)).session == "s-1-2"
    with pytest.raises(ConflictError) as caught:
        importer.load(pipe(OTHER), name="s-1")
    assert caught.value.kind == "rewritten"


def test_a_pipe_without_an_end_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So much is read and no more; nothing is imported, and the error says how much that is."""
    monkeypatch.setattr(spool, "STREAM_BYTES_MAX", 3 * 1024 * 1024)
    for task in (FileImporter(store).load, read, diagnose):
        with pytest.raises(UsageError, match="bytes_max=3145728") as caught:
            task(Path("/dev/zero"))
        assert caught.value.kind == "too_long"
    assert [*store.each_session()] == []


def test_the_doctor_takes_a_pipe(pipe: Pipe, tmp_path: Path) -> None:
    """What is said is about the pipe, and the copy is written."""
    damaged = DATA[:-20]
    (tmp_path / "file.jsonl").write_bytes(damaged)
    place, expected = pipe(damaged), diagnose(tmp_path / "file.jsonl")
    assert (diagnose(place).findings, expected.damaged) == (expected.findings, True)
    place = pipe(damaged)
    done = repair(place, tmp_path / "copy.jsonl")
    assert (done.diagnosis.path, read(tmp_path / "copy.jsonl").entry_ids) == (str(place), ["a"])


def test_a_pipe_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    """No search opens it, since that might wait for ever; where it is can be asked for."""
    folder = tmp_path / ".pi" / "agent" / "sessions" / "--x--"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "file.jsonl").write_bytes(DATA)
    assert [*find_sessions(tmp_path)] == [*find_sessions(tmp_path, "pi")] == [folder / "file.jsonl"]
    assert [*find_special(tmp_path, (".jsonl",))] == [folder / "pipe.jsonl"]
    assert [found.sessions for found in discover(tmp_path, {}) if found.program == "pi"] == [1]
    with pytest.raises(UsageError) as caught:
        detect_format(folder / "pipe.jsonl")
    assert caught.value.kind == "special"


def test_a_pipe_beside_a_file_is_not_opened(tmp_path: Path) -> None:
    """What programs keep beside their files is read only if it is a file."""
    os.mkfifo(tmp_path / "agent-1.meta.json")
    entry = (
        b'{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","isSidechain":true,"message":{"content":"go"}}\n'
    )
    (tmp_path / "agent-1.jsonl").write_bytes(entry)
    assert read(tmp_path / "agent-1.jsonl").header.extra == {"subagent": "1"}
    os.mkfifo(tmp_path / "terminal")
    assert read_breadcrumb(tmp_path / "terminal") is None
    (tmp_path / "blobs").mkdir()
    os.mkfifo(tmp_path / "blobs" / ("a" * 64))
    image = {"type": "image", "data": f"blob:sha256:{'a' * 64}", "mimeType": "image/png"}
    shown = message("a", None) | {"message": {"role": "user", "content": [image], "timestamp": 1}}
    (tmp_path / "omp.jsonl").write_bytes(b'{"type":"title","v":1,"title":"","updatedAt":""}\n' + lines(shown))
    assert [problem.kind for problem in read(tmp_path / "omp.jsonl", format="omp").problems] == ["blob"]


@pytest.fixture
def holes(tmp_path: Path) -> Path:
    """A file of 256 MiB that was never written, but for its end."""
    path = tmp_path / "holes.jsonl"
    with path.open("wb") as file:
        file.seek(256 * 1024 * 1024)
        file.write(b"\n")
    return path


def _import(path: Path) -> None:
    FileImporter(Store(Place(MemoryDriver()))).load(path)


def _refusal(path: Path, name: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        FileImporter(Store(Place(MemoryDriver()))).load(path, format=name)
    return caught.value.kind


def _refusal_by_pi(path: Path) -> str:
    return _refusal(path, "pi")


def _findings(path: Path) -> list[str]:
    return [finding.kind for finding in diagnose(path).findings]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("task", "expected"),
    [(_refusal, "format"), (_refusal_by_pi, "format"), (is_foreign, False), (_findings, ["empty"])],
)
def test_memory_does_not_follow_holes(task: Callable[[Path], object], expected: object, holes: Path) -> None:
    """A file of NUL bytes costs as much memory as a small one, and it is said that there is no session in it."""
    tracemalloc.start()
    answer = task(holes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (answer, peak < 100 * 1024 * 1024) == (expected, True)


def test_records_behind_a_hole_are_read(tmp_path: Path) -> None:
    """However long the run of NUL bytes is; its place and length are told."""
    size = 3 * 1024 * 1024 + 17
    header, *entries = GROWN.splitlines(keepends=True)
    data = header + entries[0] + b"\0" * size + b"".join(entries[1:])
    (tmp_path / "file.jsonl").write_bytes(data)
    file = read(tmp_path / "file.jsonl")
    assert file.entry_ids == ["a", "b", "c"]
    assert [data[entry.offset :].startswith(entry.raw) for entry in file.entries] == [True] * 3
    assert [entry.intact for entry in file.entries] == [True, False, True]
    told = [int(each.message.rpartition("=")[2]) for each in file.problems if each.kind == "nul"]
    assert (len(file.problems), sum(told)) == (len(told), size)


def test_many_blank_lines_cost_no_more_than_some(tmp_path: Path) -> None:
    """What follows them is read all the same."""
    header, *entries = GROWN.splitlines(keepends=True)
    (tmp_path / "file.jsonl").write_bytes(header + entries[0] + b"\n" * 200_000 + b"".join(entries[1:]))
    file = read(tmp_path / "file.jsonl")
    assert (file.entry_ids, file.problems) == (["a", "b", "c"], [])
    assert max(len(entry.after) for entry in file.entries) < 100_000


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("name", [None, "pi", "claude", "evva"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str, name: str | None) -> None:
    """Text in UTF-16, as some editors and shells write it, is told from damage."""
    path = tmp_path / "file.jsonl"
    mark = {"utf-32-be": codecs.BOM_UTF32_BE}.get(encoding, b"")
    path.write_bytes(mark + DATA.decode().encode(encoding))
    options: dict[str, Any] = {} if name is None else {"format": name}
    tasks: tuple[Callable[[Path], object], ...] = (_import, partial(read, **options), partial(diagnose, **options))
    for task in tasks:
        with pytest.raises(UsageError, match="UTF-16") as caught:
            task(path)
        assert (caught.value.kind, "iconv" in caught.value.remedy) == ("encoding", True)


@pytest.mark.parametrize(
    ("data", "foreign"),
    [
        (b'{"type":"started","key":"v2:1","agentId":"a"}\n{"type":"result","key":"v2:1"}\n', True),
        (b'{"type":"session_meta","payload":{}}\n', True),
        (b"[1]\n[2]\n", True),
        (b"", False),
        (b"\0\0\0\0", False),
        (b"text\n", False),
        (b'{"type":"started","key":"v2:1"}\n{"type":"resu\n', False),
        (DATA.partition(b"\n")[2], False),
        (DATA.partition(b"\n")[2] + DATA, False),
        (b'{"a":1}\n' + DATA, False),
        (b'{"type":"title","title":""}\n', False),
    ],
)
def test_a_file_of_another_kind_is_told_from_a_damaged_session(tmp_path: Path, data: bytes, *, foreign: bool) -> None:
    """Whole records that are nobody's are another kind; lost headers, torn lines and nothing at all are damage."""
    path = tmp_path / "file.jsonl"
    path.write_bytes(data)
    assert is_foreign(path) is foreign
