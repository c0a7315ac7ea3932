"""Answers while they are written: what survives, what readers see, and how each of them ends."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.drivers import PassingDriver
from tests.session.at_rest import Paused
from tests.session.backends import Backend, memory_backend, texts
from tests.session.faults import Unreliable

import treering
from treering.api import streaming_body
from treering.api.async_store import AsyncStore
from treering.api.store import Store
from treering.errors import NotFoundError, StreamLostError, UnavailableError, UsageError
from treering.journal import stream as streams
from treering.session.record import Appended
from treering.session.redaction import Redaction
from treering.session.verbs import streaming
from treering.storage.faulty import Fault
from treering.storage.memory import MemoryDriver
from treering.storage.requests import Answer, Append, Batch, Get, List, Put, Request, Written
from treering.store.place import Place

PARTS = [
    {"type": "thinking", "thinking": "hmm", "signature": "s1"},
    {"type": "text", "text": "I look"},
    {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": 1}},
    {"type": "text", "text": "done"},
]


def say_parts(answer: treering.StreamWriter) -> None:
    """Write an answer with parts, in pieces."""
    answer.thinking("h")
    answer.thinking("mm", signature="s1")
    answer.write("I ")
    answer.flush()
    answer.write("look")
    answer.tool_call('{"q":', id="c1", name="search")
    answer.flush()
    answer.tool_call("1}", id="c1")
    answer.write("done")


def told(pieces: list[treering.Piece]) -> list[tuple[str, str]]:
    """The kinds and texts of pieces, those of one part as one."""
    found: list[tuple[str, str]] = []
    for before, piece in zip([None, *pieces], pieces, strict=False):
        if before is not None and before.part == piece.part and before.kind == piece.kind:
            found[-1] = found[-1][0], found[-1][1] + piece.text
        else:
            found.append((piece.kind.value, piece.text))
    return found


def stored_chunks(backend: Backend) -> list[str]:
    """Keys of what is stored of streams."""
    return [key for key in backend.snapshot() if "/streams/" in key and not key.endswith((".lock", ".jsonl~"))]


def test_an_answer_becomes_one_node(backend: Backend) -> None:
    """At the end there is one node as if it had been appended whole, and nothing is left of its pieces."""
    with backend.store().session("s") as session:
        session.append("hello?")
        with session.stream(model="m") as answer:
            answer.write("Hel")
            answer.flush()
            answer.write("lo")
        assert session.node == answer.id
        assert session.context[-1].message == {"role": "assistant", "content": "Hello", "model": "m"}
        assert session.get(answer.id).brief == {}
        assert session.open_streams() == ()
    assert stored_chunks(backend) == []
    assert backend.store().verify("s") == []
    assert texts(backend.store().view("s").context) == ["hello?", "Hello"]


def test_parts_make_blocks_of_one_message(store: Store) -> None:
    """Thinking, text and calls of tools come as pieces, and end as blocks in their order."""
    with store.session("s") as session:
        with session.stream() as answer:
            say_parts(answer)
        assert session.get(answer.id).payload == {"role": "assistant", "content": PARTS}
        assert [call.id for call in session.open_calls()] == ["c1"]


@pytest.mark.parametrize("end", ["finish", "stop"])
def test_a_field_has_any_name(backend: Backend, end: str) -> None:
    """Also the names that the parameters of the library have on the way to the record."""
    begun = dict.fromkeys(("self", "verb", "writer", "steps", "job"), 1)
    ended = dict.fromkeys(("self", "verb", "writer", "live", "status", "how"), 2)

    async def answer(store: AsyncStore) -> None:
        async with store.session("s") as session:
            await getattr(await session.stream(**begun), end)(**ended)  # type: ignore[arg-type]  # mypy: one is the role

    with backend.store().session("s") as session:
        getattr(session.stream(**begun), end)(**ended)  # type: ignore[arg-type]
    asyncio.run(answer(backend.async_store()))
    expected = {"role": "assistant", "content": ""} | begun | ended
    assert [item.message for item in backend.store().view("s").context] == [expected] * 2


def test_what_was_flushed_survives_its_writer(backend: Backend) -> None:
    """A writer that is gone leaves what it flushed; a resume takes two reads, and shows it as what it is."""
    first = backend.store().session("s", shared=True)
    first.append("hello?")
    answer = first.stream()
    answer.write("Hel")
    answer.flush()
    store, driver = backend.counted()
    session = store.session("s", shared=True)
    before = len(driver.requests)
    (there,) = session.open_streams()
    assert (there.id, there.text(), there.text(1), there.offset) == (answer.id, "Hel", "el", 3)
    assert there.message == {"role": "assistant", "content": "Hel"}
    assert there.status == treering.StreamStatus.WRITING
    assert len(driver.requests) == before + 1
    assert texts(session.context) == ["hello?"]


def test_a_session_without_streams_asks_for_none(backend: Backend) -> None:
    """Which streams are open is known from what a resume reads."""
    with backend.store().session("s") as session:
        session.append("hello?")
    store, driver = backend.counted()
    view = store.view("s")
    before = len(driver.requests)
    assert view.open_streams() == ()
    assert len(driver.requests) == before


@pytest.mark.parametrize("sealed", [False, True])
def test_another_writer_goes_on(backend: Backend, *, sealed: bool) -> None:
    """`continue_stream` goes on at the end; the writer before is refused, and nothing of it is mixed in."""
    first = backend.store().session("s", shared=True)
    first.append("hello?")
    old = first.stream()
    old.write("one ")
    old.flush()
    with backend.store().session("s", shared=True) as session:
        if sealed:
            session.seal()
            session.refresh()
        with session.continue_stream(old.id) as answer:
            assert answer.text == "one "
            old.write("never")
            with pytest.raises(StreamLostError) as caught:
                old.flush()
            assert caught.value.unsaved == "never"
            answer.write("two")
        assert session.get(old.id).payload == {"role": "assistant", "content": "one two"}
    with pytest.raises(StreamLostError):
        old.finish()
    assert stored_chunks(backend) == []


def test_who_lost_a_stream_cannot_end_it(backend: Backend) -> None:
    """A writer that does not know yet that another one goes on is refused at the end, too."""
    first = backend.store().session("s", shared=True)
    old = first.stream()
    old.write("one")
    old.flush()
    session = backend.store().session("s", shared=True)
    answer = session.continue_stream(old.id)
    with pytest.raises(StreamLostError):
        old.finish()
    answer.write(" two")
    answer.finish()
    assert session.get(old.id).payload["content"] == "one two"


def test_a_partial_answer_is_kept_as_one(backend: Backend) -> None:
    """`keep_stream` records what is stored, and says that it is partial."""
    first = backend.store().session("s", shared=True)
    first.append("hello?")
    answer = first.stream()
    answer.write("Hel")
    answer.flush()
    with backend.store().session("s", shared=True) as session:
        done = session.keep_stream(answer.id)
        assert done.nodes == (answer.id,)
        assert session.get(answer.id).brief == {"stream": "partial"}
        assert texts(session.context) == ["hello?", "Hel"]
    assert [piece.status for piece in backend.store().view("s").follow_stream(answer.id)] == [None, "partial"]
    assert stored_chunks(backend) == []


@pytest.mark.parametrize("said", ["Hel", ""])
def test_who_keeps_an_answer_loses_nothing_of_who_was_about_to_go_on(said: str) -> None:
    """One has noted that it goes on, and has not read yet, when another one keeps the answer: that one is the later."""
    backend = memory_backend()
    first = backend.store().session("s", shared=True)
    first.append("hello?")
    answer = first.stream()
    answer.write(said)
    answer.flush()
    keeper = backend.store().session("s", shared=True)
    fenced: list[bool] = []

    def behind_its_line(request: Request) -> bool:
        stops = bool(fenced)
        fenced.extend([True] if isinstance(request, Put) and "/streams/" in request.key else [])
        return stops

    class Meeting(PassingDriver):
        """Lets the keeper read what is stored just before the one that goes on reads it."""

        keeping: Paused[Appended] | None = None

        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            if self.keeping is None and any(isinstance(each, Get) and "/streams/" in each.key for each in batch):
                steps = streaming.keep_stream(keeper._reader, answer.id)
                self.keeping = Paused(steps, backend.driver(), behind_its_line)
            return super().execute(batch)

    driver = Meeting(backend.driver())
    with pytest.raises(StreamLostError):
        Store(Place(driver)).session("s", shared=True).continue_stream(answer.id)
    assert driver.keeping is not None
    done = driver.keeping.go_on()
    assert texts(backend.store().view("s").context) == (["hello?", "Hel"] if said else ["hello?"])
    assert bool(done.nodes) == bool(said)
    assert backend.store().view("s").open_streams() == ()


def test_an_answer_of_which_nothing_is_stored_is_not_kept(store: Store) -> None:
    """There is nothing to make a node of."""
    first = store.session("s", shared=True)
    first.append("hello?")
    answer = first.stream()
    with store.session("s", shared=True) as session:
        assert session.keep_stream(answer.id).nodes == ()
        assert session.open_streams() == ()


def test_a_partial_answer_is_discarded(backend: Backend) -> None:
    """`discard_stream` ends it without a node; readers are told, and its writer."""
    first = backend.store().session("s", shared=True)
    first.append("hello?")
    answer = first.stream()
    answer.write("Hel")
    answer.flush()
    reading = backend.store().view("s").follow_stream(answer.id, poll_seconds=0.01)
    assert next(reading).text == "Hel"
    with backend.store().session("s", shared=True) as session:
        session.discard_stream(answer.id)
        assert session.open_streams() == ()
        with pytest.raises(NotFoundError) as caught:
            session.continue_stream(answer.id)
        assert caught.value.kind == "stream"
    assert stored_chunks(backend) == []
    assert [piece.status for piece in reading] == ["discarded"]
    answer.write("more")
    with pytest.raises(StreamLostError):
        answer.flush()
    assert texts(backend.store().view("s").context) == ["hello?"]


def test_the_user_stops_an_answer(store: Store) -> None:
    """`stop` ends it where it is, and its node says so."""
    with store.session("s") as session:
        answer = session.stream()
        answer.write("Once upon")
        answer.stop()
        assert session.get(answer.id).brief == {"stream": "stopped"}
        assert [piece.status for piece in session.follow_stream(answer.id)] == [None, "stopped"]


def answer_and_fail(answer: treering.StreamWriter) -> None:
    """What a provider's answer may be like."""
    answer.write("Hel")
    raise RuntimeError("the provider is down")


