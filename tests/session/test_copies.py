"""Copies by segments: all that a session is, nothing of what was erased, no damage, and nothing half-made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.format.segment_v1 import build_segment_1
from tests.session.at_rest import KilledDriver, KilledError, holding
from tests.session.backends import KINDS, Backend, backend_of, memory_backend, texts
from tests.session.faults import Meeting, seen

import treering
from treering import KeepCheckpoints
from treering.api.session import Session
from treering.api.store import Store
from treering.api.streaming import StreamWriter
from treering.errors import CorruptError, FormatVersionError, NotFoundError, TreeringError
from treering.format.line import close_line
from treering.format.register import Tail, decode_tail, encode_tail
from treering.format.segment import read_segment
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Delete, Get, Put, Request
from treering.store.place import Place

LARGE = "large " * 60_000
SECRET = "the password is swordfish"


@pytest.fixture
def other(backend: Backend, tmp_path: Path) -> Backend:
    """A place of another kind."""
    return backend_of(KINDS[KINDS.index(backend.name) - 1], tmp_path / "other")


def lived(session: Session) -> None:
    """Do everything to a session that leaves something in it."""
    for turn in range(6):
        session.commit(
            [f"q{turn}", treering.assistant(f"a{turn}")],
            state={"turn": turn, "list": ["x" * 300, turn]},
            step=turn,
            label="kept" if turn == 3 else None,
        )
        if turn % 2:
            session.seal()
    path = session.path()
    session.append(LARGE)
    session.amend(path[1], {"role": "assistant", "content": "amended"})
    session.retract(path[2])
    session.effect("call-1", key="pay", about={"amount": 20})
    session.effect("call-2")
    session.end_effect("pay", {"id": 7})
    session.record_usage(tokens=9)
    session.branch("idea", node=path[4], keep_state=True)
    gone = session.append(SECRET).node
    session.append(LARGE + SECRET)
    session.seal()
    session.erase(gone, session.path()[-1])
    session.prune(KeepCheckpoints(last=2))
    session.commit(["on the branch"], state={"turn": 100})
    session.set_title("T2")
    session.compact("short")
    session.label(path[5], "here")
    session.switch("main")


def shown(store: Store, name: str) -> dict[str, Any]:
    """All that a view shows of a session, but its name."""
    view = store.view(name)
    every = [node.id for node in view.nodes()]
    return {
        **seen(view),
        "lines": list(view.lines()),
        "nodes": [view.get(node) for node in every],
        "tree": view.tree(),
        "labels": view.labels(),
        "checkpoints": view.checkpoints(),
        "effects": view.unresolved_effects(),
        "usage": view.usage,
        "then": [view.context_at(node) for node in every[::3]],
        "history": view.history(limit=100).rows,
        "problems": view.problems(),
        "notes": view.notes(),
    }


def test_a_copy_shows_all_that_its_original_does(backend: Backend, other: Backend) -> None:
    """Branches, edits, labels, checkpoints, large parts, effects, what was pruned, tombstones of what was erased.

    A copy of the copy, back in the store it came from, shows it as well; each goes on by itself.
    """
    with backend.store().session("s", title="T", project="p") as session:
        lived(session)
    backend.store().copy("s", other.store(), name="there")
    other.store().copy("there", backend.store(), name="back")
    expected = shown(backend.store(), "s")
    assert shown(other.store(), "there") == shown(backend.store(), "back") == expected
    places = ((other.store(), "there"), (backend.store(), "back"))
    for store, name in places:
        assert store.verify(name) == []
        with store.session(name) as copy:
            copy.append("only here")
            copy.seal()
            copy.erase(copy.path()[0])
            copy.optimize(everything=True)
        assert store.verify(name) == []
    assert shown(backend.store(), "s") == expected
    assert holding(other.snapshot(), SECRET) == []


def test_an_open_session_is_copied_with_what_only_its_tail_has(backend: Backend, other: Backend) -> None:
    """What no segment holds yet becomes a segment of the copy; an unborn session has none, and can be copied, too."""
    session = backend.store().session("s", title="T")
    session.append("one", "two")
    session.seal()
    session.append("three", "four")
    backend.store().copy("s", other.store())
    backend.store().copy("s", other.store(), name="again")
    with backend.store().session("empty", title="nothing yet") as empty:
        empty.set_status("new")
    backend.store().copy("empty", other.store())
    for name in ("s", "again"):
        assert texts(other.store().view(name).context) == ["one", "two", "three", "four"]
        assert other.store().verify(name) == []
    assert other.store().view("empty").info.title == "nothing yet"
    session.close()


def test_a_backup_is_copied_like_any_session(backend: Backend, other: Backend) -> None:
    """Its registers are those of a session that nobody wrote to since it was born."""
    with backend.store().session("s") as session:
        lived(session)
    backend.store().backup(other.store())
    other.store().copy("s", name="copy")
    assert shown(other.store(), "copy") == shown(backend.store(), "s")
    assert other.store().verify("copy") == []


# what was erased


def segments_of(backend: Backend, name: str = "s") -> dict[str, bytes]:
    """The segments of a session."""
    return {
        key: data
        for key, data in backend.snapshot().items()
        if key.startswith(f"sessions/{name}/") and "/segments/" in key
    }


def test_segments_that_an_erasure_did_not_come_to_are_copied_without_what_was_erased(
    backend: Backend, other: Backend
) -> None:
    """Whoever erased was killed before it rewrote them; so was who was to delete a large part."""
    with backend.store().session("s") as session:
        node = session.append(f"{SECRET} {LARGE}").node
        kept = session.append(LARGE).node
        session.append("x")
        session.seal()
        before = {key: data for key, data in backend.snapshot().items() if "/segments/" in key or "/blobs/" in key}
        session.erase(node)
    backend.driver().execute((Delete(tuple(segments_of(backend))), *(Put(key, data) for key, data in before.items())))
    backend.store().copy("s", other.store())
    assert holding(other.snapshot(), SECRET) == []
    assert other.store().verify("s") == []
    assert other.store().view("s").get(kept).payload["content"] == LARGE
    assert len([key for key in other.snapshot() if "/blobs/" in key]) == 1


def erasing(store: Store, node: str) -> None:
    """Erase a node, as another process would."""
    with store.session("s", shared=True) as session:
        session.erase(node)


WHEN: dict[str, Callable[[Request], bool]] = {
    "before segments are read": lambda request: isinstance(request, Get) and "/segments/" in request.key,
    "before one is written": lambda request: isinstance(request, Put) and "/segments/" in request.key,
    "before large parts are read": lambda request: isinstance(request, Get) and "/blobs/" in request.key,
    "before large parts are written": lambda request: isinstance(request, Put) and "/blobs/" in request.key,
}


@pytest.mark.parametrize("when", WHEN)
def test_what_is_erased_while_it_is_copied_is_in_no_object_of_the_copy(backend: Backend, when: str) -> None:
    """Not even in one that an earlier look at the original wrote."""
    with backend.store().session("s") as session:
        node = session.append(f"{SECRET} {LARGE}").node
        session.append("x")
        session.seal()
        session.append("y")
    meeting = Meeting(backend.driver())
    there = memory_backend()
    target = Meeting(there.driver())
    for driver in (meeting, target):
        driver.before(WHEN[when], lambda: erasing(backend.store(), node))
    Store(Place(meeting)).copy("s", Store(Place(target)))
    assert backend.store().view("s").get(node).erased
    assert holding(there.snapshot(), SECRET) == []
    assert not [key for key in there.snapshot() if "/blobs/" in key]
    assert [view.erased for view in there.store().view("s").nodes()] == [
        view.erased for view in backend.store().view("s").nodes()
    ]
    assert there.store().verify("s") == []


def answering(backend: Backend, said: str) -> tuple[Session, StreamWriter]:
    """A session with an answer that is being written, of which a piece is stored."""
    session = backend.store().session("s", shared=True)
    session.append("hello?")
    answer = session.stream()
    answer.write(said)
    answer.flush()
    return session, answer


def test_an_answer_that_ends_while_it_is_copied_is_whole_in_the_copy(backend: Backend, other: Backend) -> None:
    """Its pieces are deleted then; the copy has the message that they became."""
    session, answer = answering(backend, "Hel")

    def ends() -> None:
        answer.write("lo")
        answer.finish()

    meeting = Meeting(backend.driver())
    meeting.before(lambda request: isinstance(request, Get) and "/streams/" in request.key, ends)
    Store(Place(meeting)).copy("s", other.store())
    assert texts(other.store().view("s").context) == ["hello?", "Hello"]
    assert other.store().view("s").open_streams() == ()
    assert other.store().verify("s") == []
    session.close()


def test_what_a_copy_does_not_need_in_the_end_is_deleted(backend: Backend, other: Backend) -> None:
    """Pieces of an answer that ended since they were copied, and a segment with fewer records than the next one."""
    session, answer = answering(backend, "Hello")
    meeting = Meeting(backend.driver())
    meeting.before(lambda _: any("/streams/" in key for key in other.snapshot()), answer.finish)
    Store(Place(meeting)).copy("s", other.store())
    assert texts(other.store().view("s").context) == ["hello?", "Hello"]
    assert [key for key in other.snapshot() if "/streams/" in key and not key.endswith(".lock")] == []
    assert len(segments_of(other)) == 1
    session.close()


def test_a_delayed_write_of_what_was_erased_during_a_copy_is_never_read(backend: Backend, other: Backend) -> None:
    """It reaches the folder of a life that no session has, which is swept when the copy is tidied."""
    session = backend.store().session("s", shared=True)
    secret = session.append(SECRET).node
    session.seal()
    written: dict[str, bytes] = {}

    def erases() -> None:
        written.update(segments_of(other))
        session.erase(secret)

    meeting = Meeting(backend.driver())
    meeting.before(lambda _: bool(segments_of(other)), erases)
    Store(Place(meeting)).copy("s", other.store())
    late = written.keys() - segments_of(other).keys()
    assert late
    other.driver().execute(tuple(Put(key, written[key]) for key in late))
    assert texts(other.store().view("s").context) == ["[erased]"]
    with other.store().session("s") as again:
        again.optimize(everything=True)
    assert SECRET.encode() not in b"".join(other.store().view("s").lines())
    assert late.isdisjoint(segments_of(other))
    session.close()


# damage


def spoilt(data: bytes, place: int) -> bytes:
    """The bytes with one of them changed."""
    return data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :]


def refusal(copy: Callable[[], None]) -> TreeringError | None:
    """Why it is refused, if it is."""
    try:
        copy()
    except (CorruptError, FormatVersionError) as error:
        return error
    return None


def test_damage_to_any_byte_of_a_segment_is_never_copied() -> None:
    """The copy is refused with the key of the segment, and leaves nothing to see; or it does not need that byte."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        session.commit(["one", treering.assistant("two")], state={"a": 1})
        session.append("three")
        session.seal()
    ((key, data),) = segments_of(backend).items()
    expected = list(backend.store().view("s").lines())
    refused = 0
    for place in range(len(data)):
        backend.driver().execute((Put(key, spoilt(data, place)),))
        there = memory_backend()
        error = refusal(lambda there=there: backend.store().copy("s", there.store()))  # type: ignore[misc]
        if error is None:
            assert list(there.store().view("s").lines()) == expected
            assert there.store().verify("s") == []
            continue
        assert error.key == key
        assert [each for each in there.snapshot() if "/segments/" in each] == []
        assert there.store().sessions().rows == ()
        refused += 1
    assert len(data) - 8 <= refused < len(data)  # the frame around the parts of the index is written anew


