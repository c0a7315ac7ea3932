"""Write the tables of the Python reference from the code; with `--check`, only say whether they are up to date.

A table stands between two comments, the first of which names it. What is called is
shown with its parameters and defaults, what it returns, the first paragraph of its docstring and the errors that the
docstring names. What stands around the tables is written by hand.

`python -m tests.docs.reference` writes the page anew.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from strands.session import SessionManager
from tests.docs.docstrings import attributes, below, paragraph, raised
from tests.docs.pages import ROOT, rewrite

import treering
from treering import exporters, importers, search, terminals
from treering.integrations.strands import TreeringSessionManager

PAGE = ROOT / "docs/reference/python.md"
SEE = {
    "open": "[stores](../how-to/stores.md)",
    "redact_patterns": "[what is never stored](../explanation/security.md#what-is-never-stored)",
    "Store.session": "[options](#options-of-a-session)",
    "Store.backup": "[back up](../how-to/back-up.md)",
    "Store.load": "[write an importer](../how-to/write-an-importer.md)",
    "Store.reindex": "[large stores](../how-to/list-and-continue.md#large-stores)",
    "Store.retain": "[keep a store small](../how-to/prune-and-tidy.md#keep-a-store-small)",
    "View.context": "[calls without a result](../how-to/resume-after-a-kill.md#calls-without-a-result), "
    "[what Claude Code sends](programs/claude.md#what-a-model-sees)",
    "View.events": "[follow a session](../how-to/follow-a-session.md)",
    "Session.claim": "[share work among workers](../how-to/share-work-among-workers.md)",
    "Session.stream": "[stream an answer](../how-to/stream-an-answer.md)",
    "View.follow_stream": "[stream an answer](../how-to/stream-an-answer.md)",
    "Session.erase": "[erase a payload](../how-to/erase-a-payload.md)",
    "Session.prune": "[prune and tidy](../how-to/prune-and-tidy.md)",
    "Kind": "[all kinds](kinds.md)",
    "Observer": "[metrics](../how-to/metrics.md)",
    "TreeringError": "[what to do next](../how-to/errors.md)",
}
"""Pages that say more about something; what is in a class is named with it."""
LAST = ("refresh", "close", "perform")
"""Methods that stand below the others."""
TAKEN = ("Schedule", "KeepCheckpoints", "Retention", "Hooks")
"""What callers make; other types are returned."""
KEYWORDS = ("OpenOptions", "LoadFacts")
"""Dictionaries whose keys are given by name; each has a table of its own."""

_block = re.compile(
    r"(<!-- ([\w .]+): written by `python -m tests\.docs\.reference` -->\n).*?(\n<!-- end -->)", re.DOTALL
)


class Row(NamedTuple):
    """What the code says of one public name."""

    shown: str
    """The name, or how it is called."""
    returns: str
    said: str


def called(name: str, function: Callable[..., object]) -> str:
    """A call as a signature has it, without types; `...` is a default that stands for nothing else."""
    shown, named = [], False
    for each in inspect.signature(function).parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not named:
            shown.append("*")
        named = named or each.kind in {each.KEYWORD_ONLY, each.VAR_POSITIONAL}
        stars = "*" * (each.kind is each.VAR_POSITIONAL) or "**" * (each.kind is each.VAR_KEYWORD)
        default = "" if each.default is each.empty else f"={_default(each.default)}"
        shown.append(f"{stars}{each.name}{default}")
    return f"{name}({', '.join(shown)})"


def _default(value: object) -> str:
    if isinstance(value, enum.Enum) and not isinstance(value, str):
        return "HERE" if value is treering.HERE else "..."
    return "..." if callable(value) else repr(value)


def members(owner: type, without: Collection[str] = ()) -> list[Row]:
    """The public members of a class: first what is read, then what is called."""
    read: dict[str, Row] = {}
    calls: dict[str, Row] = {}
    for kind in owner.__mro__[:-1]:
        if kind.__module__.partition(".")[0] == owner.__module__.partition(".")[0]:
            for name, (of, said) in attributes(kind).items():
                if not name.startswith("_"):
                    read[name] = Row(f"`{name}`", _shown_type(of) if of else "", paragraph(said))
            for name, member in vars(kind).items():
                if name.startswith("_") or name in without:
                    continue
                if isinstance(member, property):
                    read.setdefault(name, _row(name, member.fget, name, owner))
                elif inspect.isfunction(member):
                    calls.setdefault(name, _row(name, member, called(name, member), owner))
    last = [name for name in LAST if name in calls]
    return [*read.values(), *(row for name, row in calls.items() if name not in last), *map(calls.__getitem__, last)]


def functions(module: Any) -> list[Row]:
    """The functions that a module offers."""
    every = ((name, getattr(module, name)) for name in module.__all__)
    return [_row(name, each, called(name, each)) for name, each in every if inspect.isfunction(each)]


def _row(name: str, function: Any, shown: str, owner: type | None = None) -> Row:
    said = f"{paragraph(function.__doc__)} {raised(function.__doc__)}".strip()
    of = f"{owner.__name__}." if owner else ""
    return Row(f"`{shown}`", _shown_type(inspect.signature(function).return_annotation), _with_link(of + name, said))


def _shown_type(annotation: object) -> str:
    """A type as it is written, but without the sign that parts the cells of a table."""
    return f"`{str(annotation).replace(' | ', ' or ')}`"


def _with_link(name: str, said: str) -> str:
    return f"{said} See {SEE[name]}." if name in SEE else said


def said_of(name: str) -> str:
    """What the code says of a name of the package that is no function."""
    value, blocking = getattr(treering, name), name.removeprefix("Async")
    if blocking != name and blocking in treering.__all__:
        return f"`{blocking}`, awaited."
    if isinstance(value, type):
        return _with_link(name, paragraph(value.__doc__))
    return _with_link(name, paragraph(_assigned(name)))


def _assigned(name: str) -> str:
    """What stands below the assignment of a name, in the module from which the package has it."""
    for statement in ast.walk(ast.parse(inspect.getsource(treering))):
        if isinstance(statement, ast.ImportFrom) and name in {each.name for each in statement.names}:
            assert statement.module is not None
            return below(inspect.getsource(sys.modules[statement.module]))[name][1]
    raise AssertionError(f"nothing is said of {name}")


def offered(module: Any) -> Iterator[list[str]]:
    """The types that a module offers, and the fields of those that have some."""
    for name in module.__all__:
        kind = getattr(module, name)
        if isinstance(kind, type):
            fields = kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else ()
            yield [f"`{name}`", paragraph(kind.__doc__), ", ".join(f"`{each}`" for each in fields)]


def types(kinds: Iterable[type], sources: Callable[[str], Iterable[str]]) -> Iterator[list[str]]:
    """Types with their fields: what each is, and where it comes from or goes."""
    for kind in kinds:
        fields = ", ".join(f"`{each}`" for each in kind.__struct_fields__)  # type: ignore[attr-defined]
        beside = ", ".join(f"`{each}`" for each in dict.fromkeys(sources(kind.__name__)))
        yield [f"`{kind.__name__}`", beside, _with_link(kind.__name__, paragraph(kind.__doc__)), fields]


def given_by(name: str) -> Iterator[str]:
    """What returns a type, or has it in a field, or hands it to a function of the caller."""
    word = re.compile(rf"\b{name}\b")
    for owner in (treering.Store, treering.Session):
        for member, found in inspect.getmembers(owner):
            function = found.fget if isinstance(found, property) else found
            if not member.startswith("_") and inspect.isfunction(function):
                shown = inspect.signature(function)
                handed = [str(each.annotation) for each in shown.parameters.values() if each.name.startswith("on_")]
                if any(word.search(each) for each in (str(shown.return_annotation), *handed)):
                    yield member
    for other in treering.__all__:
        value = getattr(treering, other)
        if inspect.isfunction(value) and word.search(str(inspect.signature(value).return_annotation)):
            yield other
        if isinstance(value, type) and issubclass(value, msgspec.Struct):
            fields = inspect.get_annotations(value).items()
            yield from (f"{other}.{field}" for field, of in fields if word.search(str(of)))
        if getattr(value, "_is_protocol", False) and word.search(str(inspect.signature(value.__call__))):
            yield other


def taken_by(name: str) -> Iterator[str]:
    """What takes a type, by parameter or field."""
    word = re.compile(rf"\b{name}\b")
    for owner in (treering.Store, treering.Session):
        for member, function in inspect.getmembers(owner, inspect.isfunction):
            parameters = inspect.signature(function).parameters.values()
            if not member.startswith("_") and any(word.search(str(each.annotation)) for each in parameters):
                yield member
    for other in ("OpenOptions", *TAKEN):
        fields = inspect.get_annotations(getattr(treering, other))
        yield from (
            f"{other}.{field}" for field, of in fields.items() if word.search(getattr(of, "__forward_arg__", str(of)))
        )


def _keywords(kind: type) -> list[list[str]]:
    """The keys of a dictionary, with their types where nothing is said of them."""
    said = attributes(kind)
    kinds = {
        name: _shown_type(getattr(of, "__forward_arg__", of)) for name, of in inspect.get_annotations(kind).items()
    }
    return [[f"`{name}`", of, paragraph(said[name][1]) if name in said else ""] for name, of in kinds.items()]


def _errors() -> list[str]:
    return [each for each in treering.__all__ if _is_a(each, treering.TreeringError)]


def _structs() -> list[str]:
    return [each for each in treering.__all__ if _is_a(each, msgspec.Struct)]


def _is_a(name: str, kind: type) -> bool:
    value = getattr(treering, name)
    return isinstance(value, type) and issubclass(value, kind)


def _others() -> list[str]:
    """The public names that are in no other table."""
    elsewhere = {*_errors(), *_structs()}
    left = [
        each for each in treering.__all__ if each not in elsewhere and not inspect.isfunction(getattr(treering, each))
    ]
    return sorted(left, key=str.lower)


TYPES = ["Type", "What it is", "Fields"]
CALLS = ["", "Returns", "What it does"]
TABLES: dict[str, Callable[[], tuple[list[str], Iterable[Iterable[str]]]]] = {
    "treering": lambda: (["Function", *CALLS[1:]], functions(treering)),
    "Store": lambda: (["Method", *CALLS[1:]], members(treering.Store)),
    "OpenOptions": lambda: (["Option", "Type", "Meaning"], _keywords(treering.OpenOptions)),
    "Session": lambda: (["Member", *CALLS[1:]], members(treering.Session, {*_public(treering.View)} - {"close"})),
    "View": lambda: (["Member", "Returns", "What it is"], members(treering.View)),
    "returned": lambda: (
        ["Type", "From", "What it is", "Fields"],
        types((getattr(treering, each) for each in _structs() if each not in TAKEN), given_by),
    ),
    "taken": lambda: (
        ["Type", "For", "What it is", "Fields"], types((getattr(treering, each) for each in TAKEN), taken_by)
    ),
    "LoadFacts": lambda: (["Fact", "Type", "Meaning"], _keywords(treering.LoadFacts)),
    "others": lambda: (["Name", "What it is"], [(f"`{each}`", said_of(each)) for each in _others()]),
    "errors": lambda: (["Error", "What happened"], [(f"`{each}`", said_of(each)) for each in _errors()]),
    "treering.search": lambda: (["Function", *CALLS[1:]], functions(search)),
    "Index": lambda: (["In an index", *CALLS[1:]], members(search.Index)),
    "Filters": lambda: (["Filter", "Type", "Meaning"], _keywords(search.Filters)),
    "search types": lambda: (TYPES, offered(search)),
    "treering.terminals": lambda: (["Function", *CALLS[1:]], functions(terminals)),
    "terminal types": lambda: (TYPES, offered(terminals)),
    "import types": lambda: (TYPES, offered(importers)),
    "export types": lambda: (TYPES, offered(exporters)),
    "treering.importers": lambda: (["Function", *CALLS[1:]], functions(importers)),
    "FileImporter": lambda: (["Of a `FileImporter`", *CALLS[1:]], members(importers.FileImporter)),
    "SessionFile": lambda: (["Of a `SessionFile`", "Returns", "What it is"], members(importers.SessionFile)),
    "treering.exporters": lambda: (["Function", *CALLS[1:]], functions(exporters)),
    "TreeringSessionManager": lambda: (
        ["Of a `TreeringSessionManager`", *CALLS[1:]],
        members(TreeringSessionManager, {*_public(SessionManager)} - {"close"}),
    ),
}  # fmt: skip
"""What stands between the comments that name a table."""


def _public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def page(text: str) -> str:
    """The page with its tables written anew."""
    return _block.sub(lambda found: f"{found[1]}\n{_table(*TABLES[found[2]]())}\n{found[3]}", text)


def tables(text: str) -> list[str]:
    """The names of the tables of a page, in its order."""
    return [found[2] for found in _block.finditer(text)]


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = list(header)
    cells = [header, ["---"] * len(header), *map(list, rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells).replace("| --- ", "|---").replace("|  |", "| |")


def main(arguments: list[str]) -> int:
    """Write the page if it differs, or with `--check` only say so."""
    return rewrite(PAGE, page, arguments, root=ROOT, program="tests.docs.reference")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
