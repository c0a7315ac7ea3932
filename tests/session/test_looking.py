"""Views, pages, trees and feeds: looking never writes, and a feed costs one conditional request per look."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from tests.session.backends import Backend, backend_of, kill, local_backend, texts

import treering
from treering import user
from treering.api.store import Store
from treering.storage.requests import Answer, Get, Put
from treering.store.place import Place


def history_of(session: treering.Session | treering.View, *, limit: int) -> list[str]:
    """All pages of the history put together, newest first."""
    found: list[str] = []
    before: str | None = None
    while True:
        page = session.history(limit=limit, before=before)
        assert len(page.rows) <= limit
        found += [row.node.id for row in page.rows]
        before = page.before
        if before is None:
            return found


def fill(backend: Backend) -> str:
    """Record a session with a bit of everything; return a checkpoint of it."""
    with backend.store().session("s", title="T", project="p") as session:
        nodes = [session.append(f"m{number}").node for number in range(10)]
        made = session.commit(state={"n": 1}, label="x").checkpoint or ""
        session.seal()
        session.append("large " * 60_000)
        session.label(nodes[0], "first")
        session.amend(nodes[1], {"role": "user", "content": "M1"})
        session.retract(nodes[2])
        session.compact("gist", kept=nodes[8])
        session.record_extension("e", 1)
        session.branch("idea", node=nodes[4], keep_state=True)
        session.append("other")
        session.record_usage(n=1)
    return made


def look_everywhere(store: Store, made: str) -> None:
    """Use every way of reading."""
    assert store.sessions().rows
    assert store.sessions(project="p", cwd="/nowhere").rows == ()
    assert store.recent()
    view = store.view("s")
    assert view.info.title == "T"
    assert (view.id, view.head, view.node in view.leaves()) == ("s", "idea", True)
    assert view.context
    assert view.state == {"n": 1}
    assert view.settings == {}
    assert view.manager is None
    assert view.heads.keys() == {"main", "idea"}
    assert view.checkpoint_id
    assert view.usage == view.last_usage == {"n": 1}
    assert view.history().rows
    assert view.history(head="main", retracted=True).rows
    path = view.path()
    assert view.children(path[0])
    assert view.siblings(path[0]).nodes
    assert view.newest_leaf(path[0]) in view.leaves()
    assert view.tree()
    assert view.nodes()
    assert view.problems() == ()
    assert view.labels()
    assert view.get(path[1]).payload != view.original(path[1])
    assert view.checkpoints()
    assert view.checkpoint(made).state == {"n": 1}
    assert view.context_at(path[3])
    assert view.diff(made).context.added
    assert view.notes()
    assert view.extensions("e", on_path=False)
    assert view.last_compaction() is None
    assert view.stored().records
    assert not view.refresh()
    assert list(view.lines())
    assert next(view.follow(first=0)).id == path[0]


def test_looking_sends_no_write(backend: Backend) -> None:
    """Every way of reading, and opening a session without recording anything, sends nothing but reads."""
    made = fill(backend)
    before = backend.snapshot()
    store, counts = backend.counted()
    look_everywhere(store, made)
    with store.session("s") as session:
        assert session.context
    with store.session("never"):
        pass
    assert counts.counts.keys() <= {"Get", "List"}
    assert {key: data for key, data in backend.snapshot().items() if not key.endswith("/hold")} == {
        key: data for key, data in before.items() if not key.endswith("/hold")
    }


def test_a_view_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    """On disk a view changes no byte, no name and no time, and works where nothing can be written."""
    backend = local_backend(tmp_path)
    made = fill(backend)

    def stamps() -> dict[str, tuple[int, int, int]]:
        paths = [os.path.join(where, name) for where, _, names in os.walk(tmp_path) for name in [*names, "."]]
        return {path: (os.stat(path).st_mtime_ns, os.stat(path).st_ctime_ns, os.stat(path).st_size) for path in paths}

    before = stamps()
    look_everywhere(backend.store(), made)
    assert stamps() == before


def test_a_missing_store_is_empty(tmp_path: Path) -> None:
    """A folder that does not exist lists no session, and looking does not create it."""
    store = treering.open(tmp_path / "nowhere" / "deep")
    assert store.sessions().rows == ()
    assert store.recent() is None
    with pytest.raises(treering.NotFoundError):
        store.view("s")
    assert list(tmp_path.iterdir()) == []


def test_a_view_stays_at_its_look(backend: Backend) -> None:
    """A view shows the session as it was, until it looks again."""
    session = backend.store().session("s")
    session.append("a")
    view = backend.store().view("s")
    session.commit(["b"], state={"n": 1})
    assert (texts(view.context), view.state) == (["a"], {})
    assert len(view.history().rows) == 1
    assert view.refresh()
    assert (texts(view.context), view.state) == (["a", "b"], {"n": 1})
    assert len(view.history().rows) == 2
    assert not view.refresh()
    for number in range(5):
        session.append(f"c{number}")
        session.seal()
        session.append("d")
    session.optimize(everything=True)
    assert len(view.history().rows) == 2
    assert view.refresh()
    assert len(view.history().rows) == 12
    session.close()


@pytest.mark.parametrize("limit", [1, 2, 7, 50])
def test_pages_join_to_the_path(backend: Backend, limit: int) -> None:
    """Pages from the head upward, put together, are the path; siblings are counted."""
    with backend.store().session("s") as session:
        nodes = [session.append(f"m{number}").node for number in range(20)]
        session.seal()
        session.checkout(nodes[9])
        nodes += [session.append(f"n{number}").node for number in range(5)]
        assert history_of(session, limit=limit) == list(session.path())[::-1]
        assert history_of(session, limit=limit) == [*nodes[:10], *nodes[20:]][::-1]
        rows = {row.node.id: row for row in session.history(limit=100).rows}
        assert (rows[nodes[20]].sibling, rows[nodes[20]].siblings) == (1, 2)
        assert session.siblings(nodes[20]).index == rows[nodes[20]].sibling
        assert {row.sibling_ids for row in rows.values() if row.siblings > 1} == {session.siblings(nodes[20]).nodes}
        assert [row.node.id for row in session.history(node=nodes[3]).rows] == nodes[3::-1]


def test_a_page_names_the_siblings_that_it_counts(backend: Backend) -> None:
    """Retracted ones only if they are shown, from rows and from the index; and asks for nothing more than its rows."""
    with backend.store().session("s") as session:
        above = session.append("above").node
        versions = [session.append(user(f"{number}", parent=above)).node for number in range(4)]
        session.append(user("answer", parent=versions[3]))
        session.seal()
        session.retract(versions[1])
        first = session.append(user("another first", parent=None)).node
    for everything in (False, True):
        view = backend.store().view("s")
        if everything:
            assert view.leaves()  # reads the index
        end = view.newest_leaf(versions[3])
        rows = view.history(node=end).rows
        assert [(row.sibling, row.siblings) for row in rows] == [(0, 1), (2, 3), (0, 2)]
        assert [row.sibling_ids for row in rows] == [(end,), (versions[0], *versions[2:]), (above, first)]
        rows = view.history(node=end, retracted=True).rows
        assert [row.sibling_ids for row in rows] == [(end,), tuple(versions), (above, first)]
        assert all(row.sibling_ids[row.sibling] == row.node.id for row in rows)


@pytest.mark.parametrize("retracted", [False, True])
def test_a_page_reads_its_siblings_beside_its_rows(*, retracted: bool) -> None:
    """In a sealed session each version lies with the others: two waits, for the ends of segments and the texts."""
    backend = backend_of("memory", Path())
    with backend.store().session("s") as session:
        session.append(*["x"] * 3_000)
        above = session.node
        versions = [session.append(user(f"{number}", parent=above)).node for number in range(20)]
        session.seal()
        session.optimize(everything=True)
    store, counts = backend.counted()
    view = store.view("s")
    counts.reset()
    before = counts.batches
    row = view.history(node=versions[-1], limit=20, retracted=retracted).rows[0]
    assert row.sibling_ids == tuple(versions)
    assert (counts.counts, counts.batches - before) == ({"Get": 2}, 2)


def test_a_page_reads_only_what_it_shows(backend: Backend) -> None:
    """The page nearest the head of a long sealed session reads the footers and one frame, not the history."""
    with backend.store().session("s") as session:
        for _ in range(4):
            session.append(*[os.urandom(2000).hex() for _ in range(100)])
            session.seal()
        session.append("drop")
    store, counts = backend.counted()
    view = store.view("s")
    counts.reset()
    assert len(view.history(limit=5).rows) == 5
    whole = [request for request in counts.requests if isinstance(request, Get) and request.start is None]
    assert all("/segments/" not in request.key for request in whole)
    frames = [request for request in counts.requests if isinstance(request, Get) and (request.end or 0) > 0]
    assert len(frames) == 1


def test_the_tree_folds_straight_runs(backend: Backend) -> None:
    """The outline shows branches, heads, labels and checkpoints; straight runs are one row."""
    with backend.store().session("s") as session:
        nodes = [session.append(f"m{number}").node for number in range(10)]
        session.branch("idea", node=nodes[4])
        session.append("x")
        session.label(nodes[7], "L")
        rows = session.tree()
    assert sum(row.count for row in rows) == 11
    assert len(rows) <= 6
    assert {name for row in rows for name in row.heads} == {"main", "idea"}
    assert [row.label for row in rows if row.label] == ["L"]


# lists


def test_sessions_are_listed_by_pages_newest_first(backend: Backend) -> None:
    """Pages do not overlap, hold every session, and the one written last comes first."""
    store = backend.store()
    for number in range(7):
        with store.session(f"s{number}", project=f"p{number % 2}") as session:
            session.append("x")
    with store.session("s2") as session:
        session.append("y")
    found: list[str] = []
    after = None
    while True:
        page = store.sessions(limit=3, after=after)
        found += [row.id for row in page.rows]
        after = page.after
        if after is None:
            break
    assert sorted(found) == [f"s{number}" for number in range(7)]
    assert [row.id for row in store.sessions(project="p1", limit=10).rows if row.project != "p1"] == []
    assert len(store.sessions(project="p1", limit=10).rows) == 3


def test_a_bad_card_is_a_row_with_a_warning(backend: Backend) -> None:
    """One unreadable card neither hides the others nor raises."""
    store = backend.store()
    for name in ("good", "bad"):
        with store.session(name) as session:
            session.append("x")
    backend.driver().execute((Put("latest/bad.jsonl.zst", b"garbage"), Put("latest/foreign.txt", b"x")))
    rows = {row.id: row for row in backend.store().sessions().rows}
    assert rows.keys() == {"good", "bad"}
    assert rows["good"].warning == ""
    assert "latest/bad.jsonl.zst" in rows["bad"].warning


@pytest.mark.parametrize(
    "name", ["a/b", "..", "a\0b", "\U0001f600", "x" * 2000, "CON", "Ab", ".hidden", "a b", "\ud800"]
)
def test_any_name_is_a_session(backend: Backend, name: str) -> None:
    """Any text can name a session; it is found under it and listed with it."""
    with backend.store().session(name) as session:
        session.append("x")
    assert texts(backend.store().view(name).context) == ["x"]
    assert [row.id for row in backend.store().sessions().rows] == [name]
    backend.store().delete(name)
    assert backend.store().sessions().rows == ()


# feeds


def test_a_feed_yields_what_others_add(backend: Backend) -> None:
    """Nodes that another handle adds arrive in order, whatever it seals and merges meanwhile."""
    session = backend.store().session("s")
    session.append("before")
    feed = backend.store().view("s").follow(poll_seconds=0)
    expected = []
    for number in range(12):
        expected.append(session.append(f"m{number}").node)
        if number % 3 == 0:
            expected += session.commit([f"c{number}", f"d{number}"], state={"n": number}).nodes
        if number % 4 == 1:
            session.seal()
            expected.append(session.append("after a seal").node)
        if number == 9:
            session.optimize(everything=True)
        got = [node.id for node in itertools.islice(feed, len(expected))]
        assert got == expected
        expected = []
    session.close()


def test_a_feed_can_begin_at_any_position(backend: Backend) -> None:
    """From position 0 a feed yields the whole history first, also what lies in segments."""
    with backend.store().session("s") as session:
        nodes = [session.append(f"m{number}").node for number in range(5)]
        session.seal()
        nodes.append(session.append("last").node)
    view = backend.store().view("s")
    assert [node.id for node in itertools.islice(view.follow(first=0), 6)] == nodes
    assert [node.id for node in itertools.islice(view.follow(first=3), 3)] == nodes[3:]


def test_an_idle_look_is_one_conditional_get(backend: Backend) -> None:
    """While nothing is added, each look of a feed sends one request, which reads nothing."""
    session = backend.store().session("s")
    session.append("a")
    store, counts = backend.counted()
    view = store.view("s")
    feed = view.follow(poll_seconds=0)
    session.append("b")
    next(feed)
    counts.reset()
    looks = 0
    count_answers = counts._count_answers

    def append_at_the_tenth(answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
        nonlocal looks
        looks += 1
        if looks == 10:
            session.append("c")
        return count_answers(answers)

    counts._count_answers = append_at_the_tenth  # type: ignore[method-assign]
    assert next(feed).payload == {"role": "user", "content": "c"}
    idle = counts.requests[:10]
    assert all(isinstance(request, Get) and request.unless for request in idle)
    assert counts.counts == {"Get": 11}
    session.close()


def test_a_feed_from_a_session_handle(backend: Backend) -> None:
    """A shared handle can follow what others add while it records itself."""
    first = backend.store().session("s", shared=True)
    first.append("a")
    second = Store(Place(backend.driver())).session("s", shared=True)
    feed = first.follow(poll_seconds=0)
    node = second.append("b").node
    assert next(feed).id == node
    kill(first)
    kill(second)
