"""Claude Code itself is asked what it sends when it resumes a session: a made one, a piece of one, a public one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tests.programs.claude.requests import recorded, shown
from tests.programs.claude.sessions import SESSION, Chance
from tests.programs.claude.talks import TALKS, talk_of
from tests.upstream.claude_code import ClaudeCode

PIECES: Final = int(os.environ.get("TREERING_UPSTREAM_PIECES", "100"))
"""So many files that end anywhere are made."""


@pytest.mark.parametrize("name", TALKS)
def test_what_was_recorded_is_what_the_program_sends(claude: ClaudeCode, name: str) -> None:
    """The answers with which contexts are compared where the program is not installed are the program's."""
    assert claude.rows(talk_of(name).data) == recorded()[name]


def test_a_file_as_a_crash_leaves_it_shows_what_the_program_sends(claude: ClaudeCode, tmp_path: Path) -> None:
    """It ends after any line: between the parts of an answer, between a call and its result, after a boundary."""
    path = tmp_path / f"{SESSION}.jsonl"
    for number in range(PIECES):
        random = Random(f"piece {number}")
        lines = Chance(random, 6).data.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: random.randrange(1, len(lines) + 1)]))
        assert shown(path) == claude.rows(path.read_bytes()), number


def test_samples_show_what_the_program_sends(claude: ClaudeCode, shared: Path, tmp_path: Path) -> None:
    """Public files, as far as the program finds a session in them, and their entries name each other."""
    found = [
        path for path in sorted((shared / "samples").rglob("*.jsonl")) if {"claude", "claude-code"} & {*path.parts}
    ]
    path = tmp_path / f"{SESSION}.jsonl"
    compared = 0
    for sample in found:
        path.write_bytes(sample.read_bytes())
        rows = claude.rows(path.read_bytes())
        if rows is not None and _is_linked(path):
            compared += 1
            assert shown(path) == rows, sample.name
    assert compared > 40


def _is_linked(path: Path) -> bool:
    """Tell whether all messages name those before them, and calls have ids; else the program sends parts of a file."""
    entries: list[dict[str, Any]] = [json.loads(line) for line in path.read_bytes().splitlines()]
    said = [entry for entry in entries if entry.get("type") in ("user", "assistant")]
    contents = [entry["message"].get("content") for entry in said]
    calls = [block for each in contents if isinstance(each, list) for block in each if block["type"] == "tool_use"]
    return all("parentUuid" in entry for entry in said) and all("id" in block for block in calls)
