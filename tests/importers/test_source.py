"""Finding, detecting and opening session files."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest
from tests.programs.pi.reading import HEADER, collect, line, lines, message, read

from treering.errors import AccessError, NotFoundError, UsageError
from treering.importers import Problem
from treering.programs.common.reader import LinesSource
from treering.programs.common.source import HEAD_BYTES, PROBLEMS_MAX, Importer, ImportSource
from treering.programs.pi import read as pi
from treering.programs.pi.locate import find
from treering.programs.pi.read import detect, open_source

SESSION = lines(message("a", None), message("b", "a"))


def test_the_header_tells_about_the_session(tmp_path: Path) -> None:
    """Known fields have their places, the others are kept under their own names."""
    header = HEADER | {"parentSession": "/old.jsonl", "title": "T", "provider": "p", "custom": {"a": [1]}}
    told = read(lines(header=header)).header
    assert (told.format, told.version, told.session_id, told.cwd) == ("pi", 3, "s-1", "/repo")
    assert (told.created_ms, told.parent_session, told.title) == (1767600000000, "/old.jsonl", "T")
    assert told.extra == {"provider": "p", "custom": {"a": [1]}}


def test_a_header_keeps_what_has_the_wrong_type() -> None:
    """A field that is not what it should be is no value, and not lost."""
    wrong = {"version": "3", "timestamp": "yesterday", "cwd": 5, "parentSession": ["x"], "title": None}
    told = read(lines(header={"type": "session", "id": "s", **wrong})).header
    assert (told.version, told.created_ms, told.cwd, told.parent_session, told.title) == (3, None, "", "", "")
    assert told.extra == wrong


def test_an_old_header_names_its_parent_differently() -> None:
    """`branchedFrom` of version 1 is the parent session."""
    assert read(lines(header={"type": "session", "id": "s", "branchedFrom": "/x"})).header.parent_session == "/x"


@pytest.mark.parametrize(
    ("version", "linear", "kinds"),
    [
        ({}, True, []),
        ({"version": None}, True, ["version"]),
        ({"version": 1}, True, []),
        ({"version": 2}, False, []),
        ({"version": 3}, False, []),
        ({"version": "3"}, False, ["version"]),
        ({"version": 4}, False, ["version"]),
        ({"version": 99}, False, ["version"]),
        ({"version": "new"}, False, ["version"]),
        ({"version": [2]}, False, ["version"]),
    ],
)
def test_versions_decide_about_ids(version: dict[str, object], linear: bool, kinds: list[str]) -> None:  # noqa: FBT001
    """Without a version a file is of the first; a newer one is read like the newest we know, and reported."""
    header = {name: value for name, value in HEADER.items() if name != "version"} | version
    ours = read(lines(message("a", None), message("b", None), header=header))
    assert ours.parents == (
        {ours.nodes[0].id: None, ours.nodes[1].id: ours.nodes[0].id} if linear else {"a": None, "b": None}
    )
    assert ours.kinds == kinds


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2026-01-05T08-00-00-000Z_0199-ab_c.jsonl", "0199-ab_c"),
        ("2026-01-05T08-00-00-000Z_x.jsonl.gz", "x"),
        ("my_session.jsonl", "my_session"),
        ("other", "other"),
    ],
)
def test_a_missing_session_id_is_in_the_name_of_the_file(name: str, expected: str) -> None:
    """The program names its files by time and id; any other name is taken whole."""
    ours = read(lines(header=HEADER | {"id": None}), name)
    assert (ours.header.session_id, ours.kinds) == (expected, ["header_id"])


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz", "s", "s.gz"])
@pytest.mark.parametrize("packed", [True, False])
def test_compression_is_seen_in_the_content(tmp_path: Path, name: str, packed: bool) -> None:  # noqa: FBT001
    """A file is opened by what it holds, whatever its name says."""
    (tmp_path / name).write_bytes(gzip.compress(SESSION) if packed else SESSION)
    assert collect(open_source(tmp_path / name)).parents == {"a": None, "b": "a"}
    assert detect((tmp_path / name).read_bytes()[:HEAD_BYTES])


def test_members_of_a_gzip_file_are_one_file(tmp_path: Path) -> None:
    """Logs that were compressed piece by piece are read as a whole."""
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(b"".join(gzip.compress(piece) for piece in (SESSION[:100], SESSION[100:])))
    assert collect(open_source(path)).leaf == "b"


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "empty or holds no JSON object"),
        (b"\n \n", "empty or holds no JSON object"),
        (b"a log file\nwith lines\n", "empty or holds no JSON object"),
        (b"[1]\n42\n", "empty or holds no JSON object"),
        (b"\0" * 100, "empty or holds no JSON object"),
        (line(message("a", None)), "of the type 'message'"),
        (line({"type": "title", "v": 1}) + SESSION, "of the type 'title'"),
        (line({"a": 1}) + SESSION, "of the type None"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, found: str, packed: bool) -> None:  # noqa: FBT001
    """The error names the file and what was found in it, and the file stays as it was."""
    path = tmp_path / "other.jsonl"
    path.write_bytes(gzip.compress(data) if packed else data)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=rf"{found}.*other\.jsonl"):
        open_source(path)
    assert not detect(before)
    assert path.read_bytes() == before


def test_detection_needs_only_the_beginning() -> None:
    """A header is found after garbage, a byte order mark and NUL bytes, and in a file cut anywhere after it."""
    for head in (SESSION, b"garbage\n" + SESSION, b"\xef\xbb\xbf" + SESSION, b"\0\0" + SESSION, b"null\n\n" + SESSION):
        assert detect(head)
        assert detect(head[: head.index(b"\n", head.index(b"session")) + 1])
    assert detect(gzip.compress(SESSION * 1000)[:500])
    assert not detect(SESSION[:20])
    assert not detect(b"\x1f\x8b but not really")


def test_a_damaged_gzip_file_gives_its_beginning(tmp_path: Path) -> None:
    """What can be decompressed is read, and the rest is reported."""
    data = lines(*(message(f"{number}", None, os.urandom(500).hex()) for number in range(200)))
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(gzip.compress(data)[:60_000])
    ours = collect(open_source(path))
    assert 50 < len(ours.nodes) < 200
    assert ours.kinds[-1] == "gzip"


def test_missing_files_and_folders_have_their_errors(tmp_path: Path) -> None:
    """What is not there, is a folder or may not be read is told apart."""
    with pytest.raises(NotFoundError, match=r"none\.jsonl"):
        open_source(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="folder"):
        open_source(tmp_path)
    with pytest.raises(NotFoundError, match="none"):
        list(find(tmp_path / "none"))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_forbidden_file_is_an_access_error(tmp_path: Path) -> None:
    """A file without the right to read it is reported as such."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(SESSION)
    path.chmod(0)
    with pytest.raises(AccessError):
        open_source(path)


