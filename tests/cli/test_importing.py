"""`import`, `doctor`, `discover` and `continue`: sessions of other programs on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Program
from tests.cli.test_transfer import pi_message, write_pi

import treering
from treering.ids import now_ms
from treering.importers import FileImporter, ImportResult


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of the tests."""
    return tmp_path / "home"


def pi_file(home: Path, name: str, cwd: Path, *entries: dict[str, object], at: int = 0, program: str = ".pi") -> Path:
    """Write a session where pi keeps its own, so many seconds from now."""
    folder = home / program / "agent" / "sessions" / "--x--"
    folder.mkdir(parents=True, exist_ok=True)
    path = write_pi(folder / f"t_{name}.jsonl", name, *entries)
    text = path.read_text().replace('"/repo"', json.dumps(str(cwd)))
    path.write_text(text)
    stamp = path.stat().st_mtime_ns + at * 10**9
    os.utime(path, ns=(stamp, stamp))
    return path


def test_a_folder(program: Program, tmp_path: Path) -> None:
    """A folder is searched, compressed files too; one bad file stops nothing and shows in the exit code."""
    folder = tmp_path / "in" / "deep"
    folder.mkdir(parents=True)
    write_pi(folder / "one.jsonl", "s-1")
    write_pi(folder / "two.jsonl.gz", "s-2")
    (folder / "bad.jsonl").write_bytes(b"not a session\n")
    (folder / "settings.json").write_text("{}")
    done = program("import", tmp_path / "in", code=10)
    assert "bad.jsonl: failed: this is no session file that is known" in done.err
    assert "treering doctor" in done.err
    assert "imported 2 sessions, 6 records, 0 problems; 1 other file passed over; 1 failed" in done.err
    assert [(row[0], row[3]) for row in done.rows] == [("s-1", "new"), ("s-2", "new")]
    assert sorted(row[0] for row in program("ls").rows) == ["s-1", "s-2"]
    again = program("import", tmp_path / "in", code=10)
    assert again.out == ""
    assert "imported 0 sessions, 0 records, 0 problems; 2 unchanged" in again.err


