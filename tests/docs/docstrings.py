"""What the code says of public names: first lines of docstrings, the errors they name, what stands below fields."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from itertools import pairwise


def paragraph(docstring: str | None) -> str:
    """The first paragraph of a docstring, on one line.

    Raises:
        AssertionError: There is none, or it would break a table.
    """
    text = " ".join(inspect.cleandoc(docstring or "").partition("\n\n")[0].split())
    assert text, "a public name has no docstring"
    assert "|" not in text, text
    return text


def raised(docstring: str | None) -> str:
    """A sentence with the errors that a docstring names; empty if it names none."""
    _, _, text = inspect.cleandoc(docstring or "").partition("\nRaises:\n")
    text = text.partition("\n\n")[0]
    errors = [f"`{each}`" for each in dict.fromkeys(re.findall(r"^    (\w+):", text, re.MULTILINE))]
    errors += [f"what `{each}` raises" for each in re.findall(r"errors are those\s+of `(\w+)`", text)]
    return f"Raises {', '.join(errors)}." if errors else ""


@cache
def attributes(kind: type) -> dict[str, tuple[str, str]]:
    """Of each field of a class, and of what its constructor sets: its type, if it is told, and what stands below it."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    made = (each.body for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    return {name: said for body in (tree.body, *made) for name, said in _below(body).items()}


def below(source: str) -> dict[str, tuple[str, str]]:
    """The same of the names that a module assigns."""
    return _below(ast.parse(source).body)


def _below(body: Sequence[ast.stmt]) -> dict[str, tuple[str, str]]:
    found = {}
    for each, next_one in pairwise(body):
        name = _target(each)
        if name and isinstance(next_one, ast.Expr) and isinstance(next_one.value, ast.Constant):
            annotated = ast.unparse(each.annotation) if isinstance(each, ast.AnnAssign) else ""
            found[name] = (annotated, str(next_one.value.value))
    return found


def _target(statement: ast.stmt) -> str:
    """The name to which a statement assigns; of `self.name` the second part."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return name
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""
