"""Whatever is done to a session, it equals a plain model of lists and dicts; also after each reopening."""

from __future__ import annotations

import random

import pytest
from tests.sampling import few
from tests.session.backends import Backend, kill
from tests.session.oracle import Oracle, describe, draw, expect, names_of, play


@pytest.mark.parametrize("seed", range(few(3, whole=6)))
def test_a_session_equals_its_model(backend: Backend, seed: int) -> None:
    """Sixty random operations with kills between them: graph, heads, context, state and checkpoints as modelled."""
    rng = random.Random(seed)
    oracle = Oracle()
    session = backend.store().session("s")
    names: dict[str, str] = {}
    for number in range(60):
        operation = draw(rng, oracle, f"{number}")
        play(session, names, operation)
        getattr(oracle, operation[0])(**operation[1])
        assert (session.head, session.state) == (oracle.head, oracle.state), (number, operation)
        assert [names[text] for text in oracle.context] == [item.node for item in session.context], (number, operation)
        if rng.random() < 0.2:
            kill(session)
            store, counts = backend.counted()
            session = store.session("s")
            assert counts.counts == {"Get": 2}, (number, operation)
            assert describe(session) == expect(oracle), (number, operation)
            assert names_of(session) == names
    session.close()
    assert describe(backend.store().view("s")) == expect(oracle)
    assert backend.store().verify("s") == []
