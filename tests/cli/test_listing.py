from __future__ import annotations

import json
import os
import pty
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Program, Recorded

import treering


def test_missing_store(program: Program) -> None:
    """A store that is not there lists as empty, and nothing is created."""
    assert program("ls").out == ""
    assert program.json("ls") == {"sessions": [], "after": None}
    assert program("verify").code == 0
    assert program.json("stats") == {"sessions": [], "total": None}
    program("show", "nothing", code=3)
    program("continue", code=3)
    assert not program.store.exists()


def test_rows(recorded: Recorded, tmp_path: Path) -> None:
    """A pipe gets one line a session, with everything in full."""
    (row,) = recorded.program("ls").rows
    assert row[0] == "tea"
    assert row[1].endswith("Z")
    assert row[2:] == ["5", "shop", str(tmp_path), "", "", "why is the total wrong?", "Too much tea", ""]


def test_newest_first(recorded: Recorded) -> None:
    """The session written last comes first, and a page leads to the next one."""
    with recorded.store.session("coffee") as session:
        session.append("is there any?")
    page = recorded.program.json("ls", "--limit", 1)
    assert [row["id"] for row in page["sessions"]] == ["coffee"]
    rest = recorded.program.json("ls", "--limit", 1, "--after", page["after"])
    assert [row["id"] for row in rest["sessions"]] == ["tea"]
    assert [row["id"] for row in recorded.program.json("ls", "--all")["sessions"]] == ["coffee", "tea"]


def test_filters(recorded: Recorded, tmp_path: Path) -> None:
    """Sessions are found by project and by folder."""
    with recorded.store.session("coffee", project="bar", cwd="/") as session:
        session.append("is there any?")
    assert [row[0] for row in recorded.program("ls", "--project", "shop").rows] == ["tea"]
    assert [row[0] for row in recorded.program("ls", "--cwd", "/").rows] == ["coffee"]
    assert [row[0] for row in recorded.program("ls", "--cwd", tmp_path).rows] == ["tea"]


def test_status(recorded: Recorded) -> None:
    """Sessions are found by how they stand."""
    with recorded.store.session("coffee") as session:
        session.append("is there any?")
        session.set_status("done")
    assert [row[0] for row in recorded.program("ls", "--status", "done").rows] == ["coffee"]
    assert [row["id"] for row in recorded.program.json("ls", "--all", "--status", "")["sessions"]] == ["tea"]


def test_damaged_card(recorded: Recorded) -> None:
    """One damaged card is a row with a warning; the others are listed."""
    with recorded.store.session("coffee") as session:
        session.append("is there any?")
    (card,) = recorded.program.store.rglob("coffee.jsonl.zst")
    card.write_bytes(b"nonsense")
    rows = {row[0]: row for row in recorded.program("ls").rows}
    assert rows["tea"][8] == "Too much tea"
    assert rows["coffee"][8].startswith("warning: ")


def test_continue_beside_damage(recorded: Recorded, tmp_path: Path) -> None:
    """A damaged card written later does not hide where I was."""
    with recorded.store.session("coffee", cwd=str(tmp_path)) as session:
        session.append("is there any?")
    (card,) = recorded.program.store.rglob("coffee.jsonl.zst")
    card.write_bytes(b"nonsense")
    assert recorded.program.json("continue", "--cwd", tmp_path)["session"]["id"] == "tea"


def test_namespace(program: Program) -> None:
    """A namespace has its own sessions and sees no others; the store around it lists them with its name."""
    with treering.open(program.store, namespace="ann").session("hers") as session:
        session.append("mine")
    assert [(row[0], row[-1]) for row in program("ls").rows] == [("hers", "ann")]
    assert program("ls", "--namespace", "bob").out == ""
    assert [row[0] for row in program("ls", "--namespace", "ann").rows] == ["hers"]
    assert [row[0] for row in program("--namespace", "ann", "ls").rows] == ["hers"]


def test_store_options(recorded: Recorded, program: Program, tmp_path: Path) -> None:
    """The store may be named before or after the command or by the environment; the option after it wins."""
    assert program("ls", "--store", tmp_path / "other").out == ""
    assert program.process("ls").rows[0][0] == "tea"
    named = Program(tmp_path / "other")
    assert named("ls", "--store", program.store).rows[0][0] == "tea"


def test_continue(recorded: Recorded, tmp_path: Path) -> None:
    """The last session about a folder is shown: its name, where it stands and the end of its context."""
    done = recorded.program("continue", "--cwd", tmp_path)
    assert "session\ttea\n" in done.out
    assert "another way" in done.out
    assert repr(str(recorded.program.store)) in done.out
    document = recorded.program.json("continue", "--cwd", tmp_path)
    assert document["node"] == recorded.second
    assert document["context"][-1]["message"]["content"] == "another way"
    assert "no session about '/'" in recorded.program("continue", "--cwd", "/", code=3).err


