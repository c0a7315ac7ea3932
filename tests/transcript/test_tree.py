from __future__ import annotations

from hypothesis import given, strategies as st
from tests.transcript.records import Records, forked

from treering.transcript.graph import Graph
from treering.transcript.heads import Heads
from treering.transcript.tree import OutlineRow, outline


def shape(rows: list[OutlineRow]) -> list[tuple[int, str, str, int]]:
    """Return what is drawn of rows: their level and their nodes."""
    return [(row.level, row.first, row.last, row.count) for row in rows]


def test_runs_collapse_and_branches_indent() -> None:
    """Nodes in a line are one row, up to the one where the conversation branches; branches go one level in."""
    records = Records()
    records.node("u1", role="user")
    records.node("a1", "u1", role="assistant")
    records.node("u2", "a1", role="user")
    records.node("u3", "a1", role="user")
    records.node("a3", "u3", role="assistant")
    rows = list(outline(Graph(records)))
    assert shape(rows) == [(0, "u1", "a1", 2), (1, "u2", "u2", 1), (1, "u3", "a3", 2)]
    assert [row.branches for row in rows] == [2, 0, 0]
    assert rows[0].kinds == {"user": 1, "assistant": 1}


def test_what_is_special_gets_a_row_of_its_own() -> None:
    """Labels, heads, compactions, links, edits and odd nodes break a run and are shown on their row."""
    records = Records()
    for number in range(9):
        kind = "compaction" if number == 2 else "message"
        links = {"spawned": "task"} if number == 4 else None
        records.node(f"n{number}", f"n{number - 1}" if number else "gone", kind=kind, links=links)
    records.note("label", "n6", label="start")
    records.edit("retract", "n7")
    heads = Heads({"main": "n8", "idea": "n8", "nowhere": None})
    rows = list(outline(Graph(records), heads=heads, checkpoints=["n1", "n5", "n5", None]))
    assert [(row.first, row.count) for row in rows] == [(f"n{number}", 1) for number in range(9)]
    assert rows[0].problem == "orphan"
    assert rows[2].kinds == {"compaction": 1}
    assert rows[4].links == {"spawned": "task"}
    assert rows[6].label == "start"
    assert rows[7].retracted
    assert rows[8].heads == ("main", "idea")
    assert [row.checkpoints for row in rows] == [0, 1, 0, 0, 0, 2, 0, 0, 0]
    assert {row.level for row in rows} == {0}


def test_a_run_counts_the_checkpoints_in_it() -> None:
    """A checkpoint at every turn does not break the runs; the row says how many there are."""
    rows = list(outline(Graph(forked()), checkpoints=["c", "d", "d", "a"]))
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
    for row in outline(graph):
        run = [node.id for node in graph.path(row.last)][-row.count :]
        assert run[0] == row.first
        assert row.level == sum(len(graph.children(node.id)) > 1 for node in graph.path(row.first)[:-1])
        assert graph.path(row.first)[0].id == row.first or graph.path(row.first)[-2].id in shown
        shown += run
    assert sorted(shown) == sorted(f"n{number}" for number in range(len(parents)))


def test_a_line_of_100_000_messages_is_one_row() -> None:
    """Neither depth nor length costs rows or stack."""
    records = Records()
    for number in range(100_000):
        records.node(f"n{number}", f"n{number - 1}" if number else None)
    (row,) = outline(Graph(records))
    assert (row.first, row.last, row.count) == ("n0", "n99999", 100_000)
