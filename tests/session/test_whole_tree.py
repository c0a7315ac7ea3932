"""The whole tree of a session, whatever happened to it, is what plain rules make of its record lines."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.format.segment_v1 import build_segment_1
from tests.sampling import few
from tests.session.backends import Backend, backend_of, kill
from tests.session.test_lookup import Turn, do_something
from tests.transcript.plain import PlainGraph, checkpoint_nodes

import treering
from treering.checkpoint.checkpoint import CheckpointInfo, entry_of
from treering.format.record import Skeleton, skeleton_of
from treering.format.segment import read_segment
from treering.session import index
from treering.storage.requests import Put
from treering.transcript.heads import Heads


def require_same(reader: treering.Session | treering.View) -> None:
    """Compare every question about the whole tree with what the lines say."""
    records = [skeleton_of(line) for line in reader.lines()]
    plain = PlainGraph(records)
    names = list(plain.nodes)
    expected = tuple(plain.view(name) for name in names)
    nodes = reader.nodes()
    assert nodes == expected
    assert (nodes.ids, nodes.parents) == (tuple(names), tuple(node.parent for node in expected))
    assert nodes.times_ms == tuple(node.time_ms for node in expected)
    assert reader.leaves() == tuple(name for name in names if not plain.children(name))
    assert reader.problems() == tuple(plain.problems())
    assert reader.path() == tuple(plain.path(reader.node)) if reader.node else not reader.path()
    assert tuple(plain.outline(Heads(dict(reader.heads), reader.head), checkpoint_nodes(records))) == tuple(
        reader.tree()
    )


def erase_something(turn: Turn) -> None:
    """Erase the payload of a node that has one; its brief changes."""
    if left := [node.id for node in turn.session.nodes() if not node.erased]:
        turn.session.erase(turn.one_of(*left))


def make_early(backend: Backend, rng: random.Random) -> None:
    """Write some segments anew, with an index of version 1."""
    driver = backend.driver()
    for key, data in backend.snapshot().items():
        if "/segments/" in key and rng.random() < 0.5:
            driver.execute((Put(key, build_segment_1(read_segment(data, key=key))),))


def test_behind_the_tree_a_question_makes_entries_of_few_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for an old turn looks at the checkpoints that its state is made of, also with the whole index at hand."""
    store = treering.open("memory://few-entries")
    with store.session("s") as session:
        nodes = [session.commit(["x"], state={"step": number}).nodes[0] for number in range(400)]
    view = store.view("s")
    view.tree()
    made: list[str] = []

    def counted(skeleton: Skeleton) -> CheckpointInfo:
        made.append(skeleton.id)
        return entry_of(skeleton)

    monkeypatch.setattr(index, "entry_of", counted)
    assert len(view.context_at(nodes[200])) == 201
    assert len(set(made)) < 100  # the chain of changes that it is resolved from
    made.clear()
    assert [entry.step for entry in view.checkpoints(limit=3)] == [each.step for each in view.checkpoints()[-3:]]
    assert len(made) == 3 + 400


@pytest.mark.parametrize("kind", ["memory", "local"])
@pytest.mark.parametrize("seed", range(few(5, 50)))
def test_the_whole_tree_is_what_the_lines_say(kind: str, seed: int, tmp_path: Path) -> None:
    """After any verbs, erasures, seals, merges and reopenings, for those who read it anew and who keep up with it."""
    rng = random.Random(seed)
    backend = backend_of(kind, tmp_path)
    session = backend.store().session("s", title="T")
    session.append("first")
    view = backend.store().view("s")
    for number in range(40):
        turn = Turn(session, rng, number)
        if rng.random() < 0.06:
            erase_something(turn)
        else:
            do_something(turn)
        if rng.random() < 0.1:
            if rng.random() < 0.5:
                session.close()
            else:
                kill(session)
            if kind == "memory":
                make_early(backend, rng)
            session = backend.store().session("s")
        if rng.random() < 0.2:
            view.refresh()
            for reader in (session, view, backend.store().view("s")):
                require_same(reader)


def test_what_was_given_out_stays_as_it_was() -> None:
    """Also what is only looked at after the session changed, and its records were erased."""
    with backend_of("memory", Path()).store().session("s") as session:
        first = session.append("one").node
        session.append("two")
        nodes, rows = session.nodes(), session.tree()
        session.label(first, "start")
        session.retract(first)
        session.append("three")
        assert [(node.label, node.retracted) for node in nodes] == [(None, False)] * 2
        assert [(row.count, row.label) for row in rows] == [(1, None), (1, None)]
        assert [(row.count, row.label) for row in session.tree()] == [(1, "start"), (1, None), (1, None)]
        assert [node.label for node in session.nodes()] == ["start", None, None]
