"""The graph, its nodes and its outline stand on columns, and answer as plain rules do on each record."""

from __future__ import annotations

import json
import random

import pytest
from tests.format.test_skeletons import held
from tests.sampling import few
from tests.transcript.plain import PlainGraph, checkpoint_nodes

from treering.errors import NotFoundError
from treering.format.record import Skeleton
from treering.ids import IdClock
from treering.session.index import Index
from treering.transcript.graph import Graph
from treering.transcript.heads import Heads
from treering.transcript.nodes import Nodes
from treering.transcript.tree import Outline

ODDITIES = ("none", "some", "many")


def recorded(rng: random.Random, oddity: str) -> list[Skeleton]:
    """Records of every type, with branches; the odder, the more ids and parents are not as they should be."""
    clock, count = IdClock(), rng.randrange(60)
    names = [clock.new() if oddity == "none" or rng.random() < 0.7 else f"given {at}" for at in range(count)]
    if oddity == "many":
        names = [rng.choice(names) if rng.random() < 0.2 else name for name in names]
    records: list[Skeleton] = []
    for at, name in enumerate(names):
        type_ = rng.choices(("node", "checkpoint", "note", "edit", "head", "new"), (60, 12, 10, 10, 5, 3))[0]
        nodes = [record.id for record in records if record.type == "node"]
        parent: str | None = rng.choice(nodes[-2:] * 4 + nodes) if nodes and rng.random() < 0.97 else None
        if oddity != "none" and rng.random() < (0.1 if oddity == "some" else 0.5):
            parent = rng.choice([*names, name, "missing"])
        kind, brief = told(rng, type_)
        records.append(
            Skeleton(
                at, type_, kind, name, parent, rng.choice(["", "main", "idea"]), rng.choice(["", "user", "assistant"]),
                None if type_ == "node" else rng.choice([None, "missing", *names]), at * 1000,
                rng.choice([None] * 9 + [{}, {"source": "x"}]), json.dumps(brief).encode(), 100, rng.random() < 0.1,
            )
        )  # fmt: skip
    return records


def told(rng: random.Random, type_: str) -> tuple[str, dict[str, object]]:
    """The kind of a record of some type, and its brief."""
    if type_ == "note":
        kind = rng.choice(["label", "label", "title", "usage"])
        return kind, {kind: rng.choice(["x", "y", None])}
    if type_ == "edit":
        return rng.choice(["retract", "amend", "prune"]), rng.choice([{}, {}, {"undo": True}, {"erased": True}])
    if type_ == "node":
        return rng.choices(["message", "compaction", "branch_summary", "model_change"], (20, 1, 1, 2))[0], {}
    return rng.choice(["", "drop"]) if type_ == "head" else "", {}


def require_same(index: Index, records: list[Skeleton]) -> None:
    """Ask everything of the columns and of the plain rules."""
    graph, plain = index.graph, PlainGraph(records)
    names = list(plain.nodes)
    assert [node.id for node in graph] == names
    assert len(graph) == len(names)
    assert graph.problems() == plain.problems()
    assert graph.roots == plain.children(None)
    assert graph.leaves() == [name for name in names if not plain.children(name)]
    for name in names:
        path = plain.path(name)
        assert graph.node(name) == plain.nodes[name]
        assert [node.id for node in graph.path(name)] == path
        assert graph.depth(name) == len(path) - 1
        assert graph.children(name) == plain.children(name)
        beside = plain.children(plain.parent[name])
        assert graph.siblings(name) == (beside, beside.index(name))
        assert graph.view(name) == plain.view(name)
        page = graph.page(name, limit=3, retracted=True)
        assert [row.node.id for row in page.rows] == path[::-1][:3]
        assert page.before == (path[::-1][2] if len(path) > 3 else None)
        compaction = next((each for each in path[::-1] if plain.nodes[each].kind == "compaction"), None)
        assert graph.last_on_path(name, lambda each: each[1] == "compaction") == compaction
        places = names.index(name)
        assert [node.id for node in graph.since(name)] == names[places:]
        assert [node.id for node in graph.between(names[0], name)] == names[:places]
    for name in ("missing", "", "\ud800", *(each.id for each in records if each.id not in plain.nodes)):
        assert name not in graph
        with pytest.raises(NotFoundError):
            graph.node(name)
    assert graph.annotations.labels == graph.marks.labels == plain.annotations.labels
    assert graph.annotations.notes() == plain.annotations.notes()
    assert graph.marks.title == plain.annotations.title
    require_same_rows(index, records, plain)


def require_same_rows(index: Index, records: list[Skeleton], plain: PlainGraph) -> None:
    """Compare what callers get: the nodes, and the rows of the tree."""
    heads = Heads()
    for record in records:
        heads = heads.apply(record)
    assert index.heads == heads
    assert index.edits == [each for each in records if each.type == "edit" and each.kind != "prune"]
    expected = [plain.view(name) for name in plain.nodes]
    nodes = Nodes(index.graph)
    assert nodes == tuple(expected)
    assert tuple(nodes) == tuple(expected)
    assert [nodes[at] for at in range(-len(nodes), len(nodes))] == expected * 2
    assert nodes[1:-2] == tuple(expected[1:-2])
    assert list(reversed(nodes)) == expected[::-1]
    columns = zip(nodes.ids, nodes.parents, nodes.kinds, nodes.roles, nodes.times_ms, nodes.positions, strict=True)
    assert list(columns) == [(node.id, node.parent, node.kind, node.role, node.time_ms, node.at) for node in expected]
    made = checkpoint_nodes(records)
    assert sorted(map(str, index.checkpoint_nodes())) == sorted(map(str, made))
    assert sorted(map(str, made)) == sorted(str(entry.node) for entry in index.checkpoints.values())
    rows = tuple(plain.outline(heads, made))
    outline = Outline(index.graph, heads=heads, checkpoints=index.checkpoint_nodes())
    assert outline == rows
    assert rows == tuple(outline)
    assert [outline[at] for at in range(len(rows))] == list(rows)


@pytest.mark.parametrize("oddity", ODDITIES)
@pytest.mark.parametrize("seed", range(few(40, 400)))
def test_columns_answer_as_plain_rules_do(oddity: str, seed: int) -> None:
    """Of any records, sealed or not, asked again when some were added; what was given out before stays as it was."""
    rng = random.Random(f"{oddity} {seed}")
    records = recorded(rng, oddity)
    end = rng.randrange(len(records) + 1)
    index = Index(held(records[:end], rng.randrange))
    require_same(index, records[:end])
    plain, heads = PlainGraph(records[:end]), index.heads
    nodes, outline = Nodes(index.graph), Outline(index.graph, heads=heads)
    while end < len(records):
        start, end = end, rng.randrange(end, len(records)) + 1
        index.extend(records[start:end])
        require_same(index, records[:end])
    assert nodes == tuple(plain.view(name) for name in plain.nodes)
    assert outline == tuple(plain.outline(heads, ()))


def test_lazy_sequences_compare_like_tuples() -> None:
    """With tuples and each other, and with nothing else."""
    records = recorded(random.Random(3), "none")
    nodes, again = Nodes(Graph(records)), Nodes(Graph(records))
    assert nodes == again == tuple(nodes) == again
    assert nodes != tuple(nodes)[1:]
    assert nodes != list(nodes)
    assert nodes[0] in nodes
    assert nodes.index(nodes[2]) == 2
    assert repr(nodes) == f"<{len(nodes)} items, made when they are looked at>"
    with pytest.raises(IndexError):
        nodes[len(nodes)]
    with pytest.raises(TypeError):
        hash(nodes)
