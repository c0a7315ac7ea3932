"""What `import treering` offers: named, documented, the same for blocking and for asynchronous code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import treering

PAIRS = [
    (treering.Session, treering.AsyncSession),
    (treering.View, treering.AsyncView),
    (treering.Store, treering.AsyncStore),
]
# Words of annotations that are no types of ours.
ELSEWHERE = {"Any", "AsyncIterator", "Callable", "Iterator", "Mapping", "None", "Self", "Sequence"}


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


@pytest.mark.parametrize("cls", [cls for pair in PAIRS for cls in pair])
def test_what_methods_return_can_be_named(cls: type) -> None:
    """Each type of ours that a public method or property returns is exported."""
    missing = set()
    for name, member in members(cls):
        if name == "perform":  # generic: it returns what the protocol does
            continue
        function = member.fget if isinstance(member, property) else member
        assert callable(function)
        words = set(re.findall(r"\b[A-Z]\w+", str(inspect.signature(function).return_annotation)))
        missing |= {f"{name}: {word}" for word in words - ELSEWHERE - set(treering.__all__)}
    assert missing == set()


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