def test_a_file_on_which_the_importer_fails(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of ours that one file shows is reported as such, and the other files are imported."""
    load = FileImporter.load

    def fails(self: FileImporter, path: Path, **options: Any) -> ImportResult:
        if path.name == "one.jsonl":
            raise TypeError("unhashable type")
        return load(self, path, **options)

    monkeypatch.setattr(FileImporter, "load", fails)
    for name in ("one", "two"):
        write_pi(tmp_path / f"{name}.jsonl", name)
    done = program("import", tmp_path, code=10)
    assert f"{tmp_path}/one.jsonl: failed: unexpected: TypeError: unhashable type; --debug shows" in done.err
    assert "imported 1 session, 3 records, 0 problems; 1 failed" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in program("import", tmp_path / "one.jsonl", "--debug", code=1).err


def test_a_folder_with_other_things_in_it(program: Program, tmp_path: Path) -> None:
    """What is no session is passed over, and named unless it is a mere document; that is no failure."""
    (tmp_path / "in").mkdir()
    write_pi(tmp_path / "in/one.jsonl", "s-1")
    (tmp_path / "in/journal.jsonl").write_text('{"type":"started","key":"v2:1","agentId":"a"}\n')
    (tmp_path / "in/settings.json").write_text("{}")
    os.mkfifo(tmp_path / "in/pipe.jsonl")
    done = program("import", tmp_path / "in")
    assert f"{tmp_path}/in/journal.jsonl: passed over: this is no session file that is known" in done.err
    assert f"{tmp_path}/in/pipe.jsonl: passed over: this is a pipe" in done.err
    assert "settings.json" not in done.err
    assert "imported 1 session, 3 records, 0 problems; 3 other files passed over" in done.err
    found = program.json("import", tmp_path / "in")["files"]
    assert {Path(each["path"]).name: (each["outcome"], each["code"]) for each in found} == {
        "one.jsonl": ("unchanged", 0), "journal.jsonl": ("passed over", 0), "settings.json": ("passed over", 0),
        "pipe.jsonl": ("passed over", 0),
    }  # fmt: skip
    assert "doctor" in program("import", tmp_path / "in/journal.jsonl", code=2).err


def test_standard_input(program: Program, tmp_path: Path) -> None:
    """A session is read out of a pipe, and out of what standard input was turned to, which keeps its own name."""
    data = write_pi(tmp_path / "one.jsonl", "s-1").read_bytes()
    (tmp_path / "two.jsonl").write_bytes(data.replace(b"s-1", b"s-2"))
    for command, expected in (("import", "imported 1 session, 3 records"), ("doctor", "nothing is wrong")):
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        done = program.process(command, "/dev/stdin", stdin=reading)
        os.close(reading)
        assert (done.code, expected in done.err) == (0, True), done
    with (tmp_path / "two.jsonl").open("rb") as file:
        assert program.process("import", "/dev/stdin", stdin=file).code == 0
    assert "1 unchanged" in program("import", tmp_path / "two.jsonl").err
    assert sorted(row[0] for row in program("ls").rows) == ["s-1", "s-2"]


def test_the_order_of_a_folder(program: Program, tmp_path: Path, home: Path) -> None:
    """Lists have the session first whose file was written last."""
    for name, at in (("b", 3), ("a", 2), ("c", 1)):
        said = pi_message("a", None, "user", "hello") | {"timestamp": f"2026-01-05T08:00:0{at}.000Z"}
        pi_file(home, name, tmp_path, said, at=at)
    program("import", home / ".pi")
    assert [row[0] for row in program("ls").rows] == ["b", "a", "c"]


def test_again(program: Program, tmp_path: Path) -> None:
    """What has grown adds its records; a session that went on here gets them beside its own."""
    path = write_pi(tmp_path / "one.jsonl", "s-1")
    program("import", path)
    assert "1 unchanged" in program("import", path).err
    with treering.open(program.store).session("s-1") as session:
        mine = session.append("mine").node
    entries = [pi_message(name, above, "user", "x") for above, name in ((None, "a"), ("a", "b"), ("b", "c"))]
    entries[0]["message"]["content"][0]["text"], entries[1]["message"]["role"] = "hello", "assistant"
    entries[1]["message"]["content"][0]["text"] = "hello you"
    write_pi(path, "s-1", *entries)
    done = program("import", path)
    assert done.rows == [["s-1", "1", str(path), "updated"]]
    assert "head 'pi'" in done.err
    assert program.json("show", "s-1")["heads"] == {"main": mine, "pi": "c"}


def test_rewritten(program: Program, tmp_path: Path) -> None:
    """It is refused with what to do about it, and imported beside on request."""
    path = write_pi(tmp_path / "one.jsonl", "s-1")
    program("import", path)
    write_pi(path, "s-1", pi_message("z", None, "user", "another"))
    done = program("import", path, code=4)
    assert "rewritten" in done.err
    assert "--again" in done.err
    assert program("import", path, "--again").rows[0][0] == "s-1-2"
    assert program("import", path, "--name", "third").rows[0][0] == "third"


def test_format_and_policy(program: Program, tmp_path: Path) -> None:
    """The format can be forced, and other rules chosen for what models see."""
    path = write_pi(tmp_path / "one.jsonl", "s-1")
    assert "no such format" not in program("import", path, "--format", "omp").err
    assert program.json("show", "s-1")["session"]["extra"]["imported"] == "omp"
    program("import", path, "--format", "kitt", "--name", "x", code=2)
    program("import", path, "--name", "y", "--policy", "pi")
    checkpoint = program.json("checkpoints", "y")["checkpoints"][0]["id"]
    assert program.json("show", "y", checkpoint)["checkpoint"]["policy"] == "pi"


@pytest.mark.parametrize("folder", ["pi152", "omp", "operator", "kit", "evva"])
def test_golden_folders(program: Program, shared: Path, folder: str) -> None:
    """A folder of each program imports, shows in lists with its program, and verifies."""
    done = program("import", shared / "golden" / folder / "random", code=None)
    assert done.code == 0, done.err
    rows = program("ls", "--all").rows
    files = [path for path in (shared / "golden" / folder / "random").iterdir() if path.suffixes[-2:-1] == []]
    assert len(rows) == len(files)
    assert {row[6] for row in rows} == {folder.removesuffix("152")}
    assert [row[0] for row in rows if not row[7] and row[2] != "0"] == []
    for row in rows:
        program("verify", row[0])


def test_doctor(program: Program, tmp_path: Path) -> None:
    """Damage ends with a code of its own, and a copy is written on request; nothing is replaced."""
    path = write_pi(tmp_path / "one.jsonl", "s-1")
    assert "nothing is wrong" in program("doctor", path).err
    path.write_bytes(path.read_bytes() + b"torn {")
    done = program("doctor", path, code=6)
    assert done.rows[0][:4] == ["4", str(path.stat().st_size - 6), "damage", "garbage"]
    assert "--write" in done.err
    copy = tmp_path / "copy.jsonl"
    assert "read again" in program("doctor", path, "--write", copy).err
    program("doctor", copy)
    program("doctor", path, "--write", copy, code=2)
    program("import", copy)
    (tmp_path / "empty").touch()
    program("doctor", tmp_path / "empty", code=6)
    program("doctor", tmp_path / "empty", "--write", tmp_path / "x", code=4)
    program("doctor", tmp_path / "missing", code=3)
    (tmp_path / "text").write_text("hello\n")
    program("doctor", tmp_path / "text", code=2)


def test_discover(program: Program, tmp_path: Path, home: Path) -> None:
    """The folders of other programs are listed, for people and for programs."""
    assert "no session folders" in program("discover").err
    path = pi_file(home, "one", tmp_path)
    (row,) = program("discover").rows
    assert (row[0], row[1], row[4]) == ("pi", "1", str(path.parent.parent))
    found = program.json("discover")
    assert found["folders"][0]["newest"] == str(path)
    assert found["terminals"] == []


def test_continue_elsewhere(program: Program, tmp_path: Path, home: Path) -> None:
    """The last session about a folder is taken up wherever it is, and what it is comes first."""
    program("continue", "--cwd", tmp_path, code=3)
    path = pi_file(home, "one", tmp_path)
    assert program.json("continue", "--cwd", tmp_path, "--dry-run")["file"]["path"] == str(path)
    assert not program.store.exists()
    program("continue", "--cwd", tmp_path, "--here", code=3)
    done = program("continue", "--cwd", tmp_path, "-m", "go on")
    assert f"imported from pi: {path}" in done.err
    assert ["session", "one"] in done.rows
    again = program("continue", "--cwd", tmp_path)
    assert again.err == ""
    assert program.json("continue", "--cwd", tmp_path, "--dry-run") == {"session": "one", "namespace": [], "file": None}
    assert [item["message"]["content"] for item in program.json("context", "one")["items"]][-1] == "go on"


def test_continue_here_if_that_is_newer(program: Program, tmp_path: Path, home: Path) -> None:
    """A session of the store that was active last is taken, also if an older file was imported after it."""
    with treering.open(program.store).session("mine", cwd=str(tmp_path)) as session:
        session.append("hello")
    path = pi_file(home, "one", tmp_path, at=-60)
    assert program.json("continue", "--cwd", tmp_path)["session"]["id"] == "mine"
    program("import", path)
    assert program.json("continue", "--cwd", tmp_path)["session"]["id"] == "mine"
    os.utime(path)
    pi_file(home, "two", tmp_path, at=60)
    assert program.json("continue", "--cwd", tmp_path)["session"]["id"] == "two"


def test_continue_with_a_file_that_fails(program: Program, tmp_path: Path, home: Path) -> None:
    """If the newer file cannot be imported, that is said, and the session of the store is shown."""
    path = pi_file(home, "one", tmp_path)
    program("import", path)
    with treering.open(program.store).session("one") as session:
        session.append("mine")
    pi_file(home, "one", tmp_path, pi_message("z", None, "user", "rewritten"), at=60)
    done = program("continue", "--cwd", tmp_path)
    assert "not imported: file was rewritten" in done.err
    assert ["session", "one"] in done.rows


def test_continue_in_a_terminal_beside_other_programs(
    program: Program, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of another program is taken if the terminal's session came from it; of others it is said that they are."""
    monkeypatch.setenv("KITTY_WINDOW_ID", "7")
    with treering.open(program.store).session("mine", cwd=str(tmp_path)) as session:
        session.append("hello")
    program("continue", "mine")
    path = pi_file(home, "one", tmp_path, at=60)
    done = program("continue", "--cwd", tmp_path)
    assert ["session", "mine"] in done.rows
    assert f"since then pi wrote here: {path}" in done.err
    assert program.json("continue", "--cwd", tmp_path, "--dry-run") == {
        "session": "mine", "namespace": [], "file": None
    }  # fmt: skip
    assert program.json("continue", "--cwd", tmp_path, "--any-terminal")["session"]["id"] == "one"
    program("continue", "one")
    pi_file(home, "one", tmp_path, pi_message("z", None, "user", "more"), at=120)
    done = program("continue", "--cwd", tmp_path, code=None)
    assert str(path) in done.err
    assert "since then" not in done.err


def test_continue_where_a_terminal_noted_a_session_of_another_program(
    program: Program, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the terminal used last counts, whichever program noted it."""
    monkeypatch.setenv("KITTY_WINDOW_ID", "7")
    with treering.open(program.store).session("mine", cwd=str(tmp_path)) as session:
        session.append("hello")
    path = pi_file(home, "one", tmp_path, at=-30, program=".omp")
    crumb = home / ".omp" / "agent" / "terminal-sessions" / "kitty-7"
    crumb.parent.mkdir(parents=True)
    crumb.write_text(f"{tmp_path}\n{path}\n")
    assert program.json("continue", "--cwd", tmp_path, "--dry-run")["session"] == "mine"
    program("continue", "mine")
    assert program.json("continue", "--cwd", tmp_path, "--dry-run")["session"] == "mine"
    written_ms = treering.open(program.store).view("mine").info.updated_ms + 2
    os.utime(path, ns=(written_ms * 10**6,) * 2)
    assert program.json("continue", "--cwd", tmp_path, "--dry-run", "--any-terminal")["file"]["path"] == str(path)
    while now_ms() <= written_ms:
        pass
    program("continue", "mine")
    done = program("continue", "--cwd", tmp_path, "--dry-run")
    assert done.rows[0] == ["session", "mine"]
    assert f"since then omp wrote here: {path}" in done.err
    os.utime(path, (os.stat(path).st_mtime + 90,) * 2)
    found = program.json("continue", "--cwd", tmp_path, "--dry-run")
    assert (found["session"], found["file"]["breadcrumb"]) == (None, True)


def test_an_address_with_nothing_below_it(program: Program) -> None:
    """It may be misspelt: in a bucket there is no empty folder."""
    done = program("import", "memory://nothing-is-here", code=3)
    assert "there are no sessions below this address. path='memory://nothing-is-here'" in done.err
