"""The Python reference names everything public, and nothing else."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from strands.session import SessionManager
from tests.docs.pages import ROOT, table

import treering
from treering import errors, importers, search
from treering.checkpoint.checkpoint import CheckpointInfo
from treering.checkpoint.prune import PrunePlan
from treering.erasure.erasing import Receipt
from treering.format.erasure import Erased
from treering.integrations.strands import TreeringSessionManager
from treering.journal.merge import Merged
from treering.maintenance.reindexing import Reindexed
from treering.maintenance.repair import Repair
from treering.maintenance.salvage import RepairLoss
from treering.maintenance.verify import Finding
from treering.session.record import Appended
from treering.session.verbs.pruning import Pruned
from treering.session.verbs.reading import CheckpointView, History, HistoryRow, Note, SessionSize
from treering.store.catalogue import Sessions
from treering.store.options import OpenOptions
from treering.transcript.graph import GraphProblem
from treering.transcript.tree import OutlineRow

PAGE = ROOT / "docs/reference/python.md"
ERRORS = ROOT / "docs/how-to/errors.md"

_name = re.compile(r"`(\w+)")


def names(rows: Iterable[list[str]]) -> list[str]:
    """The name in the first cell of each row."""
    return [match[1] for row in rows if (match := _name.match(row[0]))]


def public(kind: type) -> set[str]:
    """The public members of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def members(first: str, last: str) -> list[list[str]]:
    """The rows of the table of members that begins and ends with these."""
    rows = table(PAGE, "Member")
    every = names(rows)
    return rows[every.index(first) : every.index(last) + 1]


def test_every_public_name_is_documented() -> None:
    """The first table holds `treering.__all__`, each name once."""
    assert sorted(names(table(PAGE, "Name"))) == sorted(treering.__all__)


def test_every_method_of_a_store_is_documented() -> None:
    """So are the methods of both stores."""
    every = set(names(table(PAGE, "Method")))
    assert every == public(treering.Store) == public(treering.AsyncStore)


def test_every_member_of_a_view_is_documented() -> None:
    """So are the members of both views."""
    every = set(names(members("id", "perform")))
    assert every == public(treering.View) == public(treering.AsyncView)


def test_every_member_of_a_session_is_documented() -> None:
    """What a session has beside a view is in its own table; closing it does more."""
    every = set(names(members("append", "close")))
    assert every == public(treering.Session) - public(treering.View) | {"close"}
    assert every == public(treering.AsyncSession) - public(treering.AsyncView) | {"close"}


def test_every_option_of_a_session_is_documented() -> None:
    """The options are those of `Store.session`."""
    assert names(table(PAGE, "Option")) == list(OpenOptions.__annotations__)


TYPES = (
    treering.SessionInfo, Sessions, treering.ContextItem, treering.OpenCall, treering.Node, treering.Draft, Appended,
    History, HistoryRow, treering.Siblings, OutlineRow, GraphProblem, CheckpointInfo, CheckpointView, Note, SessionSize,
    Merged, Pruned, Receipt, Erased, PrunePlan, Finding, Repair, RepairLoss, treering.Retained, treering.RetainedRow,
    treering.Retention, treering.Schedule, treering.KeepCheckpoints, treering.Hooks, treering.Backup,
    treering.BackedUp, Reindexed, treering.Blob, treering.BlobRef,
    treering.Event, treering.Edit, treering.HeadMove, treering.ErasureInfo,
    treering.Diff, treering.Changed, treering.ValueChanges, treering.ContextChanges,
    treering.RequestBatch, treering.RequestInfo,
)  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: str(kind.__name__))
def test_every_field_is_documented(kind: type) -> None:
    """The fields of what is returned and taken stand in their order."""
    rows = {name: row[-1] for row in table(PAGE, "Type") for name in names([row])}
    assert issubclass(kind, msgspec.Struct)
    assert kind.__struct_config__.frozen
    with pytest.raises(TypeError, match="positional"):
        kind("by position")
    assert re.findall(r"`(\w+)`", rows[kind.__name__]) == list(kind.__struct_fields__)


@pytest.mark.parametrize("kind", [search.Filters, search.Hit, search.Updated], ids=lambda kind: str(kind.__name__))
def test_every_field_of_the_search_is_documented(kind: type) -> None:
    """So do the fields of what searching takes and returns."""
    (row,) = (row for row in table(PAGE, "What") if names([row]) == [kind.__name__])
    assert re.findall(r"`(\w+)`", row[-1]) == list(kind.__annotations__)


def test_every_name_of_the_search_is_documented() -> None:
    """Everything public in `treering.search` stands on the page."""
    functions = set(names(table(PAGE, "Function")))
    assert functions | set(names(table(PAGE, "What"))) | {"Index", "UpdateProgress"} == set(search.__all__)
    assert set(names(table(PAGE, "In an index"))) - {"path"} == public(search.Index)


def test_every_type_is_looked_at() -> None:
    """No type in the tables is left out of the test above."""
    assert sorted(names(table(PAGE, "Type"))) == sorted(kind.__name__ for kind in TYPES)


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


def test_every_verb_of_the_session_manager_for_strands_is_documented() -> None:
    """What Strands calls is named; everything else that is public has a row."""
    every = set(names(table(PAGE, "Of a `TreeringSessionManager`")))
    ours = {name for name in public(TreeringSessionManager) if not hasattr(SessionManager, name)}
    assert every == ours | {"session_id"}


SIGNED: tuple[tuple[str, Any], ...] = (
    ("Name", treering), ("Method", treering.Store), ("Member", treering.Session), ("Function", search),
    ("In an index", search.Index), ("Of a `SessionFile`", importers.SessionFile),
    ("Of a `TreeringSessionManager`", TreeringSessionManager),
)  # fmt: skip
"""The tables that show how something is called, and where it is found."""


@pytest.mark.parametrize(("header", "owner"), SIGNED, ids=lambda each: str(getattr(each, "__name__", each)))
def test_every_call_is_shown_as_it_is_written(header: str, owner: Any) -> None:
    """Each parameter stands in the table, under its name, and none that does not exist."""
    rows = [row[0] for row in table(PAGE, header) if "(" in row[0]]
    assert rows
    assert rows == [f"`{called(name, getattr(owner, name))}`" for name in names([row] for row in rows)]


def called(name: str, function: Callable[..., object]) -> str:
    """A call with all parameters: `name=` is one to be named, `name=None` one that may also stand in its place."""
    shown = []
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY:
            shown.append(f"{each.name}=")
        elif each.kind is each.VAR_POSITIONAL:
            shown.append(f"*{each.name}")
        elif each.kind is each.VAR_KEYWORD:
            shown.append(f"**{each.name}")
        elif each.default is not each.empty:
            shown.append(f"{each.name}={each.default!r}")
        elif each.name != "self":
            shown.append(each.name)
    return f"{name}({', '.join(shown)})"
