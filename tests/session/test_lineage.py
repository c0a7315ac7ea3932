"""Fork, spawn, copy, load: sessions made from what exists, complete or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.session.backends import KINDS, Backend, backend_of, kill, texts
from tests.session.faults import Meeting, tail_write

import treering
from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.storage.memory import MemoryDriver
from treering.store.place import Place


def turns(session: Session, count: int, *, first: int = 0) -> None:
    """Record turns of a question, an answer and a state."""
    for turn in range(first, first + count):
        session.commit([f"q{turn}", {"role": "assistant", "content": f"a{turn}"}], state={"turn": turn})


def everything(session: Session | View) -> list[bytes]:
    """All records, byte by byte."""
    return list(session.lines())


def test_a_fork_may_work_in_another_folder(backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a new session, and after a move, a relative folder is completed, so that lists find it."""
    monkeypatch.chdir(tmp_path)
    store = backend.store()
    with store.session("s", cwd="/x") as session:
        session.append("hello")
        session.fork("same")
        session.fork("other", cwd="checkout")
        session.move(cwd="moved")
    assert [row.id for row in store.sessions(cwd="checkout").rows] == ["other"]
    assert [row.id for row in store.sessions(cwd="moved").rows] == ["s"]
    assert (store.view("same").info.cwd, store.view("other").info.cwd) == ("/x", str(tmp_path / "checkout"))


def test_a_copy_keeps_the_links_of_both_sides(backend: Backend) -> None:
    """Parents and their forks are told in a copy as in the original, under another name as well."""
    store = backend.store()
    with store.session("s") as session:
        node = session.append("hello").node
        session.append(treering.branch_summary("left", source=node))
        session.fork("f", node=node)
    for name in ("s", "f"):
        store.copy(name, name=f"{name}-2")
        one, other = store.view(name), store.view(f"{name}-2")
        assert (other.info.parent_session, other.info.parent_node) == (one.info.parent_session, one.info.parent_node)
        assert [note.brief for note in other.notes("link")] == [note.brief for note in one.notes("link")]
        assert [row.links for row in other.nodes()] == [row.links for row in one.nodes()]
    assert store.view("f-2").info.parent_session == "s"


def test_a_fork_is_the_path_with_all_that_belongs_to_it(backend: Backend) -> None:
    """Context, state, labels and edits come along; other branches do not; later appends in the parent do not show."""
    session = backend.store().session("s", title="T", project="p", cwd="/x")
    turns(session, 3)
    path = session.path()
    session.label(path[0], "start")
    session.amend(path[1], {"role": "assistant", "content": "A0"})
    session.retract(path[2])
    session.record_extension("todo", [1], target=path[1])
    session.checkout(path[1])
    session.append("elsewhere")
    session.checkout(path[5])
    session.commit(manager={"m": 1})
    session.record_usage(target=path[0], input=5)
    session.fork("first copy")
    session.fork("copy", title="F")
    session.append("later in the parent")

    kill(session)
    store, counts = backend.counted()
    with store.session("copy") as fork:
        assert counts.counts["Get"] == 2
        assert texts(fork.context) == ["q0", "A0", "a1", "q2", "a2"]
        assert (fork.state, fork.manager) == ({"turn": 2}, {"m": 1})
        assert fork.path() == path
        assert fork.leaves() == (path[5],)
        assert fork.labels() == {path[0]: "start"}
        assert fork.get(path[1]).amended
        assert fork.get(path[2]).retracted
        assert [note.payload for note in fork.extensions("todo")] == [[1]]
        assert (dict(fork.usage), fork.notes("usage"), fork.notes("link")) == ({}, (), ())
        info = fork.info
        assert (info.title, info.project, info.cwd) == ("F", "p", "/x")
        assert (info.parent_session, info.parent_node) == ("s", path[5])
        turns(fork, 1, first=9)
    parent = backend.store().view("s")
    assert [note.brief for note in parent.notes("link")] == [{"fork": "first copy"}, {"fork": "copy"}]
    assert texts(parent.context)[-1] == "later in the parent"
    assert not parent.problems()
    assert not backend.store().view("copy").problems()


