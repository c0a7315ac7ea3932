"""Two copies of a session that went on apart, put into one folder again, are one of them, or told; never a mixture."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.corruption.test_moment import Objects, empty, put, stored
from tests.session.backends import KINDS, Backend, backend_of

from treering.api.store import Store
from treering.errors import CorruptError
from treering.format.erasure import Erased

Copy = tuple[Objects, dict[str, str]]
"""What is stored, and what is said."""
SHARED = ["s0", "s1", "s2"]
LIVES, LONG = ("a", "as", "akas", "asasT", "aasE"), ("asa", "aas", "akaasa", "aasasa", "aE")
"""What happens in a copy: (a)ppend, (s)eal, be (k)illed while sealing, (T)idy, (E)rase."""
MERGES = [
    pytest.param(lives, marks=pytest.mark.slow if {*lives} & {*LONG} else (), id="+".join(lives))
    for lives in itertools.combinations_with_replacement((*LIVES, *LONG), 2)
]


def _begin(store: Store) -> None:
    with store.session("x") as session:
        session.append(SHARED[0])
        session.append(SHARED[1])
        session.seal()
        session.append(SHARED[2])


def _go_on(backend: Backend, name: str, life: str) -> None:
    """What happens in a copy, step by step."""
    for number, step in enumerate(life):
        before = stored(backend)
        with backend.store().session("x") as session:
            if step == "a":
                session.append(f"{name}{number}")
            elif step == "E":
                session.erase(session.path()[0 if name == "A" else 1])
            elif step == "T":
                session.optimize(everything=True)
            else:
                session.seal()
        if step == "k":  # killed between the segment and `latest`
            put(backend, before)


def _said(store: Store) -> dict[str, str]:
    """What each node says, by its id; `[erased]` where that was erased."""
    nodes = [row.node for row in store.view("x").history(limit=50).rows]
    return {node.id: "[erased]" if isinstance(node.payload, Erased) else str(node.payload["content"]) for node in nodes}


def _copies(backend: Backend, lives: tuple[str, str]) -> list[Copy]:
    """Both copies; behind them what they were made of."""
    _begin(backend.store())
    shared, copies = stored(backend), []
    for name, life in zip("AB", lives, strict=True):
        empty(backend)
        put(backend, shared)
        _go_on(backend, name, life)
        copies.append((stored(backend), _said(backend.store())))
    return [*copies, (shared, {})]


def _outcomes(first: Objects, second: Objects) -> Iterator[dict[str, bytes]]:
    """Every way to put them together: each object as one of them has it, or has it not."""
    keys = sorted({*first, *second})
    ways = [[objects.get(key) for objects in (first, second)] for key in keys]
    for chosen in itertools.product(*(way[:1] if way[0] == way[1] else way for way in ways)):
        yield {key: data for key, data in zip(keys, chosen, strict=True) if data is not None}


def _segments(objects: Objects) -> set[str]:
    return {key for key in objects if "/segments/" in key}


def _append(store: Store) -> str | CorruptError:
    """Append one more message; return its id, or the reason of the refusal."""
    try:
        with store.session("x") as session:
            return session.append("new").node
    except CorruptError as error:
        return error


def _try(backend: Backend, outcome: Objects, copies: list[Copy]) -> str:
    """Go on with a session; return what came of it, or raise AssertionError."""
    empty(backend)
    put(backend, outcome)
    store = backend.store()
    told = {found.kind for found in store.verify("x") if found.severity == "damage"}
    new = _append(store)
    if isinstance(new, CorruptError):
        assert (new.kind, stored(backend)) == ("registers" if "registers" in told else "moment", outcome)
        assert new.kind in told
        assert "treering repair" in new.remedy
        assert "treering copy" in new.remedy
        return "refused"
    if "missing_segment" in told:
        return "lost"
    with store.session("x") as session:
        session.seal()
        session.optimize(everything=True)
    assert {found.kind for found in store.verify("x") if found.severity == "damage"} == set()
    here = _said(store)
    assert here.pop(new) == "new"
    *copies, (shared, _) = copies
    assert any(here == said and _segments(outcome) <= _segments({**shared, **objects}) for objects, said in copies)
    return "whole"


@pytest.mark.sampled(8, "kind")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lives", MERGES)
def test_whatever_a_merge_leaves_is_one_copy_or_refused(tmp_path: Path, kind: str, lives: tuple[str, str]) -> None:
    """Of all ways to merge two copies each is a whole copy, or the first write is refused with the way out.

    One pair of lives in eight here, in some kind of store; each in all of them with `make whole`.
    """
    backend = backend_of(kind, tmp_path / "store")
    copies = _copies(backend, lives)
    seen = [_try(backend, outcome, copies) for outcome in _outcomes(copies[0][0], copies[1][0])]
    assert seen.count("whole") >= 2
    assert "refused" in seen
