"""A store restored over a newer one, or copied while it was in use, is told at the first write, and loses nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.session.backends import Backend, backend_of, memory_backend, texts

from treering.api.session import Session
from treering.api.store import Store
from treering.errors import CorruptError, TreeringError
from treering.storage.requests import Delete, Put

Objects = Mapping[str, bytes]
OLD = [f"old{number}" for number in range(5)]
LATER = [f"later{number}" for number in range(8)]


@pytest.fixture(params=["memory", "logs", "local"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store without sessions."""
    return backend_of(request.param, tmp_path / "store")


def put(backend: Backend, objects: Objects) -> None:
    """Put objects over what is there, past all conditions, as a copy that deletes nothing."""
    answers = backend.driver().execute(tuple(Put(key, data) for key, data in objects.items()))
    assert not [answer for answer in answers if isinstance(answer, TreeringError)]


def stored(backend: Backend) -> dict[str, bytes]:
    """The objects of sessions; not what a driver keeps beside them."""
    return {key: data for key, data in backend.snapshot().items() if key.endswith((".jsonl", ".zst"))}


def empty(backend: Backend) -> None:
    """Remove everything."""
    backend.driver().execute((Delete(tuple(stored(backend))),))


def restored(backend: Backend) -> list[str]:
    """Restore a backup over a store that went on and sealed, and delete nothing; return what the session says."""
    with backend.store().session("a") as session:
        for text in OLD:
            session.append(text)
    backup = stored(backend)
    with backend.store().session("a") as session:
        for text in LATER:
            session.append(text)
        session.seal()
    put(backend, backup)
    return OLD


def copied(backend: Backend) -> list[str]:
    """Copy the folders one after the other while a session is sealed in between; return what the copy says."""
    session = backend.store().session("a")
    for text in OLD:
        session.append(text)
    segments = {key: data for key, data in stored(backend).items() if "/segments/" in key}
    session.seal()
    session.close()
    registers = {key: data for key, data in stored(backend).items() if "/segments/" not in key}
    empty(backend)
    put(backend, {**segments, **registers})
    return OLD


def refusing(call: Callable[[], object]) -> CorruptError:
    """What a call is refused with."""
    with pytest.raises(CorruptError) as caught:
        call()
    assert caught.value.kind == "moment"
    assert "treering repair" in caught.value.remedy
    return caught.value


WRITES: dict[str, Callable[[Session], object]] = {
    "append": lambda session: session.append("new"),
    "commit": lambda session: session.commit(["new"], state={"n": 1}),
    "branch": lambda session: session.branch("other", node=session.context[1].node),
    "title": lambda session: session.set_title("t"),
    "seal": lambda session: session.seal(),
    "optimize": lambda session: session.optimize(everything=True),
    "retract": lambda session: session.retract(session.context[0].node),
    "erase": lambda session: session.erase(session.context[0].node),
}


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("spoil", [restored, copied])
def test_nothing_is_written_to_a_session_of_two_moments(
    backend: Backend, spoil: Callable[[Backend], list[str]], verb: str
) -> None:
    """Whatever the first write is, it is refused with the way out, and changes nothing; reading goes on."""
    said = spoil(backend)
    before = stored(backend)
    for options in ({}, {"shared": True}):
        with backend.store().session("a", **options) as session:  # type: ignore[arg-type]
            refusing(lambda: WRITES[verb](session))  # called at once
            assert texts(session.context) == said
            assert [row.node.payload["content"] for row in session.history(limit=20).rows][::-1] == said
    assert stored(backend) == before


@pytest.mark.parametrize("spoil", [restored, copied])
def test_verify_tells_and_the_way_out_keeps_everything(backend: Backend, spoil: Callable[[Backend], list[str]]) -> None:
    """`verify` names what does not fit; a repair holds every message of both moments, and can be gone on with."""
    said = spoil(backend)
    (found,) = [each for each in backend.store().verify("a") if each.kind == "moment"]
    assert found.severity == "damage"
    backend.store().repair("a", into="b")
    there = {row.id for row in backend.store().view("b").nodes()}
    with backend.store().session("b") as session:
        assert texts(session.context) == (said if spoil is copied else [*OLD, *LATER])
        assert len(there) == len(session.context)
        session.append("new")
        session.seal()
    assert backend.store().verify("b") == []


