from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from tests.transcript.records import Records, forked

from treering.transcript.graph import Graph
from treering.transcript.heads import Heads
from treering.transcript.tree import Outline, OutlineRow


def shape(rows: list[OutlineRow]) -> list[tuple[int, str, str, int]]:
    """Return what is drawn of rows: their level and their nodes."""
    return [(row.level, row.first, row.last, row.count) for row in rows]


def test_runs_collapse_and_branches_indent() -> None:
    """Nodes in a line are one row, up to where the conversation branches; the newest branch goes straight on."""
    records = Records()
    records.node("u1", role="user")
    records.node("a1", "u1", role="assistant")
    records.node("u2", "a1", role="user")
    records.node("u3", "a1", role="user")
    records.node("a3", "u3", role="assistant")
    rows = list(Outline(Graph(records)))
    assert shape(rows) == [(0, "u1", "a1", 2), (1, "u2", "u2", 1), (0, "u3", "a3", 2)]
    assert [row.branches for row in rows] == [2, 0, 0]
    assert rows[0].kinds == {"user": 1, "assistant": 1}


def test_the_line_to_the_current_head_stays_straight() -> None:
    """However often something on it was edited: 40 edits of its messages are 40 branches beside it."""
    records = Records()
    records.node("n0")
    for number in range(40):
        records.node(f"n{number + 1}", f"n{number}")
    for number in range(40):
        records.node(f"edit{number}", f"n{number}")
    rows = list(Outline(Graph(records), heads=Heads({"main": "n40"})))
    assert {row.first: row.level for row in rows} == {
        **{f"n{number}": 0 for number in range(41)},
        **{f"edit{number}": 1 for number in range(40)},
    }
    assert [row.first for row in rows[:5]] == ["n0", "edit0", "n1", "edit1", "n2"]
    without = {row.first: row.level for row in Outline(Graph(records))}
    assert (without["edit39"], without["n40"]) == (
        39,
        40,
    )  # where nobody stands anywhere, the newest child goes straight on


def line_of_five() -> Records:
    """Messages n0 to n4, one after the other."""
    records = Records()
    for number in range(5):
        records.node(f"n{number}", f"n{number - 1}" if number else None)
    return records


def test_what_was_said_about_a_node_takes_it_out_of_its_run() -> None:
    """A label, a retraction, an amendment or a head is shown on a row of the node's own."""
    for sort in ("label", "retract", "amend", "head"):
        records, heads = line_of_five(), Heads()
        if sort == "label":
            records.note("label", "n2", label="start")
        elif sort == "head":
            heads = Heads({"main": "n2", "idea": "n2", "nowhere": None})
        else:
            records.edit(sort, "n2")
        rows = list(Outline(Graph(records), heads=heads))
        assert shape(rows) == [(0, "n0", "n1", 2), (0, "n2", "n2", 1), (0, "n3", "n4", 2)]
        assert rows[1].label == ("start" if sort == "label" else None)
        assert rows[1].heads == (("main", "idea") if sort == "head" else ())
        assert (rows[1].retracted, rows[1].amended) == (sort == "retract", sort == "amend")


@pytest.mark.parametrize(
    ("fields", "parent"), [({"kind": "compaction"}, "a"), ({"links": {"spawned": "task"}}, "a"), ({}, "gone")]
)
def test_what_a_node_is_takes_it_out_of_its_run(fields: dict[str, object], parent: str) -> None:
    """A compaction, a link to elsewhere and an oddity are shown on a row of the node's own."""
    records = Records()
    records.node("a")
    records.node("b", parent, **fields)
    records.node("c", "b")
    rows = list(Outline(Graph(records)))
    assert [(row.first, row.count) for row in rows] == [("a", 1), ("b", 1), ("c", 1)]
    assert rows[1].kinds == {fields.get("kind", "message"): 1}
    assert rows[1].links == fields.get("links", {})
    assert rows[1].problem == ("orphan" if parent == "gone" else None)


def test_a_run_counts_the_checkpoints_in_it() -> None:
    """A checkpoint at every turn does not break the runs; the row says how many there are."""
    rows = list(Outline(Graph(forked()), checkpoints=["c", "d", "d", "a"]))
    assert [(row.first, row.last, row.checkpoints) for row in rows] == [
        ("a", "a", 1),
        ("b1", "b1", 0),
        ("b2", "d", 3),
        ("b3", "b3", 0),
    ]


@given(st.lists(st.none() | st.integers(0, 14), max_size=15), st.sets(st.integers(0, 14)))
def test_every_node_is_in_exactly_one_row(parents: list[int | None], labelled: set[int]) -> None:
    """For any graph the rows hold each node once, and a row's nodes follow each other from first to last."""
    records = Records()
    for number, parent in enumerate(parents):
        records.node(f"n{number}", None if parent is None else f"n{parent}")
    for number in labelled:
        records.note("label", f"n{number}", label="x")
    graph = Graph(records)
    shown: list[str] = []
    for row in Outline(graph):
        run = [node.id for node in graph.path(row.last)][-row.count :]
        assert run[0] == row.first
        path = [node.id for node in graph.path(row.first)]
        assert row.level == sum(child != graph.children(above)[-1] for above, child in pairwise(path))
        assert graph.path(row.first)[0].id == row.first or graph.path(row.first)[-2].id in shown
        shown += run
    assert sorted(shown) == sorted(f"n{number}" for number in range(len(parents)))


def test_a_line_of_100_000_messages_is_one_row() -> None:
    """Neither depth nor length costs rows or stack."""
    records = Records()
    for number in range(100_000):
        records.node(f"n{number}", f"n{number - 1}" if number else None)
    (row,) = Outline(Graph(records))
    assert (row.first, row.last, row.count) == ("n0", "n99999", 100_000)
