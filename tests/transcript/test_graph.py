from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.transcript.records import Records, forked

from treering import Kind
from treering.errors import NotFoundError, UsageError
from treering.format.record import Skeleton
from treering.transcript.graph import Graph, GraphProblem

NAMES = [f"n{number}" for number in range(8)]


def ids(skeletons: list[Skeleton]) -> list[str]:
    """Return the ids of skeletons."""
    return [skeleton.id for skeleton in skeletons]


def test_path_runs_from_the_root_to_the_node() -> None:
    """A path holds the node and all above it, the root first; before the first node there is none."""
    graph = Graph(forked())
    assert ids(graph.path("d")) == ["a", "b2", "c", "d"]
    assert ids(graph.path("a")) == ["a"]
    assert graph.path(None) == []
    assert graph.depth("d") == 3


def test_children_siblings_and_leaves_come_in_the_order_of_positions() -> None:
    """Children are ordered by position, and a node knows its place among them."""
    graph = Graph(forked())
    assert graph.children("a") == ["b1", "b2", "b3"]
    assert graph.siblings("b2") == (["b1", "b2", "b3"], 1)
    assert graph.siblings("a") == (["a"], 0)
    assert graph.leaves() == ["b1", "b3", "d"]
    assert "b3" in graph
    assert "x" not in graph
    assert len(graph) == len(list(graph)) == 6


def test_an_unknown_node_is_not_found() -> None:
    """Every question about a node that does not exist says so."""
    graph = Graph(forked())
    for ask in (graph.node, graph.path, graph.children, graph.siblings, graph.depth, graph.view, graph.page):
        with pytest.raises(NotFoundError, match="no such node"):
            ask("x")


def test_records_out_of_order_are_refused() -> None:
    """A record at a position already passed would spoil every order that follows from positions."""
    records = forked()
    graph = Graph(records)
    with pytest.raises(UsageError, match="in order"):
        graph.add(records[2])


def test_a_second_root_is_a_sibling_of_the_first() -> None:
    """Editing the first message gives a second root, shown as 2 of 2."""
    records = forked()
    records.node("again")
    graph = Graph(records)
    assert graph.roots == ["a", "again"]
    assert graph.problems() == []
    (row,) = graph.page("again").rows
    assert (row.index, len(row.siblings)) == (1, 2)


def test_an_orphan_is_a_reported_root() -> None:
    """A node whose parent does not exist begins a path of its own."""
    records = forked()
    records.node("lost", "gone")
    records.node("below", "lost")
    graph = Graph(records)
    assert graph.roots == ["a", "lost"]
    assert ids(graph.path("below")) == ["lost", "below"]
    assert graph.problems() == [GraphProblem(kind=Kind.ORPHAN, node="lost", at=6)]


def test_a_parent_that_comes_later_adopts_its_children_in_order() -> None:
    """In files where a child stands before its parent the tree is the same, and nothing is odd about it."""
    records = Records()
    records.node("early", "p")
    records.node("p", "root")
    records.node("late", "p")
    records.node("root")
    graph = Graph(records)
    assert graph.roots == ["root"]
    assert graph.children("p") == ["early", "late"]
    assert ids(graph.path("early")) == ["root", "p", "early"]
    assert graph.problems() == []


@pytest.mark.parametrize(
    ("parents", "odd"),
    [
        ({"a": "a"}, ["a"]),
        ({"a": "b", "b": "a"}, ["a"]),
        ({"a": "c", "b": "a", "c": "b", "d": "c"}, ["a"]),
        ({"a": "b", "b": "b", "c": "a"}, ["b"]),
    ],
)
def test_cycles_are_cut_at_one_node_and_reported(parents: dict[str, str], odd: list[str]) -> None:
    """A cycle or a node that is its own parent ends at one reported root; every node stays reachable from it."""
    records = Records()
    for node, parent in parents.items():
        records.node(node, parent)
    graph = Graph(records)
    assert [(problem.kind, problem.node) for problem in graph.problems()] == [("cycle", node) for node in odd]
    assert graph.roots == odd
    assert all(graph.path(node)[0].id == odd[0] for node in parents)


def test_the_first_record_of_an_id_counts_and_the_others_are_reported() -> None:
    """An id used twice names the earlier node; the later record is listed as odd."""
    records = forked()
    records.node("b1", "c", role="other")
    graph = Graph(records)
    assert graph.node("b1").parent == "a"
    assert len(graph) == 6
    assert graph.problems() == [GraphProblem(kind=Kind.DUPLICATE, node="b1", at=6)]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.none() | st.sampled_from(NAMES)), max_size=12))
def test_whatever_parents_say_the_graph_is_a_forest(links: list[tuple[str, str | None]]) -> None:
    """For any parents: each node once below a root, and a parent is ignored only if it is missing or in a cycle."""
    records = Records()
    for node, parent in links:
        records.node(node, parent)
    graph = Graph(records)
    declared = {skeleton.id: skeleton.parent for skeleton in graph}
    odd = {problem.node: problem.kind for problem in graph.problems() if problem.kind != "duplicate"}
    assert sorted(reachable(graph)) == sorted(declared)
    assert len(links) - len(graph) == sum(problem.kind == "duplicate" for problem in graph.problems())
    for node, parent in declared.items():
        path = ids(graph.path(node))
        above = path[-2] if len(path) > 1 else None
        if node not in odd:
            assert above == parent
            continue
        assert above is None
        assert odd[node] == ("cycle" if node in ancestors(declared, node) else "orphan")
        assert odd[node] == "cycle" or parent not in declared


