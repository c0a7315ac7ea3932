"""Values of the state that are recorded as patches: each checkpoint has its own, whatever is done to the session."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.session.at_rest import holding
from tests.session.backends import Backend

from treering.api.session import Session
from treering.api.store import Store
from treering.api.view import View
from treering.checkpoint.prune import KeepCheckpoints
from treering.journal import limits

TURNS = 60
SECRET = "the combination is 12-34-56"


def patches_in(handle: Session | View) -> int:
    """How many records hold patches."""
    return sum(b'{"$patch":[' in line for line in handle.lines())


def changed(state: dict[str, Any], rng: random.Random, turn: int) -> dict[str, Any]:
    """What agents do with their state: a list grows, files change, a text is edited, a queue moves on."""
    files = {**state.get("files", {}), f"file-{rng.randrange(9)}.py": f"print({turn})  # é\n" * rng.randrange(1, 30)}
    notes = [*state.get("notes", []), {"turn": turn, "said": f'note "{turn}", {"long, " * rng.randrange(20)}'}]
    text = state.get("text", "word " * 200)
    at = rng.randrange(len(text))
    queue = [*state.get("queue", [f"task {number}" * 9 for number in range(20)])[1:], f"task {turn}" * 9]
    made = {"files": files, "notes": notes, "text": text[:at] + "🌲" + text[at + 3 :], "queue": queue, "turn": turn}
    return {key: made[key] for key in rng.sample(sorted(made), rng.randrange(1, len(made)))}


def grow(store: Store, rng: random.Random) -> dict[str, dict[str, Any]]:
    """A session with branches and rewinds; return the state of each checkpoint."""
    known: dict[str, dict[str, Any]] = {}
    with store.session("s") as session:
        for turn in range(TURNS):
            session.commit([f"turn {turn}"], state=changed(dict(session.state), rng, turn))
            assert session.checkpoint_id is not None
            known[session.checkpoint_id] = dict(session.state)
            if turn % 13 == 12:
                session.seal()
            if turn % 10 == 9:
                session.rewind(rng.choice(sorted(known)))
                assert dict(session.state) in known.values()
            elif turn % 10 == 4:
                session.branch(f"side-{turn}", node=rng.choice(session.path()))
                known |= {entry.id: dict(session.checkpoint(entry.id).state) for entry in session.checkpoints()[-1:]}
    return known


def states(handle: Session | View) -> dict[str, dict[str, Any]]:
    """The states of all checkpoints, each restored on its own."""
    return {entry.id: dict(handle.checkpoint(entry.id).state) for entry in handle.checkpoints()}


@pytest.mark.parametrize("seed", range(3))
def test_every_checkpoint_keeps_its_state(backend: Backend, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed, restored one by one and together, merged, pruned, forked, copied, and after one more turn."""
    monkeypatch.setattr(limits, "APPENDS_PER_SEAL_MIN", 2)
    monkeypatch.setattr(limits, "SEAL_REQUESTS_BYTES", 0)
    rng = random.Random(seed)
    store = backend.store()
    known = grow(store, rng)
    view = store.view("s")
    assert patches_in(view) > TURNS // 2
    found = states(view)
    assert {name: found[name] for name in known} == known
    together = view.checkpoints_at([*known])
    assert [dict(each.state) for each in together] == [*known.values()]
    with backend.store().session("s") as session:
        assert dict(session.state) == dict(view.state)
        session.commit(["and on"], state={"notes": [*session.state["notes"], "one more"]})
        session.optimize(everything=True)
        after = states(session)
        session.fork("fork", node=session.path()[len(session.path()) // 2])
        session.prune(KeepCheckpoints(last=5))
        left = states(session)
        session.optimize(everything=True)
    assert left == {name: after[name] for name in left}
    again = backend.store()
    assert states(again.view("s")) == left
    again.copy("s", name="copy")
    assert states(again.view("copy")) == left
    assert dict(again.view("fork").state) in after.values()
    for name in ("s", "fork", "copy"):
        assert again.verify(name) == []


def test_a_patched_value_is_erased_with_all_it_was_made_of(backend: Backend) -> None:
    """Also where only a patch held the secret; what is set after it is whole, and the same secret may be said again."""
    with backend.store().session("s") as session:
        notes = [f"note {number}, {'-' * 60}" for number in range(8)]
        for said in ("one", SECRET, "two"):
            notes.append(f"{said}, {'-' * 60}")
            session.commit([said if said != SECRET else "hidden"], state={"notes": notes})
        assert patches_in(session) == 2
        before = session.checkpoints()
        session.erase(state=["notes"])
        assert holding(backend.snapshot(), SECRET) == []
        assert session.state == {}
        for entry in before:
            assert dict(session.checkpoint(entry.id).state) == {}
        left = session.erased_state["notes"].sha256
        session.commit(["anew"], state={"notes": notes})
        assert session.state == {"notes": notes}
    view = backend.store().view("s")
    assert view.state == {"notes": notes}
    assert patches_in(view) == 0
    assert len(left) == 64
    assert backend.store().verify("s") == []


def test_a_fork_of_a_deleted_fork_loses_a_value_that_was_a_patch(backend: Backend) -> None:
    """The value is known by its digest, though no record of the first session holds it whole."""
    store = backend.store()
    with store.session("s") as session:
        notes = [f"note {number}, {'-' * 60}" for number in range(8)]
        session.commit(["one"], state={"notes": notes})
        session.commit(["two"], state={"notes": [*notes, SECRET]})
        assert patches_in(session) == 1
        session.fork("child")
    with store.session("child") as child:
        child.fork("grandchild")
    store.delete("child")
    with store.session("s") as session:
        session.erase(state=["notes"])
    assert dict(store.view("grandchild").state) == {}
    assert holding(backend.snapshot(), SECRET) == []