def test_sessions_are_found_below_a_folder(tmp_path: Path) -> None:
    """Files are found by their names in all folders below, in order; a file finds itself."""
    for name in ("b/2.jsonl", "b/1.jsonl.gz", "a/x.jsonl", "a/notes.txt", "top.jsonl", "b/c/deep.jsonl", "b/1.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in find(tmp_path)]
    assert found == ["top.jsonl", "a/x.jsonl", "b/1.jsonl.gz", "b/2.jsonl", "b/c/deep.jsonl"]
    assert [*find(tmp_path / "top.jsonl")] == [tmp_path / "top.jsonl"]


def test_problems_are_listed_up_to_a_limit() -> None:
    """A file that is damaged on every line fills no memory; the last problem says that there are more."""
    problems = read(line(HEADER) + b"x\n" * (PROBLEMS_MAX + 100)).problems
    assert len(problems) == PROBLEMS_MAX + 1
    assert problems[-1].kind == "more"
    assert problems[0] == Problem(2, len(line(HEADER)), "garbage", "this is no record, skipped. bytes=1, text='x'")


def test_messages_of_problems_are_short() -> None:
    """A problem quotes what was found, but not all of it."""
    ours = read(lines(message("a", None) | {"parentId": ["x" * 10_000]}))
    assert len(ours.problems[0].message) == 300


def test_the_module_is_an_importer() -> None:
    """What other importers will be asked for, this one has."""
    importer: Importer = pi
    source: ImportSource = LinesSource(pi.DIALECT, lambda: io.BytesIO(SESSION), Path("s.jsonl"))
    assert importer.detect(SESSION)
    assert [draft.id for draft in source.drafts()] == [None, "a", "b"]
    assert (source.header.session_id, source.leaf, source.problems) == ("s-1", "b", [])