def test_an_error_leaves_the_stream_open_as_failed(backend: Backend) -> None:
    """An exception in the block says why, keeps what was written, and puts nothing into the context."""
    with backend.store().session("s") as session:
        session.append("hello?")
        with pytest.raises(RuntimeError), session.stream() as answer:
            answer_and_fail(answer)
        (there,) = session.open_streams()
        assert (there.status, there.reason, there.text()) == ("failed", "RuntimeError: the provider is down", "Hel")
        *_, end = session.follow_stream(answer.id)
        assert (end.status, end.reason, end.after) == ("failed", there.reason, 3)
        assert texts(session.context) == ["hello?"]
        with session.continue_stream(answer.id) as again:
            assert [each.status for each in session.open_streams()] == ["writing"]
            again.write("lo")
        assert texts(session.context) == ["hello?", "Hello"]


def test_closing_a_session_fails_its_streams(backend: Backend) -> None:
    """What a session did not end stays open, and says why."""
    with backend.store().session("s") as session:
        answer = session.stream()
        answer.write("Hel")
    (there,) = backend.store().view("s").open_streams()
    assert (there.text(), there.status, there.reason) == ("Hel", "failed", "its session was closed")
    with pytest.raises(UsageError):
        answer.write("lo")


def test_who_has_the_session_alone_knows_that_other_writers_are_dead(tmp_path: Path) -> None:
    """Nobody else can be writing, so a partial answer is lost at once."""
    backend = memory_backend()
    first = backend.store().session("s", shared=True)
    first.append("hello?")
    first.stream().flush()
    store = backend.store()
    first._holds.clear()
    session = store.session("s")
    assert [each.status for each in session.open_streams()] == ["lost"]


