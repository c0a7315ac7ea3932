"""What `import treering` offers: named, documented, the same for blocking and for asynchronous code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, get_args

import pytest

import treering
import treering.exporters
import treering.importers
import treering.integrations.claude
import treering.integrations.strands
import treering.search
import treering.terminals
from treering import integrations

PAIRS = [
    (treering.Session, treering.AsyncSession),
    (treering.View, treering.AsyncView),
    (treering.Store, treering.AsyncStore),
]
PUBLIC = (
    treering, treering.search, treering.terminals, treering.importers, treering.exporters, integrations.claude,
    integrations.strands,
)  # fmt: skip
"""The modules whose names are public."""
HANDED_ON = {"Looks", "StoredFolder"}
"""What callers only hand from one function to another; what its methods take is nothing to them."""


def exported() -> dict[str, Any]:
    """All exported objects by name."""
    return {name: getattr(treering, name) for name in treering.__all__}


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, inherited ones too, but not those of the standard library."""
    for name, member in inspect.getmembers(cls):
        if name.startswith("_") or not (callable(member) or isinstance(member, property)):
            continue
        owner = next(base for base in cls.__mro__ if name in vars(base))
        if owner.__module__.startswith("treering"):
            yield name, member


def test_all_is_sorted_and_complete() -> None:
    """`__all__` names each public thing once, in order, and nothing that is not there."""
    constants = [name for name in treering.__all__ if name.isupper()]
    others = [name for name in treering.__all__ if not name.isupper()]
    assert treering.__all__ == sorted(constants) + sorted(others)
    assert len(set(treering.__all__)) == len(treering.__all__)
    public = {
        name
        for name, value in vars(treering).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name not in ("Any", "annotations")
    }
    assert public - {"TYPE_CHECKING"} <= set(treering.__all__)
    assert exported().keys() == set(treering.__all__)


