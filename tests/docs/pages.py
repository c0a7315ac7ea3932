"""The pages of documentation, and what stands in them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_file = re.compile(r"# ([\w/]+\.py)\n")
_heading = re.compile(r"^#+ (.+)$", re.MULTILINE)
_link = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    """What stands behind the fence: `python`, `output`, `sh`, `text`, ..."""
    text: str
    line: int
    """Of its first line, counted from 1."""


def pages(*folders: str) -> list[Path]:
    """The Markdown files at the root of the repository and in these folders."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.md"))]
    return [*sorted(ROOT.glob("*.md")), *found]


def name_of(page: Path) -> str:
    """The path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    return [Block(each[1], each[2], text.count("\n", 0, each.start()) + 2) for each in _fence.finditer(text)]


def files(page: Path) -> dict[str, str]:
    """The blocks that are files, by the paths that stand in the comments with which they begin."""
    found = ((_file.match(block.text), block.text) for block in blocks(page))
    return {match[1]: text for match, text in found if match is not None}


def prose(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    return _fence.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Where the links of a page lead."""
    return _link.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """What links can name behind `#` on a page, by the rule of common Markdown viewers."""
    found = set()
    for heading in _heading.findall(prose(page)):
        plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def table(page: Path, header: str) -> list[list[str]]:
    """The rows of the table whose first header cell is `header`; cells as they stand there."""
    rows: list[list[str]] = []
    reading = False
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|"):
            reading = False
        elif cells[0] == header:
            reading = True
        elif reading and not set(line) <= set("|-: "):
            rows.append(cells)
    return rows


def rewrite(path: Path, page: Callable[[str], str], arguments: list[str], *, root: Path, program: str) -> int:
    """Write a page that a program makes, if it differs, or with `--check` only say so; return the exit code."""
    written = path.read_text()
    text = page(written)
    if text == written:
        return 0
    if "--check" in arguments:
        sys.stdout.write(f"{path.relative_to(root)} is not what `python -m {program}` writes\n")
        return 1
    path.write_text(text)
    return 0
