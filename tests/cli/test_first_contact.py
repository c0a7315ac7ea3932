"""What somebody sees who types the first commands: help, names, a store that is not there, long output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Program, Recorded, environment
from tests.cli.test_terminal import plain

import treering
from treering.cli import main
from treering.cli.app import ALIASES, SECTIONS


def test_the_bare_program_prints_its_help(program: Program) -> None:
    """As it is laid out, on standard output, and without an error."""
    done = program.process()
    assert (done.code, done.err) == (0, "")
    assert done.out == program.process("--help").out
    lines = done.out.splitlines()
    assert lines[0] == "Usage: treering [OPTIONS] [COMMAND] [ARGS]..."
    assert [line for line in lines if line.endswith("...") and line != lines[0]] == []  # no sentence is cut
    assert max(map(len, lines)) <= 80


def test_each_command_stands_under_one_heading(program: Program) -> None:
    """With its examples at the end, which are commands that there are."""
    listed = [command for commands in SECTIONS.values() for command in commands]
    assert len(listed) == len({*listed}) == len(main.commands)
    _, _, examples = program("--help").out.partition("Examples:\n")
    named = re.findall(r"^  treering (?:--store \S+ )?(\w+)", examples, re.MULTILINE)
    assert len(named) >= 5
    assert {*named} <= {*main.commands}


@pytest.mark.parametrize("alias", ALIASES)
def test_words_that_people_type(program: Program, alias: str) -> None:
    """Another word for a command is that command."""
    assert program(alias, "--help").out.splitlines()[1:] == program(ALIASES[alias], "--help").out.splitlines()[1:]


def test_a_store_that_does_not_exist_is_said(program: Program, tmp_path: Path) -> None:
    """Where it was looked for; and nothing is made there."""
    done = program("ls")
    assert done.out == ""
    assert str(program.store) in done.err
    assert "TREERING_STORE" in done.err
    assert str(program.store) in program("show", "tea", code=3).err
    assert not program.store.exists()
    assert program("--help").err == ""
    treering.open(program.store).session("s").append("hello")
    assert program("ls").err == ""


@pytest.mark.parametrize("arguments", [("show", "d7"), ("show", "tea", "d7"), ("log", "tea", "--node", "d7")])
def test_a_part_that_is_too_short_is_told_how_long_it_must_be(recorded: Recorded, arguments: tuple[str, ...]) -> None:
    """However many names begin so."""
    assert "at least 4 characters" in recorded.program(*arguments, code=3).err


def test_a_narrow_terminal_shows_titles(recorded: Recorded) -> None:
    """Columns that say less make room for them."""
    with recorded.store.session("a-session-with-quite-a-long-name", title="Refactor the parser", project="p") as other:
        other.append("go on")
    done = recorded.program.on_terminal("ls", columns=80)
    assert "Refactor the parser" in done.out
    assert "Too much tea" in done.out
    assert "project" in plain(recorded.program.on_terminal("ls", columns=200).out)[0]


def test_long_output_goes_through_a_pager(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What fits is printed at once."""
    with recorded.store.session("tea") as session:
        for number in range(200):
            session.append(f"message {number}")
    seen = tmp_path / "seen"
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {seen}\n")
    pager.chmod(0o700)
    monkeypatch.setattr("tests.cli.conftest.environment", lambda: {**environment(), "PAGER": str(pager)})
    assert recorded.program.on_terminal("log", "tea", "-n", "3").code == 0
    assert not seen.exists()
    assert recorded.program.on_terminal("log", "tea", "-n", "100").code == 0
    assert "message 150" in seen.read_text()


def test_the_shell_completes_names_of_sessions(recorded: Recorded) -> None:
    """Of the store that the line names, and none of one that is not there."""
    recorded.store.session("teapot").append("hello")
    recorded.store.session("coffee").append("hello")

    def completed(store: Path) -> list[str]:
        words = f"treering --store {store} show te"
        asked = {"_TREERING_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "4"}
        source = "import sys; sys.argv[0] = 'treering'; from treering.__main__ import start; start()"
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**environment(), **asked}, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.split()]

    assert sorted(completed(recorded.program.store)) == ["tea", "teapot"]
    assert completed(recorded.program.store / "none") == []


def test_an_interrupt_while_the_program_loads_shows_no_traceback() -> None:
    """It ends like any other that was interrupted."""
    source = """
import sys
class Interrupting:
    def find_spec(self, name, *rest):
        if name == "treering.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from treering.__main__ import start
start()
"""
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("command", [("ls",), ("tree", "tea"), ("log", "tea"), ("show", "tea"), ("context", "tea")])
def test_a_locale_of_ascii_is_enough(recorded: Recorded, command: tuple[str, ...]) -> None:
    """Nothing fails because a character cannot be shown there."""
    with recorded.store.session("tea") as session:
        session.append("Übergröße … 語")
    plain_locale = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    done = subprocess.run(
        recorded.program.command(*command),
        env={name: value for name, value in {**environment(), **plain_locale}.items() if value},
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert os.linesep.encode() in done.stdout
