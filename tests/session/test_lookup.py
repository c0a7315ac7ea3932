"""Questions about single nodes and checkpoints have the same answers from rows, read as needed, and from the index."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from tests.sampling import few
from tests.session.backends import Backend, backend_of, kill

from treering import Draft, UsageError, user
from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.checkpoint.prune import KeepCheckpoints
from treering.errors import NotFoundError, TreeringError
from treering.format import parts
from treering.format.copies import inline_messages
from treering.format.record import decode_record
from treering.journal.memory import Memory
from treering.journal.rows import OddError, Rows
from treering.kinds import Kind
from treering.session.index import Index
from treering.session.index_lookup import IndexLookup
from treering.session.replica import Replica
from treering.session.row_lookup import RowLookup
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Driver, Steps
from treering.storage.run import run
from treering.store.place import Place

Question: TypeAlias = tuple[str, tuple[object, ...], dict[str, object]]
"""A method of a lookup and its arguments."""


def questions(index: Index, rng: random.Random, *, at_most: int = 20) -> Iterator[Question]:
    """Every kind of question about nodes and checkpoints of a session."""
    every = [row.id for row in index.graph]
    nodes = rng.sample(every, min(at_most, len(every)))
    heads = [None, *index.heads.heads, "no such head"]
    checkpoints = [*index.all_checkpoints]
    for node in [None, *nodes]:
        limit = rng.choice([1, 2, 3, 10, 1000])
        yield "children", (node,), {}
        yield "path", (node,), {"limit": rng.choice([None, limit])}
        yield "places", (node,), {}
        if node is None or node in index.graph:
            yield "belonging", (sorted(row.at for row in index.graph.path(node)),), {}
        before = rng.choice([None, *every])
        yield "page", (node,), {"limit": limit, "before": before, "retracted": rng.random() < 0.3}
        yield "last_compaction", (node,), {}
        for head in rng.sample(heads, min(3, len(heads))):
            yield "nearest_checkpoint", (node,), {"head": head, "before": rng.choice([None, rng.randrange(index.end)])}
        for name in rng.sample(checkpoints, min(2, len(checkpoints))):
            yield "since_checkpoint", (name, node), {}
    yield "path", (nodes[0],), {"limit": rng.choice([0, -1])}
    for node in [*nodes, "no such node", None, "", "\ud800", *checkpoints[:1]]:
        yield "node", (node,), {}
        yield "siblings", (node,), {}
        yield "newest_leaf", (node,), {}
    for checkpoint in [
        *rng.sample(checkpoints, min(at_most, len(checkpoints))),
        "no such checkpoint",
        None,
        *every[:1],
    ]:
        yield "is_pruned", (checkpoint,), {}
        yield "is_checkpoint", (checkpoint,), {}
        yield "labelled", ([checkpoint],), {}
        yield "chains", ([checkpoint],), {}
    yield "labelled", (checkpoints,), {}
    yield "chains", (checkpoints,), {}
    yield "chains", ([*index.checkpoints][::-1],), {}
    rows = [index.graph.node(node) for node in nodes]
    yield "shown", (rows,), {}
    yield "shown", (rows,), {"before": rng.randrange(index.end)}
    for kind in (None, "label", "usage"):
        yield "notes", (kind,), {}
    yield "labels", (), {}
    for most in (None, 0, 1, 3, 100, 10**30):
        yield "checkpoints", (), {"limit": most, "before": rng.choice([None, *checkpoints])}
    yield "nodes", ([*nodes, "no such node"],), {}
    others = [row.id for row in (*index.edits, *index.graph.annotations.notes())]
    some = frozenset(rng.sample([*every, *others], min(at_most, len(every))))
    yield "records", ({*some, *checkpoints[:1], "no such node"},), {}
    yield "context_edits", (), {}
    yield "holders", (some,), {"state": True}


def answer(driver: Driver, steps: Steps[Any]) -> object:
    """What a question gives, or the error that it raises, as a value."""
    try:
        return run(steps, driver)
    except TreeringError as error:
        return type(error), error.kind, str(error)


def require_same(driver: Driver, replica: Replica, rng: random.Random, memory: Memory) -> bool:
    """Ask everything in both ways; return whether rows could answer all of it.

    What a handle knows of its heads without reading gives the same as the heads of all records.
    """
    index = run(replica.index(), driver)
    rows = Rows(replica.view, memory)
    complete = ordinary = not run(rows.odd(), driver)
    if complete:
        require_holders(driver, rows, RowLookup(rows, replica.state.heads), index, rng)
    for method, given, named in questions(index, rng):
        expected = answer(driver, getattr(IndexLookup(index, index.heads), method)(*given, **named))
        known = answer(driver, getattr(IndexLookup(index, replica.state.heads), method)(*given, **named))
        assert known == expected, (method, given, named)
        if not ordinary:
            continue
        try:
            got = answer(driver, getattr(RowLookup(rows, replica.state.heads), method)(*given, **named))
        except OddError:
            complete = False
        else:
            assert got == expected, (method, given, named)
    return complete


def require_holders(driver: Driver, rows: Rows, lookup: RowLookup, index: Index, rng: random.Random) -> None:
    """Of checkpoints that are not said to hold a message none does."""
    names = frozenset(rng.sample([row.id for row in index.graph], min(3, len(index.graph))))
    try:
        told = run(lookup.holders(names, state=False), driver)
    except OddError:
        return
    every = run(IndexLookup(index, index.heads).holders(names, state=False), driver)
    assert set(told) <= set(every)
    for line in run(rows.lines_at(set(every) - set(told)), driver).values():
        assert inline_messages(decode_record(line)) == []
        assert decode_record(line).type == "checkpoint"


class Turn(NamedTuple):
    """One step of a random session."""

    session: Session
    rng: random.Random
    number: int

    @property
    def node(self) -> str:
        """Any node."""
        return self.rng.choice([row.id for row in self.session.nodes()])

    @property
    def checkpoint(self) -> str:
        """Any checkpoint."""
        return self.rng.choice([entry.id for entry in self.session.checkpoints()] or ["none"])

    @property
    def head(self) -> str:
        """Any head."""
        return self.rng.choice([*self.session.heads])

    def one_of(self, *values: Any) -> Any:
        """Any of these."""
        return self.rng.choice(values)

    @property
    def texts(self) -> list[str]:
        """Some messages."""
        return [f"{self.number}.{each}" for each in range(self.one_of(1, 1, 3, 40))]


VERBS: list[Callable[[Turn], object]] = [
    *[lambda t: t.session.append(*t.texts)] * 3,
    *[lambda t: t.session.commit(t.texts[:1], state={"k": t.number}, label=t.one_of(None, "mark"))] * 2,
    lambda t: t.session.commit(state={"k": -t.number}),
    lambda t: t.session.checkout(t.one_of(None, t.node)),
    lambda t: t.session.checkout(t.node),
    lambda t: t.session.branch(t.one_of(f"b{t.number}", "again"), node=t.node),
    lambda t: t.session.switch(t.head),
    lambda t: t.session.drop_head(t.head),
    lambda t: t.session.rewind(t.checkpoint),
    lambda t: t.session.label(t.node, t.one_of("x", "y", None)),
    lambda t: t.session.label(t.checkpoint, t.one_of("x", "y", None)),
    lambda t: t.session.retract(t.node),
    lambda t: t.session.amend(t.node, {"role": "user", "content": f"new {t.number}"}),
    lambda t: t.session.unretract(t.node),
    lambda t: t.session.compact(f"summary {t.number}", kept=t.one_of(None, t.session.node)),
    lambda t: t.session.prune(KeepCheckpoints(last=20)),
    lambda t: t.session.append(user(f"{t.number}", parent=t.one_of(None, t.node))),
    lambda t: t.session.append(user(f"{t.number}", id=f"given {t.number}")),
    lambda t: t.session.record_usage(target=t.node, input=t.number),
    *[lambda t: t.session.seal()] * 3,
    lambda t: t.session.optimize(),
    lambda t: t.session.optimize(everything=True),
]


def uses_given_ids(view: View) -> bool:
    """Whether a caller chose an id: of segments of version 1 with such ids nobody knows whether one occurs twice."""
    return any(row.id.startswith("given") for row in view.nodes())


REFUSED = frozenset({Kind.NODE, Kind.HEAD, Kind.CHECKPOINT, Kind.PARTED, Kind.CONTEXT, Kind.BRANCH})
"""Why a verb with random arguments may be refused."""


def do_something(turn: Turn) -> None:
    """One verb, with arguments that may be refused."""
    try:
        turn.rng.choice(VERBS)(turn)
    except (NotFoundError, UsageError) as error:
        if error.kind not in REFUSED:
            raise


@pytest.mark.parametrize("kind", ["memory", "local"])
@pytest.mark.parametrize("seed", range(few(3, 60)))
def test_rows_answer_as_the_index_does(kind: str, seed: int, tmp_path: Path) -> None:
    """After any verbs, seals, merges and reopenings; with rows remembered from before, and read anew."""
    rng = random.Random(seed)
    backend = backend_of(kind, tmp_path)
    session = backend.store().session("s")
    session.append("first")
    remembered, driver, asked = Memory(), backend.driver(), 0
    for number in range(50):
        do_something(Turn(session, rng, number))
        if rng.random() < 0.1:
            if rng.random() < 0.5:
                session.close()
            else:
                kill(session)
            session = backend.store().session("s")
        if rng.random() < 0.2:
            view = backend.store().view("s")
            memory = rng.choice([remembered, Memory(), Memory(limit=1)])
            assert require_same(driver, view._reader.replica, rng, memory) or uses_given_ids(view)
            asked += 1
    assert asked


def test_a_page_takes_two_waits_where_latest_names_the_segments() -> None:
    """Their ends, which hold the last rows and, of a small one, the bodies too; nothing is listed."""
    backend = backend_of("memory", Path())
    write_long(backend)
    store, counts = backend.counted()
    view = store.view("s")
    before = counts.batches
    assert len(view.history(limit=20).rows) == 20
    assert counts.counts == {"Get": 2 + 3}  # both registers, the ends of three segments; the newest one is small
    assert counts.batches - before == 1


def test_segments_that_latest_names_and_another_writer_merged_are_listed(backend: Backend) -> None:
    """By a view that read `latest` before: it lists the segments once, and shows the same."""
    write_long(backend)
    store, counts = backend.counted()
    view = store.view("s")
    with backend.store().session("s", create=False) as session:
        session.append("more")
        session.seal()
        session.optimize(everything=True)
    assert len(view.history(limit=20).rows) == 20
    assert counts.counts["List"] == 1
    assert len(view.history(limit=40).rows) == 40
    assert counts.counts["List"] == 1
    assert view.path(limit=1) == view.path()[-1:]


def test_a_path_of_less_than_one_node_is_refused_whatever_was_read_before(backend: Backend) -> None:
    """Also where the whole index is in memory, which showed the whole path."""
    write_long(backend)
    view = backend.store().view("s")
    for _ in range(2):
        for limit in (0, -1):
            with pytest.raises(UsageError, match="limit of at least 1"):
                view.path(limit=limit)
        with pytest.raises(NotFoundError):
            view.get(None)  # type: ignore[arg-type]
        assert view.leaves()  # reads the index


def write_long(backend: Backend) -> None:
    """A session of some segments, closed."""
    with backend.store().session("s") as session:
        for number in range(3):
            session.append(*[f"{number}.{each}" for each in range(50)])
            session.seal()
        session.append("last")


ODD: dict[str, list[Draft]] = {
    "orphan": [user("a", id="a", parent="nowhere"), user("b", id="b", parent="a")],
    "two orphans of one parent": [user("a", id="a", parent="nowhere"), user("b", id="b", parent="nowhere")],
    "child first": [user("b", id="b", parent="a"), user("a", id="a", parent=None), user("c", id="c", parent="a")],
    "own parent": [user("a", id="a", parent="a"), user("b", id="b", parent="a")],
    "circle": [user("a", id="a", parent="b"), user("b", id="b", parent="a"), user("c", id="c", parent="b")],
    "twice": [user("a", id="a", parent=None), user("x", id="x", parent="a"), user("a", id="a", parent="x"),
              user("b", id="b", parent="a")],
    "parent is a note": [user("a", id="a", parent=None), Draft(type="note", kind="label", id="n", target="a",
                         brief={"label": "x"}), user("b", id="b", parent="n")],
    "two roots": [user("a", id="a", parent=None), user("b", id="b", parent=None), user("c", id="c", parent="b")],
}  # fmt: skip


@pytest.mark.sampled(2, "backend", "name", "filler")
@pytest.mark.parametrize("name", sorted(ODD))
@pytest.mark.parametrize(
    ("filler", "chunk_rows"), [(0, 1024), (3, 1024), (290, 100), pytest.param(3000, 1024, marks=pytest.mark.whole)]
)
def test_odd_records_are_answered_right_or_not_at_all(
    backend: Backend, name: str, filler: int, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of imported records that no session of ours would have: the same answer, or none; never another one.

    They lie in one chunk, or in the first and the last of three: of a tenth of their size here, of their size with
    `make whole`.
    """
    monkeypatch.setattr(parts, "CHUNK_ROWS", chunk_rows)
    store = backend.store()
    above = [
        user(f"{number}", id=f"f{number}", parent=f"f{number - 1}" if number else None) for number in range(filler)
    ]
    first, *rest = ODD[name]
    drafts = [first, *above, *rest]
    store.load("s", drafts, leaf=lambda: drafts[-1].id)
    rng = random.Random(filler)
    replica = store.view("s")._reader.replica
    require_same(backend.driver(), replica, rng, Memory())
    with store.session("s") as session:
        session.append("behind")
        session.optimize(everything=True)
    replica = store.view("s")._reader.replica
    require_same(backend.driver(), replica, rng, Memory())
    index = run(replica.index(), backend.driver())
    assert run(replica.ask(lambda look: look.children(None)), backend.driver()) == index.graph.roots