def test_readers_attach_at_any_offset(backend: Backend) -> None:
    """From each offset on they get what follows it, whether the answer is open or has ended."""
    with backend.store().session("s", shared=True) as session:
        answer = session.stream()
        say_parts(answer)
        answer.flush()
        view = backend.store().view("s")
        (there,) = view.open_streams()
        every = list(there.pieces)
        assert told(every) == [("thinking", "hmm"), ("text", "I look"), ("tool_call", '{"q":1}'), ("text", "done")]
        whole = {offset: open_from(view, answer.id, offset, there.offset) for offset in range(there.offset + 1)}
        assert told(whole[0]) == told(every)
        answer.finish()
        for offset, before in whole.items():
            after = list(backend.store().view("s").follow_stream(answer.id, offset=offset))
            assert after[-1].status == "complete"
            if not any(piece.whole for piece in after):
                assert [each for each in told(after[:-1]) if each[1]] == [each for each in told(before) if each[1]]
            assert after[-1].after == there.offset


def open_from(view: treering.View, stream: str, offset: int, end: int) -> list[treering.Piece]:
    """What an open stream shows from an offset on."""
    found: list[treering.Piece] = []
    if offset == end:
        return found
    for piece in view.follow_stream(stream, offset=offset, poll_seconds=0.01):
        found.append(piece)
        if piece.after >= end:
            break
    return found


