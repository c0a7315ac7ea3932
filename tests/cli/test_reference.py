"""The reference page says what the program does, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.conftest import Recorded
from tests.cli.test_transfer import pi_message, write_pi

from treering.cli import main
from treering.cli.exits import EXITS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
COMMON = {"--store", "--namespace", "--single-writer", "--debug"}


def section(heading: str) -> str:
    """What stands under a heading of the page."""
    text = re.split(rf"^#+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    return re.split(r"^#", text, flags=re.MULTILINE)[0]


def table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without its head."""
    rows = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def options(command: click.Command) -> set[str]:
    """All names of a command's options."""
    named = {name for each in command.params if isinstance(each, click.Option) for name in each.opts}
    return named - {"-h", "--help", "-V", "--version"}


def names_in(text: str) -> set[str]:
    """Option names in a cell."""
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def test_commands() -> None:
    """Every command has its section, and every section is a command."""
    assert set(re.findall(r"^### treering (\w+)$", PAGE, re.MULTILINE)) == set(main.commands)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_options(name: str) -> None:
    """Each option of a command is described, and none that it does not have; so is its usage."""
    command = main.commands[name]
    described = set().union(*(names_in(row[0]) for row in table(f"treering {name}")))
    assert described == options(command) - COMMON
    assert options(command) >= COMMON
    pieces = " ".join(command.collect_usage_pieces(click.Context(command)))
    assert f"```text\ntreering {name} {pieces}\n```" in section(f"treering {name}")


def test_common_options() -> None:
    """The options of the store are described once."""
    assert set().union(*(names_in(row[0]) for row in table("The store"))) == COMMON == options(main)


def test_exit_codes() -> None:
    """The table of exit codes is the program's own."""
    assert [(int(row[0]), row[1]) for row in table("Exit codes")] == [(row.code, row.meaning) for row in EXITS]


def fields(document: str) -> set[str]:
    """The fields of a document, as the page has them."""
    rows = {row[0]: row[1] for row in table("Documents")}
    named = set(re.findall(r"`(\w+)`", rows[document].partition(";")[0]))
    return named | (fields("ENTRY") if "those of ENTRY" in rows[document] else set())


def test_documents(recorded: Recorded, tmp_path: Path) -> None:
    """Every document has exactly the fields that are described."""
    run = recorded.program.json
    standing = run("show", "tea")
    checkpoint = run("show", "tea", recorded.green)["checkpoint"]
    entries = run("checkpoints", "tea")["checkpoints"]
    found: list[tuple[str, Any]] = [
        ("STANDING", standing),
        ("SESSION", standing["session"]),
        ("SESSION", run("ls")["sessions"][0]),
        ("NODE", run("show", "tea", recorded.question)["node"]),
        ("ITEM", run("context", "tea")["items"][0]),
        ("ITEM", checkpoint["context"][0]),
        ("ROW", run("tree", "tea")["rows"][0]),
        ("ENTRY", entries[0]),
        ("CHECKPOINT", checkpoint),
        ("HIT", run("search", "total", "--index", tmp_path / "index")["hits"][0]),
        ("SIZES", run("stats", "tea")),
        ("SIZES", run("stats")["sessions"][0]),
        ("PLACE", run("fork", "tea", "tea-2")),
        ("PLACE", run("branch", "tea", "third")),
        ("PLACE", run("rewind", "tea", "green")),
        ("RECEIPT", run("erase", "tea-2", "--state", "step", "--yes")),
        ("LEFT", run("show", "tea-2")["erased_state"][0]),
    ]
    path = write_pi(tmp_path / "s.jsonl", "s-1", pi_message("b", "gone", "user", "hi"))
    found += [("FILE", run("import", path)["files"][0])]
    found += [("FINDING", run("verify", "s-1")["sessions"][0]["findings"][0])]
    doctored = run("doctor", path, "--write", tmp_path / "mended.jsonl")
    found += [("DIAGNOSIS", doctored["diagnosis"]), ("DEFECT", doctored["diagnosis"]["findings"][0])]
    found += [("COPY", doctored["copy"])]
    found += [("BACKED-UP", run("backup", tmp_path / "backup")["rows"][0])]
    for name, document in found:
        assert set(document) == fields(name), name


def test_shapes(recorded: Recorded, tmp_path: Path) -> None:
    """The outer fields of each command's document are those in its table."""
    recorded.program.json("continue", "--cwd", tmp_path)
    shapes = {
        "ls": (), "tree": ("tea",), "log": ("tea",), "context": ("tea",), "checkpoints": ("tea",),
        "diff": ("tea", "green"), "backup": (tmp_path / "backup",), "verify": (), "seal": ("tea",),
        "branch": ("tea",), "stats": (),
    }  # fmt: skip
    for name, arguments in shapes.items():
        (shape,) = (row[1] for row in table(f"treering {name}") if row[0] == "`--json`")
        document = recorded.program.json(name, *arguments)
        assert [field for field in document if f'"{field}"' not in shape] == [], name
        if name == "seal":
            assert set(document["after"]) == set(re.findall(r"`(\w+)`", shape))