def test_a_fork_may_have_facts_of_its_own(backend: Backend) -> None:
    """What is not said about a fork is as in its parent."""
    with backend.store().session("s", title="T", project="p", cwd="/x", extra={"a": 1}) as session:
        session.append("a")
        session.fork("same")
        session.fork("other", title="", project="q", extra={"b": 2})
    same, other = (backend.store().view(name).info for name in ("same", "other"))
    assert (same.title, same.project, same.cwd, same.extra) == ("T", "p", "/x", {"a": 1})
    assert (other.title, other.project, other.cwd, other.extra) == ("", "q", "/x", {"b": 2})


def test_a_fork_of_an_earlier_node(backend: Backend) -> None:
    """A fork can begin anywhere, with the context and state of that place."""
    with backend.store().session("s") as session:
        turns(session, 3)
        session.seal()
        path = session.path()
        session.fork("early", node=path[3])
        assert session.node == path[-1]
    view = backend.store().view("early")
    assert (texts(view.context), view.state) == (["q0", "a0", "q1", "a1"], {"turn": 1})


def test_a_fork_carries_its_large_parts(backend: Backend) -> None:
    """Blobs of the path are the fork's own: they are there when the parent is gone."""
    large = "large text " * 40_000
    with backend.store().session("s") as session:
        session.append(large)
        session.fork("copy")
    backend.store().delete("s")
    assert texts(backend.store().view("copy").context) == [large]


def test_a_fork_needs_a_free_name(backend: Backend) -> None:
    """A name in use is refused before anything is recorded in the parent."""
    with backend.store().session("other") as other:
        other.append("x")
    with backend.store().session("s") as session:
        turns(session, 1)
        with pytest.raises(treering.ConflictError):
            session.fork("other")
        with pytest.raises(treering.UsageError):
            session.fork("s")
        assert session.notes("link") == ()
    assert texts(backend.store().view("other").context) == ["x"]


def test_a_compacted_session_forks_with_its_summary(backend: Backend) -> None:
    """The context of a fork is what the parent's model saw, compactions and edits included."""
    with backend.store().session("s") as session:
        turns(session, 3)
        session.compact("gist", kept=session.path()[-1])
        session.append("on")
        context = session.context
        session.fork("copy")
    assert backend.store().view("copy").context == context


def test_a_fork_begins_with_what_was_put_off(backend: Backend) -> None:
    """A fork records what its parent put off first, so it is complete, and the link to it is durable."""
    session = backend.store().session("s", durability="turn")
    session.commit(["a"])
    session.append("b")
    session.fork("copy")
    kill(session)
    assert texts(backend.store().view("copy").context) == ["a", "b"]
    assert [note.brief for note in backend.store().view("s").notes("link")] == [{"fork": "copy"}]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_fork_whose_context_shows_another_branch(backend: Backend, *, sealed: bool) -> None:
    """A context that was edited to show nodes of other branches comes along, and resumes in two reads."""
    with backend.store().session("s") as session:
        first, aside = session.append("a").node, session.append("aside").node
        session.checkout(first)
        session.commit(context=[aside, session.append("b").node])
        if sealed:
            session.seal()
        session.fork("copy")
    store, counts = backend.counted()
    assert texts(store.view("copy").context) == ["aside", "b"]
    assert counts.total == 2


@pytest.mark.parametrize("sealed", [False, True])
def test_a_copy_after_pruning(backend: Backend, *, sealed: bool) -> None:
    """A session whose old checkpoints have no bodies any more is copied with all that is left."""
    session = backend.store().session("s")
    turns(session, 6)
    if sealed:
        session.seal()
        session.append("on")
    assert session.prune(treering.KeepCheckpoints(last=1)).plan.pruned
    context, state = session.context, session.state
    session.close()
    backend.store().copy("s", name="copy")
    view = backend.store().view("copy")
    assert (view.context, view.state) == (context, state)
    assert [view.checkpoint(entry.id).state for entry in view.checkpoints()][-1] == state
    assert not backend.store().verify("copy")


