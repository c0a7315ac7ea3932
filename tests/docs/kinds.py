"""Which kinds the source raises, and the page that lists them.

`python -m tests.docs.kinds` writes the page anew.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT

from treering import errors
from treering.format.paths import NOT_OURS
from treering.programs.common.memo import DAMAGED
from treering.storage.local_disk import _ACCESS, _UNAVAILABLE

SOURCE = ROOT / "src/treering"
PAGE = ROOT / "docs/reference/kinds.md"
CLASSES = {name for name in vars(errors) if name.endswith("Error")}
CARRIERS = CLASSES | {"Finding", "RepairLoss", "GraphProblem"}
CONSTANTS = {"NOT_OURS": NOT_OURS, "DAMAGED": DAMAGED}
HELPERS = {"_odd": "Finding", "_lose": "RepairLoss"}
"""What takes a kind as its first argument, and what it makes of it."""
OF_FILES = (("importers/parsed_file.py", "FileFinding"), ("programs/common/source.py", "Problem"))
"""What says something about a file of another program has words of its own."""
ON_PURPOSE = "storage/faulty.py"
"""A driver that fails on purpose."""
_PASSED_ON = re.compile(r"\w+\.kind|kind|found\[0\]")
"""An error that is made of another one, and the arguments and variables that `kinds_of` finds by themselves."""


def raised() -> dict[str, set[str]]:
    """The classes that carry each kind."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        if not str(path).endswith(ON_PURPOSE):
            for kind, carrier in kinds_of(path):
                found[kind].add(carrier)
    for table, carrier in ((_ACCESS, "AccessError"), (_UNAVAILABLE, "UnavailableError")):
        for kind, _ in table.values():
            found[kind].add(carrier)
    return found


def kinds_of(path: Path) -> Iterator[tuple[str, str]]:
    """The kinds in one file, each with a class that carries it.

    Raises:
        AssertionError: A kind is made in a way that is not understood here.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "kind" and path.name == "s3_errors.py":
            yield from ((kind, "UnavailableError") for kind in (_texts(node.value) & {"timeout", "network"}))
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).split(".")[-1]
        if any(str(path).endswith(file) and name == other for file, other in OF_FILES):
            continue
        given = [each.value for each in node.keywords if each.arg == "kind"]
        if name in HELPERS:
            yield from ((kind, HELPERS[name]) for kind in _texts(node.args[0]))
        elif name in CARRIERS and given:
            yield from ((kind, name) for kind in _of(given[0], path))
        elif name in CLASSES:
            yield name.removesuffix("Error").lower(), name


def _of(given: ast.expr, path: Path) -> set[str]:
    text = ast.unparse(given)
    if text in CONSTANTS:
        return {CONSTANTS[text]}
    found = _texts(given)
    assert found or _PASSED_ON.fullmatch(text), f"{path}: cannot tell the kinds of {text}"
    return set() if _PASSED_ON.fullmatch(text) else found


def _texts(node: ast.expr) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def meanings() -> dict[str, tuple[str, str]]:
    """What each kind means and what to do, as its docstring says."""
    (body,) = (
        each.body for each in ast.parse((SOURCE / "kinds.py").read_text()).body if isinstance(each, ast.ClassDef)
    )
    found = {}
    for member, text in zip(body[1::2], body[2::2], strict=True):
        assert isinstance(member, ast.Assign)
        assert isinstance(text, ast.Expr)
        meaning, _, remedy = ast.literal_eval(text.value).partition(". ")
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
