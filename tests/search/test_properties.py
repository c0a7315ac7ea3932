"""What holds for any query and any history."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from tests.sampling import few
from tests.search.conftest import everything
from tests.session.backends import backend_of, memory_backend

import treering
from treering.api.store import Store
from treering.errors import UsageError
from treering.search import open_index
from treering.search.query import expression, joined, spaced

TEXTS = ["common red", "common blue", "red fish", "世界 common", "x" * 300_000]
OPERATORS = st.sampled_from(
    ['"', "*", "(", ")", "^", "-", "+", ":", "NEAR(", "AND", "OR", "NOT", "text:", "{", " ", "世"]
)
QUERIES = st.one_of(st.text(max_size=40), st.lists(st.one_of(OPERATORS, st.text(max_size=3)), max_size=12).map("".join))


@pytest.fixture(scope="module")
def searched() -> Store:
    """A store with something to be found."""
    store = memory_backend().store()
    with store.session("a") as session:
        session.append(*map(treering.user, TEXTS))
    return store


@settings(max_examples=few(100, whole=300))
@given(query=QUERIES)
@example('"')
@example('""*')
@example("* *")
@example("\0")
@example("\ud800")
@example("NEAR(a b, 2)")
@example("a AND")
@example("text : x")
@example("\u200b")
def test_no_query_is_an_error(searched: Store, query: str) -> None:
    """Whatever is typed is a query: it finds something or nothing."""
    with open_index(searched) as index:
        index.update()
        for order in ("best", "newest"):
            assert isinstance(index.search(query, order=order), list)


@given(text=st.text(max_size=50))
def test_spacing_can_be_taken_back(text: str) -> None:
    """Text comes out of the index as it went in, but for zero-width spaces of its own."""
    assert joined(spaced(text)) == text.replace("\u200b", "")
    try:
        assert (expression(text) is None) == (not text.strip())
    except UsageError:
        pytest.fail("50 characters are not too many words")


class History:
    """Random work on the sessions of a store."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self._chance = random.Random(seed)
        self._nodes: dict[str, list[str]] = {}

    def step(self) -> None:
        """Do one thing to one session."""
        name = self._chance.choice("abc")
        work = self._chance.choice(
            [self.say, self.say, self.say, self.amend, self.retract, self.seal, self.branch, self.delete, self.fork]
        )
        if work == self.say or name in self._nodes:
            work(name)

    def _text(self) -> str:
        return f"{self._chance.choice(TEXTS)} {self._chance.randrange(5)}"

    def say(self, name: str) -> None:
        with self.store.session(name, project=name) as session:
            make = self._chance.choice([treering.user, treering.assistant])
            self._nodes.setdefault(name, []).append(session.append(make(self._text())).node)

    def amend(self, name: str) -> None:
        with self.store.session(name) as session:
            session.amend(self._any(name), {"role": "user", "content": self._text()})

    def retract(self, name: str) -> None:
        with self.store.session(name) as session:
            node = self._any(name)
            (session.unretract if session.get(node).retracted else session.retract)(node)

    def seal(self, name: str) -> None:
        with self.store.session(name) as session:
            session.seal()
            if self._chance.random() < 0.5:
                session.optimize(everything=True)

    def branch(self, name: str) -> None:
        with self.store.session(name) as session:
            session.checkout(self._any(name))
            session.set_title(self._text()[:20])

    def delete(self, name: str) -> None:
        self.store.delete(name)
        del self._nodes[name]

    def fork(self, name: str) -> None:
        with self.store.session(name) as session:
            target = f"{name}-{self._chance.randrange(3)}"
            if target not in self._nodes:
                session.fork(target)
                self._nodes[target] = list(session.path())

    def _any(self, name: str) -> str:
        return self._chance.choice(self._nodes[name])


@pytest.mark.parametrize(("kind", "seed"), [("memory", 0), ("memory", 1), ("memory", 2), ("logs", 3), ("local", 4)])
def test_an_update_is_as_good_as_a_new_index(kind: str, seed: int, tmp_path: Path) -> None:
    """After any operations, an index that was updated step by step equals one that was built at once."""
    backend = backend_of(kind, tmp_path / "store")
    history, chance = History(backend.store(), seed), random.Random(seed)
    with open_index(backend.store(), tmp_path / "index") as index:
        for _ in range(12):
            for _ in range(chance.randrange(1, 6)):
                history.step()
            assert not index.update().problems
            with open_index(backend.store(), tmp_path / f"fresh-{chance.random()}") as fresh:
                fresh.update()
                assert everything(index) == everything(fresh)