def test_continue_a_session_by_name(recorded: Recorded) -> None:
    """Whoever names the session, or a part of its name, gets that one, whatever folder it is about."""
    with recorded.store.session("coffee-break") as session:
        session.append("black")
    document = recorded.program.json("continue", "coffee", "--message", "or white?")
    assert document["session"]["id"] == "coffee-break"
    assert [item["message"]["content"] for item in document["context"]] == ["black", "or white?"]
    assert "session\tcoffee-break\n" in recorded.program("resume", "coffee-break").out
    assert recorded.program.json("continue", "tea", "--dry-run")["session"] == "tea"
    assert "no session 'milk'" in recorded.program("continue", "milk", code=3).err
    assert "SESSION names one" in recorded.program("continue", "tea", "--project", "shop", code=2).err


def test_continue_with_a_message(recorded: Recorded, tmp_path: Path) -> None:
    """A message given is recorded before the session is shown."""
    document = recorded.program.json("continue", "--cwd", tmp_path, "--message", "and now?")
    assert document["context"][-1]["message"] == {"role": "user", "content": "and now?"}
    assert recorded.store.view("tea").context[-1].message == {"role": "user", "content": "and now?"}


def test_continue_by_project(recorded: Recorded) -> None:
    """With a project the folder does not matter."""
    assert "session\ttea\n" in recorded.program("continue", "--project", "shop").out
    recorded.program("continue", "--project", "bar", code=3)


@pytest.fixture
def two(recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """In the terminal `kitty-7`, with a second session about the folder, which was active later."""
    monkeypatch.setenv("KITTY_WINDOW_ID", "7")
    with recorded.store.session("coffee", cwd=str(tmp_path), project="bar") as session:
        before_ms = recorded.store.view("tea").info.updated_ms
        session.append(treering.user("black"))
        while session.info.updated_ms <= before_ms + 8:  # clocks of disks tick every 4 ms
            session.append(treering.user("blacker"))
    return recorded


def test_continue_in_a_terminal(two: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that was chosen or written to in this terminal comes first; one that was looked at does not."""

    def shown(*arguments: object) -> str:
        return str(two.program.json("continue", "--cwd", tmp_path, *arguments)["session"]["id"])

    assert shown() == "coffee"
    assert list(tmp_path.glob("home/.local/state/treering/terminals/*")) == []
    two.program("continue", "tea", "--dry-run")
    assert shown() == "coffee"
    two.program("continue", "tea")
    assert shown() == "tea"
    done = two.program("continue", "--cwd", tmp_path)
    assert "last used in this terminal; --any-terminal" in done.err
    assert shown("--any-terminal") == "coffee"
    assert two.program("continue", "--project", "bar").rows[0] == ["session", "coffee"]
    two.program("continue", "--cwd", "/", code=3)
    monkeypatch.setenv("KITTY_WINDOW_ID", "8")
    assert shown() == "coffee"
    assert shown("--message", "white") == "coffee"
    with two.store.session("tea") as session:
        session.append(treering.user("green"))
    assert shown() == "coffee"
    two.store.delete("coffee")
    assert shown() == "tea"


def test_continue_on_a_device(two: Recorded, tmp_path: Path) -> None:
    """Two commands at one terminal know it again; one at another terminal does not know it."""

    def at(device: int, *arguments: object) -> str:
        done = two.program.process("continue", *arguments, "--json", stdin=device)
        return str(json.loads(done.out)["session"]["id"])

    one, other = pty.openpty(), pty.openpty()
    try:
        assert at(one[1], "tea") == "tea"
        assert at(one[1], "--cwd", tmp_path) == "tea"
        assert at(other[1], "--cwd", tmp_path) == "coffee"
    finally:
        for descriptor in (*one, *other):
            os.close(descriptor)


def test_continue_in_a_terminal_or_by_name(two: Recorded) -> None:
    """Options that choose the last of many go without a name."""
    assert "--any-terminal choose" in two.program("continue", "tea", "--any-terminal", code=2).err


def test_all_sessions_are_listed_also_those_that_lists_do_not_show(recorded: Recorded, tmp_path: Path) -> None:
    """Files of a session were copied into the store by hand, without its marker."""
    with treering.open(tmp_path / "elsewhere").session("brought") as session:
        session.append("hi")
    shutil.copytree(tmp_path / "elsewhere/sessions/brought", recorded.program.store / "sessions/brought")
    for card in (tmp_path / "elsewhere/latest").iterdir():
        shutil.copy(card, recorded.program.store / "latest")
    assert [row[0] for row in recorded.program("ls").rows] == ["tea"]
    assert {row[0] for row in recorded.program("ls", "--all").rows} == {"tea", "brought"}
    assert [row[0] for row in recorded.program("ls", "--all", "--project", "shop").rows] == ["tea"]
    assert len(recorded.program.json("stats")["sessions"]) == 2
    recorded.program("ls", "--all", "--after", "x", code=2)
