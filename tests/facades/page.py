"""Write a module of a facade: what it says of itself, its imports, its classes; formatted as all code is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from tests.facades.method import Method
from tests.facades.sides import Side
from tests.facades.source import ROOT, Import


class Page:
    """A module to write."""

    def __init__(self, name: str, summary: str, side: Side) -> None:
        self.path = ROOT / "src/treering/api" / name
        self.side = side
        self._summary = summary
        self._imports: set[Import] = set()
        self._parts: list[str] = []

    def use(self, module: str, *names: str) -> None:
        """Import names."""
        self._imports |= {Import(module, name) for name in names}

    def add_function(self, function: Method) -> None:
        """Add a function."""
        self._parts.append(function.written(self.side))
        self._imports |= function.imports(self.side)

    def add_line(self, line: str) -> None:
        """Add a line of code."""
        self._parts.append(line)

    def add_class(self, head: str, docstring: str, methods: Iterable[Method] = ()) -> None:
        """Add a class."""
        written = [f"class {head}:\n{_indented(docstring)}"]
        for method in methods:
            written.append(_indented(method.written(self.side)))
            self._imports |= method.imports(self.side)
        self._parts.append("\n\n".join(written))

    @property
    def text(self) -> str:
        """The module."""
        told = f'"""{self._summary}\n\nWritten by `python -m tests.facades`: change what it is written from.\n"""'
        early = [each for each in self._imports if not each.typing_only]
        late = [each for each in self._imports if each.typing_only and each._replace(typing_only=False) not in early]
        early += [Import("typing", "TYPE_CHECKING")] if late else []
        parts = [told, "from __future__ import annotations", _lines(early)]
        parts += [f"if TYPE_CHECKING:\n{_indented(_lines(late))}"] if late else []
        return self._formatted("\n\n".join([*parts, *self._parts]) + "\n")

    @property
    def written(self) -> str:
        """What is there now."""
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""

    def _formatted(self, text: str) -> str:
        for command in (["check", "--quiet", "--select=I", "--fix"], ["format", "--quiet"]):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *command, f"--stdin-filename={self.path}", "-"],
                input=text, capture_output=True, text=True, check=False, cwd=ROOT,
            )  # fmt: skip
            if done.returncode:
                raise ValueError(f"{self.path}: {done.stderr}{text}")
            text = done.stdout
        return text


def _lines(imports: Iterable[Import]) -> str:
    return "\n".join(f"from {each.module} import {each.name}" for each in sorted(imports))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
