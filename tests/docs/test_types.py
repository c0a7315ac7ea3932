"""The examples that readers copy first pass a strict type checker as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks, name_of, pages

PAGES = [
    page
    for page in pages("docs")
    if name_of(page) in ("README.md", "docs/tutorial.md") or name_of(page).startswith("docs/reference/")
]


@pytest.mark.slow
def test_the_first_examples_pass_mypy(tmp_path: Path) -> None:
    """Those of the README, the tutorial and the reference, each page as one program, by `mypy --strict`."""
    programs = [program for page in PAGES if (program := written(page, tmp_path)) is not None]
    assert "README.py" in [program.name for program in programs]
    wrong = tmp_path / "wrong.py"
    wrong.write_text('import treering\n\ntreering.open("x").session("s").append(1)\n')
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [*command, *map(str, programs), str(wrong)], check=False, capture_output=True, text=True, cwd=ROOT
    )
    found = done.stdout.splitlines()
    assert [line for line in found if "wrong.py" not in line] == ["Found 1 error in 1 file (checked 3 source files)"]


def written(page: Path, folder: Path) -> Path | None:
    """Write the Python blocks of a page as one program, with the line numbers of the page; None if it has none."""
    lines = [""] * page.read_text().count("\n")
    python = [block for block in blocks(page) if block.language == "python"]
    for block in python:
        text = block.text.splitlines()
        lines[block.line - 1 : block.line - 1 + len(text)] = text
    program = folder / f"{page.stem}.py"
    program.write_text("\n".join(lines) + "\n")
    return program if python else None
