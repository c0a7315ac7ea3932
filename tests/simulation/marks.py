"""Find the marks of rules in the code: comments of the form `# rule: swap-tail`.

A mark follows the statement that keeps the rule, or is alone on a line above it. Several names are separated by commas.
In a rule about an order, `# rule: output-first before this` marks the statement that has to come second.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MARK = re.compile(r"#+ *rule: *(.+)")
_ITEM = re.compile(r"([a-z][a-z-]*)( before this)?")
_BLOCKS = ("body", "orelse", "finalbody", "handlers")

Statement = ast.stmt | ast.ExceptHandler


class Mark(NamedTuple):
    """A mark: the name of a rule in the code."""

    rule: str
    path: Path
    """The path of the file inside the package."""
    line: int
    """The line of the marked code."""
    second: bool
    """Whether it marks the statement that must come second."""


class Place(NamedTuple):
    """A statement, and the block that it is in."""

    statement: Statement
    block: list[Statement]


def find_marks(package: Path) -> list[Mark]:
    """Return all marks in a package.

    Raises:
        ValueError: A comment begins like a mark, but does not name a rule.
    """
    return [mark for path in sorted(package.rglob("*.py")) for mark in _marks_of(path.relative_to(package), package)]


def _marks_of(path: Path, package: Path) -> Iterator[Mark]:
    text = (package / path).read_text(encoding="utf-8")
    if "rule:" not in text:
        return
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or (mark := _MARK.match(token.string)) is None:
            continue
        line = token.start[0]
        while not lines[line - 1].split("#")[0].strip():
            line += 1  # the mark is alone on its line
        for item in mark[1].split(", "):
            if (name := _ITEM.fullmatch(item)) is None:
                raise ValueError(f"{path}:{token.start[0]} does not name a rule: {item!r}")
            yield Mark(name[1], path, line, bool(name[2]))


def place_of(tree: ast.Module, line: int) -> Place:
    """Return the innermost statement, or `except`, that a line of code belongs to."""
    place = None
    node: ast.AST = tree
    while (inner := _inside(node, line)) is not None:
        place, node = inner, inner.statement
    if place is None:
        raise ValueError(f"no statement is at line {line}")
    return place


def _inside(node: ast.AST, line: int) -> Place | None:
    for block in _blocks(node):
        for statement in block:
            if statement.lineno <= line <= (statement.end_lineno or 0):
                return Place(statement, block)
    return None


def _blocks(node: ast.AST) -> Iterator[list[Statement]]:
    for name in _BLOCKS:
        yield getattr(node, name, [])
    for case in getattr(node, "cases", []):
        yield case.body
