"""The core knows no program: what is known of one is in its folder, and found there when it is needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import treering
from treering.programs import BUILT_IN, has_part

SOURCE = Path(treering.__file__).parent
OWN = {"integrations", "programs"}
"""Folders in which what is known of one program has its place."""
ABOVE = {"cli", "exporters", "importers", "testing"}
"""Folders whose docstrings may name a program as an example, and whose code may not; all others are the core."""
NAMES = re.compile(rf"(?i)\b_*({'|'.join(BUILT_IN)}|oh-my-pi|operator-use|claude code)(_\w+|'s)?\b")
STANDARD = "from operator import"


def named_in(text: str) -> list[str]:
    """The names of programs in identifiers, texts and comments."""
    lines = [line for line in text.splitlines() if not line.startswith(STANDARD)]
    return [match[0] for line in lines for match in NAMES.finditer(line)]


def modules() -> list[Path]:
    """The modules that are of no program."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] not in OWN]


def core() -> list[Path]:
    """The modules of the core."""
    found = [path for path in modules() if path.relative_to(SOURCE).parts[0] not in ABOVE]
    return [path for path in found if path.relative_to(SOURCE).as_posix() != "search/query.py"]  # operators of queries


@pytest.mark.parametrize("path", core(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_the_core_names_no_program(path: Path) -> None:
    """Neither code nor comments of the core name a program, or one of the policies and views of it."""
    assert named_in(path.read_text(encoding="utf-8")) == []


def named_in_code(text: str) -> list[str]:
    """The names of programs in texts and identifiers, without docstrings and without the standard library's modules."""
    tree = ast.parse(text)
    docstrings = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    words: list[str] = []
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docstrings:
            words.append(each.value)
        elif isinstance(each, ast.ImportFrom):
            words.append("" if each.module in sys.stdlib_module_names else each.module or "")
        else:
            fields = (getattr(each, field, None) for field in ("id", "attr", "arg", "name", "asname"))
            words += [field for field in fields if isinstance(field, str)]
    return [match[0] for word in words for match in NAMES.finditer(word)]


def above() -> list[Path]:
    """The modules above the core that are of no program."""
    return [path for path in modules() if path.relative_to(SOURCE).parts[0] in ABOVE]


@pytest.mark.parametrize("path", above(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_code_outside_its_folder_names_a_program(path: Path) -> None:
    """No text, identifier or import of importers, exporters and the command line names a program."""
    assert named_in_code(path.read_text(encoding="utf-8")) == []


def test_names_are_found_in_code() -> None:
    """A name is found in an import, a text, an identifier and an attribute; not in a docstring."""
    text = '"""As pi does."""\nfrom operator import x\nfrom treering.programs.omp import y as kit\n'
    text += 'z = ["evva", y.claude_entries]'
    assert sorted(named_in_code(text)) == ["claude_entries", "evva", "kit", "omp"]


def test_names_are_found() -> None:
    """A name is found in a text, an identifier, a comment and a view; a word that only holds one is none."""
    text = 'x = {"pi": 1, "omp.stripped@1": _kit_reads}  # evva\'s\nfrom operator import attrgetter\nepic = "kitchen"'
    assert named_in(text) == ["pi", "omp", "_kit_reads", "evva's"]


def test_every_program_has_its_parts() -> None:
    """Each folder of a program reads and locates, and all of them are in the table."""
    folders = {path.parent.name for path in SOURCE.glob("programs/*/__init__.py")} - {"common"}
    assert folders == set(BUILT_IN)
    assert all(has_part(name, part) for name in BUILT_IN for part in ("read", "locate"))
    assert {name for name in BUILT_IN if not has_part(name, "write")} == {"strands"}


USED = """
import sys, treering
store = treering.open(sys.argv[1])
with store.session("s") as session:
    session.append(treering.user("x"))
with store.session("s") as session:
    assert [item.message["content"] for item in session.context]
parts = [name.split(".") for name in sys.modules if name.startswith("treering.programs.")]
print(*sorted(part[2] for part in parts if len(part) > 3))
print("importlib.metadata" in sys.modules)
"""


def test_a_session_made_here_loads_no_program(tmp_path: Path) -> None:
    """No reader, writer or policy is imported, and no entry point looked for, to write and resume a session."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{USED}", str(tmp_path / "store")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    parts, searched = done.stdout.splitlines()
    assert parts == ""
    assert searched == "False"
