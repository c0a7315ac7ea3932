"""Which kinds the source raises, and the page that lists them.

`python -m tests.docs.kinds` writes the page anew.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

from treering import Kind, errors

SOURCE = ROOT / "src/treering"
PAGE = ROOT / "docs/reference/kinds.md"
CLASSES = {name for name in vars(errors) if name.endswith("Error")}
CARRIERS = CLASSES | {"Finding", "RepairLoss", "GraphProblem"}
HELPERS = {"_odd": "Finding", "_lose": "RepairLoss"}
"""What takes a kind as its first argument, and what it makes of it."""
TABLES = {"access": "AccessError", "unavailable": "UnavailableError", "kind": "UnavailableError"}
"""Names to which kinds are assigned, and what carries them then."""
ON_PURPOSE = "storage/faulty.py"
"""A driver that fails on purpose."""


@functools.cache
def raised() -> dict[str, set[str]]:
    """The classes that carry each kind."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        if not str(path).endswith(ON_PURPOSE):
            for kind, carrier in kinds_of(path):
                found[kind].add(carrier)
    return found


def kinds_of(path: Path) -> Iterator[tuple[str, str]]:
    """The kinds in one file, each with a class that carries it.

    Raises:
        AssertionError: A kind is written as a text, which no type checker finds wrong.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and (carrier := TABLES.get(ast.unparse(node.targets[0]))):
            yield from ((kind, carrier) for kind in _members(node.value))
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).split(".")[-1]
        given = [each.value for each in node.keywords if each.arg == "kind"]
        if name in HELPERS:
            yield from ((kind, HELPERS[name]) for kind in _members(node.args[0]))
        elif name in CARRIERS and given:
            assert not isinstance(given[0], ast.Constant), f"{path}:{node.lineno}: {ast.unparse(given[0])}"
            yield from ((kind, name) for kind in _members(given[0]))
        elif name in CLASSES:
            yield name.removesuffix("Error").lower(), name


def _members(node: ast.expr) -> set[str]:
    """The members of `Kind` that stand in an expression; none if the kind of another error is passed on."""
    return {
        Kind[each.attr]
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "Kind"
    }


def meanings() -> dict[str, tuple[str, str]]:
    """What each kind means and what to do, as its docstring says."""
    (body,) = (
        each.body for each in ast.parse((SOURCE / "kinds.py").read_text()).body if isinstance(each, ast.ClassDef)
    )
    found = {}
    for member, text in zip(body[1::2], body[2::2], strict=True):
        assert isinstance(member, ast.Assign)
        assert isinstance(text, ast.Expr)
        said = " ".join(ast.literal_eval(text.value).split())  # a cell of a table is one line
        meaning, _, remedy = said.partition(". ")
        found[ast.literal_eval(member.value)] = (meaning, remedy.removesuffix("."))
    return found


def rows() -> list[list[str]]:
    """The rows of the table."""
    carriers = raised()
    return [
        [f"`{kind}`", ", ".join(f"`{each}`" for each in sorted(carriers[kind])), *said]
        for kind, said in meanings().items()
    ]


def page() -> str:
    """The text of the page."""
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows())
    return f"""# Kinds

The `kind` of an error, of a `Finding` of `verify`, of a `RepairLoss` of `repair` and of a `GraphProblem` is a stable
word for programs: none is removed or gets another meaning, new ones may come. `treering.Kind` has them all; a member
equals its text: `error.kind == treering.Kind.BUSY`. What an error's class asks of you is said in
[errors](../how-to/errors.md); its message and its `remedy` say more than can be said here.

| `kind` | Carried by | Meaning | What to do |
|---|---|---|---|
{lines}
"""


if __name__ == "__main__":
    PAGE.write_text(page())