KEPT_BYTES = 1_500_000
"""A limit that takes few of the parts that are read below."""


@pytest.mark.sampled(2, "given", "brief")
@pytest.mark.parametrize("given", [None, "an id that is rather long, as some programs make them"])
@pytest.mark.parametrize("brief", [None, {"long": "x" * 300}])
def test_what_is_remembered_takes_about_as_much_memory_as_it_may(
    given: str | None, brief: dict[str, object] | None
) -> None:
    """However well it was compressed: by the bytes that Python gives out for all that was read of some segments."""
    backend = backend_of("memory", Path())
    with backend.store().session("s") as session:
        for part in range(3):
            for each in range(4):
                names = [given and f"{given} {part} {each} {number}" for number in range(1000)]
                session.append(*[Draft(role="user", payload={}, id=name, brief=brief) for name in names])
            session.seal()
    replica = backend.store().view("s")._reader.replica
    memory = Memory(limit=KEPT_BYTES)
    driver, view = backend.driver(), replica.view
    del replica
    tracemalloc.start()
    try:
        read = run(Rows(view, memory).rows_at(range(0, view.tail.header.base, 100)), driver)
        found = run(Rows(view, memory).find([row.id for row in read.values()][:1]), driver)
        del read
        assert found
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert KEPT_BYTES / 3 < held < 1.7 * KEPT_BYTES


@pytest.mark.parametrize("name", ["s", "copy"])
def test_a_node_below_its_own_child_is_answered_by_the_index(name: str) -> None:
    """Its child is a root then, as the index says, also in a copy."""
    store = Store(Place(MemoryDriver()))
    drafts = [user("0", id="r", parent=None), user("1", id="b", parent="a")]
    store.load("s", drafts, leaf=lambda: "b")
    with store.session("s") as session:
        session.append(user("2", id="a"))
    store.copy("s", name="copy")
    view = store.view(name)
    by_rows = view.children(None), view.siblings("r"), view.history().rows
    assert view.problems()
    assert (view.children(None), view.siblings("r"), view.history().rows) == by_rows
    assert by_rows[0] == ("r", "b")