def test_a_subagent_is_a_linked_session(backend: Backend) -> None:
    """A spawned session names its parent and task, the parent names it, and both go on."""
    store = backend.store()
    with store.session("s") as session:
        turns(session, 1)
        with store.spawn(session, "child", task="look around") as child:
            child.append("looking")
            assert child.state == {}
        session.append("thanks")
        with pytest.raises(treering.ConflictError):
            store.spawn(session, "child", task="again")
        (note,) = session.notes("link")
        assert note.brief == {"child": "child", "task": "look around"}
        assert note.target == session.path()[1]
    (row,) = [row for row in backend.store().sessions().rows if row.id == "child"]
    assert (row.parent_session, row.parent_node, row.task) == ("s", note.target, "look around")


def test_a_subagent_that_another_parent_makes_at_the_same_moment_is_not_ours() -> None:
    """The name is taken, though it was free before the link was recorded; nothing of the other subagent is touched."""
    memory = MemoryDriver()
    meeting, others = Meeting(memory), Store(Place(memory))
    session, parent = Store(Place(meeting)).session("s"), others.session("other")
    parent.append("plan")

    def first() -> None:
        with others.spawn(parent, "child", task="theirs") as child:
            child.append("their step")

    meeting.before(tail_write, first)
    with pytest.raises(treering.ConflictError) as told:
        Store(Place(meeting)).spawn(session, "child", task="ours")
    assert told.value.kind == treering.Kind.EXISTS
    with others.session("child") as child:  # it is not locked
        assert (texts(child.context), child.info.parent_session, child.info.task) == (["their step"], "other", "theirs")


# copies


@pytest.fixture(params=KINDS)
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Another place for sessions."""
    return backend_of(request.param, tmp_path / "other")


def test_a_copy_in_another_store_is_the_same_session(backend: Backend, other: Backend) -> None:
    """Every record arrives byte by byte, large parts too; the copy resumes in two reads and goes on by itself."""
    with backend.store().session("s", title="T") as session:
        turns(session, 3)
        session.append("large " * 60_000)
        session.seal()
        session.branch("idea", node=session.path()[1])
        turns(session, 2, first=5)
        session.set_title("T2")
    backend.store().copy("s", other.store())
    source = backend.store().view("s")
    store, counts = other.counted()
    view = store.view("s")
    assert counts.counts["Get"] == 2
    assert everything(view) == everything(source)
    assert (view.context, view.state, view.heads, view.info) == (
        source.context,
        source.state,
        source.heads,
        source.info,
    )
    with other.store().session("s") as copy:
        copy.append("only here")
        copy.switch("main")
        assert texts(copy.context)[-1] == "large " * 60_000
    assert everything(backend.store().view("s")) == everything(source)


def test_a_session_is_copied_while_it_is_in_use(backend: Backend, other: Backend) -> None:
    """A copy holds everything up to some moment, however much is appended, sealed and merged meanwhile."""
    session = backend.store().session("s")
    for number in range(20):
        turns(session, 5, first=number * 5)
        session.seal()

    def meanwhile(_: int) -> None:
        turns(session, 1, first=1000)
        session.seal()
        session.append("drop")
        session.optimize(everything=True)

    backend.store().copy("s", other.store(), progress=meanwhile)
    copied, source = everything(other.store().view("s")), everything(session)
    assert len(copied) >= 300
    assert copied == source[: len(copied)]
    assert not other.store().view("s").problems()
    session.close()


def test_a_copy_under_another_name(backend: Backend) -> None:
    """Within one store a copy needs another name; names in use and the own name are refused."""
    store = backend.store()
    with store.session("s") as session:
        turns(session, 1)
    store.copy("s", name="t")
    assert texts(store.view("t").context) == ["q0", "a0"]
    assert store.view("t").info.id == "t"
    with pytest.raises(treering.ConflictError):
        store.copy("s", name="t")
    with pytest.raises(treering.UsageError):
        store.copy("s")
    with pytest.raises(treering.NotFoundError):
        store.copy("nothere", name="u")
    assert {row.id for row in store.sessions().rows} == {"s", "t"}


# namespaces


def test_namespaces_do_not_see_each_other(backend: Backend) -> None:
    """Sessions of one tenant are neither listed nor found by another, also where a name covers another's beginning."""
    store = backend.store()
    tenants = [store, store.namespace("org"), store.namespace("org/42"), store.namespace("org").namespace("42")]
    for number, tenant in enumerate(tenants):
        with tenant.session("s") as session:
            session.append(f"of {number}")
    for number, tenant in enumerate(tenants):
        assert texts(tenant.view("s").context) == [f"of {number}"]
        assert len(tenant.sessions().rows) == 1
    tenants[1].delete("s")
    assert tenants[1].sessions().rows == ()
    assert all(len(tenant.sessions().rows) == 1 for tenant in (tenants[0], *tenants[2:]))