SPOILS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-1],
    "cut in front": lambda data: data[1:],
    "longer": lambda data: data + b"x",
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_a_later_segment_that_is_damaged_leaves_no_segment_of_the_copy(spoil: str) -> None:
    """What was copied before it is removed."""
    backend, there = memory_backend(), memory_backend()
    with backend.store().session("s") as session:
        for number in range(4):
            session.append(str(number), LARGE)
            session.seal()
    key, data = list(segments_of(backend).items())[2]
    backend.driver().execute((Put(key, SPOILS[spoil](data)),))
    with pytest.raises(CorruptError) as caught:
        backend.store().copy("s", there.store())
    assert caught.value.key == key
    assert [each for each in there.snapshot() if "/segments/" in each or "/blobs/" in each] == []
    with pytest.raises(NotFoundError):
        there.store().view("s")
    with there.store().session("s") as new:
        new.append("the name is free")


def test_a_large_part_that_is_missing_or_damaged_is_missing_in_the_copy(backend: Backend, other: Backend) -> None:
    """One damaged picture hides no conversation, and is not copied as if it were whole."""
    with backend.store().session("s") as session:
        session.append("a" + LARGE, "b" + LARGE, "c" + LARGE)
    lost, bad, kept = sorted(key for key in backend.snapshot() if "/blobs/" in key)
    backend.driver().execute((Delete((lost,)), Put(bad, b"something else")))
    backend.store().copy("s", other.store())
    assert [key.rpartition("/")[2] for key in other.snapshot() if "/blobs/" in key] == [kept.rpartition("/")[2]]
    shows = [len(str(text)) > len(LARGE) for text in texts(other.store().view("s").context)]
    assert shows == [len(str(text)) > len(LARGE) for text in texts(backend.store().view("s").context)]
    assert sorted(shows) == [False, False, True]


