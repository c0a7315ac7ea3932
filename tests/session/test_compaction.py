"""Compaction: a summary stands for what the model saw; the history keeps all of it."""

from __future__ import annotations

import pytest
from tests.session.backends import Backend, kill, memory_backend, texts

from treering.api.session import Session
from treering.api.store import Store
from treering.transcript.node import compaction, user


def fill(session: Session, count: int) -> list[str]:
    """Record messages; return their nodes."""
    return [session.append(f"m{number}").node for number in range(count)]


def test_compaction_replaces_what_came_before(backend: Backend) -> None:
    """The model sees the summary, then the messages from the kept one on, then what follows; also after a kill."""
    session = backend.store().session("s")
    nodes = fill(session, 6)
    node = session.compact(
        "the gist",
        kept=nodes[4],
        tokens_before=900,
        tokens_after=100,
        state={"n": 1},
        files_read=["a.py"],
        files_changed=["b.py"],
    ).node
    session.append("next")
    assert [item.node for item in session.context] == [node, nodes[4], nodes[5], session.node]
    assert "the gist" in texts(session.context)[0]
    context = session.context
    kill(session)
    store, counts = backend.counted()
    with store.session("s") as session:
        assert counts.counts == {"Get": 2}
        assert session.context == context
        assert session.state == {"n": 1}
        found = session.get(node)
        assert found.kind == "compaction"
        assert found.brief == {"kept": nodes[4], "tokens_before": 900, "tokens_after": 100}
        assert found.payload == {"summary": "the gist", "files_read": ["a.py"], "files_changed": ["b.py"]}
        assert len(session.history(limit=100).rows) == 8
        assert session.last_compaction() == node


def test_compaction_that_keeps_nothing(store: Store) -> None:
    """Without a kept node the summary stands alone."""
    with store.session("s") as session:
        fill(session, 3)
        session.compact("all of it")
        assert len(session.context) == 1
        session.append("next")
        assert texts(session.context)[1:] == ["next"]


def test_a_detail_has_any_name(store: Store) -> None:
    """Also the names that the parameters of the library have on the way to the record."""
    details = dict.fromkeys(("self", "verb", "writer", "args", "hooks"), "a")
    with store.session("s") as session:
        node = session.compact("gist", **details).node  # type: ignore[arg-type]  # mypy: one is the node to keep
        assert session.get(node).payload == {"summary": "gist", **details}


def test_compaction_that_keeps_a_node_off_the_path(store: Store) -> None:
    """A kept node of another branch keeps nothing: it never was in front of this compaction."""
    with store.session("s") as session:
        nodes = fill(session, 3)
        session.checkout(nodes[0])
        session.append("other way")
        session.compact("gist", kept=nodes[2])
        assert len(session.context) == 1


@pytest.mark.parametrize("seal", [False, True])
def test_compaction_that_keeps_what_an_earlier_one_left_out(backend: Backend, *, seal: bool) -> None:
    """A kept node that is on the path but no longer shown comes back, in two reads after a kill."""
    session = backend.store().session("s")
    nodes = fill(session, 5)
    session.compact("first", kept=nodes[4])
    if seal:
        session.seal()
        session.append("drop")
    session.compact("second", kept=nodes[1])
    shown = [item.node for item in session.context][1:]
    assert shown[:4] == nodes[1:]
    assert not any("first" in text for text in texts(session.context))
    context = session.context
    kill(session)
    store, counts = backend.counted()
    with store.session("s") as session:
        assert counts.counts == {"Get": 2}
        assert session.context == context


def test_the_last_compaction_is_the_one_on_this_branch(backend: Backend) -> None:
    """Each branch has its own; going back before it leaves none."""
    with backend.store().session("s") as session:
        nodes = fill(session, 2)
        assert session.last_compaction() is None
        first = session.compact("one").node
        session.append("x")
        second = session.compact("two").node
        session.append("y")
        assert session.last_compaction() == second
        session.checkout(first)
        assert session.last_compaction() == first
        session.checkout(nodes[1])
        assert session.last_compaction() is None
        session.append("other")
    view = backend.store().view("s")
    assert view.last_compaction() is None


def test_the_last_compaction_is_found_whoever_made_it(store: Store) -> None:
    """One on a head that another handle was on is known to who switches there, and one that a fork took along."""
    with store.session("s", shared=True) as session, store.session("s", shared=True) as other:
        session.append("a")
        other.refresh()
        other.branch("side")
        made = other.compact("one").node
        session.refresh()
        session.switch("side")
        assert session.last_compaction() == made
        session.fork("fork")
    assert store.view("fork").last_compaction() == made


def test_an_old_checkpoint_shows_the_messages_that_were_compacted(store: Store) -> None:
    """Rewinding to before a compaction brings the whole context back."""
    with store.session("s") as session:
        fill(session, 3)
        made = session.commit(label="before").checkpoint or ""
        session.compact("gist")
        session.rewind(made)
        assert texts(session.context) == ["m0", "m1", "m2"]


def test_forty_compactions(backend: Backend) -> None:
    """A session compacted again and again shows one summary and what is kept, and resumes in two reads."""
    session = backend.store().session("s")
    for number in range(40):
        nodes = fill(session, 3)
        session.compact(f"gist {number}", kept=nodes[2])
    kill(session)
    store, counts = backend.counted()
    with store.session("s") as session:
        assert counts.counts == {"Get": 2}
        assert len(session.context) == 2
        assert "gist 39" in texts(session.context)[0]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_edits_count_in_what_a_compaction_brings_back(backend: Backend, *, checkpoint: bool) -> None:
    """What was retracted stays hidden and what was amended stays so, also where the whole path is looked at."""
    session = backend.store().session("s")
    nodes = fill(session, 6)
    session.retract(nodes[2])
    session.amend(nodes[3], {"role": "user", "content": "M3"})
    if checkpoint:
        session.commit(label="x")
    session.compact("first", kept=nodes[5])
    session.compact("second", kept=nodes[1])
    assert texts(session.context)[1:] == ["m1", "M3", "m4", "m5"]
    session.append("on")
    node = session.node
    kill(session)
    session = backend.store().session("s")
    assert texts(session.context)[1:] == ["m1", "M3", "m4", "m5", "on"]
    session.checkout(nodes[0])
    session.checkout(node)
    assert texts(session.context)[1:] == ["m1", "M3", "m4", "m5", "on"]
    session.close()


def test_context_edits_are_given_up_where_a_compaction_reaches_behind_them(store: Store) -> None:
    """A compaction that keeps a node which the context had left out shows the path from there on."""
    with store.session("s") as session:
        nodes = fill(session, 4)
        session.commit(context=[nodes[3]])
        session.compact("gist", kept=nodes[1])
        assert texts(session.context)[1:] == ["m1", "m2", "m3"]


@pytest.mark.parametrize("new_ids", [False, True])
def test_a_compaction_may_keep_what_is_said_with_it(*, new_ids: bool) -> None:
    """Or what was put off; no index is read to find out that it exists."""
    store, counting = memory_backend().counted()
    session = store.session("s", durability="turn")
    session.commit(["one"])
    session.append(user("put off", id="p"))
    counting.reset()
    session.commit([compaction("gist", kept="p")], new_ids=new_ids)
    session.commit([user("now", id="n"), compaction("gist", kept="n")], new_ids=new_ids)
    assert set(counting.counts) == {"Put"}
    assert texts(session.context)[1:] == ["now"]
