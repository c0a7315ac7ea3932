"""An object that lies among those of another session, or of an earlier life, is damage and never shown as its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.session.backends import Backend, backend_of, memory_backend, texts

from treering.api.store import Store
from treering.errors import CorruptError
from treering.format.segment import build_segment, read_segment
from treering.storage.requests import Delete, Get, Put

Swap = Callable[[Backend, str], None]
LATEST, TAIL = "latest/{}.jsonl.zst", "sessions/{}/tail.jsonl"


@pytest.fixture(params=["memory", "logs", "local"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Two sessions of which each has segments and a tail, with records at the same positions."""
    made = backend_of(request.param, tmp_path)
    for name in ("a", "b"):
        record(made.store(), name)
    return made


def record(store: Store, name: str) -> None:
    """Record a session in two segments and a tail."""
    with store.session(name) as session:
        for number in range(3):
            session.commit([f"{name}{number}"], state={"of": name})
            if number < 2:
                session.seal()


def segments_of(backend: Backend, name: str) -> list[str]:
    """The keys of the segments of one session, in order."""
    return sorted(key for key in backend.snapshot() if key.startswith(f"sessions/{name}/") and "/segments/" in key)


def put(backend: Backend, key: str, data: bytes) -> None:
    """Put an object past all conditions."""
    backend.driver().execute((Put(key, data),))


def take(backend: Backend, key: str) -> None:
    """Let `a` have in place of its own the object that `b` has under this key."""
    pattern = key.format("b") if "{}" in key else key
    (found,) = (each for each in backend.snapshot() if each.startswith(pattern) and "poison" not in each)
    put(backend, found.replace("/b", "/a", 1), backend.snapshot()[found])


def replace_segment(backend: Backend) -> None:
    """Let `a` have a segment of `b` in place of the one at the same positions."""
    put(backend, segments_of(backend, "a")[0], backend.snapshot()[segments_of(backend, "b")[0]])


def add_segment(backend: Backend) -> None:
    """Let a larger segment of `b` lie beside those of `a`, from the same position on."""
    with backend.store().session("b", create=False) as session:
        session.optimize(everything=True)
    (merged,) = segments_of(backend, "b")
    folder = segments_of(backend, "a")[0].rpartition("/")[0]
    put(backend, f"{folder}/{merged.rpartition('/')[2]}", backend.snapshot()[merged])


def add_segment_without_marks(backend: Backend) -> None:
    """The same, under the name that an older version would have given it."""
    own = segments_of(backend, "a")
    add_segment(backend)
    (added,) = {*segments_of(backend, "a")} - {*own}
    data = backend.snapshot()[added]
    backend.driver().execute((Delete((added,)),))
    put(backend, re.sub(r"-[0-9a-z]+\.jsonl", "-0123456789ab.jsonl", added), data)


@pytest.mark.parametrize("foreign", [replace_segment, add_segment, add_segment_without_marks])
def test_a_segment_of_another_session_is_damage(backend: Backend, foreign: Callable[[Backend], None]) -> None:
    """History, graph, lineage, copies and merges refuse it; verifying tells, and a repair takes nothing from it."""
    foreign(backend)
    stored = segments_of(backend, "a")
    store = backend.store()
    view = store.view("a")
    assert texts(view.context) == ["a0", "a1", "a2"]
    if foreign is replace_segment:
        with pytest.raises(CorruptError, match="'b/"):
            view.history(limit=10)
    else:  # `latest` names the segments that are its own
        assert [row.node.payload["content"] for row in view.history(limit=10).rows] == ["a2", "a1", "a0"]
    for read in (view.nodes, view.tree, lambda: store.copy("a", name="c")):
        with pytest.raises(CorruptError) as caught:
            read()
        assert caught.value.kind == "owner"
        assert "'a/" in str(caught.value)
        assert "'b/" in str(caught.value)
    with pytest.raises(CorruptError) as refused:  # by its name, which tells that it is of another history
        store.session("a", create=False).optimize(everything=True)
    assert refused.value.kind in {"owner", "moment"}
    assert segments_of(backend, "a") == stored
    damage = [each for each in store.verify("a") if each.severity == "damage"]
    assert "owner" in {each.kind for each in damage}
    done = store.repair("a", into="r")
    shown = texts(store.view("r").context)
    assert [text for text in shown if text.startswith("b")] == []
    assert done.losses


@pytest.mark.parametrize("registers", [(LATEST,), (TAIL,), (LATEST, TAIL)])
def test_registers_of_another_session_are_damage(backend: Backend, registers: tuple[str, ...]) -> None:
    """One or both of them, opening refuses them, verifying tells, and a repair takes nothing from them."""
    for register in registers:
        take(backend, register)
    store = backend.store()
    for call in (lambda: store.view("a"), lambda: store.session("a"), lambda: store.session("a", shared=True)):
        with pytest.raises(CorruptError) as caught:
            call()
        assert caught.value.kind == "owner"
    damage = {each.key: each.kind for each in store.verify("a") if each.severity == "damage"}
    assert sorted(damage.values()).count("owner") == len(registers)
    store.repair("a", into="r")
    assert "b" not in str(store.view("r").state.get("of"))
    assert [node.id for node in store.view("r").nodes() if node.id in {row.id for row in store.view("b").nodes()}] == []


def test_a_card_of_another_session_is_a_row_with_a_warning(backend: Backend) -> None:
    """A list names the session by its key and says that the card is another one's."""
    take(backend, LATEST)
    rows = {row.id: row for row in backend.store().sessions().rows}
    assert rows.keys() == {"a", "b"}
    assert "another session" in rows["a"].warning
    assert not rows["b"].warning


def test_a_session_moved_by_hand_is_refused(backend: Backend) -> None:
    """Files put under another name are those of the name inside: nothing is shown, and moved back they are whole."""
    was = texts(backend.store().view("b").context)
    stored = {key: data for key, data in backend.snapshot().items() if key.startswith(("latest/b", "sessions/b/"))}
    backend.driver().execute((Delete(tuple(stored)),))
    for key, data in stored.items():
        put(backend, key.replace("/b", "/c", 1), data)
    with pytest.raises(CorruptError, match="another session"):
        backend.store().view("c")
    for key, data in stored.items():
        put(backend, key, data)
    assert texts(backend.store().view("b").context) == was


def test_a_segment_of_an_earlier_life_is_damage() -> None:
    """What a deleted session of the same name left is not taken for its successor's."""
    backend = memory_backend()
    record(backend.store(), "a")
    before = backend.snapshot()[segments_of(backend, "a")[0]]
    backend.store().delete("a")
    record(backend.store(), "a")
    put(backend, segments_of(backend, "a")[0], before)
    with pytest.raises(CorruptError) as caught:
        backend.store().view("a").nodes()
    assert caught.value.kind == "owner"


def test_a_segment_that_does_not_say_whose_it_is_is_read() -> None:
    """Early writers of version 1 left it out; reading, merging and going on are as ever."""
    backend = memory_backend()
    record(backend.store(), "a")
    for key in segments_of(backend, "a"):
        (found,) = backend.driver().execute((Get(key),))
        lines = read_segment(found.data, key=key)  # type: ignore[union-attr]
        put(backend, key, build_segment(lines, key=""))
    assert backend.store().verify("a") == []
    with backend.store().session("a") as session:
        assert len(session.history(limit=10).rows) == 3
        session.optimize(everything=True)
        assert len(session.nodes()) == 3
