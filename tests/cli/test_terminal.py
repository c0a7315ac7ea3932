from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Recorded
from tests.cli.test_transfer import write_pi

COLOUR = re.compile(r"\x1b\[[0-9;?]*[mhlKA]")


def plain(text: str) -> list[str]:
    """Lines as they look on a terminal."""
    lines = COLOUR.sub("", text).replace("\r\n", "\n").split("\n")
    return [line.split("\r")[-1].rstrip() for line in lines]


@pytest.mark.parametrize("command", ["ls", "tree", "log", "checkpoints", "show", "context", "diff", "stats", "branch"])
def test_fits_the_width(recorded: Recorded, command: str) -> None:
    """On a terminal there are colours, short ids, and no line longer than the terminal is wide."""
    with recorded.store.session("tea") as session:
        session.append("a long message " * 50)
    arguments = {"ls": (), "stats": (), "diff": ("tea", "green")}.get(command, ("tea",))
    done = recorded.program.on_terminal(command, *arguments, columns=80)
    assert done.code == 0
    assert "\x1b[" in done.out
    assert max(map(len, plain(done.out))) <= 80
    if command in ("tree", "log", "checkpoints", "context"):
        assert f"…{recorded.second[-8:]}" in done.out
        assert recorded.second not in done.out


def test_headings(recorded: Recorded) -> None:
    """Tables have a heading; columns in which nothing stands are left out."""
    lines = plain(recorded.program.on_terminal("ls", columns=140).out)
    assert lines[0].split() == ["session", "active", "messages", "project", "folder", "first", "prompt", "title"]
    assert lines[2].startswith("tea  ")
    assert "just now" in lines[2]


def test_markup_in_text(recorded: Recorded) -> None:
    """Text that looks like markup is shown as it is."""
    with recorded.store.session("tea") as session:
        session.append("[bold]not bold[/bold] :tea:")
        session.commit(state={"[bold]not bold[/bold] :tea:": 1})
    for command in ("log", "context", "show"):
        assert "[bold]not bold[/bold] :tea:" in "\n".join(plain(recorded.program.on_terminal(command, "tea").out))


def test_rm_asks(recorded: Recorded) -> None:
    """On a terminal the user is asked, and told what would go; the answer counts."""
    done = recorded.program.on_terminal("rm", "tea", answer="n\n")
    assert done.code == 130
    assert "delete session tea (Too much tea; 5 messages)?" in done.out
    assert "kept tea" in done.out
    assert recorded.store.view("tea").info.title == "Too much tea"
    assert recorded.program.on_terminal("rm", "tea", answer="y\n").code == 0
    assert recorded.program("ls").out == ""


def test_progress(recorded: Recorded, tmp_path: Path) -> None:
    """Long work shows a bar, and takes it away again."""
    path = write_pi(tmp_path / "[one].jsonl", "s-1")
    done = recorded.program.on_terminal("import", path)
    assert done.code == 0
    assert "━" in done.out
    assert "imported 1 session" in done.out
    assert done.out.count("\x1b[2K") >= 2


def test_empty(recorded: Recorded) -> None:
    """An empty list says so."""
    assert "no sessions" in recorded.program.on_terminal("ls", "--project", "none").out