def test_a_restore_that_deletes_can_be_gone_on_with(backend: Backend) -> None:
    """Restored such that newer files are deleted, the session is the old one, and sound."""
    restored(backend)
    kept = {key: data for key, data in stored(backend).items() if "/segments/" not in key}
    empty(backend)
    put(backend, kept)
    with backend.store().session("a") as session:
        session.append("new")
        session.seal()
    assert texts(backend.store().view("a").context) == [*OLD, "new"]
    assert backend.store().verify("a") == []


def test_a_lost_segment_stops_nobody(backend: Backend) -> None:
    """Reading records of a lost segment is an error; the session can be continued, and loses nothing more."""
    with backend.store().session("a") as session:
        for text in OLD:
            session.append(text)
            session.seal()
        session.append("last")
    lost = sorted(key for key in stored(backend) if "/segments/" in key)[1]
    backend.driver().execute((Delete((lost,)),))
    with backend.store().session("a") as session:
        session.append("new")
        session.seal()
        session.append("newer")
        assert texts(session.context) == [*OLD, "last", "new", "newer"]
    lost_at = {each.first for each in backend.store().verify("a") if each.kind == "missing_segment"}
    assert len(lost_at) == 1


def test_who_seals_beside_others_is_not_accused(backend: Backend) -> None:
    """A handle that looked before others sealed and merged writes on: the second look is of a later moment."""
    with backend.store().session("a", shared=True) as first:
        for text in OLD:
            first.append(text)
        other = backend.store().session("a", shared=True)
        for text in LATER:
            first.append(text)
            first.seal()
        first.optimize(everything=True)
        other.append("of another")
        assert len(other.nodes()) == len(OLD) + len(LATER) + 1
        other.close()


def test_a_segment_of_a_later_epoch_than_the_tail_stops_who_writes(backend: Backend) -> None:
    """Names of segments that an older version wrote tell no marks, and epochs all the same."""
    with backend.store().session("a") as session:
        for text in OLD:
            session.append(text)
        session.seal()
    (key,) = (key for key in stored(backend) if "/segments/" in key)
    data = stored(backend)[key]
    backend.driver().execute((Delete((key,)),))
    later = re.sub(r"-000000-[0-9a-z]+\.", "-000001-0123456789abcdef.", key)
    assert later != key
    put(backend, {later: data})
    with backend.store().session("a") as session:
        refusing(lambda: session.append("new"))


def test_registers_of_copies_that_erased_different_things_do_not_fit(backend: Backend) -> None:
    """`latest` of the one copy would else be taken for one that follows what the tail of the other says was erased."""
    with backend.store().session("a") as session:
        nodes = [session.append(text).node for text in OLD]
    whole = stored(backend)
    copies = []
    for node in nodes[:2]:
        empty(backend)
        put(backend, whole)
        with backend.store().session("a") as session:
            session.erase(node)
        copies.append(stored(backend))
    for one, other in (copies, copies[::-1]):
        empty(backend)
        put(backend, {key: (one if key.startswith("latest/") else other)[key] for key in one})
        with pytest.raises(CorruptError, match="erased") as caught:
            backend.store().view("a")
        assert caught.value.kind == "registers"


def test_a_handle_looks_once() -> None:
    """One LIST before the first write of a handle that resumed, none after it, and none in a session it made."""
    store, counts = memory_backend().counted()
    with store.session("first in the store") as session:
        session.append("x")
    counts.reset()
    with store.session("a") as session:
        session.append("x")
        session.seal()
        session.append("y")
    assert "List" not in counts.counts
    counts.reset()
    with Store(store.place).session("a") as session:
        assert counts.counts == {"Get": 2}
        for _ in range(5):
            session.append("z")
        session.seal()
    assert counts.counts["List"] == 1