# import


def drafts(count: int) -> list[treering.Draft]:
    """A chain with foreign ids, an orphan, and notes."""
    chain = [
        treering.Draft(role="user", payload={"content": f"m{n}"}, id=f"{n:08x}", parent=f"{n - 1:08x}" if n else None)
        for n in range(count)
    ]
    orphan = treering.Draft(role="user", payload={"content": "lost"}, id="ffffffff", parent="eeeeeeee")
    label = treering.Draft(type="note", kind="label", target=chain[1].id, brief={"label": "L"})
    return [*chain, orphan, label]


def test_a_loaded_session_stands_where_it_is_told(backend: Backend) -> None:
    """What an importer read becomes a session: parents as they are, context of the leaf, listed, resumable, usable."""
    store = backend.store()
    done: list[int] = []
    store.load(
        "s", iter(drafts(600)), leaf=lambda: f"{599:08x}", facts={"title": "T", "created_ms": 5}, progress=done.append
    )
    assert done[-1] >= 600
    store, counts = backend.counted()
    session = store.session("s")
    assert counts.counts == {"Get": 2}
    assert len(session.context) == 600
    assert session.labels() == {f"{1:08x}": "L"}
    assert [problem.kind for problem in session.problems()] == ["orphan"]
    assert (session.info.title, session.info.created_ms, session.info.nodes) == ("T", 5, 601)
    session.append("on")
    session.checkout("ffffffff")
    assert texts(session.context) == ["lost"]
    session.close()
    before = backend.snapshot()
    with pytest.raises(treering.ConflictError):
        backend.store().load("s", drafts(2), leaf=lambda: None)
    assert backend.snapshot() == before


def test_a_load_that_loses_a_race_leaves_nothing_behind(backend: Backend) -> None:
    """If somebody creates the session while it is loaded, that one stays, and what was loaded is gone again."""

    def meanwhile() -> Iterator[treering.Draft]:
        yield from drafts(300)
        with backend.store().session("s") as session:
            session.append("was first")

    with pytest.raises(treering.ConflictError):
        backend.store().load("s", meanwhile(), leaf=lambda: None)
    assert texts(backend.store().view("s").context) == ["was first"]
    assert not any("/segments/" in key for key in backend.snapshot())


def test_a_load_that_fails_makes_no_session(backend: Backend) -> None:
    """If the reader fails half way there is no session of that name, and it can be loaded again."""

    def broken() -> Iterator[treering.Draft]:
        yield from drafts(300)
        raise RuntimeError("the file ends here")

    with pytest.raises(RuntimeError):
        backend.store().load("s", broken(), leaf=lambda: None)
    assert backend.store().sessions().rows == ()
    with pytest.raises(treering.NotFoundError):
        backend.store().view("s")
    backend.store().load("s", drafts(3), leaf=lambda: f"{2:08x}")
    assert texts(backend.store().view("s").context) == ["m0", "m1", "m2"]


def test_a_fork_may_have_facts_of_its_own_behind_notes(backend: Backend) -> None:
    """Also where the parent got its own facts later, in notes: no fork copies these."""
    with backend.store().session("s", title="T0", project="p0", cwd="/x0") as session:
        session.append("a")
        session.set_title("T")
        session.move(project="p", cwd="/x")
        session.set_status("done")
        session.note("card", payload={"a": {"b": 1}})
        session.fork("same")
        session.fork("other", title="", project="q", cwd="/y", extra={"c": 2})
    for store in (backend.store(), backend.store()):
        same, other = (store.view(name).info for name in ("same", "other"))
        assert (same.title, same.project, same.cwd, same.status) == ("T", "p", "/x", "")
        assert (other.title, other.project, other.cwd, other.status) == ("", "q", "/y", "")
        assert (same.extra, other.extra) == ({"a": {"b": 1}}, {"c": 2})
        for name in ("same", "other"):
            with store.session(name) as fork:
                fork.seal()
    assert [info.id for info in backend.store().sessions(project="q").rows] == ["other"]