def reachable(graph: Graph) -> list[str]:
    """Return all nodes below the roots, as often as they are met."""
    found: list[str] = []
    waiting = [*graph.roots]
    while waiting:
        found.append(waiting.pop())
        waiting += graph.children(found[-1])
    return found


def ancestors(parents: dict[str, str | None], node: str) -> list[str]:
    """Return what the records say lies above `node`, each once."""
    found: list[str] = []
    above = parents[node]
    while above is not None and above not in found:
        found.append(above)
        above = parents.get(above)
    return found


def test_a_page_tells_each_place_among_the_siblings() -> None:
    """A page goes up from the head, newest first, with each node's siblings and its index there."""
    page = Graph(forked()).page("d")
    assert [(row.node.id, row.siblings, row.index) for row in page.rows] == [
        ("d", ("d",), 0),
        ("c", ("c",), 0),
        ("b2", ("b1", "b2", "b3"), 1),
        ("a", ("a",), 0),
    ]
    assert page.before is None
    assert Graph(forked()).page(None).rows == ()
    with pytest.raises(UsageError, match="at least 1"):
        Graph(forked()).page("d", limit=0)


@given(length=st.integers(1, 12), limit=st.integers(1, 13), hidden=st.sets(st.integers(0, 11)))
def test_pages_joined_are_the_path(length: int, limit: int, hidden: set[int]) -> None:
    """Following the cursor shows every node that is not retracted exactly once, and no page is too long."""
    records = Records()
    for number in range(length):
        records.node(f"n{number}", f"n{number - 1}" if number else None)
    for number in hidden:
        records.edit("retract", f"n{number}")
    graph = Graph(records)
    shown: list[str] = []
    page = graph.page(f"n{length - 1}", limit=limit)
    while True:
        assert len(page.rows) <= limit
        shown += [row.node.id for row in page.rows]
        if page.before is None:
            break
        page = graph.page(f"n{length - 1}", before=page.before, limit=limit)
    assert shown == [f"n{number}" for number in reversed(range(length)) if number not in hidden]


def test_a_retracted_node_is_hidden_and_not_counted_unless_asked_for() -> None:
    """A retracted sibling no longer counts; with `retracted=True` it is shown and counted again."""
    records = forked()
    records.edit("retract", "b1")
    records.edit("retract", "c")
    graph = Graph(records)
    assert [(row.node.id, row.siblings, row.index) for row in graph.page("d").rows][1] == ("b2", ("b2", "b3"), 0)
    assert [row.node.id for row in graph.page("d", retracted=True).rows] == ["d", "c", "b2", "a"]
    assert ids(graph.path("d")) == ["a", "b2", "c", "d"]


def test_a_view_carries_what_was_said_about_the_node_later() -> None:
    """The public view of a node has its label, its edits and the payload it was given."""
    records = Records()
    records.node("a", role="user", brief={"k": 1}, links={"copy_of": "x"}, head="main")
    records.note("label", "a", label="start")
    records.edit("amend", "a")
    node = Graph(records).view("a", {"role": "user"})
    assert (node.label, node.amended, node.retracted, node.payload) == ("start", True, False, {"role": "user"})
    assert (node.id, node.role, node.brief, node.links, node.at, node.head) == (
        "a",
        "user",
        {"k": 1},
        {"copy_of": "x"},
        0,
        "main",
    )
    assert node.time_ms == 1_700_000_000_000


def test_heads_checkpoints_and_unknown_types_are_no_nodes() -> None:
    """Only node records are nodes, whatever fields other records have."""
    records = forked()
    records.move("main", "a")
    records.add("", type="checkpoint", id="cp", target="d")
    records.add("", type="hologram", id="h", parent="d")
    graph = Graph(records)
    assert len(graph) == 6
    assert graph.children("d") == []


def chain(nodes_count: int) -> Iterator[Skeleton]:
    """Skeletons as a reader makes them: ids of 32 digits, and no string shared between two skeletons."""
    for at in range(nodes_count):
        parent = f"{at - 1:032x}" if at else None
        brief = b'{"a":%d}' % at
        yield Skeleton(at, "node", "message", f"{at:032x}", parent, "main", "user", None, at, None, brief, 2000, False)


def test_100_000_nodes_and_their_skeletons_fit_into_64_megabytes() -> None:
    """A long session is held without payloads, in one unbroken line that no recursion could walk."""
    tracemalloc.start()
    try:
        graph = Graph(chain(100_000))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 64 * 1024 * 1024
    (leaf,) = graph.leaves()
    assert len(graph.path(leaf)) == 100_000
    assert graph.depth(leaf) == 99_999
    assert [row.node.at for row in graph.page(leaf, limit=2).rows] == [99_999, 99_998]


@pytest.mark.parametrize(
    "order", [range(5000), [*reversed(range(1, 5000)), 0], [*range(1, 5000, 2), *range(0, 5000, 2)]]
)
def test_looking_for_cycles_takes_a_few_steps_for_each_node(order: Sequence[int]) -> None:
    """A chain closed to a ring is read in steps that grow with its length, in whatever order its records come."""
    records = Records()
    for number in order:
        records.node(f"n{number}", f"n{(number - 1) % 5000}")
    graph = Graph()
    graph._top = searched = CountingArray("i")
    for record in records:
        graph.add(record)
    assert [problem.kind for problem in graph.problems()] == ["cycle"]
    assert max(len(graph.path(leaf)) for leaf in graph.leaves()) == 5000
    assert searched.reads < 30 * 5000


class CountingArray(array):  # type: ignore[type-arg]
    """Counts how often it is read: a search for the root reads it at each step."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return super().__getitem__(index)
