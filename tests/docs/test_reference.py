"""The tables of the Python reference are those of the code, and every public name is in one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from strands.session import SessionManager
from tests.docs import reference
from tests.docs.docstrings import attributes, paragraph, raised
from tests.docs.pages import ROOT, prose, table
from tests.docs.reference import PAGE

import treering
from treering import errors, exporters, importers, search, terminals
from treering.integrations.strands import TreeringSessionManager

ERRORS = ROOT / "docs/how-to/errors.md"
STRUCTS = [
    kind
    for module in (treering, search, terminals)
    for kind in (getattr(module, name) for name in module.__all__)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
]

_name = re.compile(r"`(\w+)")


def names(rows: Iterable[Iterable[str]]) -> list[str]:
    """The name in the first cell of each row."""
    return [match[1] for row in rows if (match := _name.match(next(iter(row))))]


def shown(*tables: str) -> list[str]:
    """The names in tables of the page."""
    return [name for each in tables for name in names(reference.TABLES[each]()[1])]


def public(kind: type) -> set[str]:
    """The public members of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_page_is_what_the_code_says() -> None:
    """`python -m tests.docs.reference` writes it, each table once."""
    text = PAGE.read_text()
    assert text == reference.page(text)
    assert sorted(reference.tables(text)) == sorted(reference.TABLES)


def test_every_public_name_stands_on_the_page() -> None:
    """Each name of the package is in one table; so are the names of the modules beside it."""
    assert sorted(shown("treering", "returned", "taken", "others", "errors")) == sorted(treering.__all__)
    assert sorted(shown("treering.search", "search types")) == sorted(search.__all__)
    assert sorted(shown("treering.terminals", "terminal types")) == sorted(terminals.__all__)
    assert sorted(shown("treering.importers", "import types")) == sorted(importers.__all__)
    assert sorted(shown("treering.exporters", "export types")) == sorted(exporters.__all__)


def test_every_member_stands_on_the_page() -> None:
    """What a session has beside a view is in its own table; closing it does more."""
    assert set(shown("Store")) == public(treering.Store) | {"place"}
    assert set(shown("View")) == public(treering.View)
    assert set(shown("Session")) == public(treering.Session) - public(treering.View) | {"close"}
    assert set(shown("Index")) == public(search.Index) | {"path"}
    assert set(shown("FileImporter")) == public(importers.FileImporter)
    assert set(shown("SessionFile")) == public(importers.SessionFile) | {"entries", "header", "problems"}


def test_what_strands_calls_is_named() -> None:
    """Everything else that is public in its session manager has a row."""
    ours = {name for name in public(TreeringSessionManager) if not hasattr(SessionManager, name)}
    assert set(shown("TreeringSessionManager")) == ours | {"session_id"}
    theirs = public(SessionManager) & {*vars(TreeringSessionManager)}
    assert [name for name in sorted(theirs) if f"`{name}`" not in prose(PAGE)] == []


def test_each_page_that_says_more_is_linked() -> None:
    """No link is left for a name that is gone."""
    assert [link for link in reference.SEE.values() if link not in PAGE.read_text()] == []


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: str(kind.__name__))
def test_what_is_returned_and_taken_cannot_be_changed(kind: type) -> None:
    """Its fields are named, so that new ones may stand anywhere, and fixed, so that it can be handed on."""
    assert issubclass(kind, msgspec.Struct)
    assert kind.__struct_config__.frozen
    with pytest.raises(TypeError, match="positional"):
        kind("by position")


def test_every_column_of_nodes_is_documented() -> None:
    """With the field that it is of each node."""
    rows = table(PAGE, "Column of `Nodes`")
    assert set(names(rows)) == {name for name, found in vars(treering.Nodes).items() if isinstance(found, property)}
    assert {row[1].strip("`") for row in rows} <= set(treering.Node.__struct_fields__)


def test_every_error_says_what_to_do() -> None:
    """The table of errors has each class, with what it derives from."""
    classes = {name: kind for name, kind in vars(errors).items() if name.endswith("Error")}
    rows = {names([row])[0]: row for row in table(ERRORS, "Class")}
    assert set(rows) == set(classes)
    for name, row in rows.items():
        assert row[1].strip("`") in {base.__name__ for base in classes[name].__mro__[1:]}, name
        assert row[3], name


class Example:
    """What the tests below read."""

    def __init__(self) -> None:
        self.size: int | None = None
        """In bytes."""

    def find(self, name: str, *others: str, limit: int = 5, here: object = treering.HERE, **more: str) -> str | None:
        """Find it.

        More of it.

        Raises:
            NotFoundError: It is not
                there: see NotHere.
            UsageError: There is no name. Further errors are those
                of `open`.

        Examples:
            Nothing: is raised here.
        """

    def close(self, in_time: bool, /, how: str = "well", *, late: object = print) -> None:  # noqa: FBT001
        """End it."""


def test_a_call_is_shown_with_defaults_and_errors() -> None:
    """What must be named stands behind a star; the first paragraph and the errors are those of the docstring."""
    size, find, close = reference.members(Example)
    assert size == ("`size`", "`int or None`", "In bytes.")
    assert find.shown == "`find(name, *others, limit=5, here=HERE, **more)`"
    assert find.returns == "`str or None`"
    assert find.said == "Find it. Raises `NotFoundError`, `UsageError`, what `open` raises."
    assert close == ("`close(in_time, how='well', *, late=...)`", "`None`", "End it.")


def test_what_would_break_a_table_is_noticed() -> None:
    """A public name says something, and without the sign that parts cells; lines of one paragraph become one."""
    assert (
        paragraph("""Two
        lines.

        More.""")
        == "Two lines."
    )
    assert raised("Nothing can fail.") == ""
    assert attributes(Example) == {"size": ("int | None", "In bytes.")}
    for docstring in (None, "", "one | two"):
        with pytest.raises(AssertionError):
            paragraph(docstring)


def test_a_page_that_is_behind_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`--check` writes nothing and fails; without it the page is written."""
    page = tmp_path / "python.md"
    behind = PAGE.read_text().replace("keep_state=False", "keep=False", 1)
    page.write_text(behind)
    monkeypatch.setattr(reference, "PAGE", page)
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    assert (reference.main(["--check"]), page.read_text()) == (1, behind)
    assert (reference.main([]), page.read_text()) == (0, PAGE.read_text())