def test_star_import_gives_what_all_names() -> None:
    """`from treering import *` works, names that are loaded late included."""
    found: dict[str, object] = {}
    exec("from treering import *", found)
    assert set(treering.__all__) <= found.keys()


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Loading names late does not hide spelling mistakes."""
    with pytest.raises(AttributeError, match="Sesion"):
        treering.Sesion  # noqa: B018


@pytest.mark.parametrize("name", treering.__all__)
def test_everything_public_is_documented(name: str) -> None:
    """Each exported class and function, and each public method and property of it, has a docstring."""
    thing = exported()[name]
    if not callable(thing):
        return
    assert inspect.getdoc(thing)
    assert thing.__module__.startswith("treering.")
    if inspect.isclass(thing):
        missing = [member for member, found in members(thing) if not inspect.getdoc(found)]
        assert missing == []


def test_what_runs_on_in_a_docstring_is_indented() -> None:
    """Else tools that read docstrings take the second line of an argument for another argument, and leave it out."""
    found = []
    for path in Path(treering.__file__).parent.rglob("*.py"):
        documented = (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, DOCUMENTED))
        found += [(path.name, line) for each in documented for line in strays(ast.get_docstring(each) or "")]
    assert found == []


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def strays(text: str) -> Iterator[str]:
    """Lines in the sections of a docstring that begin where an entry begins, and are none."""
    for section in re.findall(r"^(?:Args|Raises|Attributes):\n((?:    .*\n?|\n(?=    ))*)", text, re.MULTILINE):
        yield from (line for line in section.splitlines() if re.match(r" {4}\S", line) and not _entry.match(line))


_entry = re.compile(r" {4}\*{0,2}[\w.]+(, [\w.]+)*: ")


def test_a_line_that_is_not_indented_is_noticed() -> None:
    """The second line of an entry stands four further in; entries may name several errors."""
    good = "Do.\n\nArgs:\n    one: First,\n        and on.\n    **rest: More.\n\nRaises:\n    A, B: It\n        fails."
    assert list(strays(good)) == []
    assert list(strays(good.replace("        and on", "    and on"))) == ["    and on."]


def test_docstrings_are_sentences() -> None:
    """The first line of each docstring is a whole sentence."""
    found = {
        f"{cls.__name__}.{name}": inspect.getdoc(member)
        for pair in PAIRS
        for cls in pair
        for name, member in members(cls)
    }
    assert [name for name, text in found.items() if not text or text.splitlines()[0][-1] not in ".:;"] == []


@pytest.mark.parametrize(("blocking", "asynchronous"), PAIRS)
def test_both_kinds_offer_the_same(blocking: type, asynchronous: type) -> None:
    """Blocking and asynchronous classes have the same members, with the same parameters and defaults."""
    ours, theirs = dict(members(blocking)), dict(members(asynchronous))
    assert ours.keys() == theirs.keys()
    for name, member in ours.items():
        if isinstance(member, property):
            assert isinstance(theirs[name], property)
            continue
        mine, other = inspect.signature(member), inspect.signature(theirs[name])
        assert plain(mine.parameters) == plain(other.parameters), name


def plain(parameters: Any) -> list[tuple[str, Any, Any, str]]:
    """Parameters without what must differ: a store of either kind takes a store of its own kind."""
    return [
        (each.name, each.kind, each.default, str(each.annotation).replace("Async", "")) for each in parameters.values()
    ]


@pytest.mark.parametrize("cls", [cls for pair in PAIRS for cls in pair])
def test_methods_are_signed_as_callers_see_them(cls: type) -> None:
    """A method shows `self`, and never the reader or writer it works on, nor that it is a protocol."""
    for name, member in members(cls):
        if isinstance(member, property) or name == "perform":  # which takes a protocol
            continue
        shown = inspect.signature(member)
        assert next(iter(shown.parameters)) == "self", name
        assert "Steps" not in str(shown), name
        assert {"reader", "writer"}.isdisjoint(shown.parameters), name
        assert member.__name__ != "method", name


@pytest.mark.parametrize("cls", [cls for pair in PAIRS for cls in pair])
def test_each_method_has_a_def_of_its_own(cls: type) -> None:
    """Editors show its signature and docstring, and find its code: it is a function of that name."""
    for name, member in members(cls):
        function = member.fget if isinstance(member, property) else member
        assert inspect.isfunction(function), name
        assert function.__code__.co_name == name, name
        assert not hasattr(function, "__wrapped__"), name


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: str(module.__name__))
def test_what_signatures_name_can_be_imported(module: ModuleType) -> None:
    """Each type of ours in a public signature, and in a field of what is taken or returned, is exported."""
    reachable = [getattr(each, name) for each in PUBLIC for name in each.__all__]
    missing = {
        f"{where}: {name}"
        for exported_name in set(module.__all__) - HANDED_ON
        for where, annotation, home in annotations_of(exported_name, getattr(module, exported_name))
        for name, found in types_of_ours(annotation, home)
        if not any(found is each for each in reachable)
    }
    assert missing == set()


def annotations_of(name: str, thing: Any) -> Iterator[tuple[str, str, str]]:
    """The annotations of a function, or of the methods, properties and fields of a class, and the module of each."""
    functions: dict[str, Any] = {name: thing} if inspect.isfunction(thing) else {}
    if inspect.isclass(thing):
        for base in thing.__mro__:
            fields = vars(base).get("__annotations__", {}) if base.__module__.startswith("treering") else {}
            for field, annotation in fields.items():
                if not field.startswith("_"):
                    yield f"{name}.{field}", str(annotation), base.__module__
        functions = {f"{name}.{member}": found for member, found in members(thing) if member != "perform"}
        functions[name] = vars(thing).get("__init__")
    for where, found in functions.items():
        function: Any = found.fget if isinstance(found, property) else inspect.unwrap(found)
        for annotation in getattr(function, "__annotations__", {}).values():
            yield where, str(annotation), function.__module__


@cache
def names_of_ours(home: str) -> dict[str, tuple[str, str]]:
    """The names in a module that this package defines, there or elsewhere: the module of each, and its name there."""
    source = ast.parse(Path(inspect.getfile(import_module(home))).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name: (statement.module or "", alias.name)
        for statement in ast.walk(source)
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("treering")
        for alias in statement.names
    }
    defined = {each.name: (home, each.name) for each in source.body if isinstance(each, ast.ClassDef)}
    defined |= {
        each.targets[0].id: (home, each.targets[0].id)
        for each in source.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    }
    return defined | imported


def types_of_ours(annotation: str, home: str) -> Iterator[tuple[str, object]]:
    """The types that an annotation of a module names and that this package defines."""
    names = names_of_ours(home)
    for word in set(re.findall(r"\b[A-Za-z]\w*", annotation)):
        if word in names:
            module, name = names[word]
            found = getattr(import_module(module), name, None)
            if any(inspect.isclass(part) and part.__module__.startswith("treering") for part in parts_of(found)):
                yield name, found


def parts_of(found: Any) -> tuple[Any, ...]:
    """The members of a union, or what it is."""
    return get_args(found) if isinstance(found, UnionType) else (found,)


def test_errors_form_the_documented_tree() -> None:
    """All errors are one family, and also what people catch already."""
    errors = {name: thing for name, thing in exported().items() if name.endswith("Error")}
    assert all(issubclass(error, treering.TreeringError) for error in errors.values())
    builtin = {
        "UsageError": ValueError,
        "NotFoundError": KeyError,
        "SessionDeletedError": KeyError,
        "UnavailableError": OSError,
        "PoisonedError": OSError,
        "AccessError": PermissionError,
    }
    assert all(issubclass(errors[name], kind) for name, kind in builtin.items())
    error = treering.CorruptError("what", key="k", offset=3)
    assert (error.key, error.offset, error.kind) == ("k", 3, "corrupt")
    assert "treering verify" in str(error)
    assert str(treering.NotFoundError("no such node")) == "no such node"


def test_nothing_reaches_into_a_store_or_a_session() -> None:
    """What extends the library (integrations, search, the command line) uses `Store.place` and `Session.perform`."""
    source = Path(treering.__file__).parent
    private = re.compile(r"\b(?:store|session|view)\._[a-z]")
    found = [
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if private.search(line)
    ]
    assert found == []
