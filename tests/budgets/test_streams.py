"""What answers that are written piece by piece cost: requests while they are written, and bytes at rest."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.session.backends import Backend, memory_backend

from treering.api import streaming_body
from treering.api.store import Store
from treering.journal.stream import BEAT_SECONDS
from treering.storage.counting import CountingDriver
from treering.storage.memory import MemoryDriver
from treering.store.place import Place

ANSWERS = 200
REST_BYTES = 100


def counted(*, appends: bool) -> tuple[Store, CountingDriver]:
    """A store in memory, and what counts its requests."""
    driver = CountingDriver(MemoryDriver(appends=appends), keep=True)
    return Store(Place(driver)), driver


@pytest.mark.parametrize("appends", [False, True])
def test_requests_of_a_stream(*, appends: bool) -> None:
    """Begin: the note, the first chunk, a look behind that. A write: one. End: the node, one deletion."""
    store, driver = counted(appends=appends)
    write = "Append" if appends else "Put"
    with store.session("s") as session:
        session.append("hello?")
        driver.reset()
        answer = session.stream()
        assert driver.counts == Counter({write: 1, "Get": 2}) + Counter({"Put": 1})
        for text in ("Hel", "lo"):
            answer.write(text)
            driver.reset()
            answer.flush()
            assert driver.counts == Counter({write: 1})
        driver.reset()
        answer.flush()
        assert driver.total == 0
        answer.finish()
        assert driver.counts == Counter({write: 1, "Delete": 1})


def test_a_write_to_a_bucket_sends_at_most_a_chunk() -> None:
    """However long the answer is."""
    store, driver = counted(appends=False)
    with store.session("s") as session:
        answer = session.stream()
        driver.reset()
        for number in range(100):
            answer.write(f"{number} " * 1000)
            answer.flush()
        assert max(len(each.data) for each in driver.requests if hasattr(each, "data")) < 64 * 1024
        answer.finish()


def test_writes_to_a_bucket_are_half_a_second_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """So there are two a second at most, whatever comes; on a disk 16 KB do not wait."""
    now = [0.0]
    monkeypatch.setattr(streaming_body, "uptime", lambda: now[0])
    for appends, waits in ((False, 0.5), (True, 0.1)):
        now[0] = 0.0
        store, _ = counted(appends=appends)
        session = store.session("s", shared=True)
        body = streaming_body.StreamBody(session.stream()._live, store.place.driver)
        body._add("text", "x")
        assert body._seconds_left() == pytest.approx(waits)
        body._add("text", "x" * streaming_body.WINDOW_BYTES)
        assert body._seconds_left() == pytest.approx(0.0 if appends else waits)
        body._sending()
        body._stored()
        assert body._seconds_left() == pytest.approx(BEAT_SECONDS)


def at_rest(backend: Backend, *, streamed: bool) -> int:
    """What a sealed session takes whose answers were streamed, or appended whole."""
    with backend.store().session("s") as session:
        for number in range(ANSWERS):
            session.append(f"question {number}")
            if streamed:
                with session.stream() as answer:
                    answer.write(f"answer {number}")
            else:
                session.append({"role": "assistant", "content": f"answer {number}"})
        session.seal()
        session.append("drops what is sealed")
        session.optimize(everything=True)
    return sum(len(data) for key, data in backend.snapshot().items() if not key.endswith(".lock"))


def test_a_streamed_answer_takes_little_more_at_rest() -> None:
    """At most 100 bytes more than one that was appended whole."""
    more = at_rest(memory_backend(), streamed=True) - at_rest(memory_backend(), streamed=False)
    assert more / ANSWERS <= REST_BYTES, more / ANSWERS


def test_a_resume_beside_open_streams_takes_two_reads() -> None:
    """Which are open is in what it reads, also after a seal."""
    for appends in (False, True):
        backend = memory_backend(appends=appends)
        first = backend.store().session("s", shared=True)
        first.append("hello?")
        first.stream().flush()
        for _ in range(2):
            store, driver = backend.counted()
            assert len(store.session("s", shared=True).open_streams()) == 1
            assert driver.total == 3  # and one for its chunk
            first.seal()