def test_arguments_that_ended_while_they_came_are_told_as_a_whole(store: Store) -> None:
    """Spaces between them are not stored, so the rest cannot be told: all of it is, marked as such."""
    with store.session("s") as session:
        with session.stream() as answer:
            answer.tool_call('{"q": "a",  "n": 1}', id="c1", name="search")
            answer.write("after")
        assert session.get(answer.id).brief == {"calls": [19]}
        pieces = list(session.follow_stream(answer.id, offset=5))
        assert (pieces[0].text, pieces[0].whole, pieces[0].after) == ('{"q":"a","n":1}', True, 20)
        assert (pieces[1].text, pieces[1].offset) == ("after", 20)


def test_a_long_answer_lies_in_several_chunks(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """No write sends more than a chunk; readers and writers go on from one to the next."""
    monkeypatch.setattr(streams, "CHUNK_BYTES_CLOSE", 300)
    with backend.store().session("s", shared=True) as session:
        answer = session.stream()
        reading = backend.store().view("s").follow_stream(answer.id, poll_seconds=0.01)
        said = [f"piece {number} " for number in range(40)]
        seen = ""
        for text in said:
            answer.write(text)
            answer.flush()
            seen += next(reading).text
        assert len(stored_chunks(backend)) > 3
        other = backend.store().session("s", shared=True)
        with other.continue_stream(answer.id) as again:
            assert again.text == seen == "".join(said)
            again.write("end")
        assert [piece.text for piece in reading] == ["end", ""]
        assert stored_chunks(backend) == []


def test_readers_of_an_idle_stream_send_one_small_request(backend: Backend) -> None:
    """One GET a poll, of one object."""
    with backend.store().session("s", shared=True) as session:
        answer = session.stream()
        answer.write("Hel")
        answer.flush()
        store, driver = backend.counted()
        reading = store.view("s").follow_stream(answer.id, poll_seconds=0.001)
        assert next(reading).text == "Hel"
        chunk, asked = stored_chunks(backend)[0], len(driver.requests)

        def end_it() -> None:
            wait_until(lambda: len(driver.requests) > asked + 10)
            answer.finish()

        threading.Thread(target=end_it).start()
        list(reading)
        idle = driver.requests[asked : asked + 10]
        assert [each.key for each in idle if isinstance(each, Get) and each.unless] == [chunk] * 10


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for a condition."""
    pause = threading.Event()
    while not happened():
        pause.wait(0.002)


def test_what_is_written_is_stored_without_a_flush(backend: Backend) -> None:
    """A thread stores it soon, and says now and then that the writer lives."""
    with backend.store().session("s", shared=True) as session:
        answer = session.stream()
        answer.write("Hel")
        reading = backend.store().view("s").follow_stream(answer.id, poll_seconds=0.01)
        assert next(reading).text == "Hel"
        wait_until(lambda: not answer.unsaved)


def test_an_idle_writer_gives_signs_of_life(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunk changes though nothing is written."""
    monkeypatch.setattr(streaming_body, "BEAT_SECONDS", 0.01)
    with backend.store().session("s", shared=True) as session:
        answer = session.stream()
        (key,) = stored_chunks(backend)
        before = backend.snapshot()[key]
        wait_until(lambda: backend.snapshot().get(key) != before)
        assert answer.offset == 0


def test_readers_learn_that_a_writer_died(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that its chunk tells without any change."""
    monkeypatch.setattr(streams, "TTL_MS", 30)
    session = backend.store().session("s", shared=True)
    answer = session.stream()
    answer.write("Hel")
    answer.flush()
    pieces = list(backend.store().view("s").follow_stream(answer.id, poll_seconds=0.005))
    assert [(piece.text, piece.status) for piece in pieces] == [("Hel", None), ("", "lost")]
    store = backend.store()
    view = store.view("s")
    assert view.open_streams()[0].status == "writing"
    wait_until(lambda: store.view("s").open_streams()[0].status == "lost")
    assert answer.text == "Hel"


def test_events_tell_of_the_begin_and_the_end(store: Store) -> None:
    """The note begins a stream, the node of the same id ends it."""
    with store.session("s") as session:
        session.append("hello?")
        with session.stream() as answer:
            answer.write("Hello")
        view = store.view("s")
    found = []
    for event in view.events(first=0, poll_seconds=0.01):
        found.append((event.type.value, getattr(event.value, "kind", ""), getattr(event.value, "id", "")))
        if found[-1][2] == answer.id:
            break
    assert ("note", "stream") in [each[:2] for each in found]


def test_a_node_is_no_stream_that_never_was(store: Store) -> None:
    """Who follows what is not there is told; a plain message is told as an answer that has ended."""
    with store.session("s") as session:
        node = session.append("hello?").node
        assert [piece.text for piece in session.follow_stream(node)] == ["hello?", ""]
        with pytest.raises(NotFoundError) as caught:
            list(session.follow_stream("f" * 32))
        assert caught.value.kind == "stream"


def test_pieces_are_not_stored_where_texts_are_redacted() -> None:
    """A secret may come in two pieces, so no piece can be redacted."""
    store = Store(Place(MemoryDriver(), redaction=Redaction(lambda text: text.replace("secret", "..."))))
    with store.session("s") as session, pytest.raises(UsageError) as caught:
        session.stream()
    assert caught.value.kind == "stream"


def test_half_a_character_is_refused(store: Store) -> None:
    """It could not be joined to the other half."""
    with store.session("s") as session, session.stream() as answer:
        with pytest.raises(UsageError):
            answer.write("\ud83d")
        answer.write("ok")


class Silent(PassingDriver):
    """A driver whose writes of pieces take effect and have no answer, as long as told so."""

    silent = False

    def execute(self, batch: Batch) -> tuple[Answer, ...]:
        answers = super().execute(batch)
        if self.silent and any(isinstance(each, Put | Append) and "/streams/" in each.key for each in batch):
            return tuple(UnavailableError("no answer") for _ in answers)
        return answers


@pytest.mark.parametrize("appends", [False, True])
def test_a_write_without_an_answer_counts_once(*, appends: bool) -> None:
    """What is unsaved is told, and sent again as it was, until it is known to be stored."""
    driver = Silent(MemoryDriver(appends=appends))
    with Store(Place(driver)).session("s") as session:
        with session.stream() as answer:
            answer.write("Hel")
            driver.silent = True
            with pytest.raises(UnavailableError):
                answer.flush()
            assert answer.unsaved == "Hel"
            answer.write("lo")
            driver.silent = False
            answer.flush()
            assert answer.unsaved == ""
            assert session.open_streams()[0].text() == "Hello"
        assert texts(session.context) == ["Hello"]


def test_a_store_that_gives_no_answer_at_the_end_is_asked_again() -> None:
    """`finish` can be repeated, and records one node."""

    class Deaf(Silent):
        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            answers = PassingDriver.execute(self, batch)
            if self.silent and any(isinstance(each, Append | Put) for each in batch):
                return tuple(UnavailableError("no answer") for _ in answers)
            return answers

    driver = Deaf(MemoryDriver(appends=True))
    with Store(Place(driver)).session("s") as session:
        answer = session.stream()
        answer.write("Hello")
        driver.silent = True
        with pytest.raises(UnavailableError):
            answer.finish()
        driver.silent = False
        assert answer.finish().nodes == (answer.id,)
        assert texts(session.context) == ["Hello"]
        assert session.open_streams() == ()


def left_behind(backend: Backend) -> tuple[str, bytes]:
    """End a stream whose last write takes effect again, long after; return its id, and what is left."""
    with backend.store().session("s", shared=True) as session:
        answer = session.stream()
        answer.write("secret")
        answer.flush()
        (key,) = stored_chunks(backend)
        late = backend.snapshot()[key]
        answer.write(" and more")
        answer.finish()
    (written,) = backend.driver().execute((Put(key, late),))
    assert isinstance(written, Written)
    assert stored_chunks(backend) == [key]
    return answer.id, late


def late_key(backend: Backend, stream: str) -> str:
    """The key of the first chunk of a stream, beside one of another."""
    (other,) = stored_chunks(backend)
    return re.sub("[0-9a-f]{32}", stream, other)


def test_what_begins_while_others_tidy_is_left_alone(backend: Backend) -> None:
    """Which streams are open is read behind the list of what there is."""

    class Meeting(PassingDriver):
        answer: treering.StreamWriter | None = None

        def execute(self, batch: Batch) -> tuple[Answer, ...]:
            if self.answer is None and isinstance(batch[0], List) and batch[0].prefix.endswith("/streams/"):
                other = backend.store().session("s", shared=True)
                self.answer = other.stream()
                self.answer.write("Hel")
                self.answer.flush()
            return super().execute(batch)

    with backend.store().session("s", shared=True) as session:
        session.append("hello?")
    driver = Meeting(backend.driver())
    with Store(Place(driver)).session("s", shared=True) as session:
        session.optimize(everything=True)
    assert driver.answer is not None
    assert [each.text() for each in backend.store().view("s").open_streams()] == ["Hel"]
    driver.answer.write("lo")
    driver.answer.finish()
    assert texts(backend.store().view("s").context) == ["hello?", "Hello"]


def test_a_writer_stops_at_its_own_chunk_if_only_a_late_write_is_in_it() -> None:
    """Its answer was kept by another writer and the chunk deleted; a write that came late began the chunk again."""
    backend = memory_backend()
    session = backend.store().session("s", shared=True)
    answer = session.stream()
    answer.write("Hel")
    answer.flush()
    (key,) = stored_chunks(backend)
    began = backend.snapshot()[key]
    with Store(Place(backend.driver())).session("s", shared=True) as other:
        other.keep_stream(answer.id)
    assert stored_chunks(backend) == []
    backend.driver().execute((Put(key, began),))
    answer.write("lo")
    with pytest.raises(StreamLostError):
        answer.flush()
    assert texts(backend.store().view("s").context) == ["Hel"]


def test_what_a_late_write_leaves_is_never_shown(backend: Backend) -> None:
    """The journal says that the stream has ended, so readers are told its node."""
    stream, _ = left_behind(backend)
    assert [piece.text for piece in backend.store().view("s").follow_stream(stream)] == ["secret and more", ""]


def test_tidying_removes_what_a_late_write_left(backend: Backend) -> None:
    """`verify` tells of it; `optimize(everything=True)` deletes it, and leaves the pieces of what is open."""
    left_behind(backend)
    assert [finding.kind for finding in backend.store().verify("s")] == ["waste"]
    with backend.store().session("s", shared=True) as session:
        answer = session.stream()
        answer.flush()
        session.optimize(everything=True)
        assert len(stored_chunks(backend)) == 1
        answer.write("ok")
        answer.finish()
    assert backend.store().verify("s") == []


def test_erasing_removes_pieces(backend: Backend) -> None:
    """Those that a late write left of a node, and those of an answer that is being written, which is discarded."""
    stream, late = left_behind(backend)
    with backend.store().session("s", shared=True) as session:
        session.erase(stream)
        assert stored_chunks(backend) == []
        answer = session.stream()
        answer.write("another secret")
        answer.flush()
        backend.driver().execute((Put(late_key(backend, stream), late),))
        receipt = session.erase(stream, answer.id)
        assert (receipt.ids, receipt.streams) == ((stream,), (answer.id,))
        assert stored_chunks(backend) == []
        assert session.open_streams() == ()
        with pytest.raises(StreamLostError):
            answer.finish()
        assert [piece.status for piece in session.follow_stream(stream)] == ["erased"]


def test_copies_and_backups_take_what_is_being_written_along(backend: Backend, tmp_path: Path) -> None:
    """A copy has the pieces; a fork does not know of the stream, which it cannot go on with."""
    with backend.store().session("s", shared=True) as session:
        session.append("hello?")
        answer = session.stream()
        answer.write("Hel")
        answer.flush()
        store = backend.store()
        store.copy("s", name="t")
        session.fork("f")
        other = treering.open(tmp_path / "backup")
        for _ in range(2):
            store.backup(other)
        assert [each.text() for each in other.view("s").open_streams()] == ["Hel"]
        assert store.view("f").open_streams() == ()
        assert store.repair("s", into="u").losses == ()
        answer.write("lo")
        answer.finish()
        store.backup(other)
        assert texts(other.view("s").context) == ["hello?", "Hello"]
        assert other.view("s").open_streams() == ()
    for name in ("t", "u"):
        with store.session(name) as copied:
            assert [each.text() for each in copied.open_streams()] == ["Hel"]
            with copied.continue_stream(answer.id) as again:
                again.write("p")
            assert texts(copied.context) == ["hello?", "Help"]
    assert [finding for name in ("s", "t", "u", "f") for finding in store.verify(name)] == []
    assert other.verify("s") == []


def test_asynchronous_streams(backend: Backend) -> None:
    """All of it works without blocking the event loop; a cancellation leaves the stream as failed."""

    async def talk(store: AsyncStore) -> None:
        async with store.session("s", shared=True) as session:
            await session.append("hello?")
            async with session.stream() as answer:
                reading = session.follow_stream(answer.id, poll_seconds=0.01)
                await answer.write("Hel")
                assert (await anext(reading)).text == "Hel"
                await answer.thinking("hm")
                await answer.tool_call("{}", id="c", name="t")
                await answer.flush()
            assert [piece.text async for piece in reading][-1] == ""
            began = asyncio.Event()

            async def long() -> None:
                async with session.stream() as cut:
                    await cut.write("cut")
                    began.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(long())
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (there,) = await session.open_streams()
            assert (there.status, there.text()) == ("failed", "cut")
            async with session.continue_stream(there.id) as again:
                await again.write(" and mended")
            with pytest.raises(NotFoundError):
                await session.discard_stream(again.id)
            gone = await session.stream()
            await gone.write("x")
            await gone.stop()

    asyncio.run(talk(backend.async_store()))
    assert "cut and mended" in texts(backend.store().view("s").context)


@pytest.mark.parametrize("seconds", [0.0, streaming_body.REMOTE_SECONDS + 0.2])
def test_an_answer_whose_end_had_no_answer_stores_nothing_more(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have ended, so it takes no text, and its thread writes nothing; `finish` finds out."""
    monkeypatch.setattr(streaming_body, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(streaming_body, "BEAT_SECONDS", 0.1)
    bucket = Unreliable()
    session = bucket.store.session("s")
    session.append("one")
    answer = session.stream()
    answer.write("hello " * 40_000)
    answer.flush()
    answer.write("end")
    bucket.fails(Fault.AFTER, answer.finish)
    with pytest.raises(UsageError, match="call `finish`"):
        answer.write("more")
    if seconds:
        before = dict(bucket.memory.snapshot())
        threading.Event().wait(seconds)
        assert bucket.memory.snapshot() == before
    assert answer.finish().node == answer.id
    assert texts(session.context)[-1].endswith("hello end")


def test_an_end_that_is_refused_leaves_the_answer_open() -> None:
    """That the id of a buffered message is taken says nothing of another writer of the answer."""
    store = memory_backend().store()
    session = store.session("s", shared=True, durability="turn")
    session.commit(["one"])
    answer = session.stream()
    answer.write("hello")
    session.append(treering.user("mine", id="x"))
    store.session("s", shared=True).append(treering.user("theirs", id="x"))
    with pytest.raises(UsageError) as caught:
        answer.finish()
    assert not isinstance(caught.value, StreamLostError)
    session.discard("x")
    answer.write(" there")
    answer.finish()
    assert texts(session.context)[-1] == "hello there"


CUT = ['{"table": "us', '{"a":1,}', '{"x":1}{"y":2}', "[1, 2", "tru", "NaN {"]
PLAIN = [
    '{"update":{"$set":["a"]},"on":{"$date":"2020-01-01"}}',
    '{"schema":{"$ref":"#/x"}}',
    '{"order":12345678901234567890}',
    '{"half":"\\ud800"}',
    '{"word":"größe"}',
]


@pytest.mark.parametrize("text", CUT)
def test_an_answer_that_was_cut_off_in_a_call_is_kept(backend: Backend, text: str) -> None:
    """Its arguments are text then; whoever stops it, keeps it or looks at it gets what was written."""
    store = backend.store()
    session = store.session("s")
    session.append("hi")
    with session.stream() as answer:
        answer.write("I look it up")
        answer.tool_call(text, id="c1", name="count")
        done = answer.stop()
    assert session.get(done.node).payload["content"][1]["input"] == text
    left = session.stream()
    left.tool_call(text, id="c2", name="count")
    left.flush()
    (found,) = store.view("s").open_streams()
    assert found.message["content"][0]["input"] == text
    session.keep_stream(left.id)
    assert session.get(left.id).payload["content"][0]["input"] == text


@pytest.mark.parametrize("text", PLAIN)
def test_arguments_are_what_the_model_wrote(backend: Backend, text: str) -> None:
    """JSON, in which a dollar means nothing; so is what a follower gets behind the end."""
    store = backend.store()
    session = store.session("s")
    session.append("hi")
    with session.stream() as answer:
        answer.tool_call(text, id="c", name="f")
    assert session.get(answer.id).payload["content"][0]["input"] == json.loads(text)
    for view in (store.view("s"), backend.store().view("s")):
        assert "".join(piece.text for piece in view.follow_stream(answer.id)) == text
