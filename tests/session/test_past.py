"""A session as it was: at each position what a view showed then, but for what was erased or pruned since."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.sampling import few
from tests.session.backends import Backend, backend_of, texts

import treering
from treering import EventType, user
from treering.format.erasure import Erased


def told(view: treering.View) -> dict[str, Any]:
    """What a view says, as plain values."""
    return {
        "head": view.head,
        "heads": dict(view.heads),
        "node": view.node,
        "path": view.path(),
        "context": view.context,
        "recorded": view.recorded_context,
        "settings": dict(view.settings),
        "state": dict(view.state),
        "manager": view.manager,
        "checkpoint": view.checkpoint_id,
        "usage": dict(view.usage),
        "last_usage": dict(view.last_usage),
        "labels": dict(view.labels()),
        "history": view.history(limit=100),
        "checkpoints": view.checkpoints(),
        "tree": list(view.tree()),
        "leaves": view.leaves(),
        "notes": view.notes(),
        "nodes": list(view.each_node()),
        "records": len(list(view.lines())),
        "counts": (view.info.nodes, view.info.messages, view.info.checkpoints, view.info.node),
        "compaction": view.last_compaction(),
    }


class Author:
    """Does one thing after the other in a session, by chance."""

    def __init__(self, backend: Backend, chance: random.Random) -> None:
        self.session = backend.store().session("s", shared=True)
        self._chance = chance
        self._nodes = [*self.session.append("first").nodes]

    def act(self, step: int) -> None:
        """Do something."""
        session, node = self.session, self._chance.choice(self._nodes)
        what = self._chance.randrange(10)
        if what < 3:
            self._nodes += session.append(*[f"m{step}"] * self._chance.choice([1, 4])).nodes
        elif what == 3:
            self._nodes += session.commit([f"t{step}"], state={"n": step, f"k{step % 3}": step}).nodes
        elif what == 4:
            session.amend(node, user(f"A{step}").payload)
        elif what == 5:
            session.retract(node)
        elif what == 6:
            session.label(node, f"L{step}")
            session.record_usage(input=step)
        elif what == 7:
            session.checkout(node)
        elif what == 8:
            session.compact(f"gist {step}")
        else:
            session.set_model(f"model-{step}", provider="p")

    def tidy(self) -> None:
        """Seal or merge, or neither."""
        if self._chance.random() < 0.2:
            self.session.seal()
        if self._chance.random() < 0.1:
            self.session.optimize(everything=True)


@pytest.mark.parametrize("seed", range(few(8, whole=25)))
def test_each_moment_is_what_it_was(tmp_path: Path, seed: int) -> None:
    """Whatever came later: heads, path, context, state, pages, tree, notes and counts of then."""
    chance = random.Random(seed)
    backend = backend_of(chance.choice(["memory", "logs"]), tmp_path)
    author = Author(backend, chance)
    seen: dict[int, dict[str, Any]] = {}
    for step in range(25):
        author.act(step)
        view = backend.store().view("s")
        seen[view._reader.replica.state.end] = told(view)
        author.tidy()
    now = backend.store().view("s")
    for position, expected in seen.items():
        past = (now if chance.random() < 0.5 else backend.store().view("s")).at(position)
        assert told(past) == expected
        assert not past.refresh()
    author.session.close()


def test_what_was_erased_stays_erased(backend: Backend) -> None:
    """At a position before the erasure, in the context, in pages and in the state."""
    with backend.store().session("s") as session:
        secret = session.append("secret").node
        session.commit(["b"], state={"token": "secret", "n": 1})
        then = session._reader.replica.state.end
        session.seal()
        session.append("c")
        session.erase(secret, state=["token"])
        session.append("d")
    past = backend.store().view("s").at(then)
    assert texts(past.context) == ["[erased]", "b"]
    assert isinstance(past.history().rows[-1].node.payload, Erased)
    assert (dict(past.state), list(past.erased_state)) == ({"n": 1}, ["token"])


def test_a_pruned_state_is_not_made_up(backend: Backend) -> None:
    """Where the checkpoint that held the state is gone, an older one does not stand in for it."""
    with backend.store().session("s") as session:
        places = []
        for number in range(6):
            session.commit([f"m{number}"], state={"n": number})
            places.append(session._reader.replica.state.end)
        session.prune(treering.KeepCheckpoints(last=1))
    view = backend.store().view("s")
    for number, place in enumerate(places[:-1]):
        with pytest.raises(treering.NotFoundError, match="pruned"):
            view.at(place)
        assert number < 5
    past = view.at(places[-1])
    assert (past.state, len(past.checkpoints())) == ({"n": 5}, 1)


def test_ends_of_a_session(backend: Backend) -> None:
    """Before the first record there is nothing; behind the last one it is the view itself; elsewhere an error."""
    with backend.store().session("s") as session:
        session.append("a")
        session.commit(["b"], state={"n": 1})
    view = backend.store().view("s")
    end = view._reader.replica.state.end
    nothing = view.at(0)
    assert (nothing.node, nothing.context, dict(nothing.state), nothing.path()) == (None, (), {}, ())
    assert (list(nothing.each_node()), list(nothing.lines())) == ([], [])
    assert told(view.at(end)) == told(view)
    for nowhere in (-1, end + 1):
        with pytest.raises(treering.UsageError):
            view.at(nowhere)


def test_an_event_leads_to_its_moment(backend: Backend) -> None:
    """`at(event.at + 1)` is the session with the event, and a feed from there goes on with the next one."""
    with backend.store().session("s") as session:
        nodes = [session.append(f"m{number}").node for number in range(3)]
    view = backend.store().view("s")
    for event in view.events(first=0):
        if event.type is EventType.NODE:
            past = view.at(event.at + 1)
            assert past.path() == tuple(nodes[: len(past.path())])
            if past.node == nodes[-1]:
                break
            assert next(past.events()).at == event.at + 1


async def test_awaited(tmp_path: Path) -> None:
    """The same, awaited; and from a session."""
    backend = backend_of("memory", tmp_path)
    async with backend.async_store().session("s") as session:
        await session.append("a")
        await session.append("b")
        past = await session.at(1)
        assert isinstance(past, treering.AsyncView)
        assert texts(past.context) == ["a"]
        assert (await past.history()).rows[0].node.payload["content"] == "a"


def test_what_is_read_does_not_follow_the_payloads(tmp_path: Path) -> None:
    """The index of what was recorded until then, and the frames of the context: no scan over all records."""
    backend = backend_of("memory", tmp_path)
    with backend.store().session("s") as session:
        for number in range(20):
            session.append(*[f"{number} " * 2_000] * 20)
            session.commit(state={"n": number})
            session.seal()
            session.compact("gist")
        session.optimize(everything=True)
    store, counts = backend.counted()
    view = store.view("s")
    counts.reset()
    assert view.at(100).node
    assert counts.total <= 12


def test_answers_that_were_being_written_then_are_among_it(backend: Backend) -> None:
    """From where one began to where it ended."""
    session = backend.store().session("s")
    session.append("hi")
    before = session.stored().records
    answer = session.stream()
    answer.write("Hel")
    answer.flush()
    view = backend.store().view("s")
    during = view.stored().records
    assert [each.id for each in view.at(during).open_streams()] == [answer.id]
    assert view.at(before).open_streams() == ()
    answer.finish()
    view = backend.store().view("s")
    assert view.at(view.stored().records).open_streams() == ()