def test_segments_of_an_early_version_are_copied(backend: Backend, other: Backend) -> None:
    """They are written with an index of today."""
    with backend.store().session("s") as session:
        lived(session)
        session.optimize(everything=True)
    expected = shown(backend.store(), "s")
    for key, data in segments_of(backend).items():
        backend.driver().execute((Put(key, build_segment_1(read_segment(data, key=key))),))
    backend.store().copy("s", other.store())
    assert shown(other.store(), "s") == expected
    assert other.store().verify("s") == []


def test_what_only_a_later_version_can_fold_is_not_copied() -> None:
    """As it is not backed up: `latest` of the copy would say that it is accounted for."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        session.append("x")
    key = "sessions/s/tail.jsonl.zst"
    tail = decode_tail(backend.snapshot()[key], key=key, compressed=True)
    line = close_line(b'{"at":%d,"by":"later.1","type":"dream","id":"d1","critical":true,"body":{}}' % tail.end)
    backend.driver().execute(
        (Put(key, encode_tail(Tail(header=tail.header, lines=(*tail.lines, line)), compressed=True)),)
    )
    with pytest.raises(FormatVersionError):
        backend.store().copy("s", name="copy")
    assert [row.id for row in backend.store().sessions().rows] == ["s"]


def test_a_session_whose_tail_is_too_old_is_copied_as_it_is_shown() -> None:
    """Readers are shown the records that the registers name, and so is whoever copies; the copy can be written to."""
    backend = memory_backend()
    with backend.store().session("s") as session:
        session.append("one")
        session.append("two")
    older = {key: data for key, data in backend.snapshot().items() if "/segments/" not in key}
    with backend.store().session("s") as session:
        session.append("three")
        session.seal()
        session.optimize(everything=True)
    backend.driver().execute(tuple(Put(key, data) for key, data in older.items()))
    expected = list(backend.store().view("s").lines())
    backend.store().copy("s", name="copy")
    assert list(backend.store().view("copy").lines()) == expected
    with backend.store().session("copy") as copy:
        copy.append("on")
        copy.seal()
    assert backend.store().verify("copy") == []


# killed


def killed_copies(source: MemoryDriver) -> Iterator[tuple[MemoryDriver, bool]]:
    """Copy a session again and again, each time one request further; give each target, and whether it was done."""
    done, left = False, 0
    while not done:
        target = MemoryDriver()
        with suppress(KilledError):
            Store(Place(source)).copy("s", Store(Place(KilledDriver(target, left))))
            done = True
        left += 1
        yield target, done


def test_a_copy_that_is_killed_at_any_request_shows_nothing_or_all() -> None:
    """The name can be used again, and a purge of it leaves nothing."""
    source = MemoryDriver()
    with Store(Place(source)).session("s") as session:
        session.append(LARGE, "x")
        session.seal()
        session.append("y")
    expected = list(Store(Place(source)).view("s").lines())
    seen_whole = 0
    for target, done in killed_copies(source):
        store = Store(Place(target))
        rows = [row.id for row in store.sessions().rows]
        if rows:
            seen_whole += 1
            assert list(store.view("s").lines()) == expected
            assert store.verify("s") == []
            continue
        assert not done
        with pytest.raises(NotFoundError):
            store.view("s")
        with suppress(NotFoundError):
            store.purge("s")
        assert [key for key in target.snapshot() if key.startswith(("sessions/", "latest/"))] == []
        Store(Place(source)).copy("s", store)
        assert list(store.view("s").lines()) == expected
    assert seen_whole >= 2  # also without its tail, which is written last
