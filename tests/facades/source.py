"""What a protocol's source says: its signature, its docstring, and where the names in its annotations come from."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).parents[2]

INNER_ARGUMENTS = {"rider", "link"}
"""Keyword-only arguments that only callers within the package pass: a facade lacks them."""

Function: TypeAlias = ast.FunctionDef


class Import(NamedTuple):
    """Where a name comes from."""

    module: str
    name: str
    typing_only: bool = False


class Source(NamedTuple):
    """One module."""

    module: str
    text: str
    tree: ast.Module

    @property
    def imports(self) -> dict[str, Import]:
        """Names that the module imports, and those it defines."""
        found: dict[str, Import] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found[node.name] = Import(self.module, node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                found |= {name: Import(self.module, name) for name in names}
            elif isinstance(node, ast.ImportFrom):
                found |= _imported(node)
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for inner in node.body:
                    if isinstance(inner, ast.ImportFrom):
                        found |= {name: each._replace(typing_only=True) for name, each in _imported(inner).items()}
        return found

    def function(self, path: str) -> Function:
        """A function, or `Class.method`."""
        owner, _, name = path.rpartition(".")
        body = self.class_named(owner).body if owner else self.tree.body
        return _outer(next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == name))

    def class_named(self, name: str) -> ast.ClassDef:
        """A class."""
        return next(node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name)

    def methods(self, name: str) -> list[Function]:
        """The public methods of a class, in order."""
        body = self.class_named(name).body
        return [node for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]

    def docstring(self, node: Function | ast.ClassDef) -> str:
        """A docstring as it is written, without the quotes' indentation."""
        statement = node.body[0]
        assert isinstance(statement, ast.Expr), f"{self.module}.{node.name} has no docstring"
        literal = ast.get_source_segment(self.text, statement.value) or ""
        text = re.sub(rf"\n {{{statement.col_offset}}}", "\n", literal)
        for name in INNER_ARGUMENTS:
            text = without_argument(text, name)
        return text


def _outer(function: Function) -> Function:
    """A function without its inner arguments."""
    arguments = function.args
    both = [*zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    left = [(each, default) for each, default in both if each.arg not in INNER_ARGUMENTS]
    arguments.kwonlyargs, arguments.kw_defaults = [each for each, _ in left], [default for _, default in left]
    return function


def _imported(node: ast.ImportFrom) -> dict[str, Import]:
    return {alias.asname or alias.name: Import(node.module or "", alias.name) for alias in node.names}


@cache
def source_of(module: str) -> Source:
    """Read a module, without importing it: what is to be written may be missing."""
    text = (ROOT / "src" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    return Source(module, text, ast.parse(text))


def without_argument(docstring: str, name: str) -> str:
    """A docstring without one argument; without the whole section, if it has no other."""
    docstring = re.sub(rf"\n    {name}: .*(?:\n     +.*)*", "", docstring)
    return re.sub(r"\n\nArgs:(?=\n\n|\n?\"\"\"$)", "", docstring)


def names_in(node: ast.expr | None) -> set[str]:
    """The names that an annotation or a default mentions."""
    if node is None:
        return set()
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
